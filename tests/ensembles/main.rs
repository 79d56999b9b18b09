//! Faults in an ensemble of three servers while locks are held and waited for.

mod cut_off;
mod outages;
mod servers;

use std::sync::LazyLock;
use std::time::Duration;

use zoolock::Client;
use zoolock::crossbeam_channel::{Receiver, Sender, bounded};

use common::*;

/// The number of concurrent ensembles, with three JVMs each. Starting one takes all processors, and meanwhile, the
/// sessions in the others must not expire.
const AT_ONCE: usize = 3;

static RUNNING: LazyLock<(Sender<()>, Receiver<()>)> = LazyLock::new(|| bounded(AT_ONCE));

/// One of the concurrent ensembles, until this value is dropped.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.1.recv().unwrap();
    }
}

/// Waits until another one may start. When the results are dropped, the ensemble ends before the permit is returned.
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

/// Returns the nodes of all contenders, as listed by this client's server.
fn nodes(looker: &Client, path: &str) -> Vec<String> {
    let seen = answered(|| looker.contenders(path)).unwrap();
    seen.into_iter().map(|one| one.node).collect()
}

/// Waits until the client's server has this many nodes. Another server may have had them earlier, and a caller would
/// then misinterpret a later change.
fn await_nodes(looker: &Client, path: &str, count: usize) {
    wait_until("the server has caught up", SOON, || nodes(looker, path).len() == count);
}

/// A proxy for each member, so that a test can choose which members a client reaches.
struct Ways(Vec<FaultProxy>);

impl Ways {
    fn to(ensemble: &Ensemble) -> Ways {
        let addresses = ensemble.addresses();
        let ways = addresses.iter().map(|address| FaultProxy::start(*address));
        Ways(ways.map(Result::unwrap).collect())
    }

    /// Returns a client that has the addresses of all members and is connected to this one.
    fn client_on(&self, member: usize, session_timeout: Duration) -> Client {
        let others = || (0..).zip(&self.0).filter(move |(index, _)| *index != member);
        others().for_each(|(_, way)| way.refuse(true));
        let hosts: Vec<_> = self.0.iter().map(FaultProxy::connect_string).collect();
        let client = client_of(&hosts.join(","), session_timeout);
        others().for_each(|(_, way)| way.refuse(false));
        client
    }
}
