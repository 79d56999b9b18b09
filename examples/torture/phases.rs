//! The phases that the nemesis walks through: a table of what it does in each.

use crate::Outcome;
use crate::faults::{client, network, server, tree};
use crate::field::Field;

/// One phase.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) script: fn(&mut Field) -> Outcome<()>,
    pub(crate) rules: Rules,
}

/// What is different in some phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    Usual,
    /// As usual, and there must be an ensemble.
    Ensemble,
    /// Clients are stopped and cannot notice: holds may overlap, calls may be late, and writes that
    /// come too late must be refused.
    ClientStops,
    /// Nodes of holders vanish, which they notice late if at all: holds may overlap.
    NodesVanish,
}

impl Rules {
    /// Two may believe that they hold a lock, and the register has to tell them apart.
    pub(crate) fn expect_overlaps(self) -> bool {
        matches!(self, Rules::ClientStops | Rules::NodesVanish)
    }

    /// Calls come back in time.
    pub(crate) fn expect_punctuality(self) -> bool {
        self != Rules::ClientStops
    }

    /// Workers may take it upon themselves to kill their process.
    pub(crate) fn allow_deaths(self) -> bool {
        !self.expect_overlaps()
    }
}

use Rules::{ClientStops, Ensemble, NodesVanish, Usual};

#[rustfmt::skip]
const PHASES: &[Phase] = &[
    phase("quiet",                Usual,       |field| { field.pass(3000, 3000); Ok(()) }),
    phase("server kill",          Usual,       server::kill),
    phase("server restart",       Usual,       server::restart),
    phase("server pause",         Usual,       server::pause),
    phase("cut storm",            Usual,       network::cut_storm),
    phase("black hole",           Usual,       network::black_hole),
    phase("lost answers",         Usual,       network::lost_answers),
    phase("delays",               Usual,       network::delays),
    phase("junk children",        Usual,       tree::junk),
    phase("client kill",          Usual,       client::kill),
    phase("client stop",          ClientStops, client::stop),
    phase("deleted nodes",        NodesVanish, tree::delete_held),
    phase("expired sessions",     NodesVanish, network::expire),
    phase("leader kill",          Ensemble,    server::kill_leader),
    phase("member pause",         Ensemble,    server::pause_member),
    phase("rolling restart",      Ensemble,    server::rolling_restart),
    phase("follower cut off",     Ensemble,    server::cut_off_follower),
];

const fn phase(name: &'static str, rules: Rules, script: fn(&mut Field) -> Outcome<()>) -> Phase {
    Phase {
        name,
        script,
        rules,
    }
}

/// Those that the servers allow, and whose names contain `only`.
pub(crate) fn phases(ensemble: bool, only: &str) -> Vec<&'static Phase> {
    PHASES
        .iter()
        .filter(|phase| ensemble || phase.rules != Ensemble)
        .filter(|phase| phase.name.contains(only))
        .collect()
}
