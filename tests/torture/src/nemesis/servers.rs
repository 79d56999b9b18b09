//! The ZooKeeper servers of the run, one or an ensemble of three, and their faults.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use zoolock_test_support::{Ensemble, Probe, Server};

use crate::Outcome;
use crate::nemesis::Nemesis;
use crate::settings::{TICK, TIMEOUT};

const MEMBERS: usize = 3;
const PROBE_ATTEMPTS: usize = 50;
const PROBE_PAUSE: Duration = Duration::from_millis(200);
/// How often each fault happens.
const TIMES: usize = 2;

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

    /// The ensemble, for faults that only an ensemble can suffer.
    pub(crate) fn ensemble(&self) -> io::Result<&Ensemble> {
        match self {
            Servers::Single(_) => Err(io::Error::other("there is one server only")),
            Servers::Several(ensemble) => Ok(ensemble),
        }
    }

    /// Starts a server again, and returns when all serve.
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

pub(crate) fn kill(nemesis: &mut Nemesis) -> Outcome<()> {
    for _ in 0..TIMES {
        nemesis.pass(500, 1500);
        let index = nemesis.some_server();
        nemesis.servers.server(index).kill()?;
        nemesis.pass(0, 800);
        nemesis.servers.start_again(index)?;
    }
    Ok(())
}

pub(crate) fn restart(nemesis: &mut Nemesis) -> Outcome<()> {
    for _ in 0..TIMES {
        nemesis.pass(500, 1500);
        let index = nemesis.some_server();
        nemesis.servers.server(index).restart()?;
        nemesis.servers.wait_ready()?;
    }
    Ok(())
}

/// For less than the session timeout, and for longer.
pub(crate) fn pause(nemesis: &mut Nemesis) -> Outcome<()> {
    let timeout = TIMEOUT.as_millis() as u64;
    let spans = [
        (timeout / 10, timeout / 4),
        (timeout / 3, timeout * 2 / 3),
        (timeout, timeout * 5 / 4),
        (timeout * 5 / 4, timeout * 3 / 2),
    ];
    for (least, most) in spans {
        nemesis.pass(500, 1000);
        let index = nemesis.some_server();
        pause_one(nemesis, index, least, most)?;
    }
    Ok(())
}

pub(crate) fn kill_leader(nemesis: &mut Nemesis) -> Outcome<()> {
    for _ in 0..TIMES {
        nemesis.pass(500, 1500);
        let leader = nemesis.servers.ensemble()?.kill_leader()?;
        nemesis.pass(1000, 4000);
        nemesis.servers.start_again(leader)?;
    }
    Ok(())
}

/// A follower first, and then the leader.
pub(crate) fn pause_member(nemesis: &mut Nemesis) -> Outcome<()> {
    let followers = nemesis.servers.ensemble()?.followers()?;
    let leader = nemesis.servers.ensemble()?.leader()?;
    let follower = nemesis.rng.choice(followers).ok_or("no follower")?;
    let timeout = TIMEOUT.as_millis() as u64;
    for index in [follower, leader] {
        nemesis.pass(500, 1000);
        pause_one(nemesis, index, timeout, timeout * 2)?;
        nemesis.servers.wait_ready()?;
    }
    Ok(())
}

pub(crate) fn rolling_restart(nemesis: &mut Nemesis) -> Outcome<()> {
    nemesis.pass(500, 1000);
    Ok(nemesis.servers.ensemble()?.rolling_restart()?)
}

/// For a while it answers reads without knowing the others' decisions.
pub(crate) fn cut_off_follower(nemesis: &mut Nemesis) -> Outcome<()> {
    for _ in 0..TIMES {
        nemesis.pass(500, 1000);
        let followers = nemesis.servers.ensemble()?.followers()?;
        let follower = nemesis.rng.choice(followers).ok_or("no follower")?;
        nemesis.servers.ensemble()?.cut_off(follower);
        let timeout = TIMEOUT.as_millis() as u64;
        nemesis.pass(timeout * 3 / 2, timeout * 5 / 2);
        nemesis.servers.ensemble()?.heal();
        nemesis.servers.wait_ready()?;
    }
    Ok(())
}

fn pause_one(nemesis: &mut Nemesis, index: usize, least: u64, most: u64) -> Outcome<()> {
    nemesis.servers.server(index).pause()?;
    nemesis.pass(least, most);
    Ok(nemesis.servers.server(index).resume()?)
}
