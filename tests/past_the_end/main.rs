//! Past the end of ZooKeeper's sequence numbers, on a server that has reached it. The last normal node has
//! the number 2147483646. After it, servers from 3.6 on give 2147483647 for ever, or negative numbers to
//! concurrent creates. Crowds and faults past the end are left to the simulation, where some directories have
//! reached their last numbers.

mod order;

use std::sync::{Arc, Mutex};

use zoolock::{Client, DistributedLock, Lock};
use zoolock_test_support::{CountingServer, Probe, fresh_path, wait_until};

use common::{SESSION, SOON, Visitor, client_of};

/// The number after the last normal one.
const END: i32 = i32::MAX;

/// A directory with a chosen counter, on a server for this binary alone.
struct Stage {
    server: &'static CountingServer,
    probe: Probe,
    path: String,
}

impl Stage {
    /// Sets the number of the next node. Returns `None` when the test is to be skipped.
    fn new(name: &str, number: i32) -> Option<Stage> {
        let server = CountingServer::shared()?;
        let stage = Stage {
            server,
            probe: Probe::connect(server.address()).unwrap(),
            path: fresh_path(name),
        };
        stage.probe.create_all(&stage.path).unwrap();
        stage.set(number);
        Some(stage)
    }

    fn set(&self, number: i32) {
        self.server.set_counter(&self.path, number).unwrap();
    }

    /// A subdirectory with its own counter.
    fn part(&self, name: &str, number: i32) -> String {
        let part = format!("{}/{name}", self.path);
        self.probe.create_all(&part).unwrap();
        self.server.set_counter(&part, number).unwrap();
        part
    }

    fn client(&self) -> Client {
        client_of(&self.server.connect_string(), SESSION)
    }

    fn lock(&self, client: &Client) -> DistributedLock {
        DistributedLock::new(client, &self.path).unwrap()
    }

    /// The nodes in creation order.
    fn nodes(&self) -> Vec<String> {
        nodes(&self.probe, &self.path)
    }

    fn await_nodes(&self, count: usize) -> Vec<String> {
        let mut nodes = Vec::new();
        wait_until(&format!("{count} nodes"), SOON, || {
            nodes = self.nodes();
            nodes.len() == count
        });
        nodes
    }

    /// Starts a waiter, and returns when its node exists.
    fn queues(&self, list: &Granted, name: &'static str, lock: impl Lock + 'static) -> Visitor {
        let before = self.nodes();
        let list = Arc::clone(list);
        let visitor = Visitor::start_telling(lock, move || list.lock().unwrap().push(name));
        wait_until(&format!("{name} is queued"), SOON, || {
            self.nodes().iter().any(|node| !before.contains(node))
        });
        visitor
    }
}

fn nodes(probe: &Probe, path: &str) -> Vec<String> {
    let listed = probe.children(path).unwrap();
    let stat = |node: &String| probe.stat(&format!("{path}/{node}")).unwrap();
    let mut nodes: Vec<_> =
        listed.into_iter().filter_map(|node| Some((stat(&node)?.czxid, node))).collect();
    nodes.sort();
    nodes.into_iter().map(|(_, node)| node).collect()
}

/// The number that the server appended.
fn number(node: &str) -> i32 {
    let markers = ["lock-", "lease-", "__READ__", "__WRIT__"];
    let numbers = markers.iter().find_map(|marker| node.split_once(marker));
    let (_, number) = numbers.unwrap_or_else(|| panic!("{node}"));
    number.parse().unwrap_or_else(|_| panic!("{node}"))
}

fn numbers(nodes: &[String]) -> Vec<i32> {
    nodes.iter().map(|node| number(node)).collect()
}

/// Visitors in the order of their grants.
type Granted = Arc<Mutex<Vec<&'static str>>>;

/// Lets the visitors enter one after another, in the order in which they queued.
#[track_caller]
fn come_in_one_by_one(mut visitors: Vec<(Visitor, &'static str)>, list: &Granted) {
    let names: Vec<_> = visitors.iter().map(|(_, name)| *name).collect();
    while !visitors.is_empty() {
        let (first, name) = visitors.remove(0);
        first.comes_in();
        let others: Vec<_> = visitors.iter().filter(|(other, _)| other.is_in()).collect();
        assert!(others.is_empty(), "beside {name}: {:?}", list.lock());
        first.leaves();
    }
    let granted = list.lock().unwrap().clone();
    println!("granted: {granted:?}");
    assert_eq!(granted, names);
}
