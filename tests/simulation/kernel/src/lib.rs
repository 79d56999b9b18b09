//! Simulates the services of an operating system: threads, clocks, mutexes, waits, sockets and randomness, all of which
//! are determined by a seed.
//!
//! Simulated threads are coroutines on a single real thread. A thread runs until it blocks, or until a seeded choice
//! interrupts it at a mutex, a receive or a read. The kernel then draws the thread that runs next. When no thread can
//! run, the clock jumps to the next event. A seed therefore produces the same run on every machine and at any load.
//!
//! Functions and types have the names and meanings of their counterparts in `std`, `parking_lot` and
//! `crossbeam-channel`. `zookeeper/src/sys.rs` selects one of the two.

#![allow(missing_docs, reason = "the counterparts have docs")]

mod channel;
mod clock;
mod machine;
pub mod net;
mod scheduler;
mod sync;
pub mod thread;
mod trace;

/// Selects the first channel that is ready, which is a valid implementation of selecting a random one.
pub use crate::select_biased as select;
pub use channel::{at, never, recv, recv_deadline, recv_timeout};
#[doc(hidden)]
pub use channel::{is_ready, now_or_never, wait};
pub use clock::{instant, now, since_boot, system_time};
pub use machine::{
    Machine, Process, freeze, is_dead, kill, machine, machine_sleeps, process, process_id, program,
    random,
};
pub use scheduler::{
    Nesting, after, block, configure, elapsed, fallback, is_running, nestings, own_process,
    panicked, peek, run, shortcuts, stall, stop, tasks, whoami, with_random,
};
pub use sync::{Condvar, Mutex, MutexGuard};
pub use trace::{
    count, counts, hash, is_traced, mix, note, note_of, reached, reached_if, take_trace,
};
