//! Being asked to let go: `Client::revoke`, Curator's `__REVOKE__`, and who hears of it.

use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, TryRecvError};
use zoolock::{
    Acl, Client, Contender, DistributedLock, DistributedReentrantLock, DistributedRwLock,
    DistributedSemaphore, EphemeralLock, Error, Hold, Kind, LossReason, Result,
};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Probe, Server, connect_string, fresh_path, shared_probe, wait_until,
};

use crate::contenders::look;
use crate::faults::{await_moved, lock_of};
use crate::lock::core::{await_nodes, hold_of};
use crate::util::{SESSION, SOON, Task, children, client, client_of, shared_proxy};

const REVOKE: &[u8] = b"__REVOKE__";

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
        Held {
            what,
            holds,
            release,
        }
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
        Held::new(
            "a write and a read under it",
            vec![over.hold(), under.hold()],
            || over.release().and(under.release()),
        ),
        Held::new("permits", permits.holds(), || permits.release()),
    ]
}

/// The contender that a hold is.
#[track_caller]
fn contender_of(client: &Client, hold: &Hold) -> Contender {
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
fn is_asked(asked: &Receiver<()>, what: &str) {
    let message = asked.recv_timeout(SOON);
    assert_eq!(message, Ok(()), "{what} was not asked");
    is_not_asked(asked, what);
}

#[track_caller]
fn is_not_asked(asked: &Receiver<()>, what: &str) {
    assert_eq!(asked.try_recv(), Err(TryRecvError::Empty), "{what}");
}

#[track_caller]
fn ends(asked: &Receiver<()>, what: &str) {
    let end = asked.recv_timeout(SOON);
    let disconnected = end.is_err_and(|error| error.is_disconnected());
    assert!(disconnected, "{what}: {end:?}, not disconnected");
}

/// Waits until the client has had an event more, and a request behind it.
fn await_event(client: &Client, before: zoolock::Stats) {
    wait_until("the event was seen to", SOON, || {
        let now = client.stats();
        now.events > before.events && now.requests > before.requests
    });
}

// ---- being asked

#[test]
fn every_hold_hears_of_it_when_asked_after_it_listens() {
    let (own, other) = (client(), client());
    for held in every_hold(&own) {
        let what = held.what;
        let asked: Vec<_> = held.holds.iter().map(|h| h.revocation().unwrap()).collect();
        for (number, hold) in held.holds.iter().enumerate() {
            is_not_asked(&asked[number], what);
            let contender = contender_of(&other, hold);
            other.revoke(&contender).unwrap();
            is_asked(&asked[number], what);
            // Nobody else was meant.
            for later in &asked[number + 1..] {
                is_not_asked(later, what);
            }
            assert!(hold.is_held(), "{what}: it is up to the holder");
        }
        println!("{what}: asked, {:?}", held.holds);
        (held.release)().unwrap();
        asked.iter().for_each(|asked| ends(asked, what));
    }
}

#[test]
fn every_hold_hears_of_it_when_asked_before_it_listens() {
    let (own, other) = (client(), client());
    for held in every_hold(&own) {
        let what = held.what;
        for hold in &held.holds {
            other.revoke(&contender_of(&other, hold)).unwrap();
            is_asked(&hold.revocation().unwrap(), what);
            // Also who comes later still.
            is_asked(&hold.revocation().unwrap(), what);
        }
        println!("{what}: asked, {:?}", held.holds);
        (held.release)().unwrap();
    }
}

#[test]
fn raw_data_written_by_anybody_ask_every_hold() {
    let own = client();
    let probe = shared_probe().unwrap();
    for held in every_hold(&own) {
        for hold in &held.holds {
            let asked = hold.revocation().unwrap();
            probe.set(&node_of(&own, hold), REVOKE).unwrap();
            is_asked(&asked, held.what);
            // Once more is one message more.
            probe.set(&node_of(&own, hold), REVOKE).unwrap();
            is_asked(&asked, held.what);
        }
        (held.release)().unwrap();
    }
}

#[test]
fn other_data_are_no_request_and_harm_nobody() {
    let (own, other) = (client(), client());
    let probe = shared_probe().unwrap();
    for held in every_hold(&own) {
        for hold in &held.holds {
            let asked = hold.revocation().unwrap();
            let node = node_of(&own, hold);
            let long = vec![b'x'; 500 * 1000];
            let revoke = [&b"__revoke__"[..], b"__REVOKE__\n", b"", b"\xff", &long];
            for data in revoke {
                let before = own.stats();
                // Again and again, since the watch may not be set yet.
                wait_until("the event was seen to", SOON, || {
                    probe.set(&node, data).unwrap();
                    let now = own.stats();
                    now.events > before.events && now.requests > before.requests
                });
                is_not_asked(&asked, held.what);
            }
            assert!(hold.is_held(), "{}: {hold:?}", held.what);
            other.revoke(&contender_of(&other, hold)).unwrap();
            is_asked(&asked, held.what);
        }
        (held.release)().unwrap();
        println!("{}: released", held.what);
    }
}

#[test]
fn every_listener_hears_of_it_in_every_thread() {
    let (own, other) = (client(), client());
    let guard = lock_of(&own, &fresh_path("listeners")).acquire().unwrap();
    let listeners: Vec<_> = (0..5)
        .map(|_| {
            let asked = guard.hold().revocation().unwrap();
            Task::spawn(move || (asked.recv_timeout(SOON), asked.recv_timeout(SOON)))
        })
        .collect();
    let unread = guard.revocation().unwrap();
    other.revoke(&contender_of(&other, &guard)).unwrap();
    is_asked(&guard.revocation().unwrap(), "a late one");
    guard.release().unwrap();
    for listener in listeners {
        let (first, then) = listener.result("a listener");
        assert_eq!(first, Ok(()));
        assert!(then.is_err_and(|error| error.is_disconnected()), "{then:?}");
    }
    assert_eq!(unread.recv(), Ok(()), "kept for who has not looked");
    ends(&unread, "unread");
}

#[test]
fn a_waiter_that_was_asked_hears_of_it_when_it_holds() {
    for cut in [false, true] {
        let proxy = shared_proxy();
        let own = client_of(&proxy.connect_string(), SESSION);
        let other = client();
        let path = fresh_path("asked-waiter");
        let ahead = lock_of(&other, &path).acquire().unwrap();
        let lock = lock_of(&own, &path);
        let waiter = Task::spawn(move || lock.acquire());
        await_nodes(&path, 2);
        let waiting = other.contenders(&path).unwrap().pop().unwrap();
        assert!(!waiting.holds);
        other.revoke(&waiting).unwrap();
        if cut {
            proxy.cut();
            await_moved(&own, 1);
            wait_until("the old node is gone", SOON, || children(&path).len() == 2);
        }
        ahead.release().unwrap();
        let guard = waiter.result("the waiter").unwrap();
        is_asked(&guard.revocation().unwrap(), "who had waited");
        println!("cut {cut}: {guard:?}");
        guard.release().unwrap();
    }
}

#[test]
fn a_request_to_the_one_ahead_wakes_its_successor_for_nothing() {
    let (own, other) = (client(), client());
    let path = fresh_path("successor");
    let ahead = lock_of(&own, &path).acquire().unwrap();
    let lock = lock_of(&other, &path);
    let waiter = Task::spawn(move || lock.acquire().and_then(|guard| guard.release()));
    await_nodes(&path, 2);
    let asked = ahead.revocation().unwrap();
    for _ in 0..3 {
        let before = other.stats();
        own.revoke(&contender_of(&own, &ahead)).unwrap();
        is_asked(&asked, "the holder");
        await_event(&other, before);
        assert!(!waiter.is_done(), "the waiter was let in");
    }
    ahead.release().unwrap();
    waiter.result("the waiter").unwrap();
}

// ---- the end of a hold

#[test]
fn it_ends_with_the_hold_however_that_ends() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), Duration::from_secs(2));
    let path = fresh_path("ends");
    let lock = lock_of(&own, &path);
    // Released.
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let asked = hold.revocation().unwrap();
    lock.unlock().unwrap();
    ends(&asked, "released");
    let over = hold.revocation();
    assert!(
        matches!(&over, Err(Error::NotHeld { path: at }) if *at == path),
        "{over:?}"
    );
    // Deleted.
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let asked = hold.revocation().unwrap();
    let node = format!("{path}/{}", hold.node());
    shared_probe().unwrap().delete(&node).unwrap();
    ends(&asked, "deleted");
    is_lost(&hold, LossReason::NodeDeleted);
    lock.unlock().unwrap_err();
    is_lost(&hold, LossReason::NodeDeleted);
    // Expired.
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let asked = hold.revocation().unwrap();
    proxy.black_hole(Direction::Both);
    ends(&asked, "expired");
    is_lost(&hold, LossReason::LeaseExpired);
    proxy.restore();
    lock.unlock().unwrap_err();
    // Closed.
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let asked = hold.revocation().unwrap();
    own.close().unwrap();
    ends(&asked, "closed");
    is_lost(&hold, LossReason::ClientClosed);
}

#[track_caller]
fn is_lost(hold: &Hold, why: LossReason) {
    let seen = hold.revocation();
    println!("{why:?}: {seen:?}");
    let lost = matches!(&seen, Err(Error::Lost { path, reason })
        if path == hold.path() && *reason == why);
    assert!(lost, "{seen:?}");
}

#[test]
fn nested_entries_are_one_hold_that_ends_with_the_last() {
    let own = client();
    let lock = DistributedReentrantLock::new(&own, fresh_path("nest")).unwrap();
    let (outer, inner) = (lock.acquire().unwrap(), lock.acquire().unwrap());
    let asked = [outer.revocation().unwrap(), inner.revocation().unwrap()];
    inner.release().unwrap();
    asked.iter().for_each(|a| is_not_asked(a, "the outer one"));
    own.revoke(&contender_of(&own, &outer)).unwrap();
    asked.iter().for_each(|asked| is_asked(asked, "the nest"));
    outer.release().unwrap();
    asked.iter().for_each(|asked| ends(asked, "the nest"));
}

// ---- moves

/// A hold behind a proxy, and somebody who asks.
struct Stage {
    proxy: FaultProxy,
    own: Client,
    other: Client,
    lock: DistributedLock,
    hold: Hold,
}

impl Stage {
    fn new(name: &str) -> Stage {
        let proxy = shared_proxy();
        let own = client_of(&proxy.connect_string(), SESSION);
        let lock = lock_of(&own, &fresh_path(name));
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        Stage {
            proxy,
            own,
            other: client(),
            lock,
            hold,
        }
    }

    fn node(&self) -> String {
        format!("{}/{}", self.hold.path(), self.hold.node())
    }

    fn await_moved(&self, times: u64) {
        await_moved(&self.own, times);
        wait_until("the old node is gone", SOON, || {
            children(self.hold.path()) == [self.hold.node()]
        });
    }
}

#[test]
fn a_listener_is_kept_over_move_after_move() {
    let stage = Stage::new("kept");
    let asked = stage.hold.revocation().unwrap();
    for round in 1..=3 {
        let old = contender_of(&stage.other, &stage.hold);
        stage.proxy.cut();
        stage.await_moved(round);
        is_not_asked(&asked, "before");
        let late = stage.other.revoke(&old);
        assert!(matches!(late, Err(Error::NotHeld { .. })), "{late:?}");
        is_not_asked(&asked, "the old node");
    }
    let now = contender_of(&stage.other, &stage.hold);
    stage.other.revoke(&now).unwrap();
    is_asked(&asked, "who has moved");
    stage.lock.unlock().unwrap();
    ends(&asked, "who has moved");
}

#[test]
fn a_hold_that_listens_without_a_connection_is_watched_from_the_next_on() {
    let stage = Stage::new("without");
    stage.proxy.refuse(true);
    stage.proxy.cut();
    wait_until("suspended", SOON, || {
        stage.hold.state() == zoolock::HoldState::Suspended
    });
    let asked = stage.hold.revocation().unwrap();
    stage.proxy.refuse(false);
    stage.await_moved(1);
    // A quarter of the session timeout passes before an ordinary hold is watched.
    stage
        .other
        .revoke(&contender_of(&stage.other, &stage.hold))
        .unwrap();
    let begun = std::time::Instant::now();
    is_asked(&asked, "who listens since the break");
    println!("asked {:?} after the request", begun.elapsed());
    stage.lock.unlock().unwrap();
}

#[test]
fn a_request_written_while_the_connection_was_cut_is_heard() {
    for listens_before in [true, false] {
        let stage = Stage::new("while-cut");
        let before = listens_before.then(|| stage.hold.revocation().unwrap());
        stage.proxy.refuse(true);
        stage.proxy.cut();
        shared_probe().unwrap().set(&stage.node(), REVOKE).unwrap();
        stage.proxy.refuse(false);
        stage.await_moved(1);
        let asked = before.unwrap_or_else(|| stage.hold.revocation().unwrap());
        is_asked(&asked, "who was cut off");
        println!("listens before {listens_before}: {:?}", stage.hold);
        stage.lock.unlock().unwrap();
    }
}

#[test]
fn a_request_whose_event_was_lost_in_the_cut_is_heard() {
    let stage = Stage::new("event-lost");
    let asked = stage.hold.revocation().unwrap();
    let probe = shared_probe().unwrap();
    let event = stage.proxy.on(Op::Event).path_contains(&stage.hold.node());
    let event = event.drop_answer(zoolock_test_support::Then::Cut);
    // The watch is set when the read behind it was answered.
    wait_until("the watch is set", SOON, || {
        stage.proxy.requests(Op::GetData) > 0
    });
    stage.hold.fencing_token().unwrap();
    probe.set(&stage.node(), REVOKE).unwrap();
    assert!(event.wait(SOON), "{:#?}", stage.proxy.log());
    stage.await_moved(1);
    is_asked(&asked, "whose event was lost");
    stage.lock.unlock().unwrap();
}

#[test]
fn a_request_written_between_the_looks_of_a_move_is_heard() {
    for (what, op) in [("create", Op::Create), ("look", Op::GetData)] {
        let stage = Stage::new("between");
        let asked = stage.hold.revocation().unwrap();
        stage.hold.fencing_token().unwrap();
        let node = stage.node();
        let step = stage.proxy.on(op).path_contains("lock-").hold_request();
        stage.proxy.cut();
        assert!(step.wait(SOON), "{:#?}", stage.proxy.log());
        shared_probe().unwrap().set(&node, REVOKE).unwrap();
        step.release();
        stage.await_moved(1);
        is_asked(&asked, what);
        stage.lock.unlock().unwrap();
    }
}

#[test]
fn a_request_that_was_heard_before_a_move_is_heard_by_later_listeners_too() {
    let stage = Stage::new("later");
    let asked = stage.hold.revocation().unwrap();
    let now = contender_of(&stage.other, &stage.hold);
    stage.other.revoke(&now).unwrap();
    is_asked(&asked, "the holder");
    stage.proxy.cut();
    stage.await_moved(1);
    // The mover has seen it in the old node's data once more.
    println!("once more after the move: {:?}", asked.try_recv());
    let late = stage.hold.revocation().unwrap();
    is_asked(&late, "a listener that came after the move");
    stage.lock.unlock().unwrap();
}

// ---- who may ask, and whom

#[test]
fn who_is_gone_cannot_be_asked() {
    let (own, other) = (client(), client());
    for held in every_hold(&own) {
        let contenders: Vec<_> = held
            .holds
            .iter()
            .map(|hold| contender_of(&other, hold))
            .collect();
        (held.release)().unwrap();
        for contender in contenders {
            let seen = other.revoke(&contender);
            println!("{}: {seen:?}", held.what);
            let gone = matches!(&seen, Err(Error::NotHeld { path }) if *path == contender.path);
            assert!(gone, "{seen:?}");
        }
    }
}

#[test]
fn a_stranger_is_not_asked() {
    let own = client();
    let path = fresh_path("stranger");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let node = format!("{path}/notes");
    probe.create(&node, b"mine", false, false).unwrap();
    let seen = look("a stranger", own.contenders(&path));
    assert_eq!(seen[0].kind, Kind::Foreign);
    let before = own.stats().requests;
    let refused = own.revoke(&seen[0]);
    println!("{refused:?}");
    let invalid = matches!(
        &refused,
        Err(Error::InvalidArgument {
            what: "contender",
            ..
        })
    );
    assert!(invalid, "{refused:?}");
    assert_eq!(own.stats().requests, before);
    assert_eq!(probe.get(&node).unwrap().unwrap().0, b"mine");
}

#[test]
fn a_made_up_contender_is_an_error_and_no_harm() {
    let own = client();
    let guard = lock_of(&own, &fresh_path("made-up")).acquire().unwrap();
    let asked = guard.revocation().unwrap();
    let real = contender_of(&own, &guard);
    for path in ["", "x", "/x/", "/a/../b", "/a\0b", "/zookeeper/config"] {
        let mut made_up = real.clone();
        made_up.path = path.to_owned();
        let seen = own.revoke(&made_up);
        println!("{path:?}: {seen:?}");
        assert!(seen.is_err(), "{path:?}");
    }
    assert_eq!(own.stats().connections, 1);
    is_not_asked(&asked, "the holder");
    guard.release().unwrap();
}

#[test]
fn listening_while_another_thread_releases_never_hangs() {
    const ROUNDS: usize = 200;
    let own = client();
    let lock = lock_of(&own, &fresh_path("racing"));
    let mut refused = 0;
    for round in 0..ROUNDS {
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let listening = Task::spawn(move || {
            let mut kept = Vec::new();
            loop {
                match hold.revocation() {
                    Ok(asked) => kept.push(asked),
                    Err(error) => break (kept, error),
                }
            }
        });
        if round % 2 == 0 {
            std::thread::yield_now();
        }
        lock.unlock().unwrap();
        let (kept, error) = listening.result("the listener");
        assert!(matches!(error, Error::NotHeld { .. }), "{error:?}");
        refused += usize::from(kept.is_empty());
        kept.iter().for_each(|asked| ends(asked, "released"));
    }
    println!("{refused} of {ROUNDS} came too late to listen at all");
}

#[test]
fn others_holders_are_asked_the_way_curator_does() {
    let own = client();
    let path = fresh_path("curator");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let id = "01234567-89ab-cdef-0123-456789abcdef";
    let node = format!("{path}/_c_{id}-lock-");
    let node = probe.create(&node, b"192.168.0.1", true, true).unwrap();
    let seen = look("Curator's", own.contenders(&path));
    own.revoke(&seen[0]).unwrap();
    assert_eq!(probe.get(&node).unwrap().unwrap().0, REVOKE);
    let seen = look("asked", own.contenders(&path));
    assert_eq!((seen[0].identity.as_ref(), seen[0].holds), (None, true));
}

#[test]
fn without_permission_or_connection_nobody_is_asked() {
    let owner = Client::builder(&connect_string())
        .session_timeout(SESSION)
        .auth("digest", "owner:secret")
        .acl(Acl::creator().and("world", "anyone", zoolock::Permissions::READ))
        .connect()
        .unwrap();
    let proxy = shared_proxy();
    let other = client_of(&proxy.connect_string(), Duration::from_secs(2));
    let root = fresh_path("denied");
    shared_probe().unwrap().create_all(&root).unwrap();
    let guard = lock_of(&owner, &format!("{root}/lock")).acquire().unwrap();
    let asked = guard.revocation().unwrap();
    let contender = contender_of(&other, &guard);
    let seen = other.revoke(&contender);
    println!("{seen:?}");
    let denied = matches!(&seen, Err(Error::Denied { path }) if path == guard.path());
    assert!(denied, "{seen:?}");
    is_not_asked(&asked, "the holder");
    proxy.refuse(true);
    proxy.cut();
    wait_until("suspended", SOON, || {
        other.state() != zoolock::ClientState::Connected
    });
    let seen = other.revoke(&contender);
    assert!(matches!(seen, Err(Error::Disconnected { .. })), "{seen:?}");
    let _ = other.close();
    let seen = other.revoke(&contender);
    assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
    owner.revoke(&contender).unwrap();
    is_asked(&asked, "the holder");
    guard.release().unwrap();
}

// ---- what it costs

/// Packets that the server got during `work`.
fn packets(server: &Server, work: impl FnOnce()) -> u64 {
    let before = server.metric("zk_packets_received").unwrap();
    work();
    server.metric("zk_packets_received").unwrap() - before - 1
}

#[test]
fn listening_costs_one_request_however_many_listen() {
    let server = Server::start().unwrap();
    // Long enough that nothing else is sent meanwhile.
    let own = client_of(&server.connect_string(), Duration::from_secs(60));
    let lock = lock_of(&own, "/cost");
    lock.lock().unwrap();
    lock.unlock().unwrap();
    let plain = packets(&server, || {
        lock.lock().unwrap();
        lock.unlock().unwrap();
    });
    let listened = packets(&server, || {
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let before = own.stats().requests;
        let listeners: Vec<_> = (0..10).map(|_| hold.revocation().unwrap()).collect();
        wait_until("it is watched", SOON, || own.stats().requests > before);
        is_not_asked(&listeners[0], "nobody asked");
        hold.fencing_token().unwrap();
        lock.unlock().unwrap();
    });
    println!("{plain} packets without, {listened} with ten listeners and a token");
    assert_eq!(plain, 3);
    // The token may have been asked for beside it.
    assert!((plain + 1..=plain + 2).contains(&listened), "{listened}");
    let probe = Probe::connect(server.address()).unwrap();
    lock.lock().unwrap();
    let contender = own.contenders("/cost").unwrap().pop().unwrap();
    let asking = packets(&server, || own.revoke(&contender).unwrap());
    assert_eq!(asking, 1);
    lock.unlock().unwrap();
    drop(probe);
}

#[test]
fn no_watch_is_left_behind() {
    let server = Server::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let own = client_of(&proxy.connect_string(), SESSION);
    let watches = || server.metric("zk_watch_count").unwrap();
    let lock = lock_of(&own, "/watched");
    let mut most = 0;
    for round in 0..100 {
        lock.lock().unwrap();
        let asked = hold_of(&lock).revocation().unwrap();
        if round % 10 == 0 {
            // Let the read through before the release.
            hold_of(&lock).fencing_token().unwrap();
            most = most.max(watches());
        }
        if round % 10 == 5 {
            let contender = own.contenders("/watched").unwrap().pop().unwrap();
            own.revoke(&contender).unwrap();
            is_asked(&asked, "the holder");
        }
        lock.unlock().unwrap();
        ends(&asked, "released");
    }
    let took = wait_until("no watch is left", SOON, || watches() == 0);
    println!("at most {most} watches, none {took:?} after the last release");
    // Over a move.
    let guard = lock.acquire().unwrap();
    let _asked = guard.revocation().unwrap();
    proxy.cut();
    await_moved(&own, 1);
    wait_until("it is watched again", SOON, || watches() == 1);
    guard.release().unwrap();
    wait_until("no watch is left", SOON, || watches() == 0);
}

#[test]
fn a_hold_that_looks_again_and_again_listens_as_long_as_it_likes() {
    const LOOKS: u32 = 20_000;
    let own = client();
    let guard = lock_of(&own, &fresh_path("polling")).acquire().unwrap();
    let before = own.stats().requests;
    let begun = std::time::Instant::now();
    for _ in 0..LOOKS {
        let asked = guard.revocation().unwrap();
        is_not_asked(&asked, "nobody asked");
    }
    let took = begun.elapsed();
    let asked = guard.revocation().unwrap();
    own.revoke(&contender_of(&own, &guard)).unwrap();
    let begun = std::time::Instant::now();
    is_asked(&asked, "the holder");
    println!(
        "{LOOKS} looks in {took:?} and {} requests, told after {:?}",
        own.stats().requests - before,
        begun.elapsed()
    );
    guard.release().unwrap();
}
