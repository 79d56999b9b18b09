//! The contestants. Those in Rust, or with a simple protocol, are in this program; those in other
//! languages are programs of tests/interop.

use std::env;
use std::process::Command;
use std::time::Duration;

use zoolock_interop::Implementation;

use crate::own::{self, VARIANTS};
use crate::program::Connect;
#[cfg(feature = "classic")]
use crate::raw;
use crate::servers::Kind;
use crate::session::Outcome;
use crate::workload::{Case, Workload};
use crate::{etcd, machine, redis, zookeeper_client};

/// Half of the longest session timeout that the servers allow, so that few requests counted are
/// heartbeats.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// The floor, with which all are compared.
pub(crate) const FLOOR: &str = "raw";
pub(crate) const CURATOR: &str = "curator";
pub(crate) const KAZOO: &str = "kazoo";
pub(crate) const ZOOKEEPER_CLIENT: &str = "zookeeper-client";
pub(crate) const ETCD: &str = "etcd";
pub(crate) const REDIS: &str = "redis";
/// This library, with its default options.
pub(crate) const OWN: &str = "zoolock";
/// The floor of single-node locks, where no client waits.
pub(crate) const FLOOR_SINGLE: &str = "raw-single";
pub(crate) const SINGLE: &str = "zoolock-ephemeral";

/// A lock to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) server: Kind,
}

/// Returns all contestants, in the order of the tables.
pub(crate) fn all() -> Vec<Contestant> {
    let on = |server| move |name: &'static str| Contestant { name, server };
    let own = VARIANTS.iter().map(|variant| variant.0);
    let others = [CURATOR, KAZOO, ZOOKEEPER_CLIENT];
    let zookeeper = [FLOOR, FLOOR_SINGLE].into_iter().chain(own).chain(others);
    let mut all: Vec<_> = zookeeper.map(on(Kind::ZooKeeper)).collect();
    all.extend([on(Kind::Redis)(REDIS), on(Kind::Etcd)(ETCD)]);
    all
}

impl Contestant {
    /// Returns whether the threads of a client queue in the process, and not on the server.
    pub(crate) fn queues_in_the_process(&self) -> bool {
        VARIANTS.iter().any(|variant| variant.0 == self.name)
    }

    /// Returns why the contestant does not take part in a case.
    pub(crate) fn lacks(&self, case: Case) -> Option<&'static str> {
        match (self.name, case.workload) {
            (FLOOR_SINGLE, Workload::Uncontended | Workload::Many) => None,
            (FLOOR_SINGLE, _) => Some("does not wait"),
            (FLOOR | ZOOKEEPER_CLIENT | REDIS | ETCD, Workload::Rw) => {
                Some("has no read-write lock")
            }
            (ZOOKEEPER_CLIENT | ETCD, Workload::TryBusy) => Some("has no try_lock"),
            (KAZOO, Workload::Fresh | Workload::Object) => Some("was not taught that"),
            (REDIS | SINGLE, Workload::Queue) => Some("has no queue"),
            // The contestant `zoolock` has the read-write lock already.
            (name, Workload::Rw) if name.starts_with("zoolock-") => Some("is a mutex"),
            _ => None,
        }
    }

    /// Returns the versions of a client in Rust. A program in another language answers the line `version`.
    pub(crate) fn version(&self) -> Option<String> {
        let name = match self.name {
            CURATOR | KAZOO => return None,
            // The server is accessed without a library.
            REDIS | ETCD => return Some(String::new()),
            FLOOR | FLOOR_SINGLE => "zookeeper",
            ZOOKEEPER_CLIENT => ZOOKEEPER_CLIENT,
            _ => OWN,
        };
        Some(machine::locked_version(name))
    }

    /// Returns the command that starts the contestant, with the address of its server. Returns
    /// `None`, after a message, if the contestant is not installed.
    pub(crate) fn command(&self, server: &str) -> Outcome<Option<Command>> {
        let installed = match self.name {
            CURATOR => Implementation::curator_bench(),
            KAZOO => Implementation::kazoo_bench(),
            FLOOR | FLOOR_SINGLE if !cfg!(feature = "classic") => {
                eprintln!(
                    "skipped: {}: the bench is built without the feature `classic`",
                    self.name
                );
                None
            }
            name => {
                let mut command = Command::new(env::current_exe()?);
                command.args(["--contestant", name, "--server", server]);
                return Ok(Some(command));
            }
        };
        Ok(installed.map(|it| it.command(server, self.name)))
    }
}

/// In the program of a contestant: returns the function that opens a session.
pub(crate) fn connector(name: &str, server: String) -> Outcome<Connect> {
    Ok(match name {
        #[cfg(feature = "classic")]
        FLOOR => Box::new(move || raw::connect(&server, SESSION_TIMEOUT)),
        #[cfg(feature = "classic")]
        FLOOR_SINGLE => Box::new(move || raw::connect_single(&server, SESSION_TIMEOUT)),
        ZOOKEEPER_CLIENT => {
            let runtime = zookeeper_client::runtime()?;
            Box::new(move || zookeeper_client::connect(&runtime, &server, SESSION_TIMEOUT))
        }
        REDIS => Box::new(move || Ok(redis::connect(&server))),
        ETCD => Box::new(move || Ok(etcd::connect(&server))),
        _ => {
            let variant = VARIANTS.iter().find(|variant| variant.0 == name);
            let variant = variant.ok_or_else(|| format!("there is no contestant {name}"))?;
            Box::new(move || own::connect(&server, SESSION_TIMEOUT, variant))
        }
    })
}
