//! What a history is excused for, by its faults and by its clock.

use std::time::Duration;

/// What the faults of a history excuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Two may believe that they hold a lock, anywhere and at any time, and the register has to
    /// tell them apart. Where it is known whose holds are meant, report a [`Doubt`](crate::Doubt).
    pub overlaps_expected: bool,
    /// Calls come back in time.
    pub punctual: bool,
    /// Which losses are nobody's fault.
    pub outage: Outage,
    /// A hold may go on with the next connection, as those of zoolock do.
    pub survives: bool,
    /// The holds are terms of leaders.
    pub leaders: bool,
}

/// What happens to the connections of clients that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// Nothing that would cost a hold.
    None,
    /// They break, or seem to, and come back long before a lease ends. A hold whose session goes on
    /// is not lost.
    Short,
    /// They may be gone for longer than a lease, or nodes vanish.
    Long,
}

/// What a clock, and a machine that other things run on, add to the times of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Margins {
    /// No call may return so much later than its deadline, beside what the machine is late itself.
    pub overshoot: Duration,
    /// A machine that lets threads wait for so long may have cost a hold by itself.
    pub machine_late: Duration,
    /// When all faults are over, a waiter is let in within this time after the last holder's end.
    pub let_in: Duration,
    /// There is a leader again in this time, beside what the machine is late itself.
    pub leader_again: Duration,
    /// How long a client connects to nobody when nobody has answered it for a session timeout.
    pub rest: Duration,
    /// A client that hears nothing for so long may rest: its last use of a server was some time
    /// before.
    pub silence: Duration,
    /// A fault has its effect in this time.
    pub effect: Duration,
    /// A sleeper that shows how late the machine is sleeps for less than this.
    pub nap: Duration,
    /// Of the writes that are staged to come too late, at least so many must be seen.
    pub least_late_writes: usize,
}

impl Rules {
    /// Nothing is excused.
    pub const STRICT: Rules = Rules {
        overlaps_expected: false,
        punctual: true,
        outage: Outage::None,
        survives: true,
        leaders: false,
    };
}

impl Outage {
    pub(crate) fn excuses(self, survives: bool) -> bool {
        match self {
            Outage::None => false,
            Outage::Short => !survives,
            Outage::Long => true,
        }
    }
}

impl Margins {
    /// A clock that is exact, on a machine that is never late.
    pub const EXACT: Margins = Margins {
        overshoot: Duration::ZERO,
        machine_late: Duration::ZERO,
        let_in: Duration::ZERO,
        leader_again: Duration::ZERO,
        rest: Duration::ZERO,
        silence: Duration::ZERO,
        effect: Duration::ZERO,
        nap: Duration::ZERO,
        least_late_writes: 0,
    };
}
