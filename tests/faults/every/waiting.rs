//! Waiting for others: what wakes a waiter though signals come at the wrong moment, and what ends it.

use std::time::Instant;

use zoolock::Kind;
use zoolock_test_support::{Direction, Server, connect_string};

use super::*;
use common::{
    BRIEFLY, SESSION, Task, TwoWays, await_resumed, every_subject, every_subject_that, in_time,
    place,
};

/// How late a call with a deadline may be.
const SLACK: Duration = Duration::from_secs(1);

/// The waiter has seen the holder in the list, or hears of its watch and of the event at once.
#[test]
fn a_release_beside_the_read_that_sets_the_watch_wakes() {
    every_subject(|subject| {
        for answer in [false, true] {
            let scene = Scene::start(subject, LONG);
            scene.rival.lock().unwrap();
            let watch = Part { op: Op::GetData, nth: 1, answer }.is_held_at(&scene);
            let waiter = Visitor::start(scene.own.clone());
            assert!(watch.wait(SOON), "{}: {}", subject.name, scene.log());
            scene.rival.unlock().unwrap();
            watch.release();
            waiter.comes_in();
            waiter.leaves();
            scene.leaves_nothing("a release beside the watch");
        }
    });
}

/// Those that came since, the first of them first.
fn since(subject: Subject, path: &str, before: &[String]) -> Vec<String> {
    let mut nodes = subject.nodes(path);
    nodes.retain(|node| !before.contains(node));
    nodes.sort_by_key(|node| place(node).to_owned());
    nodes
}

/// Only an event tells it. All is below a chroot, which names in events do not have.
#[test]
fn a_waiter_whose_own_node_is_deleted_queues_again() {
    every_subject_that(Subject::queues, |subject| {
        let chroot = fresh_path("chroot");
        let (path, name) = (format!("{chroot}/lock"), subject.name);
        let below = |hosts: &str, session| client_of(&format!("{hosts}{chroot}"), session);
        let proxy = shared_proxy();
        let (others, client) = (
            below(&connect_string(), LONG),
            below(&proxy.connect_string(), Duration::from_secs(4)),
        );
        let (rival, own) = (subject.rival(&others, "/lock"), subject.at(&client, "/lock"));
        let scene = Scene { subject, proxy, client, others, path, own, rival };
        scene.rival.lock().unwrap();
        let held = scene.nodes();
        // The first round is over before it watches at all.
        let watch = Part { op: Op::GetData, nth: 1, answer: false }.is_held_at(&scene);
        let waiter = Visitor::start(scene.own.clone());
        assert!(watch.wait(SOON), "{name}: {}", scene.log());
        for round in 0..4 {
            // All that it has had before is gone then.
            subject.await_nodes(&scene.path, subject.nodes_with_waiters(1));
            let old = since(subject, &scene.path, &held);
            shared_probe().unwrap().delete(&old[0]).unwrap();
            watch.release();
            if round == 3 {
                // It comes free in the same moment.
                scene.rival.unlock().unwrap();
                waiter.comes_in();
            } else {
                wait_until(&format!("{name}, round {round}: another node"), SOON, || {
                    let new = since(subject, &scene.path, &held);
                    !new.contains(&old[0]) && !new.is_empty()
                });
                assert!(!waiter.is_in(), "{name}: beside the holder");
            }
            println!("{name}, round {round}: {old:?}, {:?}", since(subject, &scene.path, &held));
        }
        waiter.leaves();
        scene.leaves_nothing("its node was deleted");
    });
}

#[test]
fn a_waiter_whose_directory_is_deleted_queues_in_a_new_one() {
    every_subject_that(Subject::queues, |subject| {
        for cut_off in [false, true] {
            let what = format!("{}, cut off: {cut_off}", subject.name);
            let scene = Scene::start(subject, LONG);
            scene.rival.lock().unwrap();
            let held = scene.nodes();
            let waiter = Visitor::start(scene.own.clone());
            wait_until("it watches the one ahead", SOON, || scene.proxy.requests(Op::GetData) > 0);
            subject.await_nodes(&scene.path, subject.nodes_with_waiters(1));
            // All of it goes before the waiter can look.
            match cut_off {
                false => scene.proxy.black_hole(Direction::ToServer),
                true => {
                    scene.proxy.refuse(true);
                    scene.proxy.cut();
                }
            }
            let old = since(subject, &scene.path, &held);
            delete_all(&scene.path);
            let other = subject.rival(&scene.others, &scene.path);
            if cut_off {
                // Made again meanwhile: somebody has the place that it had waited for.
                other.lock().unwrap();
            }
            scene.proxy.restore();
            if cut_off {
                await_resumed(&scene.client, 1);
                wait_until("it is queued anew", SOON, || scene.nodes().len() > held.len());
                assert!(!waiter.is_in() && other.is_held(), "{what}");
                other.unlock().unwrap();
            }
            waiter.comes_in();
            let new = subject.await_nodes(&scene.path, subject.nodes_of_one());
            println!("{what}: {old:?} became {new:?}");
            assert!(new.iter().all(|node| !old.contains(node)), "{what}");
            waiter.leaves();
            drop(scene.rival.unlock());
            scene.leaves_nothing(&what);
            assert_eq!(scene.client.stats().sessions, 1, "{what}");
        }
    });
}

#[test]
fn a_directory_deleted_before_the_create_is_made_again() {
    every_subject(|subject| {
        let scene = Scene::start(subject, LONG);
        let create = Part { op: Op::Create, nth: 1, answer: false };
        let mut held = create.is_held_at(&scene);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=3 {
                    assert!(held.wait(SOON), "{}, {round}: {}", subject.name, scene.log());
                    delete_all(scene.path.rsplit_once('/').unwrap().0);
                    let next = create.is_held_at(&scene);
                    held.release();
                    held = next;
                }
                held.release();
            });
            assert!(scene.own.try_lock_for(SOON).unwrap(), "{}: {}", subject.name, scene.log());
        });
        scene.is_alone_until_unlocked("deleted before the create");
    });
}

/// How a connection ends.
type End = (&'static str, fn(&FaultProxy));

const ENDS: [End; 3] = [
    ("cut", FaultProxy::cut),
    ("reset", FaultProxy::reset),
    ("black hole", |proxy| proxy.black_hole(Direction::Both)),
];

#[test]
fn a_waiter_goes_on_by_another_way_and_takes_what_came_free_meanwhile() {
    every_subject_that(Subject::is_plain, |subject| {
        at_once(ENDS, |(end, act)| {
            let what = format!("{}, {end}", subject.name);
            let TwoWays { first, second, client } = TwoWays::start(MEDIUM);
            let scene = Scene::of(subject, first, client);
            scene.rival.lock().unwrap();
            let waiter = Visitor::start(scene.own.clone());
            wait_until("it watches the one ahead", SOON, || scene.proxy.requests(Op::GetData) > 0);
            let before = subject.await_nodes(&scene.path, subject.nodes_with_waiters(1));
            scene.proxy.refuse(true);
            act(&scene.proxy);
            await_resumed(&scene.client, 1);
            // The second way has been of use: a client that no answer reaches gives its session up.
            scene.client.contenders(&scene.path).unwrap();
            assert_eq!(scene.nodes(), before, "{what}: {}", scene.log());
            assert!(!waiter.is_in(), "{what}: beside the holder");
            // No event tells it.
            second.refuse(true);
            act(&second);
            scene.rival.unlock().unwrap();
            scene.proxy.restore();
            waiter.comes_in();
            waiter.leaves();
            scene.leaves_nothing(&what);
            assert_eq!(scene.client.stats().sessions, 1, "{what}: {:?}", scene.client.stats());
        });
    });
}

/// Waits for 1 s for a lock, and comes back knowing nothing.
fn does_not_know(what: &str, lock: &Object) {
    let timeout = Duration::from_secs(1);
    let seen = in_time(what, timeout + SLACK, || lock.try_lock_for(timeout));
    assert!(matches!(seen, Err(Error::Disconnected { .. })), "{what}: {seen:?}");
}

#[test]
fn a_deadline_is_kept_when_the_server_is_paused_killed_or_gone() {
    let server = Server::start().unwrap();
    let session = Duration::from_secs(3);
    let client = client_of(&server.connect_string(), session);
    let at = |subject: Subject| subject.at(&client, &format!("/{}", subject.name));
    let holder = client_of(&server.connect_string(), LONG);
    every_subject(|subject| {
        assert!(at(subject).try_lock_for(SOON).unwrap());
    });
    server.pause().unwrap();
    every_subject(|subject| {
        let what = format!("{}, paused", subject.name);
        does_not_know(&what, &at(subject));
        let tried = in_time(&what, session / 3 + SLACK, || at(subject).try_lock());
        assert!(matches!(tried, Err(Error::Disconnected { .. })), "{what}: {tried:?}");
    });
    server.resume().unwrap();
    // Seen ahead before, but nobody knows at the deadline.
    every_subject(|subject| {
        let object = subject.rival(&holder, &format!("/killed/{}", subject.name));
        assert!(object.try_lock_for(SOON).unwrap());
        std::mem::forget(object);
    });
    let waiting: std::sync::Mutex<Vec<_>> = std::sync::Mutex::default();
    let before = client.stats().waiting;
    every_subject(|subject| {
        let own = subject.at(&client, &format!("/killed/{}", subject.name));
        let (what, patience) = (subject.name, session * 2);
        let call = move || in_time(what, patience + SLACK, || own.try_lock_for(patience));
        waiting.lock().unwrap().push((what, Task::spawn(call)));
    });
    let calls = waiting.into_inner().unwrap();
    wait_until("all wait", SOON, || client.stats().waiting == before + calls.len());
    server.kill().unwrap();
    for (what, call) in calls {
        let seen = call.result(what);
        assert!(matches!(seen, Err(Error::Disconnected { .. })), "{what}, killed: {seen:?}");
    }
    wait_until("the session is given up", SOON, || client.state() == ClientState::Lost);
    every_subject(|subject| {
        does_not_know(&format!("{}, gone", subject.name), &at(subject));
        // A deadline that the clock cannot hold, cancelled.
        let own = at(subject);
        let waits = own.clone();
        let call = Task::spawn(move || waits.try_lock_for(Duration::MAX));
        wait_until("the call is cancelled", SOON, || {
            own.cancel_waiters();
            call.is_done()
        });
        let seen = call.result("cancelled without a server");
        assert!(says(seen, |error| matches!(error, Error::Cancelled { .. })), "{}", subject.name);
    });
}

#[test]
fn a_deadline_is_kept_in_a_black_hole_or_without_a_connection() {
    every_subject(|subject| {
        let ways =
            [Some(Direction::ToServer), Some(Direction::ToClient), Some(Direction::Both), None];
        for direction in ways {
            let what = format!("{}, {direction:?}", subject.name);
            let scene = Scene::start(subject, SESSION);
            match direction {
                Some(direction) => scene.proxy.black_hole(direction),
                None => {
                    scene.proxy.refuse(true);
                    scene.proxy.cut();
                    let suspended = || scene.client.state() == ClientState::Suspended;
                    wait_until("suspended", SOON, suspended);
                    let tried = scene.own.try_lock();
                    assert!(matches!(tried, Err(Error::Disconnected { .. })), "{what}: {tried:?}");
                }
            }
            does_not_know(&what, &scene.own);
            scene.proxy.restore();
            assert!(scene.own.try_lock_for(SOON).unwrap(), "{what}: it comes back");
            scene.is_alone_until_unlocked(&what);
        }
    });
}

#[test]
fn a_deadline_behind_a_holder_is_busy_and_leaves_nothing() {
    every_subject(|subject| {
        let scene = Scene::start(subject, LONG);
        scene.rival.lock().unwrap();
        let held = subject.await_nodes(&scene.path, subject.nodes_of_one());
        let (name, begun) = (subject.name, Instant::now());
        let busy = in_time(name, BRIEFLY + SLACK, || scene.own.try_lock_for(BRIEFLY));
        assert!(matches!(busy, Ok(false)) && begun.elapsed() >= BRIEFLY, "{name}: {busy:?}");
        wait_until("its node is gone", SOON, || scene.nodes() == held);
        assert!(!scene.own.try_lock().unwrap(), "{name}");
        assert!(!scene.own.try_lock_for(Duration::ZERO).unwrap(), "{name}");
        assert!(!scene.own.try_lock_until(Instant::now()).unwrap(), "{name}");
        wait_until("nothing but the holder is there", SOON, || scene.nodes() == held);
        scene.rival.unlock().unwrap();
        assert!(scene.own.try_lock().unwrap(), "{name}");
        scene.is_alone_until_unlocked("busy");
    });
}

/// The last look of a waiter, or the giving back of its place, is not answered in time.
#[test]
fn a_call_that_has_seen_others_ahead_comes_back_in_time_though_the_server_is_silent() {
    const TIMEOUT: Duration = Duration::from_secs(3);
    every_subject_that(Subject::is_plain, |subject| {
        at_once([false, true], |cancel| {
            let what = format!("{}, cancelled: {cancel}", subject.name);
            // A silence is not noticed before the deadline.
            let scene = Scene::start(subject, LONG / 2);
            scene.rival.lock().unwrap();
            let held = subject.await_nodes(&scene.path, subject.nodes_of_one());
            let own = scene.own.clone();
            let timeout = if cancel { SOON } else { TIMEOUT };
            let call = Task::spawn(move || own.try_lock_for(timeout));
            // Who waits for permits watches the directory of those that are out.
            let watches = match subject.shown_as()[0] {
                Kind::Permit => format!("< GetChildren {}/leases", scene.path),
                _ => format!("< GetData {}", scene.path),
            };
            wait_until("it watches what is ahead", SOON, || scene.log().contains(&watches));
            // Its answer comes behind the other.
            scene.client.contenders("/nothing-is-here").unwrap();
            scene.proxy.black_hole(Direction::Both);
            let seen = in_time(&what, TIMEOUT + SLACK, || {
                if cancel {
                    scene.own.cancel_waiters();
                }
                call.result(&what)
            });
            match cancel {
                true => {
                    assert!(says(seen, |error| matches!(error, Error::Cancelled { .. })), "{what}")
                }
                false => assert!(matches!(seen, Ok(false)), "{what}: {seen:?}"),
            }
            scene.proxy.restore();
            wait_until("its place is given back", SOON, || scene.nodes() == held);
            scene.rival.unlock().unwrap();
            scene.leaves_nothing(&what);
        });
    });
}
