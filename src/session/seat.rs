//! A seat: a place in a lock's queue, from the first node that is sent for it to the end of its
//! hold. It knows its nodes and its state, nothing of how they come about.

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::connection::Connection;
use super::garbage::{Garbage, Node};
use crate::clock::Moment;
use crate::error::LossReason;
use crate::node::Kind;
use crate::path::LockPath;
use crate::signal::{Ended, Signal};
use crate::watch::Listening;

/// What a seat is for; the same for its whole life.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) directory: LockPath,
    pub(crate) kind: Kind,
    /// The thread that will own the hold, where a thread owns it.
    pub(crate) owner: Option<ThreadId>,
    /// What the node says of its maker.
    pub(crate) identity: Arc<str>,
}

/// A place in a queue.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u64,
    claim: Claim,
    core: Mutex<Core>,
    /// Raised when the hold ends, by release or by loss.
    ended: Signal,
    /// Signalled by the watcher thread when the place in the queue may have changed.
    wake: (Sender<u64>, Receiver<u64>),
}

/// | state | nodes | ends by |
/// |---|---|---|
/// | Waiting | every node that may exist | grant, giving up |
/// | Held | the confirmed one, last | release, loss |
/// | Lost | none: they are garbage | the release that reports it |
/// | Released | none: they are garbage | |
#[derive(Debug)]
struct Core {
    state: State,
    nodes: Vec<Node>,
    /// The name of the node that was granted, kept after the end.
    name: String,
    token: Option<u64>,
    /// Since when the seat has its node, and whether that is watched.
    since: Instant,
    watched: Option<Listening>,
}

#[derive(Debug)]
enum State {
    Waiting,
    Held {
        connection: Arc<Connection>,
        term: u64,
    },
    Lost(LossReason),
    Released,
}

/// What is known of a hold, by the clocks and without any I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Waiting,
    Held,
    /// The connection is dead, the lease still runs.
    Suspended,
    Lost(LossReason),
    Released,
}

/// Why a seat was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotGranted {
    /// Nobody wants it any more.
    GivenUp,
    /// Its connection is dead, or has no lease to hold on.
    NoLease,
}

impl Seat {
    pub(super) fn new(number: u64, claim: Claim) -> Seat {
        Seat {
            number,
            claim,
            core: Mutex::new(Core {
                state: State::Waiting,
                nodes: Vec::new(),
                name: String::new(),
                token: None,
                since: Instant::now(),
                watched: None,
            }),
            ended: Signal::new(),
            wake: bounded(1),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(crate) fn path(&self) -> &str {
        self.claim.directory.as_str()
    }

    pub(crate) fn ended(&self) -> &Ended {
        self.ended.ended()
    }

    /// The waiter's channel: whoever has the sender wakes it.
    pub(crate) fn wake(&self) -> &(Sender<u64>, Receiver<u64>) {
        &self.wake
    }

    // ---- nodes

    /// A create is about to be sent on `connection`. Returns the id that its name carries, or
    /// none if nobody wants the seat any more, or the connection is dead: the seat may live on
    /// another one by now, and a node of this one would stand in for its own.
    pub(crate) fn enter(&self, connection: &Arc<Connection>) -> Option<String> {
        let mut core = self.core.lock();
        if !matches!(core.state, State::Waiting) || connection.is_dead() {
            return None;
        }
        let id = uuid::Uuid::new_v4().hyphenated().to_string();
        core.nodes.push(Node {
            id: id.clone(),
            name: None,
            connection: Arc::clone(connection),
        });
        Some(id)
    }

    /// The create was answered. False if the seat was given up meanwhile: then the node is
    /// garbage, and whoever has the answer deletes it.
    pub(crate) fn entered(&self, id: &str, name: &str) -> bool {
        let mut core = self.core.lock();
        core.since = Instant::now();
        let node = core.nodes.iter_mut().find(|node| node.id == id);
        node.map(|node| node.name = Some(name.to_owned())).is_some()
    }

    /// The node certainly does not exist: its create was refused, or it was seen to be gone.
    pub(crate) fn strike(&self, id_or_name: &str) {
        let mut core = self.core.lock();
        core.watched = None;
        core.nodes
            .retain(|node| node.id != id_or_name && node.name.as_deref() != Some(id_or_name));
    }

    /// The waiting seat leaves a dead connection behind: its nodes are garbage from now on.
    /// Returns their ids.
    pub(crate) fn start_over(&self, garbage: &Garbage) -> Vec<String> {
        let mut core = self.core.lock();
        core.watched = None;
        garbage.add(&self.claim.directory, core.nodes.drain(..))
    }

    /// The name of the node that the seat stands or falls with, and its connection.
    pub(crate) fn own(&self) -> Option<(String, Arc<Connection>)> {
        let core = self.core.lock();
        let node = core.nodes.last()?;
        Some((node.name.clone()?, Arc::clone(&node.connection)))
    }

    /// The name of the node that was granted, also after the end of the hold.
    pub(crate) fn node(&self) -> String {
        self.core.lock().name.clone()
    }

    // ---- states

    /// The place is granted, and so the seat held, if somebody still wants it and a lease runs on
    /// the connection that its node was made on.
    pub(crate) fn grant(&self, connection: &Arc<Connection>, name: &str) -> Result<(), NotGranted> {
        let mut core = self.core.lock();
        if !matches!(core.state, State::Waiting) {
            return Err(NotGranted::GivenUp);
        }
        if !connection.move_in() {
            return Err(NotGranted::NoLease);
        }
        let (term, left) = connection.lease(Moment::now());
        if left.is_zero() {
            connection.move_out();
            return Err(NotGranted::NoLease);
        }
        core.state = State::Held {
            connection: Arc::clone(connection),
            term,
        };
        core.name = name.to_owned();
        Ok(())
    }

    /// Reads the clocks: a lease that has run out is a loss, whoever has noticed.
    pub(crate) fn standing(&self, now: Moment) -> Standing {
        self.core.lock().standing(now)
    }

    /// What is left of the lease; zero unless held.
    pub(crate) fn valid_for(&self, now: Moment) -> Duration {
        let core = self.core.lock();
        match (&core.state, core.standing(now)) {
            (State::Held { connection, .. }, Standing::Held | Standing::Suspended) => {
                connection.lease(now).1
            }
            _ => Duration::ZERO,
        }
    }

    /// The connection that the seat is held on.
    pub(crate) fn held_on(&self) -> Option<Arc<Connection>> {
        match &self.core.lock().state {
            State::Held { connection, .. } => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// Ends the hold or the waiting. The nodes go to the garbage list, under the seat's mutex, so
    /// that a create's late answer finds either the seat or the garbage entry. Returns how the
    /// seat stood before, and the ids of its nodes.
    ///
    /// A lost seat stays lost.
    pub(super) fn end(
        &self,
        how: Ending<'_>,
        garbage: &Garbage,
    ) -> Option<(Standing, Vec<String>)> {
        let mut core = self.core.lock();
        let before = core.standing(Moment::now());
        if !how.applies(&core, before) {
            return None;
        }
        let next = match how {
            // Whoever asks later must not take a loss for a release.
            Ending::Release => match before {
                Standing::Lost(reason) => State::Lost(reason),
                _ => State::Released,
            },
            Ending::Lapse => State::Lost(LossReason::LeaseExpired),
            Ending::NodeGone(_) => State::Lost(LossReason::NodeDeleted),
            Ending::Close => match core.state {
                State::Waiting => State::Released,
                _ => State::Lost(LossReason::ClientClosed),
            },
        };
        let old = std::mem::replace(&mut core.state, next);
        let ids = garbage.add(&self.claim.directory, core.nodes.drain(..));
        let watched = core.watched.take();
        drop(core);
        drop(watched);
        self.ended.raise();
        if let State::Held { connection, .. } = old {
            connection.move_out();
        }
        Some((before, ids))
    }

    // ---- the watch over the own node

    /// When the own node should be watched on `connection`: none if it is, or has none.
    pub(super) fn watch_due(&self, connection: &Arc<Connection>) -> Option<Instant> {
        let core = self.core.lock();
        let node = core.nodes.last()?;
        let wanted = core.watched.is_none()
            && node.name.is_some()
            && Arc::ptr_eq(&node.connection, connection);
        wanted.then(|| core.since + connection.timeout() / 4)
    }

    /// The node `name` on `connection` is being watched, if it still is the seat's.
    pub(super) fn watched(&self, name: &str, connection: &Arc<Connection>, listening: Listening) {
        let mut core = self.core.lock();
        let own = core.nodes.last().is_some_and(|node| {
            node.name.as_deref() == Some(name) && Arc::ptr_eq(&node.connection, connection)
        });
        let old = match own {
            true => core.watched.replace(listening),
            false => Some(listening),
        };
        drop(core);
        drop(old);
    }

    // ---- the fencing token

    pub(crate) fn token(&self) -> Option<u64> {
        self.core.lock().token
    }

    /// Keeps the first token that becomes known.
    pub(crate) fn learn_token(&self, czxid: i64) -> u64 {
        // A czxid is an epoch and a counter, never negative.
        *self.core.lock().token.get_or_insert(czxid.unsigned_abs())
    }
}

impl Core {
    fn standing(&self, now: Moment) -> Standing {
        match &self.state {
            State::Waiting => Standing::Waiting,
            State::Released => Standing::Released,
            State::Lost(reason) => Standing::Lost(*reason),
            State::Held { connection, term } => {
                let (current, left) = connection.lease(now);
                if current != *term || left.is_zero() {
                    Standing::Lost(LossReason::LeaseExpired)
                } else if connection.is_dead() {
                    Standing::Suspended
                } else {
                    Standing::Held
                }
            }
        }
    }
}

/// How a seat's hold or waiting ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending<'a> {
    /// Its owner lets go, or gives up waiting.
    Release,
    /// Its lease has run out.
    Lapse,
    /// The node of this name, if it is still the seat's, was deleted by somebody.
    NodeGone(&'a str),
    /// The client is being closed.
    Close,
}

impl Ending<'_> {
    fn applies(self, core: &Core, standing: Standing) -> bool {
        let lost = standing == Standing::Lost(LossReason::LeaseExpired);
        match (self, &core.state) {
            (_, State::Released) => false,
            (Ending::Release, _) => true,
            (_, State::Lost(_)) => false,
            (Ending::Lapse, State::Held { .. }) => lost,
            (Ending::NodeGone(gone), State::Held { .. }) => gone == core.name,
            (Ending::Close, _) => true,
            (Ending::Lapse | Ending::NodeGone(_), State::Waiting) => false,
        }
    }
}
