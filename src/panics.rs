//! Calling what is not this crate's on a thread that has to go on. It knows no other layer.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls it, and returns `None` if it panicked. The panic's hook has printed why. What the panic has left half done
/// belongs to whoever it was that panicked.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    // Never dropped: the destructor of a panic's payload may panic, too.
    catch_unwind(AssertUnwindSafe(call)).map_err(mem::forget).ok()
}
