//! An outage of the only server, shorter than the sessions.

use std::sync::Mutex;
use std::time::Duration;

use zoolock::HoldState;
use zoolock_test_support::{Server, wait_until};

use common::{SOON, Visitor, await_resumed, client_of, every_subject};

/// The longest session of a test server. It covers a server start on a busy machine.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn restart_of_the_only_server_costs_no_lock_and_no_position() {
    let server = Server::start().unwrap();
    let connect = || client_of(&server.connect_string(), LONG);
    let (ours, others, queues) = (connect(), connect(), Mutex::new(Vec::new()));
    // Reentrant holds belong to their threads, so a visitor has each of them.
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
