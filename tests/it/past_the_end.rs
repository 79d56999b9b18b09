//! Past the end of ZooKeeper's sequence numbers, on a server that has really got there. The number
//! of the last normal node is 2147483646; then a server from 3.6 on gives 2147483647 for ever, or
//! negative ones to creates that are under way together, and older servers go on from -2147483648.

mod crowds;
mod empty;
mod faults;
mod members;
mod moving;
mod order;
mod outside;
mod permits;
mod vanishing;
mod wrapped;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolock::crossbeam_channel::{Sender, bounded};
use zoolock::{Client, DistributedLock, Hold, Lock};
use zoolock_test_support::{CountingServer, FaultProxy, Probe, fresh_path, wait_until};

use crate::util::{SESSION, SOON, Task, client_of};

/// The number after the last normal one.
const END: i32 = i32::MAX;

/// A directory whose numbers are set, on a server of which only this module knows.
struct Stage {
    server: &'static CountingServer,
    probe: Probe,
    path: String,
}

impl Stage {
    /// The next node gets this number. None when the test is to be skipped.
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

    /// A directory below, with its own numbers.
    fn part(&self, name: &str, number: i32) -> String {
        let part = format!("{}/{name}", self.path);
        self.probe.create_all(&part).unwrap();
        self.server.set_counter(&part, number).unwrap();
        part
    }

    fn client(&self) -> Client {
        client_of(&self.server.connect_string(), SESSION)
    }

    fn proxy(&self) -> FaultProxy {
        FaultProxy::start(self.server.address()).unwrap()
    }

    fn lock(&self, client: &Client) -> DistributedLock {
        DistributedLock::new(client, &self.path).unwrap()
    }

    /// The nodes, in the order in which they were made.
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

    /// Starts somebody who waits, and returns when the node is there.
    fn queues(&self, list: &Granted, name: &'static str, lock: impl Lock + 'static) -> Visitor {
        let before = self.nodes();
        let visitor = Visitor::start(list, name, lock);
        wait_until(&format!("{name} is queued"), SOON, || {
            self.nodes().iter().any(|node| !before.contains(node))
        });
        visitor
    }

    fn delete(&self, node: &str) {
        self.probe.delete(&format!("{}/{node}", self.path)).unwrap();
    }
}

fn nodes(probe: &Probe, path: &str) -> Vec<String> {
    let listed = match probe.exists(path).unwrap() {
        true => probe.children(path).unwrap(),
        false => Vec::new(),
    };
    let stat = |node: &String| probe.stat(&format!("{path}/{node}")).unwrap();
    let mut nodes: Vec<_> = listed
        .into_iter()
        .filter_map(|node| Some((stat(&node)?.czxid, node)))
        .collect();
    nodes.sort();
    nodes.into_iter().map(|(_, node)| node).collect()
}

/// What the server has put behind the name.
fn number(node: &str) -> i32 {
    let markers = ["lock-", "lease-", "__READ__", "__WRIT__"];
    let numbers = markers.iter().find_map(|marker| node.split_once(marker));
    let (_, number) = numbers.unwrap_or_else(|| panic!("{node}"));
    number.parse().unwrap_or_else(|_| panic!("{node}"))
}

fn numbers(nodes: &[String]) -> Vec<i32> {
    nodes.iter().map(|node| number(node)).collect()
}

fn token_of(hold: &Hold) -> u64 {
    hold.fencing_token().unwrap()
}

/// Who was granted, in this order.
type Granted = Arc<Mutex<Vec<&'static str>>>;

/// Somebody who waits for a lock, stays inside until told to leave, and unlocks.
struct Visitor {
    inside: Arc<AtomicBool>,
    leave: Sender<()>,
    visit: Task<zoolock::Result<()>>,
}

impl Visitor {
    fn start(list: &Granted, name: &'static str, lock: impl Lock + 'static) -> Visitor {
        let (inside, list) = (Arc::new(AtomicBool::new(false)), Arc::clone(list));
        let (leave, told) = bounded(1);
        let is_in = Arc::clone(&inside);
        let visit = Task::spawn(move || {
            lock.lock()?;
            list.lock().unwrap().push(name);
            is_in.store(true, Ordering::SeqCst);
            let _ = told.recv();
            is_in.store(false, Ordering::SeqCst);
            lock.unlock()
        });
        Visitor {
            inside,
            leave,
            visit,
        }
    }

    fn is_in(&self) -> bool {
        self.inside.load(Ordering::SeqCst)
    }

    #[track_caller]
    fn comes_in(&self) {
        wait_until("the visitor is inside", SOON, || self.is_in());
    }

    /// Was inside, and has unlocked when this returns.
    #[track_caller]
    fn leaves(self) {
        assert!(self.is_in(), "it leaves without having come in");
        self.leave.send(()).unwrap();
        self.visit.result("a visitor").unwrap();
    }
}

/// Lets visitors in one after another, never two; they have come in this order.
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

/// Until the hold has ended, by loss.
fn await_lost(hold: &Hold, within: Duration) {
    let ended = hold.lost().recv_timeout(within);
    assert!(
        ended.is_err_and(|error| error.is_disconnected()),
        "{hold:?}"
    );
}
