//! Selects the active mutant in a build that contains all mutants. `zoolock-mutants` inserts calls of [`is_on`] into a
//! copy of the library.

use std::env;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The maximum number of mutants in a build.
const MOST: usize = 10_000;

/// The number of the active mutant.
static ON: LazyLock<Option<usize>> =
    LazyLock::new(|| env::var("ZOOLOCK_MUTANT").ok().and_then(|number| number.parse().ok()));

static REACHED: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];

/// Returns whether the mutant with this number is active, and records that it was reached.
pub fn is_on(number: usize) -> bool {
    REACHED[number].store(true, Ordering::Relaxed);
    *ON == Some(number)
}

/// Returns the numbers of the mutants that were reached, and resets them.
pub fn take_reached() -> Vec<usize> {
    (0..MOST).filter(|number| REACHED[*number].swap(false, Ordering::Relaxed)).collect()
}
