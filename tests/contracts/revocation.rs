//! Being asked to let go: `Client::revoke`, Curator's `__REVOKE__`, and who hears of it.

mod asking;
mod costs;
mod ending;
mod resuming;
mod whom;

use zoolock::crossbeam_channel::{Receiver, TryRecvError};
use zoolock::{Client, Contender, Hold};

use common::SOON;

pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// The contender that a hold is.
#[track_caller]
pub(crate) fn contender_of(client: &Client, hold: &Hold) -> Contender {
    let all = client.contenders(hold.path()).unwrap();
    let is_it = |c: &&Contender| c.node.is_empty() || c.node.ends_with(&hold.node());
    let found = all.iter().find(is_it).cloned();
    found.unwrap_or_else(|| panic!("{hold:?} is not among {all:?}"))
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
