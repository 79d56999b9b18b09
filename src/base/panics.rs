//! Calls foreign code, whose panics must not go on: loggers and what users hand in. Uses no other
//! layer.

use std::fmt::Display;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use log::warn;

/// Logs that a drop could not release. A drop may be part of a panic, and a second one, of the
/// logger, would abort the program.
pub(crate) fn log_drop(what: &str, released: Result<(), impl Display>) {
    if let Err(error) = released {
        let _ = caught(|| warn!(target: "zoolock", "dropped a {what}: {error}"));
    }
}

/// Logs that a lock is released only because its last handle was dropped.
pub(crate) fn log_last_handle(of: &str) {
    let _ = caught(
        || warn!(target: "zoolock", "the last handle of {of} was dropped while it was held: releasing it"),
    );
}

/// Calls `call`, and returns `None` if it panicked. The panic hook has printed the reason. Only
/// state of the code that panicked can be left half done.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    // The payload is never dropped, because its destructor may panic, too.
    catch_unwind(AssertUnwindSafe(call)).map_err(mem::forget).ok()
}
