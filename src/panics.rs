//! Calls foreign code on a thread that must continue. Uses no other layer.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `call`, and returns `None` if it panicked. The panic hook has printed the reason. Only
/// state of the code that panicked can be left half done.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    // The payload is never dropped, because its destructor may panic, too.
    catch_unwind(AssertUnwindSafe(call)).map_err(mem::forget).ok()
}
