//! The phases that the nemesis walks through: a table of what it does in each.

use crate::Outcome;
use crate::faults::{client, network, server, tree};
use crate::field::Field;

/// One phase.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) script: fn(&mut Field) -> Outcome<()>,
    pub(crate) rules: Rules,
    pub(crate) breaks: Breaks,
}

/// What happens to the connections of clients that run: which losses are nobody's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breaks {
    /// Nothing that would cost a hold.
    None,
    /// They break, or seem to, and come back long before a lease ends: whose session goes on loses nothing.
    Short,
    /// They may be gone for longer than a lease, or nodes vanish.
    Long,
}

impl Breaks {
    /// `survives` if a hold may go on with the next connection.
    pub(crate) fn excuse(self, survives: bool) -> bool {
        match self {
            Breaks::None => false,
            Breaks::Short => !survives,
            Breaks::Long => true,
        }
    }
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
    phase("quiet",                Usual,       Breaks::None,  |field| { field.pass(3000, 3000); Ok(()) }),
    phase("server kill",          Usual,       Breaks::Long,  server::kill),
    phase("server restart",       Usual,       Breaks::Long,  server::restart),
    phase("server pause",         Usual,       Breaks::Long,  server::pause),
    phase("cut storm",            Usual,       Breaks::Short, network::cut_storm),
    phase("black hole",           Usual,       Breaks::Long,  network::black_hole),
    phase("lost answers",         Usual,       Breaks::Long,  network::lost_answers),
    phase("delays",               Usual,       Breaks::Short, network::delays),
    phase("junk children",        Usual,       Breaks::None,  tree::junk),
    phase("client kill",          Usual,       Breaks::None,  client::kill),
    phase("client stop",          ClientStops, Breaks::Long,  client::stop),
    phase("deleted nodes",        NodesVanish, Breaks::Long,  tree::delete_held),
    phase("expired sessions",     NodesVanish, Breaks::Long,  network::expire),
    phase("leader kill",          Ensemble,    Breaks::Long,  server::kill_leader),
    phase("member pause",         Ensemble,    Breaks::Long,  server::pause_member),
    phase("rolling restart",      Ensemble,    Breaks::Long,  server::rolling_restart),
    phase("follower cut off",     Ensemble,    Breaks::Long,  server::cut_off_follower),
];

const fn phase(
    name: &'static str,
    rules: Rules,
    breaks: Breaks,
    script: fn(&mut Field) -> Outcome<()>,
) -> Phase {
    Phase { name, script, rules, breaks }
}

/// Those that the servers allow, and whose names contain `only`.
pub(crate) fn phases(ensemble: bool, only: &str) -> Vec<&'static Phase> {
    PHASES
        .iter()
        .filter(|phase| ensemble || phase.rules != Ensemble)
        .filter(|phase| phase.name.contains(only))
        .collect()
}
