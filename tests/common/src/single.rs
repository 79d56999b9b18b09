//! `EphemeralLock`: a single node, which is the lock's path itself.

use std::time::Duration;

use zoolock::{Client, EphemeralLock, Guard, Result};
use zoolock_test_support::{Stat, shared_probe, wait_until};

use crate::basics::Exclusive;
use crate::{SOON, Task, exists};

/// The session timeout of clients that are to lose their locks.
pub const SHORT: Duration = Duration::from_secs(3);

/// For clients with a session timeout of a minute: sooner than anything that comes by itself.
pub const PROMPT: Duration = Duration::from_secs(10);

impl Exclusive for EphemeralLock {
    type Guard = Guard;

    fn at(client: &Client, path: &str) -> Self {
        lock_of(client, path)
    }

    fn acquire(&self) -> Result<Guard> {
        EphemeralLock::acquire(self)
    }

    fn release(guard: Guard) -> Result<()> {
        guard.release()
    }

    fn cancel_waiters(&self) {
        EphemeralLock::cancel_waiters(self);
    }
}

pub fn lock_of(client: &Client, path: &str) -> EphemeralLock {
    EphemeralLock::new(client, path).expect("a good path")
}

/// Makes what is above a path.
pub fn make_parents(path: &str) {
    let above = path.rsplit_once('/').unwrap().0;
    shared_probe().unwrap().create_all(above).unwrap();
}

/// A call of `lock()` on a thread of its own.
pub fn locking(lock: &EphemeralLock) -> Task<Result<()>> {
    let lock = lock.clone();
    Task::spawn(move || lock.lock())
}

/// The lock's node on the shared server, if there is one: what it says, and its stat.
pub fn node_at(path: &str) -> Option<(String, Stat)> {
    let found = shared_probe().unwrap().get(path).unwrap()?;
    Some((String::from_utf8(found.0).expect("UTF-8"), found.1))
}

pub fn stat_of(path: &str) -> Stat {
    node_at(path).unwrap_or_else(|| panic!("nothing at {path}")).1
}

pub fn await_gone(path: &str, limit: Duration) -> Duration {
    wait_until(&format!("nothing is at {path}"), limit, || !exists(path))
}

/// Until the client has this many calls that wait, and holds.
pub fn await_in_use(client: &Client, count: usize) {
    wait_until(&format!("{count} wait or hold"), SOON, || crate::in_use(&client.stats()) == count);
}

/// Nothing of the client is left but its connection.
pub fn is_tidy(client: &Client, limit: Duration) {
    wait_until("nothing is held, waited for or deleted", limit, || {
        let stats = client.stats();
        (crate::in_use(&stats), stats.deleting) == (0, 0)
    });
}

/// Takes `<uuid> <identity>` apart.
#[track_caller]
pub fn id_and_maker(data: &str) -> (&str, &str) {
    let parts = data.split_once(' ');
    let (id, maker) = parts.unwrap_or_else(|| panic!("no space in {data:?}"));
    let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let dashed = id.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => is_digit(byte),
    });
    assert!(id.len() == 36 && dashed, "no uuid in {data:?}");
    (id, maker)
}
