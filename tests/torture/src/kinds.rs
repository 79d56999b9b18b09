//! The kinds of locks that take part.

use std::fmt;

use clap::ValueEnum;
use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// One of the crate's lock types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// `DistributedLock`
    Exclusive,
    /// `DistributedReentrantLock`, on the same paths
    Reentrant,
    /// `DistributedRwLock`, and a `DistributedLock` beside it, which is a writer to it
    ReadWrite,
    /// `DistributedSemaphore`
    Semaphore,
    /// `EphemeralLock`
    Ephemeral,
    /// `MultiLock` of two or three on the paths of the exclusive ones
    Multi,
}

use Kind::{Ephemeral, Exclusive, Multi, ReadWrite, Reentrant, Semaphore};

impl Kind {
    /// How often it is picked, among the others.
    fn weight(self) -> u32 {
        match self {
            Exclusive | Reentrant | ReadWrite => 22,
            Semaphore => 16,
            Multi => 10,
            Ephemeral => 8,
        }
    }

    /// Its holders write to the register.
    fn writes(self) -> bool {
        self != Semaphore
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Those that take part in a run; never none.
#[derive(Debug, Clone)]
pub(crate) struct Kinds(Vec<Kind>);

impl Kinds {
    /// All if none are named.
    pub(crate) fn new(named: &[Kind]) -> Kinds {
        let wanted = |kind: &&Kind| named.is_empty() || named.contains(kind);
        Kinds(Kind::value_variants().iter().filter(wanted).copied().collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Kind> {
        self.0.iter().copied()
    }

    /// Is there a holder whose write can come too late?
    pub(crate) fn write(&self) -> bool {
        self.iter().any(Kind::writes)
    }

    pub(crate) fn pick(&self, rng: &mut Rng) -> Kind {
        let mut left = rng.u32(0..self.iter().map(Kind::weight).sum());
        for kind in self.iter() {
            if left < kind.weight() {
                return kind;
            }
            left -= kind.weight();
        }
        self.0[0]
    }

    /// As on the command line.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.iter().map(|kind| kind.to_string()).collect();
        names.join(",")
    }
}
