//! The excuses for a history: its faults, and the precision of its clock.

use std::time::Duration;

/// The excuses that the faults of a history give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Whether calls must return in time.
    pub punctual: bool,
    /// The losses that are excused.
    pub outage: Outage,
}

/// The state of the connections of running clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// At most they break, or seem to, and come back long before a lease ends. No hold is lost.
    Short,
    /// They may be gone for longer than a lease, or nodes vanish.
    Long,
}

/// Tolerances for a clock, and for a machine with other load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Margins {
    /// The longest delay of a call after its deadline, beyond the machine's own delay.
    pub overshoot: Duration,
    /// A machine this late, or servers that take as long for a write, may themselves have cost a hold.
    pub machine_late: Duration,
    /// After the end of all faults, the time from the last holder's end to the next grant.
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
