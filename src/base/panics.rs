//! Calls foreign code, such as loggers and the functions of users, and stops their panics. This
//! module does not use other layers.

use std::fmt::Display;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use log::warn;

/// Logs that dropping a value failed to release it. The value may be dropped during a panic; if the
/// logger panicked as well, the program would abort.
pub(crate) fn log_drop(what: &str, released: Result<(), impl Display>) {
    if let Err(error) = released {
        let _ = caught(|| warn!(target: "zoolock", "failed to release a dropped {what}: {error}"));
    }
}

/// Logs that a lock is released only because its last handle is being dropped.
pub(crate) fn log_last_handle(of: &str) {
    let _ = caught(
        || warn!(target: "zoolock", "the last handle of {of} was dropped while the lock was held: releasing it"),
    );
}

/// Calls `call`, and returns `None` if it panics. The panic hook has already printed the reason.
/// Only state that belongs to the panicking code can be left inconsistent.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    // The payload is never dropped, because its destructor may panic as well.
    catch_unwind(AssertUnwindSafe(call)).map_err(mem::forget).ok()
}
