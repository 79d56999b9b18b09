//! Delays caused by the machine and the servers: how late a thread that only sleeps wakes up, and how long a server
//! needs for a write sent by none of the clients. Either may cost a hold or make a call late.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use zoolock_checker::{History, Nanos, after};
use zoolock_test_support::Probe;

use crate::protocol::now;

const NAP: Duration = Duration::from_millis(20);

/// A measurement: when it began, how late the thread woke up, and when the server had answered.
type Look = (Nanos, Nanos, Option<Nanos>);

/// Measures the machine and one of the servers for as long as this program runs.
#[derive(Clone, Default)]
pub(crate) struct Machine(Arc<Mutex<Vec<Look>>>);

impl Machine {
    pub(crate) fn watch(server: SocketAddr) -> Machine {
        let machine = Machine::default();
        let looks = Arc::clone(&machine.0);
        thread::spawn(move || {
            let mut probe = None;
            loop {
                let due = after(now(), NAP);
                thread::sleep(NAP);
                let since = now();
                probe = probe.or_else(|| Probe::connect(server).ok());
                let is_served = probe.as_ref().is_some_and(|probe| probe.set("/", b"").is_ok());
                probe = probe.filter(|_| is_served);
                let look = (since, since.saturating_sub(due), is_served.then(now));
                looks.lock().unwrap_or_else(PoisonError::into_inner).push(look);
            }
        });
        machine
    }

    /// Adds the measurements made during a history to it.
    pub(crate) fn add_to(&self, history: &mut History) {
        let looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = history.begun;
        for &(since, late, served) in looks.iter().filter(|look| look.0 >= begun) {
            history.slept(since, late);
            served.into_iter().for_each(|at| history.served(since, at));
        }
    }
}
