//! `Client::events_below`: the state at first, then each change, for locks of all kinds.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, EphemeralLock, Error, Kind, LockChange, LockEvent, LockEvents};
use zoolock_test_support::{Op, Server, fresh_path, shared_probe};

use common::rwlock::rw_of;
use common::semaphore::semaphore;
use common::{SESSION, SOON, Task, client, client_of, in_time, lock_of, shared_proxy};

use LockChange::{Asked, Gone, Holds, Waits};

/// Returns the next event.
#[track_caller]
fn next(events: &mut LockEvents) -> LockEvent {
    let event = events.next_within(SOON).expect("an event").expect("an event in time");
    let LockEvent { change, contender, .. } = &event;
    println!("{change:?} {} {} {}", contender.path, contender.node, contender.token);
    event
}

/// Expects these events of this kind of lock at `path`, with the tokens of their contenders.
#[track_caller]
fn tells(events: &mut LockEvents, path: &str, kind: Kind, wanted: &[(LockChange, u64)]) {
    for wanted in wanted {
        let LockEvent { change, contender, .. } = next(events);
        assert_eq!((change, contender.token), *wanted, "{contender:?}");
        assert_eq!((&*contender.path, contender.kind), (path, kind));
        if change != Gone {
            assert_eq!(contender.holds, change != Waits);
        }
    }
}

/// Expects that there is no other event, by an event of another lock that comes after it.
#[track_caller]
fn tells_nothing_else(events: &mut LockEvents, root: &str) {
    let path = format!("{root}/last");
    let guard = lock_of(&client(), &path).acquire().unwrap();
    let token = guard.fencing_token();
    tells(events, &path, Kind::Exclusive, &[(Holds, token)]);
    guard.release().unwrap();
    tells(events, &path, Kind::Exclusive, &[(Gone, token)]);
}

#[test]
fn events_begin_with_the_state_and_tell_each_change() {
    let (ours, root) = (client(), fresh_path("events"));
    let path = format!("{root}/a");
    let held = lock_of(&ours, &path).acquire().unwrap();
    let first = held.fencing_token();
    let mut events = client().events_below(&root).unwrap();
    tells(&mut events, &path, Kind::Exclusive, &[(Holds, first)]);
    let waiting = lock_of(&client(), &path);
    let waiting = Task::spawn(move || waiting.acquire());
    let LockEvent { change, contender, .. } = next(&mut events);
    assert_eq!((change, contender.holds, &contender.path), (Waits, false, &path));
    let second = contender.token;
    for contender in ours.contenders(&path).unwrap() {
        ours.revoke(&contender).unwrap();
    }
    let asked = [next(&mut events), next(&mut events)];
    assert!(asked.iter().all(|event| event.change == Asked), "{asked:?}");
    held.release().unwrap();
    tells(&mut events, &path, Kind::Exclusive, &[(Gone, first), (Holds, second)]);
    let second_guard = waiting.result("it waits").unwrap();
    assert_eq!(second_guard.fencing_token(), second);
    drop(second_guard);
    tells(&mut events, &path, Kind::Exclusive, &[(Gone, second)]);
    tells_nothing_else(&mut events, &root);
}

#[test]
fn events_are_told_of_all_kinds_of_locks_at_and_below_the_path() {
    let (client, root) = (client(), fresh_path("kinds"));
    let mut events = common::client().events_below(&root).unwrap();
    assert!(events.next_within(Duration::ZERO).unwrap().is_none(), "there are no locks");
    // The lock at the root, and one below it.
    for path in [root.clone(), format!("{root}/deep/er")] {
        let guard = lock_of(&client, &path).acquire().unwrap();
        let token = guard.fencing_token();
        tells(&mut events, &path, Kind::Exclusive, &[(Holds, token)]);
        drop(guard);
        tells(&mut events, &path, Kind::Exclusive, &[(Gone, token)]);
    }
    let path = format!("{root}/rw");
    let rw = rw_of(&client, &path);
    let read = rw.read_lock().acquire().unwrap();
    tells(&mut events, &path, Kind::Read, &[(Holds, read.fencing_token())]);
    drop(read);
    assert_eq!(next(&mut events).change, Gone);
    let path = format!("{root}/single");
    let single = EphemeralLock::new(&client, &path).unwrap().acquire().unwrap();
    let token = single.fencing_token();
    tells(&mut events, &path, Kind::Exclusive, &[(Holds, token)]);
    drop(single);
    tells(&mut events, &path, Kind::Exclusive, &[(Gone, token)]);
    // Nodes of no lock.
    let probe = shared_probe().unwrap();
    probe.create(&format!("{root}/member"), b"10.0.0.1:80", true, false).unwrap();
    probe.set(&format!("{root}/member"), b"10.0.0.1:81").unwrap();
    tells_nothing_else(&mut events, &root);
}

#[test]
fn events_of_permits_name_the_turn_and_the_permits() {
    let (client, path) = (client(), fresh_path("permits"));
    let permits = semaphore(&client, &path, 2);
    let both = permits.acquire(2).unwrap();
    let mut events = common::client().events_below(&path).unwrap();
    let held = [next(&mut events), next(&mut events)];
    assert!(held.iter().all(|event| event.change == Holds && event.contender.kind == Kind::Permit));
    let other = semaphore(&common::client(), &path, 2);
    let waiting = Task::spawn(move || other.acquire(1));
    // Its permit may have a node by then, which waits, too.
    let mut turn = next(&mut events);
    while !turn.contender.node.starts_with("locks/") {
        assert_eq!((turn.change, turn.contender.kind), (Waits, Kind::Permit));
        turn = next(&mut events);
    }
    assert_eq!((turn.change, turn.contender.kind), (Waits, Kind::Permit));
    let token = |event: &LockEvent| event.contender.token;
    drop(both);
    let (mut gone, mut holds) = (Vec::new(), Vec::new());
    // The turn and both permits go, and one permit stays.
    while (gone.len(), holds.len()) != (3, 1) {
        let event = next(&mut events);
        match event.change {
            Gone => gone.push(token(&event)),
            Holds => holds.push(token(&event)),
            _ => {}
        }
    }
    let one = waiting.result("it waits").unwrap();
    assert_eq!(one.holds()[0].fencing_token(), holds[0]);
    assert!(held.iter().chain([&turn]).all(|event| gone.contains(&token(event))));
}

#[test]
fn change_costs_a_look_at_its_lock_alone() {
    let (ours, root) = (client(), fresh_path("cost"));
    let others: Vec<_> = (0..20)
        .map(|number| lock_of(&ours, &format!("{root}/{number}")).acquire().unwrap())
        .collect();
    let proxy = shared_proxy();
    let mut events = client_of(&proxy.connect_string(), SESSION).events_below(&root).unwrap();
    others.iter().for_each(|_| assert_eq!(next(&mut events).change, Holds));
    tells_nothing_else(&mut events, &root);
    let count = || [Op::GetChildren, Op::GetData].map(|op| proxy.requests(op));
    let before = count();
    for other in others {
        let token = other.fencing_token();
        let path = other.path().to_owned();
        drop(other);
        tells(&mut events, &path, Kind::Exclusive, &[(Gone, token)]);
    }
    let [lists, reads] = [0, 1].map(|index| count()[index] - before[index]);
    println!("20 changes: {lists} lists, {reads} reads");
    // The node, its directory, and the directory above are looked at, together or one by one.
    assert!(lists <= 3 * 20 && reads == 0, "{lists} lists, {reads} reads");
}

#[test]
fn events_tell_what_happened_without_a_connection() {
    let (ours, root, proxy) = (client(), fresh_path("away"), shared_proxy());
    let [path, other] = ["a", "b"].map(|name| format!("{root}/{name}"));
    let [held, stays] = [&path, &other].map(|path| lock_of(&ours, path).acquire().unwrap());
    let watching = client_of(&proxy.connect_string(), SESSION);
    let mut events = watching.events_below(&root).unwrap();
    let (old, token) = (held.fencing_token(), stays.fencing_token());
    tells(&mut events, &path, Kind::Exclusive, &[(Holds, old)]);
    tells(&mut events, &other, Kind::Exclusive, &[(Holds, token)]);
    for _ in 0..2 {
        proxy.cut();
        tells_nothing_else(&mut events, &root);
    }
    proxy.cut_off();
    held.release().unwrap();
    let held = lock_of(&ours, &path).acquire().unwrap();
    let new = held.fencing_token();
    let begun = Instant::now();
    let none = events.next_within(Duration::from_millis(1)).unwrap();
    assert!(none.is_none(), "{none:?} without a connection");
    assert!(begun.elapsed() < SESSION / 2, "it waits for a connection for longer than it may");
    proxy.restore();
    tells(&mut events, &path, Kind::Exclusive, &[(Gone, old), (Holds, new)]);
    tells_nothing_else(&mut events, &root);
    drop((held, stays));
}

#[test]
fn events_continue_in_the_next_session() {
    let (root, proxy) = (fresh_path("session"), shared_proxy());
    let watching = client_of(&proxy.connect_string(), SESSION);
    let mut events = watching.events_below(&root).unwrap();
    tells_nothing_else(&mut events, &root);
    assert_eq!(proxy.expire_sessions().unwrap(), 1);
    tells_nothing_else(&mut events, &root);
    assert_eq!(watching.stats().sessions, 2);
}

#[test]
fn close_of_the_client_ends_its_events() {
    let (watching, root) = (client(), fresh_path("closed"));
    let _held = lock_of(&client(), &format!("{root}/a")).acquire().unwrap();
    let mut events = watching.events_below(&root).unwrap();
    let (began, has_begun) = mpsc::channel();
    let waiting = thread::spawn(move || {
        let first = events.next();
        began.send(()).unwrap();
        let last = events.next();
        (first.is_some(), last.is_none(), events.next_within(SOON))
    });
    has_begun.recv().unwrap();
    watching.close().unwrap();
    let (first, last, after) = in_time("the end", SOON, || waiting.join().unwrap());
    assert!(first && last, "one event, and the end");
    assert!(matches!(after, Err(Error::Closed)), "{after:?}");
}

#[test]
fn denied_path_is_told_once_and_the_others_go_on() {
    let (root, boss) = (fresh_path("denied"), shared_probe().unwrap());
    boss.add_auth("digest", b"boss:secret").unwrap();
    boss.create_all(&root).unwrap();
    let hidden = format!("{root}/hidden");
    boss.create_with_acl(&hidden, b"", &[(31, "auth", "")]).unwrap();
    let mut events = client().events_below(&root).unwrap();
    let denied = events.next_within(SOON);
    assert!(matches!(&denied, Err(Error::Denied { path }) if *path == hidden), "{denied:?}");
    tells_nothing_else(&mut events, &root);
}

/// This server refuses recursive watches, as servers before 3.6 do.
#[test]
fn without_recursive_watches_the_events_come_from_looks() {
    let manager =
        "-Dzookeeper.watchManagerName=org.apache.zookeeper.server.watch.WatchManagerOptimized";
    let server = Server::builder().jvm_flag(manager).start().unwrap();
    let connect = || -> Client { client_of(&server.connect_string(), SESSION) };
    let ours = connect();
    let events = connect().events_below("/").unwrap();
    let mut events = events.interval(Duration::from_millis(10));
    for _ in 0..2 {
        let guard = lock_of(&ours, "/a/b").acquire().unwrap();
        let token = guard.fencing_token();
        tells(&mut events, "/a/b", Kind::Exclusive, &[(Holds, token)]);
        drop(guard);
        tells(&mut events, "/a/b", Kind::Exclusive, &[(Gone, token)]);
    }
    assert_eq!(await_no_events(&mut events), None);
    let mut rare = connect().events_below("/").unwrap().interval(Duration::MAX);
    assert_eq!(await_no_events(&mut rare), None);
}

/// Returns the event that comes within some looks, if any.
fn await_no_events(events: &mut LockEvents) -> Option<LockEvent> {
    events.next_within(Duration::from_millis(50)).unwrap()
}
