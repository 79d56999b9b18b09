//! Says which mutant of a build is on. `zoolock-mutants` writes the calls of [`is_on`] into a copy of the library.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most mutants of a build.
const MOST: usize = 10_000;

/// The number of the mutant that is on.
static ON: LazyLock<Option<usize>> =
    LazyLock::new(|| env::var("ZOOLOCK_MUTANT").ok().and_then(|number| number.parse().ok()));

/// A file that takes the number of each mutant that was reached.
static REACHED_IN: LazyLock<Option<String>> = LazyLock::new(|| env::var("ZOOLOCK_REACHED").ok());

static REACHED: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];

/// Returns whether the mutant with this number is on, and notes that it was reached.
pub fn is_on(number: usize) -> bool {
    if !REACHED[number].load(Ordering::Relaxed) {
        REACHED[number].store(true, Ordering::Relaxed);
        note(number);
    }
    *ON == Some(number)
}

/// Takes the numbers of the mutants that were reached.
pub fn take_reached() -> Vec<usize> {
    (0..MOST).filter(|number| REACHED[*number].swap(false, Ordering::Relaxed)).collect()
}

#[cold]
fn note(number: usize) {
    let Some(file) = &*REACHED_IN else { return };
    let opened = OpenOptions::new().create(true).append(true).open(file);
    let noted = opened.and_then(|mut file| file.write_all(format!("{number}\n").as_bytes()));
    noted.expect("the file takes a line");
}
