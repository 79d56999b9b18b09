//! Settings of an ensemble, and its start.

use std::io;
use std::thread;
use std::time::Duration;

use super::Ensemble;
use super::network::Network;
use crate::Server;
use crate::server::config::{Config, Membership};
use crate::server::install::Installation;
use crate::server::{PORT_ATTEMPTS, is_port_taken};

const LIMIT: u32 = 20;

/// Settings of an [`Ensemble`], the same for all members.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `start`"]
pub struct EnsembleBuilder {
    size: usize,
    config: Config,
    sync_limit: u32,
}

impl EnsembleBuilder {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, config: Config::default(), sync_limit: LIMIT }
    }

    /// `tickTime`, the unit of session expiry and of the limit below; 500 ms by default.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.config.tick = tick;
        self
    }

    /// `syncLimit`, the number of silent ticks after which a follower leaves its leader and a leader drops
    /// its follower; 20 by default, which is 10 s.
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.sync_limit = ticks;
        self
    }

    /// As [`ServerBuilder::force_sync`](crate::ServerBuilder::force_sync).
    pub fn force_sync(mut self, force: bool) -> Self {
        self.config.force_sync = force;
        self
    }

    /// As [`ServerBuilder::jvm_flag`](crate::ServerBuilder::jvm_flag).
    pub fn jvm_flag(mut self, flag: &str) -> Self {
        self.config.jvm_flags.push(flag.into());
        self
    }

    /// Starts all members at once, and returns when every member is in the quorum.
    ///
    /// # Errors
    ///
    /// Those of [`ServerBuilder::start`](crate::ServerBuilder::start). Also when there are no members, or one
    /// is not ready within 60 s.
    pub fn start(self) -> io::Result<Ensemble> {
        if self.size == 0 {
            let text = "an ensemble has at least one member";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let installation = Installation::find()?;
        let mut attempt = 1;
        loop {
            match self.start_once(&installation) {
                // Another process that does not know of the reservations listens on one of the ports.
                Err(error) if attempt < PORT_ATTEMPTS && is_port_taken(&error) => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    fn start_once(&self, installation: &Installation) -> io::Result<Ensemble> {
        let network = Network::start(self.size)?;
        let members = (0..self.size)
            .map(|index| self.member(index, &network, installation.clone()))
            .collect::<io::Result<Vec<_>>>()?;
        start_all(&members)?;
        let ensemble = Ensemble { members, network };
        ensemble.wait_ready()?;
        Ok(ensemble)
    }

    fn member(
        &self,
        index: usize,
        network: &Network,
        installation: Installation,
    ) -> io::Result<Server> {
        let mut config = self.config.clone();
        config.membership = Some(Membership {
            id: index + 1,
            init_limit: LIMIT,
            sync_limit: self.sync_limit,
            members: network.seen_by(index),
        });
        Server::new(config, installation)
    }
}

/// Starts servers at once, and returns the first error, if any.
fn start_all(servers: &[Server]) -> io::Result<()> {
    thread::scope(|scope| {
        let starts: Vec<_> =
            servers.iter().map(|server| scope.spawn(|| server.start_again())).collect();
        let ended = starts.into_iter().map(|start| start.join());
        let ended: Vec<_> = ended.collect();
        ended.into_iter().try_for_each(|outcome| {
            outcome.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        })
    })
}
