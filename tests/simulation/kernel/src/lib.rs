//! What a program asks the operating system for, without one: threads, clocks, mutexes, waits, sockets and
//! randomness, all decided by a seed.
//!
//! Simulated threads are coroutines on one real thread. One of them runs until it blocks, or until a seeded
//! choice takes the processor from it where it locks a mutex; the next one is drawn. When nobody can go on, the
//! clock jumps to whatever comes first. So a seed gives one run, on every machine and at any load.
//!
//! The functions and types have the names and the meaning of those they stand for in `std`, `parking_lot` and
//! `crossbeam-channel`: see `zookeeper/src/sys.rs`, which chooses between both.

mod channel;
mod clock;
pub mod net;
mod scheduler;
mod sync;
pub mod thread;
mod trace;

pub use channel::{at, never, recv, recv_deadline, recv_timeout};
#[doc(hidden)]
pub use channel::{is_ready, now_or_never, wait};
pub use clock::{instant, now, since_boot, system_time};
pub use scheduler::{
    End, Process, after, block, clock_step, elapsed, fail_spawns, fallback, freeze, is_busy,
    is_running, kill, machine_sleeps, panicked, peek, process, program, random, rely_on_no_timer,
    run, stall, stop, tasks, whoami, with_random,
};
pub use sync::{Condvar, Mutex, MutexGuard};
pub use trace::{count, counts, hash, is_traced, mix, note, note_of, reached, reached_if, story};
