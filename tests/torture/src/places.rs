//! The paths of the locks: what each is used for, how much room it has, and which nodes belong to it.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::kinds::{Kind, Kinds};

/// Where everything is.
pub(crate) const ROOT: &str = "/torture";

/// What takes turns at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Exclusive,
    ReadWrite,
    /// For so many permits.
    Semaphore(u32),
    Ephemeral,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Most of what is done with a kind is done here.
    Hot,
    Usual,
    /// Held for long now and then.
    Slow,
}

#[derive(Debug)]
pub(crate) struct Place {
    name: &'static str,
    pub(crate) what: Use,
    pub(crate) traffic: Traffic,
}

/// How much of a place a hold takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Share {
    /// All of it.
    Alone,
    /// Beside others who read.
    Reading,
    Permits(u32),
}

use Traffic::{Hot, Slow, Usual};

pub(crate) const PATHS: usize = 17;

#[rustfmt::skip]
const PLACES: [Place; PATHS] = [
    place("exclusive-0", Use::Exclusive,    Hot),
    place("exclusive-1", Use::Exclusive,    Usual),
    place("exclusive-2", Use::Exclusive,    Usual),
    place("exclusive-3", Use::Exclusive,    Usual),
    place("exclusive-4", Use::Exclusive,    Slow),
    place("exclusive-5", Use::Exclusive,    Slow),
    place("exclusive-6", Use::Exclusive,    Slow),
    place("rw-0",        Use::ReadWrite,    Hot),
    place("rw-1",        Use::ReadWrite,    Usual),
    place("rw-2",        Use::ReadWrite,    Slow),
    place("rw-3",        Use::ReadWrite,    Slow),
    place("semaphore-0", Use::Semaphore(3), Hot),
    place("semaphore-1", Use::Semaphore(5), Usual),
    place("semaphore-2", Use::Semaphore(4), Slow),
    place("ephemeral-0", Use::Ephemeral,    Hot),
    place("ephemeral-1", Use::Ephemeral,    Usual),
    place("ephemeral-2", Use::Ephemeral,    Slow),
];

const fn place(name: &'static str, what: Use, traffic: Traffic) -> Place {
    Place { name, what, traffic }
}

pub(crate) fn at(path: usize) -> &'static Place {
    &PLACES[path]
}

/// The places that these kinds use.
pub(crate) fn used(kinds: &Kinds) -> Vec<usize> {
    let used = |&path: &usize| kinds.iter().any(|kind| at(path).takes(kind));
    (0..PATHS).filter(used).collect()
}

/// Some place of a kind with this traffic.
pub(crate) fn pick(rng: &mut Rng, kind: Kind, traffic: Traffic) -> usize {
    let fits = |&path: &usize| at(path).takes(kind) && at(path).traffic == traffic;
    let fitting: Vec<_> = (0..PATHS).filter(fits).collect();
    // The table has each traffic for every use.
    rng.choice(fitting).unwrap_or_default()
}

/// The path of a lock.
pub(crate) fn lock_path(path: usize) -> String {
    format!("{ROOT}/{}", at(path).name)
}

impl Place {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn takes(&self, kind: Kind) -> bool {
        match kind {
            Kind::Exclusive | Kind::Reentrant | Kind::Multi => self.what == Use::Exclusive,
            Kind::ReadWrite => self.what == Use::ReadWrite,
            Kind::Semaphore => matches!(self.what, Use::Semaphore(_)),
            Kind::Ephemeral => self.what == Use::Ephemeral,
        }
    }

    /// How many units fit in at a time. Who must be alone takes all of them, a reader takes one of
    /// more than there are threads.
    pub(crate) fn room(&self) -> u32 {
        match self.what {
            Use::Exclusive | Use::Ephemeral => 1,
            Use::ReadWrite => 1000,
            Use::Semaphore(limit) => limit,
        }
    }

    pub(crate) fn weight(&self, share: Share) -> u32 {
        match share {
            Share::Alone => self.room(),
            Share::Reading => 1,
            Share::Permits(count) => count,
        }
    }

    /// How many files bear witness; see [`crate::witness`].
    pub(crate) fn witnesses(&self) -> u32 {
        match self.what {
            Use::Exclusive | Use::Ephemeral => 1,
            Use::ReadWrite => 2,
            Use::Semaphore(limit) => limit,
        }
    }

    /// Whose grants come in the order of the numbers in their nodes' names.
    pub(crate) fn grants_by_number(&self) -> bool {
        matches!(self.what, Use::Exclusive | Use::ReadWrite)
    }

    fn path(&self) -> String {
        format!("{ROOT}/{}", self.name)
    }

    /// The directory of those who wait, if they make nodes.
    pub(crate) fn queue(&self) -> Option<String> {
        match self.what {
            Use::Exclusive | Use::ReadWrite => Some(self.path()),
            Use::Semaphore(_) => Some(format!("{}/locks", self.path())),
            Use::Ephemeral => None,
        }
    }

    /// The directory of permits that are out.
    pub(crate) fn leases(&self) -> Option<String> {
        let leases = format!("{}/leases", self.path());
        matches!(self.what, Use::Semaphore(_)).then_some(leases)
    }

    /// The directories that stay when everybody is gone.
    pub(crate) fn directories(&self) -> impl Iterator<Item = String> {
        self.queue().into_iter().chain(self.leases())
    }

    /// The path of a hold's node of this name.
    pub(crate) fn node(&self, name: &str) -> String {
        match self.what {
            Use::Exclusive | Use::ReadWrite => format!("{}/{name}", self.path()),
            Use::Semaphore(_) => format!("{}/leases/{name}", self.path()),
            Use::Ephemeral => self.path(),
        }
    }
}
