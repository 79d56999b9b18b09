//! The settings of an ensemble, and the code that starts it.

use std::io;
use std::thread;
use std::time::Duration;

use super::Ensemble;
use super::network::Network;
use crate::server::builder::Membership;
use crate::server::install::Installation;
use crate::server::on_free_ports;
use crate::{Server, ServerBuilder};

/// The settings of an [`Ensemble`]. All members have the same settings.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `start`"]
pub struct EnsembleBuilder {
    size: usize,
    servers: ServerBuilder,
}

impl EnsembleBuilder {
    pub(crate) fn new(size: usize) -> Self {
        Self { size, servers: Server::builder() }
    }

    fn with(self, set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        Self { servers: set(self.servers), ..self }
    }

    /// `tickTime`, the unit of session expiry and of `sync_limit`; 500 ms by default.
    pub fn tick(self, tick: Duration) -> Self {
        self.with(|servers| servers.tick(tick))
    }

    /// `syncLimit`: a follower that receives nothing from its leader for this many ticks leaves it, and a leader that
    /// receives nothing from a follower gives it up; 20 by default, which is 10 s.
    pub fn sync_limit(self, ticks: u32) -> Self {
        self.with(|servers| servers.property("syncLimit", &ticks.to_string()))
    }

    /// Like [`ServerBuilder::force_sync`].
    pub fn force_sync(self, force: bool) -> Self {
        self.with(|servers| servers.force_sync(force))
    }

    /// Like [`ServerBuilder::jvm_flag`].
    pub fn jvm_flag(self, flag: &str) -> Self {
        self.with(|servers| servers.jvm_flag(flag))
    }

    /// Starts all members at once, and returns when every member has joined the quorum. Fails like
    /// [`ServerBuilder::start`], and if a member is not ready within 60 s.
    pub fn start(self) -> io::Result<Ensemble> {
        if self.size == 0 {
            return Err(io::Error::other("an ensemble has at least one member"));
        }
        let installation = Installation::find()?;
        on_free_ports(|| self.start_once(&installation))
    }

    fn start_once(&self, installation: &Installation) -> io::Result<Ensemble> {
        let network = Network::start(self.size)?;
        let member = |index: usize| {
            let mut settings = self.servers.clone();
            settings.membership =
                Some(Membership { id: index + 1, members: network.seen_by(index) });
            Server::new(settings, installation.clone())
        };
        let members = (0..self.size).map(member).collect::<io::Result<Vec<_>>>()?;
        thread::scope(|scope| {
            let start = |server| scope.spawn(move || Server::start_again(server));
            let starts: Vec<_> = members.iter().map(start).collect();
            let ended: Vec<_> = starts.into_iter().map(|start| start.join()).collect();
            let panicked = |_| Err(io::Error::other("a thread panicked"));
            ended.into_iter().try_for_each(|ended| ended.unwrap_or_else(panicked))
        })?;
        let ensemble = Ensemble { members, network };
        ensemble.wait_ready()?;
        Ok(ensemble)
    }
}
