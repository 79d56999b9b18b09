//! Faults in an ensemble of three servers while locks are held and waited for.

mod cut_off;
mod outages;
mod servers;

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use zoolock::Client;
use zoolock_test_support::{Ensemble, EnsembleBuilder, FaultProxy, Probe, wait_until};

use common::{SOON, client_of};

/// The number of concurrent ensembles, of three JVMs each. A start needs all processors, and the other
/// sessions must not end from starvation.
const AT_ONCE: usize = 3;

static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// One of the concurrent ensembles.
struct OneOfFew(Option<Ensemble>);

fn three() -> OneOfFew {
    start(Ensemble::builder(3))
}

/// Waits until another one may start.
fn start(ensemble: EnsembleBuilder) -> OneOfFew {
    let (running, ended) = &RUNNING;
    let running = running.lock().unwrap();
    *ended.wait_while(running, |running| *running == AT_ONCE).unwrap() += 1;
    // Counted from here on, even if the start fails.
    let mut one = OneOfFew(None);
    one.0 = Some(ensemble.start().unwrap());
    one
}

impl Deref for OneOfFew {
    type Target = Ensemble;

    fn deref(&self) -> &Ensemble {
        self.0.as_ref().expect("it was started")
    }
}

impl Drop for OneOfFew {
    fn drop(&mut self) {
        drop(self.0.take());
        *RUNNING.0.lock().unwrap() -= 1;
        RUNNING.1.notify_one();
    }
}

/// Reads the state from any server that answers.
struct Looker {
    addresses: Vec<SocketAddr>,
    probe: Option<Probe>,
}

impl Looker {
    fn at(addresses: Vec<SocketAddr>) -> Looker {
        Looker { addresses, probe: None }
    }

    /// The sorted children of a node; empty if it does not exist.
    fn children(&mut self, path: &str) -> Vec<String> {
        let mut seen = Vec::new();
        wait_until("a server answers", SOON, || match self.try_children(path) {
            Some(children) => {
                seen = children;
                true
            }
            None => {
                self.probe = None;
                // Starts with another server next time.
                self.addresses.rotate_left(1);
                false
            }
        });
        seen.sort();
        seen
    }

    /// Waits until the server has this many children. Another server may have had them before, and a caller
    /// would then misread a later change.
    fn await_children(&mut self, path: &str, count: usize) {
        wait_until("the server has caught up", SOON, || self.children(path).len() == count);
    }

    fn try_children(&mut self, path: &str) -> Option<Vec<String>> {
        if self.probe.is_none() {
            let probe = Probe::connect(self.addresses[0]).ok()?;
            probe.set_patience(Duration::from_secs(2)).ok()?;
            self.probe = Some(probe);
        }
        self.probe.as_ref()?.children(path).ok()
    }
}

/// A proxy for each member, so that a test can choose which members a client reaches.
struct Ways(Vec<FaultProxy>);

impl Ways {
    fn to(ensemble: &Ensemble) -> Ways {
        let addresses = ensemble.addresses();
        let ways = addresses.iter().map(|address| FaultProxy::start(*address));
        Ways(ways.map(Result::unwrap).collect())
    }

    /// A client that knows all members and is connected to this one.
    fn client_on(&self, member: usize, session_timeout: Duration) -> Client {
        let others = || (0..).zip(&self.0).filter(move |(index, _)| *index != member);
        others().for_each(|(_, way)| way.refuse(true));
        let hosts: Vec<_> = self.0.iter().map(FaultProxy::connect_string).collect();
        let client = client_of(&hosts.join(","), session_timeout);
        others().for_each(|(_, way)| way.refuse(false));
        client
    }
}
