//! Unlocking, whatever becomes of the deletion: until the node is gone, and never somebody else's node.

use zoolock::HoldState;
use zoolock_test_support::Direction;

use super::*;
use common::{answered, await_lost, every_subject, every_subject_that, warnings};

/// The deletion of the last node that one has, which is waited for first.
fn last_delete(scene: &Scene, answer: bool) -> Part {
    Part { op: Op::Delete, nth: scene.subject.nodes_of_one() as u64, answer }
}

/// How a node goes before, or while, its owner unlocks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gone {
    /// By the unlock itself, which does not know.
    Unanswered,
    /// With its session, while there is no connection.
    Suspended,
    /// With its session, while the deletion is on its way and held up.
    Silent,
    /// With its session, while nothing behind its deletion passes.
    HeldUp,
    /// With its session, as the client hears on the next connection.
    Told,
    /// With its directory, so that the next owner's has the same number.
    Deleted,
    /// The same while there is no connection.
    DeletedUnseen,
}

const WAYS: [Gone; 7] = [
    Gone::Unanswered,
    Gone::Suspended,
    Gone::Silent,
    Gone::HeldUp,
    Gone::Told,
    Gone::Deleted,
    Gone::DeletedUnseen,
];

fn leaves_the_next_owners_node_alone(subject: Subject, gone: Gone) {
    let what = format!("{}, {gone:?}", subject.name);
    // The lease outlives whatever the unlocks wait for, but where it has to end.
    let scene = Scene::start(subject, if gone == Gone::HeldUp { SHORT } else { LONG / 2 });
    let (proxy, own, rival) = (&scene.proxy, &scene.own, &scene.rival);
    scene.holds();
    let hold = own.hold();
    let cut_off = || {
        proxy.refuse(true);
        proxy.cut();
        wait_until("it is suspended", SOON, || hold.state() == HoldState::Suspended);
    };
    let expire = || assert_eq!(proxy.expire_sessions().unwrap(), 1, "{what}");
    let rival_locks = || assert!(rival.try_lock_for(SOON).unwrap(), "{what}: {}", scene.log());
    let is_lost = |error: &Error| error.is_lost();
    let mut held_up = None;
    match gone {
        Gone::Unanswered => {
            let lost = last_delete(&scene, true).is_lost_at(&scene, Then::Cut);
            proxy.refuse(true);
            own.unlock().unwrap();
            assert!(lost.wait(SOON), "{what}: {}", scene.log());
            rival_locks();
        }
        Gone::Suspended | Gone::Silent => {
            match gone {
                Gone::Silent => proxy.black_hole(Direction::Both),
                _ => cut_off(),
            }
            expire();
            rival_locks();
            own.unlock().unwrap();
        }
        Gone::HeldUp => {
            held_up = Some(Part { op: Op::Delete, nth: 1, answer: false }.is_held_at(&scene));
            own.unlock().unwrap();
            assert!(held_up.as_ref().unwrap().wait(SOON), "{what}: {}", scene.log());
            rival_locks();
        }
        Gone::Told | Gone::DeletedUnseen => {
            cut_off();
            match gone {
                Gone::Told => expire(),
                _ => delete_all(&scene.path),
            }
            rival_locks();
            proxy.refuse(false);
            await_lost(&hold);
            let unlocked = own.unlock();
            println!("{what}: {unlocked:?}");
            assert!(says(unlocked, is_lost), "{what}");
        }
        Gone::Deleted => {
            delete_all(&scene.path);
            rival_locks();
            let unlocked = own.unlock();
            println!("{what}: {unlocked:?}");
            match unlocked {
                // Counted when the answer comes.
                Ok(()) => assert!(subject.releases_in_the_background(), "{what}"),
                lost => assert!(says(lost, is_lost), "{what}"),
            }
            wait_until("the loss is counted", SOON, || scene.client.stats().holds_lost > 0);
        }
    }
    assert!(!own.is_held() && hold.state() != HoldState::Held, "{what}");
    let next = subject.await_nodes(&scene.path, subject.nodes_of_one());
    if let Some(held_up) = held_up {
        held_up.release();
    }
    proxy.restore();
    wait_until("the client is back", SOON, || scene.client.state() == ClientState::Connected);
    wait_until("nothing is left to delete", 2 * SOON, || scene.client.stats().deleting == 0);
    let stale = own.unlock();
    assert!(
        says(stale, |error| matches!(error, Error::NotHeld { .. })),
        "{what}: one unlock too many"
    );
    let busy = answered(|| own.try_lock());
    assert!(matches!(busy, Ok(false)) && rival.is_held(), "{what}: {busy:?}, {:?}", scene.nodes());
    assert_eq!(scene.nodes(), next, "{what}: {}", scene.log());
    rival.unlock().unwrap();
    assert!(own.try_lock_for(SOON).unwrap(), "{what}");
    scene.is_alone_until_unlocked(&what);
}

#[test]
fn an_unlock_of_a_node_that_is_gone_leaves_the_next_owners_node_alone() {
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        // Who deletes a single node by hand has been told that its owner may delete the next one.
        let ways = WAYS.into_iter().filter(|gone| subject.queues() || *gone != Gone::Deleted);
        at_once(ways, |gone| leaves_the_next_owners_node_alone(subject, gone));
    });
}

#[test]
fn the_end_of_the_client_right_behind_an_unlock_leaves_no_node() {
    every_subject(|subject| {
        for round in 0..5 {
            let scene = Scene::start(subject, LONG);
            scene.own.lock().unwrap();
            scene.own.unlock().unwrap();
            scene.client.close().unwrap();
            assert_eq!(scene.nodes(), [""; 0], "{}, round {round}: closed", subject.name);

            let Scene { path, client, own, proxy: _proxy, .. } = Scene::start(subject, LONG);
            own.lock().unwrap();
            own.unlock().unwrap();
            drop((own, client));
            // Not with its session.
            let what = format!("{}, round {round}: dropped", subject.name);
            wait_until(&what, LONG / 2, || subject.nodes(&path).is_empty());
        }
    });
}

/// Where operators allow to make nodes, but not to delete them.
#[test]
fn a_refused_delete_is_denied_or_said_and_the_node_goes_with_its_session() {
    // READ, WRITE and CREATE, no DELETE.
    const ACL: [(u32, &str, &str); 1] = [(7, "world", "anyone")];
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let what = subject.name;
        let scene = Scene::start(subject, LONG);
        warnings(&scene.path);
        scene.own.lock().unwrap();
        let probe = shared_probe().unwrap();
        let directories: Vec<_> = subject
            .holding(&scene.path)
            .iter()
            .map(|node| node.rsplit_once('/').unwrap().0.to_owned())
            .collect();
        scene.own.unlock().unwrap();
        subject.await_nodes(&scene.path, 0);
        for directory in &directories {
            probe.delete(directory).unwrap();
            probe.create_with_acl(directory, b"", &ACL).unwrap();
        }
        scene.own.lock().unwrap();
        let unlocked = scene.own.unlock();
        println!("{what}: {unlocked:?}");
        let denied = |error: &Error| matches!(error, Error::Denied { .. });
        match subject.releases_in_the_background() {
            true => unlocked.unwrap(),
            false => assert!(says(unlocked, denied), "{what}"),
        }
        let stays = || {
            let logged = warnings(&scene.path);
            logged.iter().filter(|line| line.contains("stays until the session ends")).count()
        };
        let stuck = subject.nodes_of_one();
        wait_until("it is said", SOON, || stays() == stuck);
        let nodes = subject.await_nodes(&scene.path, stuck);
        // Its next one would wait behind the node that nobody will delete.
        if subject.is_exclusive() {
            let again = scene.own.try_lock_for(SOON);
            println!("{what}, again: {again:?}");
            let by_it =
                |error: &Error| matches!(error, Error::Denied { path } if nodes.contains(path));
            assert!(again.is_err_and(|error| each(error).iter().any(by_it)), "{what}: {nodes:?}");
        }
        assert!(!scene.rival.try_lock().unwrap(), "{what}");
        await_nothing_left(&scene.client);
        let is_refused = |line: &&String| line.contains("< Delete") && line.contains(" error ");
        let tries = scene.proxy.log().iter().filter(is_refused).count();
        println!("{what}: {tries} tries");
        wait_until("each is tried once, and said once", SOON, || stays() == tries);
        assert_eq!(scene.client.stats().holds_lost, 0, "{what}");
        scene.client.close().unwrap();
        assert_eq!(scene.nodes(), [""; 0], "{what}");
    });
}
