//! The workloads.

use clap::ValueEnum;

use crate::alone::HELD;

/// The work of the contestants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Workload {
    /// One thread, one path.
    Uncontended,
    /// Threads of one client, a path each.
    Many,
    /// Threads of one client, each time at a path that was never used.
    Fresh,
    /// Threads of one client, one lock object.
    Local,
    /// Threads of one client, one path, and a lock object for each acquisition.
    Object,
    /// Clients with a thread each, one path.
    Handoff,
    /// A holder, and waiting threads of one client, which are granted the lock one after another.
    Queue,
    /// A `try_lock` of a lock that another client holds.
    TryBusy,
    /// Clients with a thread each, one read-write lock, nine reads and a write.
    Rw,
    /// This library only: from a broken connection until all holds and queue positions are back.
    Recover,
}

/// A workload, and its number of threads, clients or waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) workload: Workload,
    pub(crate) size: usize,
}

impl Workload {
    pub(crate) const ALL: [Workload; 10] = [
        Workload::Uncontended,
        Workload::Many,
        Workload::Fresh,
        Workload::Local,
        Workload::Object,
        Workload::Handoff,
        Workload::Queue,
        Workload::TryBusy,
        Workload::Rw,
        Workload::Recover,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Uncontended => "uncontended",
            Workload::Many => "many",
            Workload::Fresh => "fresh",
            Workload::Local => "local",
            Workload::Object => "object",
            Workload::Handoff => "handoff",
            Workload::Queue => "queue",
            Workload::TryBusy => "try_busy",
            Workload::Rw => "rw",
            Workload::Recover => "recover",
        }
    }

    /// Returns the report's description of the case.
    pub(crate) fn about(self, size: usize) -> String {
        match self {
            Workload::Uncontended => "one thread locks and unlocks at one path".to_owned(),
            Workload::Many if size == 1 => "one thread, at its own path".to_owned(),
            Workload::Many => format!("{size} threads of one client, a path each"),
            Workload::Fresh if size == 1 => {
                "one thread, a new path for each acquisition".to_owned()
            }
            Workload::Fresh => {
                format!("{size} threads of one client, a new path for each acquisition")
            }
            Workload::Local => format!("{size} threads of one client share one lock object"),
            Workload::Object => {
                format!(
                    "{size} threads of one client, one path, a new lock object for each acquisition"
                )
            }
            Workload::Handoff => {
                format!("{size} clients with one thread each, one path")
            }
            Workload::Queue => format!(
                "{size} threads of one client wait for one path and acquire it one after another; \
                 times are from one grant to the next"
            ),
            Workload::TryBusy => {
                "a `try_lock` of a lock that another client holds; each refusal counts".to_owned()
            }
            Workload::Rw => format!(
                "{size} clients with a thread each, one read-write lock, nine reads and a write"
            ),
            Workload::Recover => format!(
                "a busy client's connection is cut while {HELD} locks are held and {size} threads wait"
            ),
        }
    }

    /// Returns the sizes to measure.
    pub(crate) fn cases(self, quick: bool) -> Vec<Case> {
        let (full, few): (&[usize], &[usize]) = match self {
            Workload::Uncontended | Workload::TryBusy => (&[1], &[1]),
            Workload::Many => (&[1, 8, 64], &[1, 8]),
            Workload::Fresh => (&[1, 64], &[1, 8]),
            Workload::Local => (&[2, 16, 32], &[8]),
            Workload::Object => (&[8], &[8]),
            Workload::Handoff => (&[2, 8, 100], &[2, 8]),
            Workload::Queue => (&[10, 100, 1000], &[10, 100]),
            Workload::Rw => (&[8], &[8]),
            Workload::Recover => (&[1000], &[100]),
        };
        let sizes = if quick { few } else { full };
        let case = |&size| Case { workload: self, size };
        sizes.iter().map(case).collect()
    }
}

impl Case {
    /// Returns the name, such as `queue-10`, or only the workload if there is only one size.
    pub(crate) fn name(self) -> String {
        match self.workload {
            Workload::Uncontended | Workload::TryBusy => self.workload.name().to_owned(),
            workload => format!("{}-{}", workload.name(), self.size),
        }
    }
}
