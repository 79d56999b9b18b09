//! The overflow of ZooKeeper's sequence numbers, on a server that has reached it. The last regular number is
//! 2147483646. All later nodes get 2147483647 on servers from 3.6 on, except that concurrent creates may get negative
//! numbers. Contention and faults after the overflow are tested by the simulation, in which some directories have
//! reached their last number.

mod order;

use zoolock::{Client, Lock};

use common::*;

/// The number after the last regular one.
const END: i32 = i32::MAX;

/// A directory whose sequence counter is set by the test, on a server that only this binary uses.
struct Stage {
    server: &'static CountingServer,
    probe: Probe,
    path: String,
}

impl Stage {
    /// Creates a directory whose next node has this number. Returns `None` if the test has to be skipped.
    fn new(name: &str, number: i32) -> Option<Stage> {
        let server = CountingServer::shared()?;
        let probe = Probe::connect(server.address()).unwrap();
        let stage = Stage { server, probe, path: fresh_path(name) };
        stage.make(&stage.path, number);
        Some(stage)
    }

    /// Creates a directory whose next node has this number.
    fn make(&self, path: &str, number: i32) {
        self.probe.create_all(path).unwrap();
        self.server.set_counter(path, number).unwrap();
    }

    fn client(&self) -> Client {
        client_of(&self.server.connect_string(), SESSION)
    }

    /// Returns the directory's nodes in the order of their creation.
    fn nodes(&self) -> Vec<String> {
        let listed = self.probe.children(&self.path).unwrap();
        let stat = |node: &String| self.probe.stat(&format!("{}/{node}", self.path)).unwrap();
        let mut nodes: Vec<_> =
            listed.into_iter().filter_map(|node| Some((stat(&node)?.czxid, node))).collect();
        nodes.sort();
        nodes.into_iter().map(|(_, node)| node).collect()
    }

    fn is_left_empty(&self) {
        wait_until("nothing is left", SOON, || self.nodes().is_empty());
    }

    /// Starts a waiter, and waits until its node exists.
    fn queues(&self, lock: impl Into<Box<dyn Lock>>) -> Visitor {
        let before = self.nodes();
        let visitor = Visitor::start(lock);
        wait_until("it is queued", SOON, || self.nodes().iter().any(|node| !before.contains(node)));
        visitor
    }
}

/// Returns the sequence number in the name of a node.
fn number(node: &str) -> i32 {
    let markers = ["lock-", "lease-", "__READ__", "__WRIT__"];
    let numbers = markers.iter().find_map(|marker| node.split_once(marker));
    let (_, number) = numbers.unwrap_or_else(|| panic!("{node}"));
    number.parse().unwrap_or_else(|_| panic!("{node}"))
}
