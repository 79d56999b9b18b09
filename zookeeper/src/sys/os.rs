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

/// Reads the system clock.
#[inline]
pub fn system_time() -> SystemTime {
    SystemTime::now()
}

/// Draws a number. Nobody's secret depends on it.
pub fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// The name of this machine, as far as the standard library can find out, and the number of the process.
pub fn program() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.or_else(|| std::env::var("COMPUTERNAME").ok());
    let name = name.map(|name| name.trim().to_owned());
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned());
    format!("{name}/{}", std::process::id())
}

/// Marks a rare path, which the simulation counts, and must reach. It does nothing here, and takes no instruction.
#[inline(always)]
pub fn reached(_: &'static str) {}

/// The same for a path that has no branch of its own. Nobody asks whether it was reached here.
#[inline(always)]
pub fn reached_if(_: impl FnOnce() -> bool, _: &'static str) {}

/// Waits for a message, or until nobody can send one.
///
/// # Errors
/// The latter.
#[inline]
pub fn recv<T>(from: &Receiver<T>) -> Result<T, RecvError> {
    from.recv()
}

/// The same, until this instant at the most.
///
/// # Errors
/// Why there is no message.
#[inline]
pub fn recv_deadline<T>(from: &Receiver<T>, end: Instant) -> Result<T, RecvTimeoutError> {
    from.recv_deadline(end)
}

/// The same, for so long at the most.
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

    /// Marks the running thread as one that others' answers wait for.
    pub fn never_wait_here() {
        NEVER_WAITS.set(true);
    }

    /// Is the running thread one of those?
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

    /// Asks the system's resolver for the addresses of a name. Their ports mean nothing.
    ///
    /// # Errors
    /// Why there are none.
    pub fn resolve(name: &str) -> io::Result<Vec<SocketAddr>> {
        (name, 0).to_socket_addrs().map(Iterator::collect)
    }
}
