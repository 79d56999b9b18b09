//! The connections between the members of an ensemble. Each pair has its own proxies.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::port::ReservedPort;
use crate::proxy::{Direction, FaultProxy, Protocol};
use crate::server::config::MemberPorts;

/// The ports on which a member listens for the others.
#[derive(Debug)]
struct Ears {
    quorum: ReservedPort,
    election: ReservedPort,
}

/// The proxies from one member to another.
#[derive(Debug)]
struct Wire {
    from: usize,
    to: usize,
    quorum: FaultProxy,
    election: FaultProxy,
}

impl Wire {
    fn touches(&self, members: &BTreeSet<usize>) -> bool {
        members.contains(&self.from) || members.contains(&self.to)
    }

    fn proxies(&self) -> [&FaultProxy; 2] {
        [&self.quorum, &self.election]
    }
}

/// The ports and wires of all members, which stay the same over their restarts.
#[derive(Debug)]
pub(crate) struct Network {
    wires: Vec<Wire>,
    ears: Vec<Ears>,
    cut_off: Mutex<BTreeSet<usize>>,
}

impl Network {
    pub(crate) fn start(size: usize) -> io::Result<Self> {
        let ears = (0..size).map(|_| listen()).collect::<io::Result<Vec<_>>>()?;
        let pairs = (0..size).flat_map(|from| (0..size).map(move |to| (from, to)));
        let wires = pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| connect(from, to, &ears[to]))
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Self { wires, ears, cut_off: Mutex::default() })
    }

    /// Returns the addresses at which `member` reaches each member: itself directly, the others
    /// through its proxies.
    pub(crate) fn seen_by(&self, member: usize) -> Vec<MemberPorts> {
        let seen = |to: usize| {
            let wire = |wire: &&Wire| (wire.from, wire.to) == (member, to);
            match self.wires.iter().find(wire) {
                Some(wire) => MemberPorts {
                    quorum: wire.quorum.address().port(),
                    election: wire.election.address().port(),
                },
                None => MemberPorts {
                    quorum: self.ears[to].quorum.address().port(),
                    election: self.ears[to].election.address().port(),
                },
            }
        };
        (0..self.ears.len()).map(seen).collect()
    }

    pub(crate) fn cut_off(&self, member: usize) {
        let mut cut_off = self.isolated();
        cut_off.insert(member);
        for proxy in self.touching(&BTreeSet::from([member])) {
            proxy.black_hole(Direction::Both);
        }
    }

    pub(crate) fn is_cut_off(&self, member: usize) -> bool {
        self.isolated().contains(&member)
    }

    /// Bytes that were held back are lost, as after a long failure of the network.
    pub(crate) fn heal(&self) {
        let mut cut_off = self.isolated();
        for proxy in self.touching(&cut_off) {
            proxy.cut();
            proxy.restore();
        }
        cut_off.clear();
    }

    fn touching(&self, members: &BTreeSet<usize>) -> impl Iterator<Item = &FaultProxy> {
        let wires = self.wires.iter().filter(|wire| wire.touches(members));
        wires.flat_map(Wire::proxies)
    }

    fn isolated(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.cut_off.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn listen() -> io::Result<Ears> {
    Ok(Ears { quorum: ReservedPort::any()?, election: ReservedPort::any()? })
}

fn connect(from: usize, to: usize, ears: &Ears) -> io::Result<Wire> {
    Ok(Wire {
        from,
        to,
        quorum: FaultProxy::speaking(Protocol::Quorum, ears.quorum.address())?,
        election: FaultProxy::speaking(Protocol::Election, ears.election.address())?,
    })
}
