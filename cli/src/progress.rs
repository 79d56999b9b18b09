//! What `-v` says while the lock is waited for: the place in the queue, on one line that is written
//! again on a terminal, and else on a line for each change.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use zoolock::{Contender, LockOptions, Place};

use crate::args::Run;
use crate::table::{clip, identity, plain, seconds};

/// How often the queue is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Goes to the beginning of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

pub(crate) struct Progress {
    verbose: bool,
    path: String,
    begun: Instant,
    terminal: bool,
    seen: Arc<Mutex<Seen>>,
}

/// What was seen last.
#[derive(Default)]
struct Seen {
    /// How many were ahead, and the token of the first.
    place: Option<(usize, Option<u64>)>,
    /// Since when the first one is known to be first.
    first_since: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(run: &Run) -> Progress {
        Progress {
            verbose: run.verbose,
            path: plain(&run.path),
            begun: Instant::now(),
            terminal: io::stderr().is_terminal(),
            seen: Arc::default(),
        }
    }

    /// Has the place told.
    pub(crate) fn observed(&self, options: LockOptions) -> LockOptions {
        let (seen, path, terminal) = (Arc::clone(&self.seen), self.path.clone(), self.terminal);
        options.observe_queue(EVERY, move |place| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = seen.look(place);
            let text = format!("zoolock: {path}: {}", seen.text(place));
            // Nobody may be reading it.
            let _ = match (terminal, changed) {
                (true, _) => write!(io::stderr(), "{CLEAR}{}", clip(&text, &io::stderr())),
                (false, true) => writeln!(io::stderr(), "{text}"),
                (false, false) => Ok(()),
            };
        })
    }

    /// Waiting is over, whether the lock was got or not.
    pub(crate) fn done(&self, got: &Result<bool, &zoolock::Error>) {
        if !self.verbose {
            return;
        }
        clear();
        let (path, took) = (&self.path, self.begun.elapsed());
        let _ = match got {
            Ok(true) => writeln!(io::stderr(), "zoolock: {path}: got it after {took:.1?}"),
            Ok(false) => writeln!(io::stderr(), "zoolock: {path}: not got after {took:.1?}"),
            Err(_) => Ok(()),
        };
    }
}

/// The line in which the place was told is to be written on by others.
pub(crate) fn clear() {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "{CLEAR}");
    }
}

impl Seen {
    /// Is anything new?
    fn look(&mut self, place: &Place) -> bool {
        let first = place.first.as_ref().map(|first| first.token);
        let before = self.place.replace((place.ahead, first));
        match before {
            Some((_, was)) if was != first => self.first_since = Some(Instant::now()),
            _ => {}
        }
        before != self.place
    }

    fn text(&self, place: &Place) -> String {
        let number = ordinal(place.ahead + 1);
        match &place.first {
            Some(first) if first.holds => {
                format!("{number}, held by {} {}", name(first), self.held_for(first))
            }
            Some(first) => format!("{number}, the next permits are for {}", name(first)),
            None if place.ahead == 0 => format!("{number}, all permits are taken"),
            None => number,
        }
    }

    /// What its node says includes the time in which it was waiting itself.
    fn held_for(&self, first: &Contender) -> String {
        match self.first_since {
            Some(since) => format!("for {}", seconds(since.elapsed())),
            None => format!("for at most {}", seconds(age(first))),
        }
    }
}

/// By the server's clock and this machine's.
pub(crate) fn age(contender: &Contender) -> Duration {
    let age = SystemTime::now().duration_since(contender.since);
    age.unwrap_or_default()
}

fn name(contender: &Contender) -> String {
    identity(contender).unwrap_or_else(|| "somebody".to_owned())
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::ordinal;

    #[test]
    fn numbers_have_the_endings_that_people_give_them() {
        let numbers = [1, 2, 3, 4, 10, 11, 12, 13, 21, 22, 101, 111];
        let said = numbers.map(ordinal).join(" ");
        println!("{said}");
        assert_eq!(said, "1st 2nd 3rd 4th 10th 11th 12th 13th 21st 22nd 101st 111th");
    }
}
