//! Revocation requests: `Client::revoke`, Curator's `__REVOKE__`, and the listeners for both. `every` has the basics.

use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, TryRecvError};
use zoolock::{Acl, Client, Contender, Error, Hold, Permissions};

use crate::contenders::{UUID, look};
use common::*;

pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// Returns the contender with this hold.
#[track_caller]
pub(crate) fn contender_of(client: &Client, hold: &Hold) -> Contender {
    let all = client.contenders(hold.path()).unwrap();
    let is_it = |c: &&Contender| c.node.ends_with(&hold.node());
    let found = all.iter().find(is_it).cloned();
    found.unwrap_or_else(|| panic!("{hold:?} is not among {all:?}"))
}

/// Waits for a request, and expects that there is only one.
#[track_caller]
pub(crate) fn is_asked(asked: &Receiver<()>, what: &str) {
    let message = asked.recv_timeout(SOON);
    assert_eq!(message, Ok(()), "{what} received no request");
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

#[test]
fn revocation_with_a_lost_event_is_received() {
    let (proxy, own) = behind_a_proxy(SESSION);
    let lock = lock_of(&own, &fresh_path("listens"));
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let asked = hold.revocation().unwrap();
    let event = proxy.on(Op::Event).path_contains(&hold.node()).drop_answer(Then::Cut);
    wait_until("the read is sent", SOON, || proxy.requests(Op::GetData) > 0);
    // The read that sets the watch was sent before this list, so it is answered first.
    own.contenders(hold.path()).unwrap();
    let node = format!("{}/{}", hold.path(), hold.node());
    shared_probe().unwrap().set(&node, REVOKE).unwrap();
    assert!(event.wait(SOON), "{:#?}", proxy.log());
    await_resumed(&own, 1);
    is_asked(asked, "whose event was lost");
    lock.unlock().unwrap();
}

#[test]
fn revoke_writes_only_to_real_contenders_as_curator_does() {
    let (own, path, probe) = (client(), fresh_path("whom"), shared_probe().unwrap());
    probe.create_all(&path).unwrap();
    let name = format!("{path}/_c_{UUID}-lock-");
    let curators = probe.create(&name, b"192.168.0.1", true, true).unwrap();
    probe.create(&format!("{path}/notes"), b"mine", false, false).unwrap();
    let data = |node: &str| probe.get(node).unwrap().unwrap().0;
    let seen = look("Curator's and a stranger", own.contenders(&path));
    assert_eq!(seen.len(), 1);
    for path in ["", "x", "/x/", "/a/../b", "/a\0b", "/zookeeper/config"] {
        let mut made_up = seen[0].clone();
        made_up.path = path.to_owned();
        let refused = own.revoke(&made_up);
        println!("{path:?}: {refused:?}");
        assert!(refused.is_err(), "{path:?}");
    }
    assert_eq!(own.stats().connections, 1);
    assert_eq!(data(&curators), b"192.168.0.1");
    own.revoke(&seen[0]).unwrap();
    assert_eq!(data(&curators), REVOKE);
    let seen = look("asked", own.contenders(&path));
    assert_eq!((seen[0].identity.as_ref(), seen[0].holds), (None, true));
}

#[test]
fn revoke_fails_without_permission_or_connection() {
    let builder = Client::builder(connect_string()).session_timeout(SESSION);
    let builder = builder.auth("digest", "owner:secret");
    let owner = connected(builder.acl(Acl::creator().and("world", "anyone", Permissions::READ)));
    let ((proxy, other), path) = (behind_a_proxy(Duration::from_secs(5)), fresh_path("denied"));
    let guard = lock_of(&owner, &path).acquire().unwrap();
    let asked = guard.revocation().unwrap();
    let contender = contender_of(&other, &guard);
    let seen = other.revoke(&contender);
    assert!(
        matches!(&seen, Err(Error::PermissionDenied { path: at, .. }) if *at == path),
        "{seen:?}"
    );
    proxy.cut_off();
    wait_until("away", SOON, || other.state() != zoolock::ClientState::Connected);
    let seen = other.revoke(&contender);
    assert!(matches!(seen, Err(Error::Disconnected { .. })), "{seen:?}");
    let _ = other.close();
    let seen = other.revoke(&contender);
    assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
    is_not_asked(asked, "the holder");
    owner.revoke(&contender).unwrap();
    is_asked(asked, "the holder");
}
