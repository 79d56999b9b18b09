//! Faults of ensembles of three servers, while locks are held and waited for.

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

/// How many ensembles there are at once, of three JVMs each: the start of one needs all of the
/// processors, and the sessions of the others are not to end for want of any.
const AT_ONCE: usize = 3;

static RUNNING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// One of the ensembles that run at once.
struct OneOfFew(Option<Ensemble>);

fn three() -> OneOfFew {
    start(Ensemble::builder(3))
}

/// Waits until there may be one more.
fn start(ensemble: EnsembleBuilder) -> OneOfFew {
    let (running, ended) = &RUNNING;
    let running = running.lock().unwrap();
    *ended.wait_while(running, |running| *running == AT_ONCE).unwrap() += 1;
    // Counted from here on, also if it does not start.
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

/// Looks at what is on the servers that answer, whichever of them go.
struct Looker {
    addresses: Vec<SocketAddr>,
    probe: Option<Probe>,
}

impl Looker {
    fn at(addresses: Vec<SocketAddr>) -> Looker {
        Looker { addresses, probe: None }
    }

    /// The children of a node, sorted; none if it does not exist.
    fn children(&mut self, path: &str) -> Vec<String> {
        let mut seen = Vec::new();
        wait_until("a server answers", SOON, || match self.try_children(path) {
            Some(children) => {
                seen = children;
                true
            }
            None => {
                self.probe = None;
                // Another one next time.
                self.addresses.rotate_left(1);
                false
            }
        });
        seen.sort();
        seen
    }

    /// Waits until the server has so many. Another one may have had them before, and whoever counts
    /// what comes then would take an earlier one for it.
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

/// A way to each member, so that one can choose which of them a client uses.
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
