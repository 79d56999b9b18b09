//! The paths of the locks, with the kinds that use each, their capacities, and the nodes below them.

use fastrand::Rng;
use zoolock_judge::Lock;

use crate::kinds::{Kind, Kinds};

pub(crate) use zoolock_judge::{Mode, Use};

/// The parent of everything.
pub(crate) const ROOT: &str = "/torture";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Most actions of a kind happen here.
    Hot,
    Usual,
    /// Sometimes held for long.
    Slow,
}

/// Identified by its number in the table.
#[derive(Debug)]
pub(crate) struct LockPath {
    pub(crate) name: &'static str,
    pub(crate) what: Use,
    pub(crate) traffic: Traffic,
}

use Traffic::{Hot, Slow, Usual};

pub(crate) const PATHS: usize = 17;

#[rustfmt::skip]
const TABLE: [LockPath; PATHS] = [
    at_path("exclusive-0", Use::Exclusive,    Hot),
    at_path("exclusive-1", Use::Exclusive,    Usual),
    at_path("exclusive-2", Use::Exclusive,    Usual),
    at_path("exclusive-3", Use::Exclusive,    Usual),
    at_path("exclusive-4", Use::Exclusive,    Slow),
    at_path("exclusive-5", Use::Exclusive,    Slow),
    at_path("exclusive-6", Use::Exclusive,    Slow),
    at_path("rw-0",        Use::ReadWrite,    Hot),
    at_path("rw-1",        Use::ReadWrite,    Usual),
    at_path("rw-2",        Use::ReadWrite,    Slow),
    at_path("rw-3",        Use::ReadWrite,    Slow),
    at_path("semaphore-0", Use::Semaphore(3), Hot),
    at_path("semaphore-1", Use::Semaphore(5), Usual),
    at_path("semaphore-2", Use::Semaphore(4), Slow),
    at_path("ephemeral-0", Use::Ephemeral,    Hot),
    at_path("ephemeral-1", Use::Ephemeral,    Usual),
    at_path("ephemeral-2", Use::Ephemeral,    Slow),
];

const fn at_path(name: &'static str, what: Use, traffic: Traffic) -> LockPath {
    LockPath { name, what, traffic }
}

pub(crate) fn at(path: usize) -> &'static LockPath {
    &TABLE[path]
}

/// The paths that these kinds use.
pub(crate) fn used(kinds: &Kinds) -> Vec<usize> {
    let used = |&path: &usize| kinds.iter().any(|kind| at(path).takes(kind));
    (0..PATHS).filter(used).collect()
}

/// Some path of a kind with this traffic.
pub(crate) fn pick(rng: &mut Rng, kind: Kind, traffic: Traffic) -> usize {
    let fits = |&path: &usize| at(path).takes(kind) && at(path).traffic == traffic;
    let fitting: Vec<_> = (0..PATHS).filter(fits).collect();
    // The table has each traffic for every use.
    rng.choice(fitting).unwrap_or_default()
}

/// Some path of a kind.
pub(crate) fn pick_any(rng: &mut Rng, kind: Kind) -> usize {
    let fitting: Vec<_> = (0..PATHS).filter(|&path| at(path).takes(kind)).collect();
    rng.choice(fitting).unwrap_or_default()
}

/// The locks for the judge.
pub(crate) fn judged() -> Vec<Lock> {
    TABLE.iter().map(|at| Lock::new(at.path(), at.what)).collect()
}

/// The path of a lock.
pub(crate) fn lock_path(path: usize) -> String {
    at(path).path()
}

impl LockPath {
    pub(crate) fn takes(&self, kind: Kind) -> bool {
        match kind {
            Kind::Exclusive | Kind::Reentrant | Kind::Multi => self.what == Use::Exclusive,
            Kind::ReadWrite => self.what == Use::ReadWrite,
            Kind::Semaphore => matches!(self.what, Use::Semaphore(_)),
            Kind::Ephemeral => self.what == Use::Ephemeral,
        }
    }

    /// The number of witness files; see [`witness`](crate::client::witness).
    pub(crate) fn witness_files(&self) -> u32 {
        match self.what {
            Use::Exclusive | Use::Ephemeral => 1,
            Use::ReadWrite => 2,
            Use::Semaphore(limit) => limit,
        }
    }

    fn path(&self) -> String {
        format!("{ROOT}/{}", self.name)
    }

    /// The directory of waiters, if they create nodes.
    pub(crate) fn queue(&self) -> Option<String> {
        match self.what {
            Use::Exclusive | Use::ReadWrite => Some(self.path()),
            Use::Semaphore(_) => Some(format!("{}/locks", self.path())),
            Use::Ephemeral => None,
        }
    }

    /// The directory of granted permits.
    pub(crate) fn leases(&self) -> Option<String> {
        let leases = format!("{}/leases", self.path());
        matches!(self.what, Use::Semaphore(_)).then_some(leases)
    }

    /// The directories that stay after the end of all clients.
    pub(crate) fn directories(&self) -> impl Iterator<Item = String> {
        self.queue().into_iter().chain(self.leases())
    }

    /// The path of a hold's node with this name.
    pub(crate) fn node(&self, name: &str) -> String {
        match self.what {
            Use::Exclusive | Use::ReadWrite => format!("{}/{name}", self.path()),
            Use::Semaphore(_) => format!("{}/leases/{name}", self.path()),
            Use::Ephemeral => self.path(),
        }
    }
}
