//! Requests of a call, or answers to them, that are lost, come late, or belong to others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use zoolock_test_support::Direction;

use super::*;
use common::{BRIEFLY, TwoWays, every_subject, every_subject_that};

/// A rival that came behind the first create stays behind: its node is found, not made again.
fn locks_though_it_is_lost(subject: Subject, part: Part, then: Then) {
    let what = format!("{part:?} lost, then {then:?}");
    let scene = Scene::start(subject, MEDIUM);
    let lost = part.is_lost_at(&scene, then);
    let has_a_place = part.answer || (part.op, part.nth) != (Op::Create, 1);
    // It keeps the connection that it has, and gets no other before the rival is there.
    scene.proxy.refuse(true);
    let behind = thread::scope(|scope| {
        let behind = scope.spawn(|| {
            assert!(lost.wait(SOON), "{what}: {}", scene.log());
            let behind = has_a_place.then(|| scene.rival_behind());
            scene.proxy.refuse(false);
            behind
        });
        scene.own.lock().unwrap();
        behind.join().unwrap()
    });
    if let Some(behind) = behind {
        assert!(!behind.is_in(), "{}, {what}: the rival is in beside it", subject.name);
        scene.rival.cancel_waiters();
        assert!(says(behind.result(), |error| matches!(error, Error::Cancelled { .. })));
    }
    scene.is_alone_until_unlocked(&what);
    let stats = scene.client.stats();
    assert_eq!((stats.sessions, stats.holds_lost), (1, 0), "{what}: {stats:?}");
}

#[test]
fn a_call_that_loses_any_request_or_answer_by_a_cut_has_one_node_in_its_place() {
    every_subject(|subject| {
        for part in Part::all_of(subject, |own| own.lock().unwrap()) {
            locks_though_it_is_lost(subject, part, Then::Cut);
        }
    });
}

#[test]
fn a_call_that_loses_any_request_or_answer_by_silence_has_one_node_in_its_place() {
    every_subject_that(Subject::is_plain, |subject| {
        let parts = Part::all_of(subject, |own| own.lock().unwrap());
        at_once(parts, |part| locks_though_it_is_lost(subject, part, Then::Hold));
    });
}

#[test]
fn several_that_are_lost_in_a_row_leave_exactly_one_node() {
    every_subject(|subject| {
        let scene = Scene::start(subject, MEDIUM);
        let part = |op, nth, answer| Part { op, nth, answer }.is_lost_at(&scene, Then::Cut);
        let creates = [(1, false), (2, false), (3, true)];
        let creates = creates.map(|(nth, answer)| part(Op::Create, nth, answer));
        // One that was sent behind a lost create has no answer to lose.
        let lists = (1..=3).map(|nth| part(Op::GetChildren, nth, true));
        let lists: Vec<_> = lists.filter(|_| subject.queues()).collect();
        assert!(scene.own.try_lock_for(SOON).unwrap());
        let log = scene.log();
        assert!(creates.iter().all(Rule::fired), "{}: {log}", subject.name);
        assert!(!subject.queues() || lists.iter().any(Rule::fired), "{}: {log}", subject.name);
        scene.is_alone_until_unlocked("several lost");
    });
}

fn tries_though_it_is_lost(subject: Subject, part: Part, then: Then) {
    let what = format!("{part:?} lost, then {then:?}");
    let scene = Scene::start(subject, SHORT);
    let lost = part.is_lost_at(&scene, then);
    let seen = scene.own.try_lock();
    println!("{}, {what}: {seen:?}", subject.name);
    assert!(lost.fired(), "{what}: {}", scene.log());
    match &seen {
        // All that it had to know was known before.
        Ok(true) if part.op == Op::Delete => scene.own.unlock().unwrap(),
        Err(Error::Disconnected { path }) if path.starts_with(&scene.path) => {}
        _ => panic!("{}, {what}: {seen:?}", subject.name),
    }
    scene.leaves_nothing(&what);
    assert!(scene.own.try_lock_for(SOON).unwrap());
    scene.is_alone_until_unlocked(&what);
}

#[test]
fn a_try_that_loses_any_request_or_answer_does_not_know_and_leaves_nothing() {
    every_subject(|subject| {
        let parts = Part::all_of(subject, |own| assert!(own.try_lock().unwrap()));
        for part in &parts {
            tries_though_it_is_lost(subject, *part, Then::Cut);
        }
        if subject.is_plain() {
            at_once(parts, |part| tries_though_it_is_lost(subject, part, Then::Hold));
        }
    });
}

/// Why a call does not wait any longer, and what becomes of what it was waiting for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Deadline,
    Cancel,
    CancelAndCut,
    Close,
}

fn gives_up(subject: Subject, part: Part, end: End) {
    let what = format!("{part:?} held, {end:?}");
    let scene = Scene::start(subject, if end == End::CancelAndCut { SHORT } else { MEDIUM });
    let held = part.is_held_at(&scene);
    let seen = thread::scope(|scope| {
        scope.spawn(|| {
            assert!(held.wait(SOON), "{what}: {}", scene.log());
            match end {
                End::Deadline => {}
                End::Cancel | End::CancelAndCut => scene.own.cancel_waiters(),
                // Says what became of those who are in.
                End::Close => drop(scene.client.close()),
            }
        });
        let seen = match end {
            End::Deadline => scene.own.try_lock_for(BRIEFLY),
            _ => scene.own.lock().map(|()| true),
        };
        assert!(held.wait(SOON), "{what}: {}", scene.log());
        match end {
            End::CancelAndCut => scene.proxy.cut(),
            _ => held.release(),
        }
        seen
    });
    println!("{}, {what}: {seen:?}", subject.name);
    let is_told = |error: &Error| match end {
        End::Deadline => matches!(error, Error::Disconnected { .. }),
        End::Cancel | End::CancelAndCut => matches!(error, Error::Cancelled { .. }),
        // What several have taken before is lost by it.
        End::Close => matches!(error, Error::Closed),
    };
    match seen {
        // Its turn only was still to be given back.
        Ok(true) if part.op == Op::Delete => drop(scene.own.unlock()),
        Err(error) if each(error.clone()).iter().any(is_told) => {}
        seen => panic!("{}, {what}: {seen:?}", subject.name),
    }
    if end == End::Close {
        subject.await_nodes(&scene.path, 0);
        return;
    }
    scene.leaves_nothing(&what);
    assert!(scene.own.try_lock_for(SOON).unwrap(), "{what}");
    scene.is_alone_until_unlocked(&what);
    assert!(end == End::CancelAndCut || scene.client.stats().sessions == 1, "{what}");
}

#[test]
fn a_call_that_is_given_up_at_any_request_or_answer_leaves_nothing() {
    every_subject(|subject| {
        let parts = Part::all_of(subject, |own| own.lock().unwrap());
        for part in &parts {
            for end in [End::Deadline, End::Cancel, End::Close] {
                gives_up(subject, *part, end);
            }
        }
        if subject.is_plain() {
            at_once(parts, |part| gives_up(subject, part, End::CancelAndCut));
        }
    });
}

#[test]
fn nothing_of_an_expired_session_is_adopted() {
    every_subject_that(Subject::is_plain, |subject| {
        let scene = Scene::start(subject, SHORT);
        // The create gets through, its answer does not.
        scene.proxy.black_hole(Direction::ToClient);
        let is_in = AtomicBool::new(false);
        let old = thread::scope(|scope| {
            let old = scope.spawn(|| {
                let old = stat(&subject.await_nodes(&scene.path, 1)[0]).ephemeral_owner;
                scene.proxy.black_hole(Direction::Both);
                subject.await_nodes(&scene.path, 0);
                assert!(!is_in.load(Ordering::SeqCst), "it was never told that it has the lock");
                // Now the old answer comes, too.
                scene.proxy.restore();
                old
            });
            scene.own.lock().unwrap();
            is_in.store(true, Ordering::SeqCst);
            old.join().unwrap()
        });
        let nodes = subject.await_nodes(&scene.path, subject.nodes_of_one());
        for node in nodes {
            let new = stat(&node).ephemeral_owner;
            println!("{}: {node} of {new:#x}, before of {old:#x}", subject.name);
            assert!(new != old && new != 0);
        }
        scene.is_alone_until_unlocked("expired");
    });
}

#[test]
fn a_lost_create_is_found_by_way_of_another_server_and_only_while_its_session_lives() {
    every_subject_that(Subject::is_plain, |subject| {
        // A single node is its owner's with the answer that shows it: nothing is asked behind that.
        let expired = subject.queues().then_some(true);
        at_once(expired.into_iter().chain([false]), |expired| {
            let what = format!("{}, expired: {expired}", subject.name);
            let TwoWays { first, second, client } = TwoWays::start(LONG);
            let scene = Scene::of(subject, first, client);
            second.refuse(true);
            let lost = Part { op: Op::Create, nth: 1, answer: true }.is_lost_at(&scene, Then::Hold);
            let look = if subject.queues() { Op::GetChildren } else { Op::GetData };
            let look = second.on(look).path_contains(&scene.path).hold_answer();
            let own = Visitor::start(scene.own.clone());
            assert!(lost.wait(SOON), "{what}: {}", scene.log());
            let old = scene.nodes().remove(0);
            let made = stat(&old).czxid;
            scene.proxy.refuse(true);
            scene.proxy.cut();
            second.refuse(false);
            assert!(look.wait(SOON), "{what}, it is looked for: {:#?}", second.log());
            if expired {
                scene.proxy.expire_sessions().unwrap();
                assert_eq!(scene.nodes(), [""; 0], "{what}");
                scene.rival.lock().unwrap();
            }
            // If its session has ended, then its connection ends right behind it.
            look.release();
            if expired {
                wait_until("it has a new session", SOON, || scene.client.stats().sessions == 2);
                assert!(!own.is_in(), "{what}: beside the rival");
                scene.rival.unlock().unwrap();
            }
            own.comes_in();
            // A turn is gone by then.
            if !(subject.queues() && subject.is_let_in_by_a_write()) {
                let new = stat(&scene.nodes()[0]).czxid;
                assert_eq!(new == made, !expired, "{what}: {old}, {:?}", scene.nodes());
            }
            own.leaves();
            scene.leaves_nothing(&what);
            assert_eq!(scene.client.stats().sessions, if expired { 2 } else { 1 }, "{what}");
        });
    });
}

/// Who has waited for more than half of the session timeout has too little left of its lease, and
/// has it renewed before it is let in.
#[test]
fn a_grant_that_is_given_up_while_its_lease_is_renewed_leaves_nothing() {
    const T: Duration = Duration::from_secs(12);
    every_subject_that(
        |subject| subject.is_plain() && !subject.is_let_in_by_a_write(),
        |subject| {
            at_once([End::Cancel, End::Deadline], |end| {
                let scene = Scene::start(subject, T);
                scene.rival.lock().unwrap();
                let begun = Instant::now();
                let own = scene.own.clone();
                let waiting = common::Task::spawn(move || match end {
                    End::Deadline => own.try_lock_until(begun + T * 11 / 12),
                    _ => own.lock().map(|()| true),
                });
                wait_until("it has waited for long", SOON, || begun.elapsed() > T * 7 / 12);
                let beat = scene.proxy.on(Op::SetData).path_contains("no-such-node").hold_answer();
                scene.rival.unlock().unwrap();
                assert!(beat.wait(SOON), "{}", scene.log());
                assert!(!waiting.is_done() && !scene.own.is_held());
                if end == End::Cancel {
                    scene.own.cancel_waiters();
                }
                let seen = waiting.result("the waiter");
                println!("{}, {end:?}: {seen:?}", subject.name);
                match end {
                    // It was behind somebody else for nearly all of its time.
                    End::Deadline => assert!(matches!(seen, Ok(false)), "{seen:?}"),
                    _ => assert!(says(seen, |error| matches!(error, Error::Cancelled { .. }))),
                }
                beat.release();
                scene.leaves_nothing("given up at the grant");
            });
        },
    );
}

/// Of two creates the answer to the first is lost; that to the second could be taken for it.
#[test]
fn an_answer_that_belongs_to_another_create_grants_nothing() {
    every_subject(|subject| {
        let scene = Scene::start(subject, LONG);
        let behind = client();
        // Of another lock, which is free.
        let path = format!("{}-free", scene.path);
        let other = subject.rival(&behind, &path);
        other.lock().unwrap();
        other.unlock().unwrap();
        scene.rival.lock().unwrap();
        let lost = Part { op: Op::Create, nth: 1, answer: true }.is_lost_at(&scene, Then::Continue);
        let taken = Visitor::start(scene.own.clone());
        assert!(lost.wait(SOON), "{}", scene.log());
        let begun = Instant::now();
        let free = subject.at(&scene.client, &path);
        assert!(free.try_lock_for(SOON).unwrap(), "{}: {}", subject.name, scene.log());
        println!(
            "{}: locked after {:?}, {:?}",
            subject.name,
            begun.elapsed(),
            scene.client.stats()
        );
        // Sooner than a silence would be noticed.
        assert!(begun.elapsed() < LONG / 3 && scene.client.stats().connections == 2);
        assert!(!taken.is_in(), "{}: two hold {}", subject.name, scene.path);
        let busy = other.try_lock();
        assert!(matches!(busy, Ok(false)), "{}: {busy:?}", subject.name);
        free.unlock().unwrap();
        scene.rival.unlock().unwrap();
        taken.comes_in();
        taken.leaves();
        assert!(scene.rival.try_lock_for(SOON).unwrap());
        subject.await_nodes(&scene.path, subject.nodes_of_one());
    });
}
