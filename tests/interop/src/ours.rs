//! Our side: clients, and calls that wait on threads of their own.

use std::thread;
use std::time::Duration;

use zoolock::Client;
use zoolock::crossbeam_channel::{Receiver, bounded};
use zoolock_test_support::shared_server;

use crate::SOON;

/// Long enough that a busy machine does not end a session.
const SESSION: Duration = Duration::from_secs(20);

/// A client of ours, with a session of its own.
#[must_use]
pub fn client() -> Client {
    client_of(&shared_server().connect_string())
}

/// The same, of some proxy.
///
/// # Panics
/// When it cannot connect.
#[must_use]
pub fn client_of(hosts: &str) -> Client {
    Client::connect(hosts, SESSION).expect("connected")
}

/// A call on a thread of its own, which may block.
#[derive(Debug)]
pub struct Task<R>(Receiver<R>);

impl<R: Send + 'static> Task<R> {
    /// Begins it.
    pub fn spawn(call: impl FnOnce() -> R + Send + 'static) -> Task<R> {
        let (sender, result) = bounded(1);
        thread::spawn(move || {
            let _ = sender.send(call());
        });
        Task(result)
    }

    /// Has it returned?
    #[must_use]
    pub fn is_done(&self) -> bool {
        !self.0.is_empty()
    }

    /// What it returned.
    ///
    /// # Panics
    /// When it panicked, or does not return in time.
    #[track_caller]
    pub fn result(&self) -> R {
        let result = self.0.recv_timeout(SOON);
        result.unwrap_or_else(|error| panic!("no result within {SOON:?} ({error})"))
    }
}
