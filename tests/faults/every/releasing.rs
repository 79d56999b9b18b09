//! Unlocks in the background, unlocks right before the client ends, and unlocks without permission to delete.

use super::*;

/// Operators may allow clients to create nodes but not to delete them.
#[test]
fn refused_delete_is_denied_and_the_node_ends_with_its_session() {
    // READ, WRITE and CREATE, but not DELETE.
    const ACL: [(u32, &str, &str); 1] = [(7, "world", "anyone")];
    every_subject_that(Subject::goes_with_its_unlock, |subject| {
        let what = subject.name;
        let scene = Scene::start(subject, "releasing", LONG);
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
            match subject.queues() {
                true => drop(wait_until("it is gone", SOON, || !probe.exists(directory).unwrap())),
                false => probe.delete(directory).unwrap(),
            }
            probe.create_with_acl(directory, b"", &ACL).unwrap();
        }
        scene.own.lock().unwrap();
        let unlocked = scene.own.unlock();
        println!("{what}: {unlocked:?}");
        let denied = |error: &Error| matches!(error, Error::PermissionDenied { .. });
        match subject.releases_in_the_background() {
            true => unlocked.unwrap(),
            false => assert!(says(unlocked, denied), "{what}"),
        }
        let stays = || {
            let logged = warnings(&scene.path);
            logged.iter().filter(|line| line.contains("stays until the session ends")).count()
        };
        let stuck = subject.nodes_of_one();
        wait_until("it is logged", SOON, || stays() == stuck);
        let nodes = subject.await_nodes(&scene.path, stuck);
        // A later call would have to wait behind the node that was not deleted.
        if subject.is_exclusive() {
            let again = scene.own.lock_within(SOON.into());
            println!("{what}, again: {again:?}");
            let by_it = |error: &Error| matches!(error, Error::PermissionDenied { path, .. } if nodes.contains(path));
            assert!(again.is_err_and(|error| each(error).iter().any(by_it)), "{what}: {nodes:?}");
        }
        assert!(!scene.rival.try_lock().unwrap(), "{what}");
        await_nothing_left(&scene.client);
        // The proxy logs the error of each operation of a transaction.
        let is_refused = |line: &&String| line.contains("< Delete") && line.contains(" error ");
        let tries = scene.proxy.log().iter().filter(is_refused).count();
        println!("{what}: {tries} tries");
        assert_eq!((tries, stays()), (stuck, stuck), "{what}: each is tried and logged once");
        assert_eq!(scene.client.stats().holds_lost, 0, "{what}");
        scene.client.close().unwrap();
        assert_eq!(scene.nodes(), [""; 0], "{what}");
    });
}

/// The deletion by an unlock in the background and the next thread's create are sent in one request.
#[test]
fn background_release_waits_for_no_other_thread() {
    let is_one = |subject: Subject| {
        subject.has_a_first_level()
            && subject.has_a_directory()
            && subject.releases_in_the_background()
    };
    every_subject_that(is_one, |subject| {
        let scene = Scene::start(subject, "turn-background", LONG);
        let first = Visitor::start(scene.own.clone());
        first.comes_in();
        let next = Visitor::start_asleep(scene.own.clone());
        let held = scene.proxy.on(Op::Multi).path_contains(&scene.path).hold_request();
        in_time("unlock", Duration::from_secs(2), || first.leaves());
        assert!(held.wait(SOON), "{}: {}", subject.name, scene.log());
        assert!(!next.is_in(), "{}", subject.name);
        held.release();
        next.comes_in();
        next.leaves();
        subject.await_nodes(&scene.path, 0);
        await_nothing_left(&scene.client);
        assert_eq!(scene.client.stats().holds_lost, 0, "{}", subject.name);
    });
}
