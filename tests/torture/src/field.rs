//! What the nemesis can lay hands on: servers, networks, client processes, and what is known of
//! them.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use zoolock_test_support::{FaultProxy, Probe};

use crate::crew::Crew;
use crate::evidence::Record;
use crate::hub::Hub;
use crate::kinds::Kinds;
use crate::peer::Peer;
use crate::places::{self, Traffic};
use crate::servers::Servers;

/// The way of one client process to the servers: a proxy for each.
#[derive(Debug)]
pub(crate) struct Network(Vec<FaultProxy>);

impl Network {
    pub(crate) fn start(servers: &Servers) -> io::Result<Network> {
        let addresses = servers.addresses().into_iter();
        addresses.map(FaultProxy::start).collect::<Result<_, _>>().map(Network)
    }

    pub(crate) fn connect_string(&self) -> String {
        let addresses = self.0.iter().map(FaultProxy::connect_string);
        addresses.collect::<Vec<_>>().join(",")
    }

    /// The servers end what sessions were opened this way.
    pub(crate) fn expire_sessions(&self) -> io::Result<()> {
        let mut proxies = self.0.iter();
        proxies.try_for_each(|proxy| proxy.expire_sessions().map(drop))
    }

    /// A client uses one of the proxies at a time, and may go to any other.
    pub(crate) fn each(&self, fault: impl Fn(&FaultProxy)) {
        self.0.iter().for_each(fault);
    }
}

pub(crate) struct Field {
    pub(crate) servers: Servers,
    pub(crate) networks: Vec<Network>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) crew: Arc<Crew>,
    pub(crate) kinds: Kinds,
    /// Whose clients they are, if not zoolock's.
    pub(crate) peer: Option<Peer>,
    pub(crate) rng: Rng,
}

impl Field {
    pub(crate) fn some_server(&mut self) -> usize {
        self.rng.usize(0..self.servers.len())
    }

    /// One that is in use.
    pub(crate) fn some_path(&mut self) -> usize {
        let used = places::used(&self.kinds);
        self.rng.choice(used).unwrap_or_default()
    }

    pub(crate) fn some_process(&mut self) -> usize {
        self.rng.usize(0..self.crew.len())
    }

    pub(crate) fn some_network(&mut self) -> &Network {
        let process = self.some_process();
        &self.networks[process]
    }

    /// Of a process that holds a lock for long, or else of any.
    pub(crate) fn network_of_some_holder(&mut self) -> &Network {
        let slow = |record: &&Record| places::at(record.grant.path).traffic == Traffic::Slow;
        let state = self.hub.state();
        let open = state.evidence.open_holds().filter(slow);
        let holders: Vec<_> = open.map(|record| record.grant.hold.by.process).collect();
        drop(state);
        let chosen = self.rng.choice(holders);
        let process = chosen.unwrap_or_else(|| self.some_process());
        &self.networks[process]
    }

    /// Lets so many milliseconds pass: the timing of a fault.
    pub(crate) fn pass(&mut self, least: u64, most: u64) {
        thread::sleep(Duration::from_millis(self.rng.u64(least..=most)));
    }

    pub(crate) fn restore_networks(&self) {
        for network in &self.networks {
            network.each(FaultProxy::restore);
        }
    }

    pub(crate) fn probe(&self) -> io::Result<Probe> {
        self.servers.probe()
    }
}
