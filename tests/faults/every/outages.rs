//! Outages of the server.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use zoolock::{Client, Hold, HoldState, Lock};
use zoolock_test_support::{Probe, Server, wait_until};

use super::tree;
use common::{Object, SOON, Subject, Visitor, client_of, every_subject};

/// The longest session of a test server. It covers a server start on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A lock that is held and waited for, on its own server.
struct Queue {
    clients: Vec<Client>,
    path: String,
    holder: Visitor,
    hold: Hold,
    waiters: Vec<Visitor>,
    before: (String, u64, Vec<(String, u64)>),
}

/// A visitor that holds on its own thread, which alone may see the hold.
fn holding(own: &Object) -> (Visitor, Hold) {
    let (say, hold) = zoolock::crossbeam_channel::bounded(1);
    let (lock, own): (Box<dyn Lock>, Object) = (own.clone().into(), own.clone());
    let holder = Visitor::start_telling(lock, move || say.send(own.hold()).unwrap());
    (holder, hold.recv_timeout(SOON).expect("it is held"))
}

impl Queue {
    fn start(subject: Subject, server: &Server) -> Queue {
        let mut clients = vec![client_of(&server.connect_string(), LONG)];
        let probe = Probe::connect(server.address()).unwrap();
        let path = subject.path_in("/queues");
        let own = subject.at(&clients[0], &path);
        let (holder, hold) = holding(&own);
        let count = || tree(&probe, &path).iter().filter(|(node, _)| is_of_one(node)).count();
        let waiters = (0..if subject.queues() { 3 } else { 1 })
            .map(|number| {
                let client = client_of(&server.connect_string(), LONG);
                let waiter = Visitor::start(subject.rival(&client, &path));
                let expected = subject.nodes_with_waiters(number + 1);
                wait_until("it is queued", SOON, || {
                    client.stats().waiting == 1 && count() == expected
                });
                clients.push(client);
                waiter
            })
            .collect();
        let before = (hold.node(), hold.fencing_token(), tree(&probe, &path));
        Queue { clients, path, holder, hold, waiters, before }
    }

    fn goes_on(self, server: &Server) {
        let probe = Probe::connect(server.address()).unwrap();
        let (path, hold) = (self.path, self.hold);
        wait_until("it is held and not suspended", SOON, || {
            assert!(hold.is_held(), "{path}");
            hold.state() == HoldState::Held
        });
        let now = (hold.node(), hold.fencing_token(), tree(&probe, &path));
        assert_eq!(now, self.before, "{path}");
        assert!(!self.waiters.iter().any(Visitor::is_in), "{path}");
        self.holder.leaves();
        let mut waiters = self.waiters.into_iter().peekable();
        while let Some(waiter) = waiters.next() {
            waiter.comes_in();
            assert!(!waiters.peek().is_some_and(Visitor::is_in), "{path}: two are in");
            waiter.leaves();
        }
        for stats in self.clients.iter().map(Client::stats) {
            assert_eq!((stats.sessions, stats.holds_lost), (1, 0), "{path}: {stats:?}");
        }
    }
}

/// Excludes directories. A single node is at the path of its lock.
fn is_of_one(node: &str) -> bool {
    node.contains("_c_") || node.contains("singlenode")
}

#[test]
fn restart_of_the_only_server_costs_no_lock_and_no_position() {
    let server = Server::start().unwrap();
    let queues = Mutex::new(HashMap::new());
    every_subject(|subject| {
        let queue = Queue::start(subject, &server);
        queues.lock().unwrap().insert(subject.name, queue);
    });
    server.restart().unwrap();
    every_subject(|subject| {
        let queue = queues.lock().unwrap().remove(subject.name).expect("its queue");
        queue.goes_on(&server);
    });
}
