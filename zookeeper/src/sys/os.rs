//! The operating system.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError};

pub use crossbeam_channel::{at, never, select, select_biased};
pub use parking_lot::{Condvar, Mutex, MutexGuard};

/// Reads the monotonic clock.
#[inline]
pub fn now() -> Instant {
    Instant::now()
}

/// Reads the clock of the time since boot. It continues while the machine is suspended, and cannot
/// be set.
#[inline]
pub fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Reads the system clock.
#[inline]
pub fn system_time() -> SystemTime {
    SystemTime::now()
}

/// Draws a random number, not for secrets.
pub fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Returns the name of this machine, as far as the standard library can find out, and the process
/// id.
pub fn program() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.or_else(|| std::env::var("COMPUTERNAME").ok());
    let name = name.map(|name| name.trim().to_owned());
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned());
    format!("{name}/{}", std::process::id())
}

/// Returns the process id of this process. A forked child has another one.
#[inline]
pub fn process_id() -> u32 {
    std::process::id()
}

/// Marks a rare path, which the simulation counts and must reach. Does nothing here, and costs no
/// instruction.
#[inline(always)]
pub fn reached(_: &'static str) {}

/// Like [`reached`], but only if `is` is true. Returns `is`.
#[inline(always)]
pub fn reached_if(is: bool, _: &'static str) -> bool {
    is
}

/// Returns how long a timer waits for an event that is normally detected earlier in another way. The
/// simulation makes this time so long that it detects all code that relies on the timer.
#[inline(always)]
pub fn fallback(times: u32) -> u32 {
    times
}

/// Returns whether shortcuts may save requests. The simulation and the tests run with and without
/// them (`--cfg zoolock_without_shortcuts`).
#[inline(always)]
pub const fn shortcuts() -> bool {
    cfg!(not(zoolock_without_shortcuts))
}

/// Waits for a message, or until all senders are gone.
///
/// # Errors
/// If all senders are gone.
#[inline]
pub fn recv<T>(from: &Receiver<T>) -> Result<T, RecvError> {
    from.recv()
}

/// Like [`recv`], until this instant at most.
///
/// # Errors
/// Why there is no message.
#[inline]
pub fn recv_deadline<T>(from: &Receiver<T>, end: Instant) -> Result<T, RecvTimeoutError> {
    from.recv_deadline(end)
}

/// Like [`recv`], for at most `limit`.
///
/// # Errors
/// Why there is no message.
#[inline]
pub fn recv_timeout<T>(from: &Receiver<T>, limit: Duration) -> Result<T, RecvTimeoutError> {
    from.recv_timeout(limit)
}

/// Threads.
pub mod thread {
    use std::cell::Cell;

    pub use std::thread::{
        Builder, JoinHandle, Thread, ThreadId, current, park, park_timeout, yield_now,
    };

    thread_local! {
        static NEVER_WAITS: Cell<bool> = const { Cell::new(false) };
    }

    /// Marks the running thread as one that delivers answers.
    pub fn never_wait_here() {
        NEVER_WAITS.set(true);
    }

    /// Returns whether the running thread delivers answers.
    pub fn must_not_wait() -> bool {
        NEVER_WAITS.get()
    }
}

/// Connections.
pub mod net {
    use std::io;
    use std::net::{SocketAddr, ToSocketAddrs};

    pub use super::super::bell::Bell;
    pub use super::super::stream::Stream;

    /// Returns the addresses of a name, from the system's resolver. Their ports have no meaning.
    ///
    /// # Errors
    /// Why there are none.
    pub fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
        (name, 0).to_socket_addrs().map(Iterator::collect)
    }
}
