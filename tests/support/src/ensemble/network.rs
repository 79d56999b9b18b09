//! The connections between the members of an ensemble. Each pair of members has its own proxies.

use std::collections::BTreeSet;
use std::io;
use std::sync::Mutex;

use crate::lock;
use crate::port::ReservedPort;
use crate::proxy::{Direction, FaultProxy, Protocol};

/// The proxies from one member to another: for the quorum, and for elections.
#[derive(Debug)]
struct Wire {
    from: usize,
    to: usize,
    proxies: [FaultProxy; 2],
}

/// The ports and proxies of all members. They survive restarts of the members.
#[derive(Debug)]
pub(crate) struct Network {
    wires: Vec<Wire>,
    /// For each member, the ports on which it listens for the other members: for the quorum, and for elections.
    listeners: Vec<[ReservedPort; 2]>,
    cut_off: Mutex<BTreeSet<usize>>,
}

impl Network {
    pub(crate) fn start(size: usize) -> io::Result<Self> {
        let listen = |_| Ok([ReservedPort::any()?, ReservedPort::any()?]);
        let listeners = (0..size).map(listen).collect::<io::Result<Vec<_>>>()?;
        let mut wires = Vec::new();
        for (from, to) in (0..size).flat_map(|from| (0..size).map(move |to| (from, to))) {
            if from != to {
                let [quorum, election] = listeners[to].each_ref().map(ReservedPort::address);
                let quorum = FaultProxy::speaking(Protocol::Quorum, quorum)?;
                let election = FaultProxy::speaking(Protocol::Election, election)?;
                wires.push(Wire { from, to, proxies: [quorum, election] });
            }
        }
        Ok(Self { wires, listeners, cut_off: Mutex::default() })
    }

    /// Returns the ports by which `member` reaches each member: itself directly, and the others through proxies.
    pub(crate) fn seen_by(&self, member: usize) -> Vec<[u16; 2]> {
        let seen = |to: usize| {
            let mut wires = self.wires.iter();
            let addresses = match wires.find(|wire| (wire.from, wire.to) == (member, to)) {
                Some(wire) => wire.proxies.each_ref().map(FaultProxy::address),
                None => self.listeners[to].each_ref().map(ReservedPort::address),
            };
            addresses.map(|address| address.port())
        };
        (0..self.listeners.len()).map(seen).collect()
    }

    pub(crate) fn cut_off(&self, member: usize) {
        let mut cut_off = lock(&self.cut_off);
        cut_off.insert(member);
        for proxy in self.touching(&BTreeSet::from([member])) {
            proxy.black_hole(Direction::Both);
        }
    }

    pub(crate) fn is_cut_off(&self, member: usize) -> bool {
        lock(&self.cut_off).contains(&member)
    }

    /// Ends all black holes. Data that were held back are lost, as after a long network failure.
    pub(crate) fn heal(&self) {
        let mut cut_off = lock(&self.cut_off);
        for proxy in self.touching(&cut_off) {
            proxy.cut();
            proxy.restore();
        }
        cut_off.clear();
    }

    fn touching(&self, members: &BTreeSet<usize>) -> impl Iterator<Item = &FaultProxy> {
        let touches = |wire: &&Wire| members.contains(&wire.from) || members.contains(&wire.to);
        self.wires.iter().filter(touches).flat_map(|wire| &wire.proxies)
    }
}
