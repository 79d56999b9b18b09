//! The nemesis: the phases of the run, a table of their faults and excuses, and its tools. Each fault
//! restores everything.

mod clients;
mod guards;
pub(crate) mod network;
pub(crate) mod servers;
mod tree;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use zoolock_judge::{Doubt, Outage, Record};
use zoolock_test_support::{FaultProxy, Probe};

use crate::Outcome;
use crate::clock::{Nanos, after, now};
use crate::coordinator::processes::Processes;
use crate::coordinator::recorder::Recorder;
use crate::kinds::Kinds;
use crate::options::RunOptions;
use crate::paths::{self, Traffic};
use crate::protocol::Task;
use crate::settings::TIMEOUT;

use network::Network;
use servers::Servers;

/// The time in which others enter while a process is stopped. The servers end the session after its timeout
/// and a tick.
const RIVAL_WITHIN: Duration = TIMEOUT.saturating_mul(4);

/// One phase.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) faults: fn(&mut Nemesis) -> Outcome<()>,
    pub(crate) rules: Rules,
    pub(crate) outage: Outage,
    pub(crate) task: Task,
}

/// The special rules of some phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    Usual,
    /// The usual rules, in a phase that needs an ensemble.
    Ensemble,
    /// Clients are stopped and cannot notice: holds may overlap, calls may be late, and late writes must be
    /// refused.
    ClientStops,
    /// Nodes of holders vanish, which they notice late or never: holds may overlap.
    NodesVanish,
}

impl Rules {
    /// Whether two may believe in one lock, so that the register has to distinguish them.
    pub(crate) fn expect_overlaps(self) -> bool {
        matches!(self, Rules::ClientStops | Rules::NodesVanish)
    }

    /// Whether calls must return in time.
    pub(crate) fn expect_punctuality(self) -> bool {
        self != Rules::ClientStops
    }

    /// Whether workers may kill their process.
    pub(crate) fn allow_deaths(self) -> bool {
        !self.expect_overlaps()
    }
}

use Rules::{ClientStops, Ensemble, NodesVanish, Usual};

#[rustfmt::skip]
const PHASES: &[Phase] = &[
    phase("quiet",                Usual,       Outage::Short, |nemesis| { nemesis.pass(3000, 3000); Ok(()) }),
    phase("server kill",          Usual,       Outage::Long,  servers::kill),
    phase("server restart",       Usual,       Outage::Long,  servers::restart),
    phase("server pause",         Usual,       Outage::Long,  servers::pause),
    phase("cut storm",            Usual,       Outage::Short, network::cut_storm),
    phase("black hole",           Usual,       Outage::Long,  network::black_hole),
    phase("lost answers",         Usual,       Outage::Long,  network::lost_answers),
    phase("delays",               Usual,       Outage::Short, network::delays),
    phase("junk children",        Usual,       Outage::Short, tree::junk),
    phase("client kill",          Usual,       Outage::Short, clients::kill),
    phase("client stop",          ClientStops, Outage::Long,  clients::stop),
    phase("deleted nodes",        NodesVanish, Outage::Long,  tree::delete_held),
    phase("expired sessions",     NodesVanish, Outage::Long,  network::expire),
    phase("guarded writes",       ClientStops, Outage::Long,  guards::stop).with(Task::Guard),
    phase("leader kill",          Ensemble,    Outage::Long,  servers::kill_leader),
    phase("member pause",         Ensemble,    Outage::Long,  servers::pause_member),
    phase("rolling restart",      Ensemble,    Outage::Long,  servers::rolling_restart),
    phase("follower cut off",     Ensemble,    Outage::Long,  servers::cut_off_follower),
];

const fn phase(
    name: &'static str,
    rules: Rules,
    outage: Outage,
    faults: fn(&mut Nemesis) -> Outcome<()>,
) -> Phase {
    Phase { name, faults, rules, outage, task: Task::Locks }
}

impl Phase {
    const fn with(self, task: Task) -> Phase {
        Phase { task, ..self }
    }

    /// The phase's rules for the judge.
    pub(crate) fn judged(&self) -> zoolock_judge::Rules {
        zoolock_judge::Rules {
            overlaps_expected: self.rules.expect_overlaps(),
            punctual: self.rules.expect_punctuality(),
            outage: self.outage,
        }
    }
}

/// The phases that the servers and clients allow, and whose names contain `only`.
pub(crate) fn phases(options: &RunOptions) -> Vec<&'static Phase> {
    let only = options.only.as_deref().unwrap_or_default();
    PHASES
        .iter()
        .filter(|phase| options.ensemble || phase.rules != Ensemble)
        .filter(|phase| phase.name.contains(only))
        .collect()
}

/// The targets of faults, and the knowledge about them.
pub(crate) struct Nemesis {
    pub(crate) servers: Servers,
    pub(crate) networks: Vec<Network>,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) processes: Arc<Processes>,
    pub(crate) kinds: Kinds,
    /// The number of holders to stop before a guarded write.
    pub(crate) stops: usize,
    pub(crate) rng: Rng,
}

impl Nemesis {
    pub(crate) fn some_server(&mut self) -> usize {
        self.rng.usize(0..self.servers.len())
    }

    /// A path in use.
    pub(crate) fn some_path(&mut self) -> usize {
        let used = paths::used(&self.kinds);
        self.rng.choice(used).unwrap_or_default()
    }

    pub(crate) fn some_process(&mut self) -> usize {
        self.rng.usize(0..self.processes.len())
    }

    pub(crate) fn some_network(&mut self) -> &Network {
        let process = self.some_process();
        &self.networks[process]
    }

    /// The network of a process with a long hold, or else of any.
    pub(crate) fn network_of_some_holder(&mut self) -> &Network {
        let process = self.process_of_some_holder();
        &self.networks[process]
    }

    fn process_of_some_holder(&mut self) -> usize {
        let slow = |record: &&Record| paths::at(record.grant.path).traffic == Traffic::Slow;
        let state = self.recorder.state();
        let open = state.history.open_holds().filter(slow);
        let holders: Vec<_> = open.map(|record| record.grant.hold.by.process).collect();
        drop(state);
        let chosen = self.rng.choice(holders);
        chosen.unwrap_or_else(|| self.some_process())
    }

    /// Reports that nodes of this process have vanished since `begun`. It notices within a session timeout,
    /// and its threads may hand on the missing node until then.
    pub(crate) fn doubt(&self, process: usize, path: Option<usize>, begun: Nanos) {
        let over = after(now(), TIMEOUT);
        let doubt = Doubt { process, path, begun, over };
        self.recorder.state().history.doubts.push(doubt);
    }

    /// Waits for a random time in milliseconds, which is the timing of a fault.
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
