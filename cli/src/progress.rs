//! What `-v` says: while the lock is waited for the position in the queue, on one line that is written
//! again on a terminal, and else on a line for each change; and all the while what becomes of the
//! connection. A service manager is told the position, too.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, ConnectionEvent, Contender, LockOptions, QueuePosition};

use crate::notify;
use crate::output::{say, status};
use crate::table::{age, name, seconds};

/// How often the queue is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// What was seen last.
#[derive(Default)]
struct Seen {
    /// How many were ahead, and the token of the first.
    position: Option<(usize, Option<u64>)>,
    /// Since when the first one is known to be first.
    first_since: Option<Instant>,
}

/// Has the queue position told, to people only if they want to hear of it.
pub(crate) fn with_position(options: LockOptions, path: String, verbose: bool) -> LockOptions {
    let (seen, terminal) = (Mutex::<Seen>::default(), io::stderr().is_terminal());
    options.on_queue_position(EVERY, move |position| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = seen.look(position);
        if changed {
            notify::status(&format!("waiting for {path}, {}", ahead(position)));
        }
        let text = format!("{path}: {}", seen.text(position));
        match terminal {
            _ if !verbose => {}
            true => status(&text),
            false if changed => say(&text),
            false => {}
        }
    })
}

/// Has what happens to the connection told, until the client is closed.
pub(crate) fn follow(client: &Client, path: String) {
    let events = client.subscribe();
    let tell = move || {
        for event in events {
            let text = match event {
                ConnectionEvent::Suspended => "the connection is suspended",
                ConnectionEvent::Reconnected => "there is a connection again",
                ConnectionEvent::Lost => "the session is lost, or may be",
                _ => continue,
            };
            say(&format!("{path}: {text}"));
        }
    };
    // Without a thread nothing is said, which is no reason to do nothing.
    let _ = thread::Builder::new().spawn(tell);
}

impl Seen {
    /// Is anything new?
    fn look(&mut self, position: &QueuePosition) -> bool {
        let first = position.first.as_ref().map(|first| first.token);
        let before = self.position.replace((position.ahead, first));
        match before {
            Some((_, was)) if was != first => self.first_since = Some(Instant::now()),
            _ => {}
        }
        before != self.position
    }

    fn text(&self, position: &QueuePosition) -> String {
        let number = ordinal(position.ahead + 1);
        match &position.first {
            Some(first) if first.holds => {
                format!("{number}, held by {} {}", name(first), self.held_for(first))
            }
            Some(first) => format!("{number}, the next permits are for {}", name(first)),
            None if position.ahead == 0 => format!("{number}, all permits are taken"),
            None => number,
        }
    }

    /// What its node says includes the time in which it was waiting itself.
    fn held_for(&self, first: &Contender) -> String {
        match self.first_since {
            Some(since) => format!("for {}", seconds(since.elapsed())),
            None => format!("for {} or less", seconds(age(first))),
        }
    }
}

/// Without what changes all the time.
fn ahead(position: &QueuePosition) -> String {
    match position.first.as_ref().filter(|first| first.holds) {
        Some(first) => format!("{} ahead, held by {}", position.ahead, name(first)),
        None => format!("{} ahead", position.ahead),
    }
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
    fn ordinal_numbers_have_english_endings() {
        let numbers = [1, 2, 3, 4, 10, 11, 12, 13, 21, 22, 101, 111];
        let said = numbers.map(ordinal).join(" ");
        println!("{said}");
        assert_eq!(said, "1st 2nd 3rd 4th 10th 11th 12th 13th 21st 22nd 101st 111th");
    }
}
