//! The ZooKeeper servers of the run: one, or an ensemble of three.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use zoolock_test_support::{Ensemble, Probe, Server};

use crate::setting::TICK;

const MEMBERS: usize = 3;
const PROBE_ATTEMPTS: usize = 50;
const PROBE_PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) enum Servers {
    Single(Box<Server>),
    Several(Ensemble),
}

impl Servers {
    pub(crate) fn start(ensemble: bool) -> io::Result<Servers> {
        Ok(if ensemble {
            Servers::Several(Ensemble::builder(MEMBERS).tick(TICK).start()?)
        } else {
            Servers::Single(Box::new(Server::builder().tick(TICK).start()?))
        })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Servers::Single(_) => 1,
            Servers::Several(ensemble) => ensemble.len(),
        }
    }

    pub(crate) fn server(&self, index: usize) -> &Server {
        match self {
            Servers::Single(server) => server,
            Servers::Several(ensemble) => ensemble.server(index),
        }
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        (0..self.len()).map(|index| self.server(index).address()).collect()
    }

    /// What only an ensemble can suffer.
    pub(crate) fn ensemble(&self) -> io::Result<&Ensemble> {
        match self {
            Servers::Single(_) => Err(io::Error::other("there is one server only")),
            Servers::Several(ensemble) => Ok(ensemble),
        }
    }

    /// Starts a server again and returns when all serve.
    pub(crate) fn start_again(&self, index: usize) -> io::Result<()> {
        self.server(index).start_again()?;
        self.wait_ready()
    }

    pub(crate) fn wait_ready(&self) -> io::Result<()> {
        match self {
            Servers::Single(_) => Ok(()),
            Servers::Several(ensemble) => ensemble.wait_ready(),
        }
    }

    /// An observer on any server that answers.
    pub(crate) fn probe(&self) -> io::Result<Probe> {
        let mut last = io::Error::other("no server");
        for attempt in 0..PROBE_ATTEMPTS {
            let index = attempt % self.len();
            match Probe::connect(self.server(index).address()) {
                Ok(probe) => return Ok(probe),
                Err(error) => last = error,
            }
            thread::sleep(PROBE_PAUSE);
        }
        Err(last)
    }
}
