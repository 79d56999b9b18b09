//! The kinds of locks that take part.

use fastrand::Rng;

pub(crate) use zoolock_judge::Kind;
use zoolock_judge::Kind::{Ephemeral, Exclusive, Multi, ReadWrite, Reentrant, Semaphore};

/// The relative frequency of a kind.
fn weight(kind: Kind) -> u32 {
    match kind {
        Exclusive | Reentrant | ReadWrite => 22,
        Semaphore => 16,
        Multi => 10,
        Ephemeral => 8,
    }
}

/// The kinds in a run; never empty.
#[derive(Debug, Clone)]
pub(crate) struct Kinds(Vec<Kind>);

impl Kinds {
    /// All kinds if none are named.
    pub(crate) fn new(named: &[Kind]) -> Kinds {
        let wanted = |kind: &&Kind| named.is_empty() || named.contains(kind);
        Kinds(Kind::ALL.iter().filter(wanted).copied().collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Kind> {
        self.0.iter().copied()
    }

    /// Whether a holder's write can come too late.
    pub(crate) fn write(&self) -> bool {
        self.iter().any(|kind| kind != Semaphore)
    }

    pub(crate) fn pick(&self, rng: &mut Rng) -> Kind {
        let mut left = rng.u32(0..self.iter().map(weight).sum());
        for kind in self.iter() {
            if left < weight(kind) {
                return kind;
            }
            left -= weight(kind);
        }
        self.0[0]
    }

    /// As on the command line.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.iter().map(|kind| kind.to_string()).collect();
        names.join(",")
    }
}
