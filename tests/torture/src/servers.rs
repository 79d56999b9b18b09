//! The ZooKeeper servers, a single one or an ensemble of three, and their faults. All plans share the servers.

use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use zoolock_checker::{Nanos, after};
use zoolock_test_support::{Ensemble, Probe, Server, Stat};

use crate::Outcome;
use crate::plan::FaultKind;
use crate::protocol::now;

const TICK: Duration = Duration::from_millis(500);
const MEMBERS: usize = 3;
/// Servers remove empty directories quickly, so that `EphemeralLock`s can create nodes at their paths.
const CONTAINERS: &str = "-Dznode.container.checkIntervalMs=1000";
/// The longest time of a fault, and the time from its end to the next one. All clients have to wait during a fault.
const LONGEST: Duration = Duration::from_secs(3);
const CALM: Duration = Duration::from_secs(3);
const PROBE_ATTEMPTS: usize = 100;
const PROBE_PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Servers {
    all: All,
    /// When the last fault ended, or 0 before the first one.
    well_since: Mutex<Nanos>,
}

enum All {
    Single(Box<Server>),
    Several(Ensemble),
}

impl Servers {
    pub(crate) fn start(ensemble: bool) -> io::Result<Servers> {
        let single = || Server::builder().tick(TICK).jvm_flag(CONTAINERS).start();
        let several = || Ensemble::builder(MEMBERS).tick(TICK).jvm_flag(CONTAINERS).start();
        let all = match ensemble {
            true => All::Several(several()?),
            false => All::Single(Box::new(single()?)),
        };
        Ok(Servers { all, well_since: Mutex::default() })
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        match &self.all {
            All::Single(server) => vec![server.address()],
            All::Several(ensemble) => ensemble.addresses(),
        }
    }

    /// Queries any server that answers. If the query fails, tries again.
    pub(crate) fn ask<T>(&self, ask: impl Fn(&Probe) -> io::Result<T>) -> io::Result<T> {
        let mut last = io::Error::other("no server");
        for address in self.addresses().iter().cycle().take(PROBE_ATTEMPTS) {
            match Probe::connect(address).and_then(|probe| ask(&probe)) {
                Ok(said) => return Ok(said),
                Err(error) => last = error,
            }
            thread::sleep(PROBE_PAUSE);
        }
        Err(last)
    }

    /// Returns whether no server fault has occurred since this time.
    pub(crate) fn were_well_since(&self, then: Nanos) -> bool {
        self.well_since.try_lock().is_ok_and(|since| *since < then)
    }

    /// Causes a fault of a server, and ends it. Returns false if a fault is in progress or has just ended, or if these
    /// servers do not support this fault.
    pub(crate) fn fault(&self, fault: FaultKind) -> Outcome<bool> {
        let Ok(mut well_since) = self.well_since.try_lock() else { return Ok(false) };
        if now() < after(*well_since, CALM) {
            return Ok(false);
        }
        let (ensemble, count) = match &self.all {
            All::Single(_) => (None, 1),
            All::Several(ensemble) => (Some(ensemble), ensemble.len()),
        };
        let server = |number: usize| match &self.all {
            All::Single(server) => &**server,
            All::Several(ensemble) => ensemble.server(number % count),
        };
        match (fault, ensemble) {
            (FaultKind::Crash { server: number, time }, _) => {
                server(number).kill()?;
                thread::sleep(time.min(LONGEST));
                server(number).start_again()?;
            }
            (FaultKind::FreezeServer { server: number, time }, _) => {
                server(number).pause()?;
                thread::sleep(time.min(LONGEST));
                server(number).resume()?;
            }
            (FaultKind::CutOffServer { server: number, time }, Some(ensemble)) => {
                ensemble.cut_off(number % count);
                // Real servers do not detect a shorter fault.
                thread::sleep(time.clamp(LONGEST / 2, LONGEST));
                ensemble.heal();
            }
            (FaultKind::Depose, Some(ensemble)) => {
                let leader = ensemble.kill_leader()?;
                thread::sleep(LONGEST / 2);
                server(leader).start_again()?;
            }
            _ => return Ok(false),
        }
        if let Some(ensemble) = ensemble {
            ensemble.wait_ready()?;
        }
        *well_since = now();
        Ok(true)
    }
}

/// Returns the nodes below this node, children before parents. Nodes that are deleted in the meantime are left out.
pub(crate) fn below(probe: &Probe, node: &str) -> io::Result<Vec<(String, Stat)>> {
    let mut found = Vec::new();
    for name in probe.children(node)? {
        let child = format!("{node}/{name}");
        if let Some(stat) = probe.stat(&child)? {
            if stat.num_children > 0 {
                found.extend(below(probe, &child)?);
            }
            found.push((child, stat));
        }
    }
    Ok(found)
}

pub(crate) fn delete_if_there(probe: &Probe, node: &str) -> io::Result<()> {
    match probe.delete(node) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
