//! Faults in an ensemble of three servers, with locks that clients hold and wait for.

mod cut_off;
mod outages;
mod servers;

use std::sync::LazyLock;
use std::time::Duration;

use zoolock::Client;
use zoolock::crossbeam_channel::{Receiver, Sender, bounded};

use common::*;

/// The number of ensembles, of three JVMs each, that run at the same time. An ensemble uses all processors while it
/// starts, and sessions in the other ensembles must not expire during that time.
const AT_ONCE: usize = 3;

static RUNNING: LazyLock<(Sender<()>, Receiver<()>)> = LazyLock::new(|| bounded(AT_ONCE));

/// One of the ensembles that run at the same time. Dropping it allows another one to start.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.1.recv().unwrap();
    }
}

/// Starts an ensemble once fewer than `AT_ONCE` run. The results are dropped in reverse order: the ensemble first.
fn start(ensemble: EnsembleBuilder) -> (Running, Ensemble) {
    RUNNING.0.send(()).unwrap();
    (Running, ensemble.start().unwrap())
}

/// Returns an ensemble, and the numbers of its leader and of a follower.
fn three() -> (Running, Ensemble, usize, usize) {
    let (running, ensemble) = start(Ensemble::builder(3));
    let (leader, follower) = (ensemble.leader().unwrap(), ensemble.followers().unwrap()[0]);
    (running, ensemble, leader, follower)
}

fn client_at(ensemble: &Ensemble, member: usize, session_timeout: Duration) -> Client {
    client_of(&ensemble.server(member).connect_string(), session_timeout)
}

/// Returns the nodes of all contenders, as listed by the server of client `looker`.
fn nodes(looker: &Client, path: &str) -> Vec<String> {
    let seen = answered(|| looker.contenders(path)).unwrap();
    seen.into_iter().map(|one| one.node).collect()
}

/// Waits until the client's server lists this many nodes. Another server may have listed them earlier, and without this
/// wait, a test would misinterpret a later change.
fn await_nodes(looker: &Client, path: &str, count: usize) {
    wait_until("the server has caught up", SOON, || nodes(looker, path).len() == count);
}

/// Proxies, one for each member, so that a test can choose which members a client reaches.
struct Ways(Vec<FaultProxy>);

impl Ways {
    fn to(ensemble: &Ensemble) -> Ways {
        let addresses = ensemble.addresses();
        let ways = addresses.iter().map(|address| FaultProxy::start(*address));
        Ways(ways.map(Result::unwrap).collect())
    }

    /// Returns a client that has the addresses of all members and is connected to `member`.
    fn client_on(&self, member: usize, session_timeout: Duration) -> Client {
        let others = || (0..).zip(&self.0).filter(move |(index, _)| *index != member);
        others().for_each(|(_, way)| way.refuse(true));
        let hosts: Vec<_> = self.0.iter().map(FaultProxy::connect_string).collect();
        let client = client_of(&hosts.join(","), session_timeout);
        others().for_each(|(_, way)| way.refuse(false));
        client
    }
}
