//! Being asked to let go: `Client::revoke`, Curator's `__REVOKE__`, and who hears of it.

mod asking;
mod costs;
mod ending;
mod resuming;
mod whom;

use zoolock::crossbeam_channel::{Receiver, TryRecvError};
use zoolock::{
    Client, Contender, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, Hold, Result,
};
use zoolock_test_support::fresh_path;

use common::{SOON, lock_of};

pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// What is held, and how to let go of it.
struct Held {
    what: &'static str,
    holds: Vec<Hold>,
    release: Box<dyn FnOnce() -> Result<()>>,
}

impl Held {
    fn new(
        what: &'static str,
        holds: Vec<Hold>,
        release: impl FnOnce() -> Result<()> + 'static,
    ) -> Held {
        let release = Box::new(release);
        Held { what, holds, release }
    }
}

/// One of each kind of hold, on paths of their own.
fn every_hold(client: &Client) -> Vec<Held> {
    let root = fresh_path("every");
    let at = |name: &str| format!("{root}/{name}");
    let any = lock_of(client, &at("any")).acquire().unwrap();
    let own = DistributedReentrantLock::new(client, at("own")).unwrap();
    let own = own.acquire().unwrap();
    let single = EphemeralLock::new(client, at("single")).unwrap();
    let single = single.acquire().unwrap();
    let rw = |name: &str| DistributedRwLock::new(client, at(name)).unwrap();
    let read = rw("read").read_lock().acquire().unwrap();
    let write = rw("write").write_lock().acquire().unwrap();
    let both = rw("both");
    let over = both.write_lock().acquire().unwrap();
    let under = both.read_lock().acquire().unwrap();
    let permits = DistributedSemaphore::new(client, at("permits"), 3).unwrap();
    let permits = permits.acquire(2).unwrap();
    vec![
        Held::new("any thread's", vec![any.hold()], || any.release()),
        Held::new("a thread's", vec![own.hold()], || own.release()),
        Held::new("a single node", vec![single.hold()], || single.release()),
        Held::new("a read", vec![read.hold()], || read.release()),
        Held::new("a write", vec![write.hold()], || write.release()),
        Held::new("a write and a read under it", vec![over.hold(), under.hold()], || {
            over.release().and(under.release())
        }),
        Held::new("permits", permits.holds(), || permits.release()),
    ]
}

/// The contender that a hold is.
#[track_caller]
pub(crate) fn contender_of(client: &Client, hold: &Hold) -> Contender {
    let all = client.contenders(hold.path()).unwrap();
    let is_it = |c: &&Contender| c.node.is_empty() || c.node.ends_with(&hold.node());
    let found = all.iter().find(is_it).cloned();
    found.unwrap_or_else(|| panic!("{hold:?} is not among {all:?}"))
}

/// The path of a hold's node.
fn node_of(client: &Client, hold: &Hold) -> String {
    let contender = contender_of(client, hold);
    match contender.node.as_str() {
        "" => contender.path,
        node => format!("{}/{node}", contender.path),
    }
}

/// Exactly one message; waits for it.
#[track_caller]
pub(crate) fn is_asked(asked: &Receiver<()>, what: &str) {
    let message = asked.recv_timeout(SOON);
    assert_eq!(message, Ok(()), "{what} was not asked");
    is_not_asked(asked, what);
}

#[track_caller]
pub(crate) fn is_not_asked(asked: &Receiver<()>, what: &str) {
    assert_eq!(asked.try_recv(), Err(TryRecvError::Empty), "{what}");
}

#[track_caller]
pub(crate) fn ends(asked: &Receiver<()>, what: &str) {
    let end = asked.recv_timeout(SOON);
    let disconnected = end.is_err_and(|error| error.is_disconnected());
    assert!(disconnected, "{what}: {end:?}, not disconnected");
}
