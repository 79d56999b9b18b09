//! Requests to release: `Client::revoke`, Curator's `__REVOKE__`, and their listeners. `every` has the
//! basics.

use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, TryRecvError};
use zoolock::{
    Acl, Client, Contender, DistributedLock, DistributedRwLock, Error, Hold, HoldState, Kind,
    LossReason, Permissions,
};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Then, connect_string, fresh_path, shared_probe, wait_until,
};

use crate::contenders::look;
use common::{
    SESSION, SOON, Task, Visitor, assert_lost, await_resumed, behind_a_proxy, client, client_of,
    connected, delete_node, hold_of, lock_of, quiet_server,
};

pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// The contender that belongs to a hold.
#[track_caller]
pub(crate) fn contender_of(client: &Client, hold: &Hold) -> Contender {
    let all = client.contenders(hold.path()).unwrap();
    let is_it = |c: &&Contender| c.node.ends_with(&hold.node());
    let found = all.iter().find(is_it).cloned();
    found.unwrap_or_else(|| panic!("{hold:?} is not among {all:?}"))
}

/// Waits for exactly one message.
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

#[test]
fn revocation_of_the_predecessor_lets_no_waiter_in() {
    let ((server, own), path) = (quiet_server(), "/successor");
    let other = client_of(&server.connect_string(), SOON);
    let ahead = lock_of(&own, path).acquire().unwrap();
    let lock = lock_of(&other, path);
    let waiter = Task::spawn(move || lock.acquire().and_then(|guard| guard.release()));
    let asked = ahead.revocation().unwrap();
    for _ in 0..3 {
        wait_until("both watch the holder's node, and the waiter its own", SOON, || {
            server.metric("zk_watch_count").unwrap() == 3
        });
        let before = other.stats();
        own.revoke(&contender_of(&own, &ahead)).unwrap();
        is_asked(&asked, "the holder");
        wait_until("the event has come", SOON, || other.stats().events > before.events);
        assert!(!waiter.is_done(), "the waiter was let in");
    }
    ahead.release().unwrap();
    waiter.result("the waiter").unwrap();
}

#[test]
fn write_and_its_downgraded_read_are_revoked_separately() {
    let (own, other) = (client(), client());
    let lock = DistributedRwLock::new(&own, fresh_path("both")).unwrap();
    let write = lock.write_lock().acquire().unwrap();
    let read = lock.read_lock().acquire().unwrap();
    let asked = [write.revocation().unwrap(), read.revocation().unwrap()];
    other.revoke(&contender_of(&other, &write)).unwrap();
    is_asked(&asked[0], "the write");
    is_not_asked(&asked[1], "the read");
    write.release().unwrap();
    ends(&asked[0], "the write");
    other.revoke(&contender_of(&other, &read)).unwrap();
    is_asked(&asked[1], "the read");
    read.release().unwrap();
    ends(&asked[1], "the read");
}

#[test]
fn hold_may_subscribe_to_revocations_many_times() {
    let own = client();
    let guard = lock_of(&own, &fresh_path("polling")).acquire().unwrap();
    for _ in 0..20_000 {
        is_not_asked(&guard.revocation().unwrap(), "nobody asked");
    }
    let asked = guard.revocation().unwrap();
    own.revoke(&contender_of(&own, &guard)).unwrap();
    is_asked(&asked, "the holder");
    println!("{:?}", own.stats());
}

#[test]
fn loss_of_the_hold_ends_its_listener() {
    use LossReason::{ClientClosed, LeaseExpired, NodeDeleted};
    let ((proxy, own), path) = (behind_a_proxy(Duration::from_secs(5)), fresh_path("ends"));
    let lock = lock_of(&own, &path);
    for why in [NodeDeleted, LeaseExpired, ClientClosed] {
        wait_until("it is connected", SOON, || matches!(lock.try_lock(), Ok(true)));
        let hold = hold_of(&lock);
        let asked = hold.revocation().unwrap();
        match why {
            NodeDeleted => delete_node(&hold),
            LeaseExpired => proxy.black_hole(Direction::Both),
            _ => own.close().unwrap(),
        }
        ends(&asked, &why.to_string());
        assert_lost(&hold.revocation(), &path, why);
        proxy.restore();
        lock.unlock().unwrap_err();
        assert_lost(&hold.revocation(), &path, why);
    }
}

/// A hold behind a proxy, and a client that revokes it.
struct Stage {
    proxy: FaultProxy,
    own: Client,
    other: Client,
    lock: DistributedLock,
    hold: Hold,
}

impl Stage {
    fn new() -> Stage {
        let (proxy, own) = behind_a_proxy(SESSION);
        let lock = lock_of(&own, &fresh_path("listens"));
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        Stage { proxy, own, other: client(), lock, hold }
    }

    fn asks(&self) {
        let node = format!("{}/{}", self.hold.path(), self.hold.node());
        shared_probe().unwrap().set(&node, REVOKE).unwrap();
    }

    fn await_watched(&self) {
        wait_until("the read is sent", SOON, || self.proxy.requests(Op::GetData) > 0);
        // The event has been answered before this call is.
        self.own.contenders(self.hold.path()).unwrap();
    }

    /// Expects the listener to hear once, on the next connection.
    fn hears(self, asked: &Receiver<()>, what: &str) {
        await_resumed(&self.own, 1);
        is_asked(asked, what);
        self.lock.unlock().unwrap();
    }
}

#[test]
fn listener_added_in_an_outage_hears_on_the_next_connection() {
    // Listener and request come before, during or after the outage.
    for (listens, is_asked) in [(0, 1), (2, 1), (1, 2)] {
        let stage = Stage::new();
        let mut asked = (listens == 0).then(|| stage.hold.revocation().unwrap());
        stage.proxy.cut_off();
        wait_until("away", SOON, || stage.hold.state() == HoldState::Suspended);
        if listens == 1 {
            asked = Some(stage.hold.revocation().unwrap());
        }
        if is_asked == 1 {
            stage.asks();
        }
        stage.proxy.refuse(false);
        await_resumed(&stage.own, 1);
        let asked = asked.unwrap_or_else(|| stage.hold.revocation().unwrap());
        if is_asked == 2 {
            stage.other.revoke(&contender_of(&stage.other, &stage.hold)).unwrap();
        }
        stage.hears(&asked, &format!("listens {listens}, is asked {is_asked}"));
    }
}

#[test]
fn revocation_with_a_lost_event_is_heard() {
    let stage = Stage::new();
    let asked = stage.hold.revocation().unwrap();
    let event = stage.proxy.on(Op::Event).path_contains(&stage.hold.node());
    let event = event.drop_answer(Then::Cut);
    stage.await_watched();
    stage.asks();
    assert!(event.wait(SOON), "{:#?}", stage.proxy.log());
    stage.hears(&asked, "whose event was lost");
}

#[test]
fn revoke_writes_only_to_real_contenders_as_curator_does() {
    let (own, path, probe) = (client(), fresh_path("whom"), shared_probe().unwrap());
    probe.create_all(&path).unwrap();
    let name = format!("{path}/_c_01234567-89ab-cdef-0123-456789abcdef-lock-");
    let curators = probe.create(&name, b"192.168.0.1", true, true).unwrap();
    let notes = format!("{path}/notes");
    probe.create(&notes, b"mine", false, false).unwrap();
    let seen = look("Curator's and a stranger", own.contenders(&path));
    assert_eq!(seen[1].kind, Kind::Foreign);
    let before = own.stats().requests;
    let refused = own.revoke(&seen[1]);
    let invalid = matches!(&refused, Err(Error::InvalidArgument { what: "contender", .. }));
    assert!(invalid, "{refused:?}");
    assert_eq!(own.stats().requests, before);
    assert_eq!(probe.get(&notes).unwrap().unwrap().0, b"mine");
    for path in ["", "x", "/x/", "/a/../b", "/a\0b", "/zookeeper/config"] {
        let mut made_up = seen[0].clone();
        made_up.path = path.to_owned();
        let refused = own.revoke(&made_up);
        println!("{path:?}: {refused:?}");
        assert!(refused.is_err(), "{path:?}");
    }
    assert_eq!(own.stats().connections, 1);
    assert_eq!(probe.get(&curators).unwrap().unwrap().0, b"192.168.0.1");
    own.revoke(&seen[0]).unwrap();
    assert_eq!(probe.get(&curators).unwrap().unwrap().0, REVOKE);
    let seen = look("asked", own.contenders(&path));
    assert_eq!((seen[0].identity.as_ref(), seen[0].holds), (None, true));
}

#[test]
fn revoke_fails_without_permission_or_connection() {
    let builder = Client::builder(&connect_string()).session_timeout(SESSION);
    let builder = builder.auth("digest", "owner:secret");
    let owner = connected(builder.acl(Acl::creator().and("world", "anyone", Permissions::READ)));
    let ((proxy, other), root) = (behind_a_proxy(Duration::from_secs(5)), fresh_path("denied"));
    shared_probe().unwrap().create_all(&root).unwrap();
    let guard = lock_of(&owner, &format!("{root}/lock")).acquire().unwrap();
    let asked = guard.revocation().unwrap();
    let contender = contender_of(&other, &guard);
    let seen = other.revoke(&contender);
    let denied = matches!(&seen, Err(Error::Denied { path }) if path == guard.path());
    assert!(denied, "{seen:?}");
    proxy.cut_off();
    wait_until("away", SOON, || other.state() != zoolock::ClientState::Connected);
    let seen = other.revoke(&contender);
    assert!(matches!(seen, Err(Error::Disconnected { .. })), "{seen:?}");
    let _ = other.close();
    let seen = other.revoke(&contender);
    assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
    is_not_asked(&asked, "the holder");
    owner.revoke(&contender).unwrap();
    is_asked(&asked, "the holder");
}

/// The data of the holder's node change when it is asked and when it answers. A waiter watches the node again
/// behind each change, and a server reports no change twice.
#[test]
fn waiter_behind_an_asked_holder_rests() {
    let (path, others) = (fresh_path("asked-ahead"), client());
    let (proxy, own) = behind_a_proxy(SESSION * 6);
    let held = lock_of(&others, &path).acquire().unwrap();
    let asked = held.revocation().unwrap();
    let waiting = lock_of(&own, &path);
    let waiter = Visitor::start(waiting.clone());
    wait_until("it watches", SOON, || proxy.requests(Op::SetWatches) == 1);
    let round = |count: usize| (0..count).for_each(|_| drop(own.contenders("/nothing").unwrap()));
    round(1);
    others.revoke(&others.contenders(&path).unwrap()[0]).unwrap();
    asked.recv_timeout(SOON).unwrap();
    wait_until("it watches again", SOON, || proxy.requests(Op::SetWatches) > 1);
    round(50);
    let watched = proxy.requests(Op::SetWatches);
    println!("{watched} requests for watches");
    assert!(watched <= 3, "{watched} requests for watches");
    held.release().unwrap();
    waiter.comes_in();
    waiter.leaves();
}
