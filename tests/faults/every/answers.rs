//! Requests of a call, or answers to them, that are lost or come late.

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
