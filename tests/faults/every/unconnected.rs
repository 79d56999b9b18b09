//! Calls that wait for the lock but give up soon if there is no connection, and calls that wait for a connection.

use std::sync::Mutex;

use zoolock::{ClientState, HoldState, Wait};

use super::*;

/// How long the calls in this file wait without a connection.
const BRIEF: Duration = Duration::from_millis(300);

fn is_disconnected(error: &Error) -> bool {
    matches!(error, Error::Disconnected { .. })
}

fn await_suspended(scene: &Scene) {
    let left = || scene.client.state() != ClientState::Connected;
    wait_until("it has no connection", SOON, left);
}

#[test]
fn wait_ends_after_its_time_without_a_connection() {
    every_subject(|subject| {
        // If a create receives no answer, the client searches for the node for up to a session timeout.
        let scene = Scene::start(subject, "unconnected", SESSION);
        scene.rival.lock().unwrap();
        let asks = [Wait::FOREVER, Wait::within(LONG)].map(|wait| wait.for_connection(BRIEF));
        // One of the calls waits on the servers. The others wait on the servers as well, or behind it in the process.
        let waiting = asks.each_ref().map(|wait| {
            let (own, ask) = (scene.own.clone(), Ask::Within(wait.clone()));
            Task::spawn_blocked(move || own.enter(&ask))
        });
        let patient = scene.own.clone();
        let patient = Task::spawn_blocked(move || patient.lock().and_then(|()| patient.unlock()));
        let queued = || in_use(&scene.client.stats()) > 0;
        wait_until("a call waits on the servers", SOON, queued);
        scene.proxy.cut_off();
        for (wait, waiting) in asks.iter().zip(&waiting) {
            let ended = waiting.result("a call without a connection");
            assert!(says(ended, is_disconnected), "{}: {wait:?}", subject.name);
        }
        await_suspended(&scene);
        for limit in [Duration::ZERO, BRIEF] {
            let wait = Wait::FOREVER.for_connection(limit);
            let ended = scene.own.guard(&Ask::Within(wait)).map(|guard| guard.is_some());
            assert!(says(ended, is_disconnected), "{}: {limit:?}", subject.name);
        }
        assert!(!patient.is_done(), "{}", subject.name);
        scene.proxy.restore();
        scene.rival.unlock().unwrap();
        patient.result("the call that waits for a connection").unwrap();
        // While there is a connection, the limit has no effect.
        let wait = Wait::within(SOON).for_connection(Duration::ZERO);
        wait_until("it is connected", SOON, || scene.client.state() == ClientState::Connected);
        assert!(scene.own.enter(&Ask::Within(wait)).unwrap(), "{}", subject.name);
        scene.own.unlock().unwrap();
        scene.leaves_nothing("calls that did not wait for a connection");
    });
}

#[test]
fn restart_of_the_only_server_costs_no_lock_and_no_position() {
    let server = Server::start().unwrap();
    let connect = || client_of(&server.connect_string(), LONG);
    let (ours, others, queues) = (connect(), connect(), Mutex::new(Vec::new()));
    // Reentrant holds belong to a thread, so each of them needs a visitor with its own thread.
    every_subject(|subject| {
        let path = subject.path_in("/queues");
        let holder = Visitor::start(subject.at(&ours, &path));
        let hold = holder.hold();
        let waiter = Visitor::start_asleep(subject.rival(&others, &path));
        queues.lock().unwrap().push((path, holder, hold.node(), hold, waiter));
    });
    server.restart().unwrap();
    for client in [&ours, &others] {
        await_resumed(client, 1);
    }
    for (path, holder, node, hold, waiter) in queues.into_inner().unwrap() {
        wait_until(&path, SOON, || hold.state() == HoldState::Held);
        assert!(hold.node() == node && !waiter.is_in(), "{path}: {hold:?}");
        holder.leaves();
        waiter.comes_in();
        waiter.leaves();
    }
    for stats in [ours.stats(), others.stats()] {
        assert_eq!((stats.sessions, stats.holds_lost), (1, 0), "{stats:?}");
    }
}
