//! The reports of `-v`: the queue position while waiting, and changes of the connection at any
//! time. A terminal shows the position in one line that is overwritten; elsewhere, each change is a
//! line. A service manager gets the position, too.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, ConnectionEvent, Contender, LockOptions, QueuePosition};

use crate::notify;
use crate::output::{say, status};
use crate::table::{age, name, seconds};

/// Interval between looks at the queue.
const EVERY: Duration = Duration::from_secs(1);

/// The last look at the queue.
#[derive(Default)]
struct Seen {
    /// How many contenders were ahead, and the token of the first.
    position: Option<(usize, Option<u64>)>,
    /// Since when the first contender is known to be first.
    first_since: Option<Instant>,
}

/// Makes the lock report its queue position: to a service manager, and with `verbose` on standard
/// error.
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

/// Reports changes of the connection until the client is closed.
pub(crate) fn follow(client: &Client, path: String) {
    let events = client.subscribe();
    let tell = move || {
        for event in events {
            let text = match event {
                ConnectionEvent::Suspended => "disconnected, trying to resume the session",
                ConnectionEvent::Connected => "connected",
                ConnectionEvent::Lost => "the session has expired, or may have",
                _ => continue,
            };
            say(&format!("{path}: {text}"));
        }
    };
    // Without a thread there are no reports. The command still does its work.
    let _ = thread::Builder::new().spawn(tell);
}

impl Seen {
    /// Takes a new position. Returns whether it differs from the last one.
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

    /// The age of a node includes the time that its owner waited, so it is only an upper limit.
    fn held_for(&self, first: &Contender) -> String {
        match self.first_since {
            Some(since) => format!("for {}", seconds(since.elapsed())),
            None => format!("for {} or less", seconds(age(first))),
        }
    }
}

/// Returns the position without times, which would change with every look.
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
