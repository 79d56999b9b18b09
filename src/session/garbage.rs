//! Nodes that nobody wants any more and that are not known to be gone. Every node whose deletion
//! is not confirmed is on this list; it knows nothing of seats.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use log::{debug, warn};
use parking_lot::Mutex;
use zookeeper::ZkError;

use super::call::Failure;
use super::connection::Connection;
use super::wire::Wire;
use crate::node;
use crate::path::LockPath;

/// The first pause after a failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// The list. An entry goes only when its create has been answered and its delete answered Ok or
/// NoNode, or when the session that its create was sent on is over: until then a create that was
/// lost on the way may still arrive.
#[derive(Debug)]
pub(crate) struct Garbage {
    /// By the id that the node's name carries.
    entries: Mutex<HashMap<String, Entry>>,
    wake: (Sender<()>, Receiver<()>),
}

#[derive(Debug)]
struct Entry {
    directory: LockPath,
    name: Option<String>,
    connection: Arc<Connection>,
    failures: u32,
    due: Instant,
}

/// A node that may exist: its name enters the seat before its create is sent.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: String,
    /// As the server made it; none until its create is answered.
    pub(super) name: Option<String>,
    pub(super) connection: Arc<Connection>,
}

/// What became of one attempt to delete a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deleted {
    /// It was there and is gone.
    Now,
    /// It was not there.
    Before,
}

impl Garbage {
    pub(super) fn new() -> Garbage {
        Garbage { entries: Mutex::default(), wake: bounded(1) }
    }

    /// Takes over nodes of a seat. Returns their ids. Whoever adds also sees to the first
    /// attempt; the supervisor only comes after a reconnect or when a retry is due.
    pub(super) fn add(
        &self,
        directory: &LockPath,
        nodes: impl Iterator<Item = Node>,
    ) -> Vec<String> {
        let mut entries = self.entries.lock();
        let now = Instant::now();
        nodes
            .map(|node| {
                // So long the first attempt may take.
                let due = now + node.connection.timeout() / 3;
                let entry = Entry {
                    directory: directory.clone(),
                    name: node.name,
                    connection: node.connection,
                    failures: 0,
                    due,
                };
                entries.insert(node.id.clone(), entry);
                node.id
            })
            .collect()
    }

    /// A late answer: this is the name of the node.
    pub(crate) fn created(&self, id: &str, name: &str) {
        if let Some(entry) = self.entries.lock().get_mut(id) {
            entry.name = Some(name.to_owned());
        }
    }

    /// The create was refused, so there is no such node.
    pub(crate) fn never_was(&self, id: &str) {
        self.entries.lock().remove(id);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Are all nodes certainly gone, if not deleted, then with their sessions?
    pub(super) fn is_over(&self) -> bool {
        let entries = self.entries.lock();
        entries.values().all(|entry| entry.connection.is_over())
    }

    /// Ready when [`Garbage::nudge`] was called.
    pub(super) fn wake(&self) -> &Receiver<()> {
        &self.wake.1
    }

    /// The supervisor should have a look.
    pub(super) fn nudge(&self) {
        let _ = self.wake.0.try_send(());
    }

    /// When the next retry is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.entries.lock().values().map(|entry| entry.due).min()
    }

    /// Makes everything due that was left behind when `connection` came. What has been added on it
    /// since is being deleted by whoever added it, who would take a sweep for a loss.
    pub(super) fn expedite(&self, connection: &Arc<Connection>) {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        for entry in entries.values_mut() {
            if !Arc::ptr_eq(&entry.connection, connection) {
                entry.due = now;
            }
        }
    }

    /// Nobody is at these: the supervisor should be.
    pub(super) fn hurry(&self, ids: &[String]) {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        for id in ids {
            if let Some(entry) = entries.get_mut(id) {
                entry.due = now;
            }
        }
        drop(entries);
        self.nudge();
    }

    /// Tries to delete everything that is due.
    pub(super) fn work_off(&self, wire: &Wire<'_>) {
        let now = Instant::now();
        let due: Vec<String> = {
            let entries = self.entries.lock();
            let due = entries.iter().filter(|(_, entry)| entry.due <= now);
            due.map(|(id, _)| id.clone()).collect()
        };
        for id in due {
            if self.delete(wire, &id) == Err(Failure::Dead) {
                return;
            }
        }
    }

    /// Tries to delete the nodes of one seat. What became of the last, which is its place.
    pub(super) fn delete_all(&self, wire: &Wire<'_>, ids: &[String]) -> Result<Deleted, Failure> {
        let mut deleted = Deleted::Before;
        for id in ids {
            deleted = self.delete(wire, id)?;
        }
        Ok(deleted)
    }

    /// Tries to delete the node that carries `id`, looking for its name if that is not known.
    pub(crate) fn delete(&self, wire: &Wire<'_>, id: &str) -> Result<Deleted, Failure> {
        let Some((directory, name)) = self.place(id) else {
            return Ok(Deleted::Before);
        };
        let name = match name {
            Some(name) => Some(name),
            None => match find(wire, &directory, id) {
                Ok(found) => found,
                Err(failure) => return self.failed(id, failure),
            },
        };
        let Some(name) = name else {
            self.not_seen(id);
            return Ok(Deleted::Before);
        };
        let path = directory.child(&name);
        let deleted = match wire.delete(&path) {
            Ok(()) => Deleted::Now,
            Err(Failure::Refused(ZkError::NoNode)) => Deleted::Before,
            Err(failure) => return self.failed(id, failure),
        };
        self.entries.lock().remove(id);
        debug!(target: "zoolock::session", "deleted {path}");
        Ok(deleted)
    }

    fn place(&self, id: &str) -> Option<(LockPath, Option<String>)> {
        let entries = self.entries.lock();
        let entry = entries.get(id)?;
        Some((entry.directory.clone(), entry.name.clone()))
    }

    /// Its create may still be under way, unless the session is over.
    fn not_seen(&self, id: &str) {
        let mut entries = self.entries.lock();
        if entries.get(id).is_some_and(|entry| entry.connection.is_over()) {
            entries.remove(id);
        } else if let Some(entry) = entries.get_mut(id) {
            entry.back_off();
        }
    }

    fn failed(&self, id: &str, failure: Failure) -> Result<Deleted, Failure> {
        if let Some(entry) = self.entries.lock().get_mut(id) {
            entry.back_off();
        }
        if let Failure::Refused(error) = failure {
            warn!(target: "zoolock::session", "failed to delete the node of {id}: {error}");
        }
        Err(failure)
    }
}

impl Entry {
    fn back_off(&mut self) {
        let pause = PAUSES.0 * 2_u32.saturating_pow(self.failures);
        self.due = Instant::now() + pause.min(PAUSES.1);
        self.failures = self.failures.saturating_add(1).min(10);
    }
}

/// The name of the node that carries `id`.
pub(super) fn find(
    wire: &Wire<'_>,
    directory: &LockPath,
    id: &str,
) -> Result<Option<String>, Failure> {
    let children = wire.children(directory.as_str(), false)?;
    Ok(children.into_iter().find(|name| node::carries(name, id)))
}

#[cfg(test)]
mod tests {
    use zoolock_test_support::{fresh_path, wait_until};

    use super::*;
    use crate::session::stage::client;

    /// Held up in the network, it arrives after a look that did not find its node.
    #[test]
    fn a_create_that_may_still_arrive_stays_on_the_list_until_its_session_is_over() {
        let ((maker, connection), (_other, live)) = (client(), client());
        let garbage = Garbage::new();
        let directory = LockPath::parse(&fresh_path("not-seen")).expect("a path");
        let node = Node {
            id: "00000000-0000-4000-8000-000000000000".to_owned(),
            name: None,
            connection: Arc::clone(&connection),
        };
        let ids = garbage.add(&directory, [node].into_iter());
        let look = || live.step(|wire| garbage.delete(wire, &ids[0]));
        assert_eq!(look(), Some(Ok(Deleted::Before)));
        assert_eq!((garbage.len(), garbage.is_over()), (1, false), "{garbage:?}");
        maker.close().expect("closed");
        let second = Duration::from_secs(1);
        wait_until("its session is over", 20 * second, || connection.is_over());
        assert_eq!(look(), Some(Ok(Deleted::Before)));
        assert_eq!(garbage.len(), 0, "{garbage:?}");
    }
}
