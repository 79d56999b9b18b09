//! What excuses irregularities in a history: its faults, and the precision of its clock.

use std::time::Duration;

/// The excuses that the faults of a history provide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Whether calls must return in time.
    pub punctual: bool,
    /// Which losses are excused.
    pub outage: Outage,
}

/// How badly the connections of running clients were affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// At most, connections break, or appear to, and are restored long before a lease ends. No hold is lost.
    Short,
    /// Connections may be broken for longer than a lease, or nodes may be deleted.
    Long,
}

/// The tolerances for a clock, and for a machine with other load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Margins {
    /// How long after its deadline a call may return, in addition to the machine's own delay.
    pub overshoot: Duration,
    /// If the machine is this late, or a server needs this long for a write, that alone may have cost a hold.
    pub machine_late: Duration,
    /// After the end of all faults, the maximum time from the end of the last hold to the next grant.
    pub let_in: Duration,
}

impl Rules {
    /// Excuses nothing.
    pub const STRICT: Rules = Rules { punctual: true, outage: Outage::Short };
}

impl Margins {
    /// An exact clock on a machine that is never late.
    pub const EXACT: Margins =
        Margins { overshoot: Duration::ZERO, machine_late: Duration::ZERO, let_in: Duration::ZERO };
}
