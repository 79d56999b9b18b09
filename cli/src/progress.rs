//! The reports of `-v`: the queue position while waiting, and changes of the connection at any
//! time. A terminal shows the position in one line that is overwritten; elsewhere, each change is a
//! line. A service manager also gets the position.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use zoolock::{Client, ClientState, Contender, LockKind};

use crate::grants::Grants;
use crate::notify;
use crate::output::{say, status};
use crate::table::{held, name};

/// Interval between polls of the queue. It is longer if a poll takes long.
const EVERY: Duration = Duration::from_secs(1);

/// Time before the first poll. If the lock is acquired sooner, no position is reported.
const FIRST: Duration = Duration::from_millis(100);

/// The interval is at least this many times as long as the poll before it.
const REST: u32 = 20;

/// Reports the position of a call that waits for the lock, until this is dropped.
pub(crate) struct Reports {
    seen: Arc<Mutex<Option<Seen>>>,
    /// Wakes and ends the thread when dropped.
    _waits: Sender<Infallible>,
}

/// What the polls of the queue have shown.
#[derive(Default)]
struct Seen {
    /// How many contenders were ahead at the last poll, and the token of the first of them.
    position: Option<(usize, Option<u64>)>,
    grants: Grants,
}

/// The queue position of this program.
struct Position {
    /// How many contenders are ahead, including holders. For a semaphore, only those that wait.
    ahead: usize,
    /// The first of them.
    first: Option<Contender>,
}

impl Reports {
    /// Reports the queue position from now on: to a service manager, and with `verbose` on standard
    /// error.
    pub(crate) fn start(client: &Client, path: &str, verbose: bool) -> Reports {
        let seen = Arc::new(Mutex::new(Some(Seen::default())));
        let (waits, ended) = bounded::<Infallible>(0);
        let (client, path, its) = (client.clone(), path.to_owned(), Arc::clone(&seen));
        let look = move || {
            let mut rest = FIRST;
            while ended.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
                let begun = Instant::now();
                let contenders = client.contenders(&path).unwrap_or_default();
                rest = EVERY.max(begun.elapsed() * REST);
                if let Some(session) = client.session_id()
                    && let Some(position) = Position::find(contenders, session)
                    && let Some(seen) = &mut *its.lock().unwrap_or_else(PoisonError::into_inner)
                {
                    seen.report(&path, &position, verbose);
                }
            }
        };
        // Without a thread there are no reports, but the command works.
        let _ = thread::Builder::new().name("zoolock-position".into()).spawn(look);
        Reports { seen, _waits: waits }
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Reports changes of the connection until the client is closed.
pub(crate) fn follow(client: &Client, path: String) {
    let events = client.subscribe();
    let tell = move || {
        for event in events {
            let text = match event {
                ClientState::Suspended => "disconnected, trying to resume the session",
                ClientState::Connected => "connected",
                ClientState::Lost => "the session has expired or may have expired",
                _ => continue,
            };
            say(&format!("{path}: {text}"));
        }
    };
    // Without a thread there are no reports, but the command works.
    let _ = thread::Builder::new().spawn(tell);
}

impl Position {
    /// Returns the position of the session's waiter among the contenders of a lock. `None` if the
    /// session does not wait.
    fn find(mut contenders: Vec<Contender>, session: i64) -> Option<Position> {
        let is_own = |one: &Contender| one.session == session && !one.holds;
        let own = contenders.iter().rposition(is_own)?;
        contenders.truncate(own);
        // Held permits are not part of the queue.
        contenders.retain(|one| one.kind != LockKind::Semaphore || !one.holds);
        Some(Position { ahead: contenders.len(), first: contenders.into_iter().next() })
    }

    /// Returns the position without times, which would change at every poll.
    fn ahead(&self) -> String {
        match self.first.as_ref().filter(|first| first.holds) {
            Some(first) => format!("{} ahead, held by {}", self.ahead, name(first)),
            None => format!("{} ahead", self.ahead),
        }
    }
}

impl Seen {
    fn report(&mut self, path: &str, position: &Position, verbose: bool) {
        let now = Some((position.ahead, position.first.as_ref().map(|first| first.token)));
        let changed = mem::replace(&mut self.position, now) != now;
        self.grants.look(position.first.as_slice());
        if changed {
            notify::status(&format!("waiting for {path}, {}", position.ahead()));
        }
        let text = format!("{path}: {}", self.text(position));
        match io::stderr().is_terminal() {
            _ if !verbose => {}
            true => status(&text),
            false if changed => say(&text),
            false => {}
        }
    }

    fn text(&self, position: &Position) -> String {
        let number = ordinal(position.ahead + 1);
        match &position.first {
            Some(first) if first.holds => {
                format!("{number}, held by {} for {}", name(first), held(first, &self.grants))
            }
            Some(first) => format!("{number}, the next permits go to {}", name(first)),
            None => format!("{number}, all permits are taken"),
        }
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
