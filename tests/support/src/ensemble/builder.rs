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

/// Settings for an [`Ensemble`], the same for all members.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `start`"]
pub struct EnsembleBuilder {
    size: usize,
    config: Config,
    init_limit: u32,
    sync_limit: u32,
}

impl EnsembleBuilder {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, config: Config::default(), init_limit: LIMIT, sync_limit: LIMIT }
    }

    /// Sets `tickTime`, the step in which sessions expire and limits are counted. Default: 500 ms.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.config.tick = tick;
        self
    }

    /// Sets `initLimit`, how many ticks a follower may take to connect and catch up. Default: 20,
    /// which makes 10 s.
    pub fn init_limit(mut self, ticks: u32) -> Self {
        self.init_limit = ticks;
        self
    }

    /// Sets `syncLimit`, how many ticks of silence make a follower leave its leader, and a leader
    /// its follower. Default: 20, which makes 10 s.
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.sync_limit = ticks;
        self
    }

    /// As [`ServerBuilder::force_sync`](crate::ServerBuilder::force_sync).
    pub fn force_sync(mut self, force: bool) -> Self {
        self.config.force_sync = force;
        self
    }

    /// As [`ServerBuilder::property`](crate::ServerBuilder::property).
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.config.properties.push((key.into(), value.into()));
        self
    }

    /// As [`ServerBuilder::jvm_flag`](crate::ServerBuilder::jvm_flag).
    pub fn jvm_flag(mut self, flag: &str) -> Self {
        self.config.jvm_flags.push(flag.into());
        self
    }

    /// Starts all members at the same time. Returns when every member is in the quorum.
    ///
    /// # Errors
    ///
    /// As [`ServerBuilder::start`](crate::ServerBuilder::start), when the number of members is
    /// zero, or when a member is not ready within 60 s.
    pub fn start(self) -> io::Result<Ensemble> {
        if self.size == 0 {
            let text = "an ensemble has at least one member";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let installation = Installation::find()?;
        let mut attempt = 1;
        loop {
            match self.start_once(&installation) {
                // Another process listens on one of the ports, in spite of the reservation.
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
            init_limit: self.init_limit,
            sync_limit: self.sync_limit,
            members: network.seen_by(index),
        });
        Server::new(config, installation)
    }
}

/// Starts servers at the same time. Returns the first error, if any.
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
