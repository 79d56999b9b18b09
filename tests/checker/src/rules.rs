//! What excuses irregularities in a history: its faults, and the margins of its clock and machine.

use std::time::Duration;

/// What the faults of a history excuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Whether calls must return by their deadlines.
    pub punctual: bool,
    /// How long connections may have been broken, which excuses losses.
    pub outage: Outage,
}

/// How much the faults affected the connections of running clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// Connections break, or appear to break, at most so briefly that every lease is renewed in time. No hold is lost.
    Short,
    /// Connections may be broken for longer than a lease, or nodes may be deleted.
    Long,
}

/// Margins for an inexact clock, and for a machine that has other load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Margins {
    /// How long after its deadline a call may return, in addition to the machine's own delay.
    pub overshoot: Duration,
    /// If the machine is late by this much, or a server needs this long for a write, that alone may cost a hold.
    pub machine_late: Duration,
    /// After all faults have ended: the longest time from the end of the last hold to the next grant.
    pub let_in: Duration,
}

impl Rules {
    /// No faults that excuse anything.
    pub const STRICT: Rules = Rules { punctual: true, outage: Outage::Short };
}

impl Margins {
    /// An exact clock on a machine that is never late.
    pub const EXACT: Margins =
        Margins { overshoot: Duration::ZERO, machine_late: Duration::ZERO, let_in: Duration::ZERO };
}
