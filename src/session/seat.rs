//! A seat: a place in a lock's queue, from the first node that is sent for it to the end of its
//! hold. It knows its nodes and its state, nothing of how they come about.

mod moving;
mod own_node;
mod passing;

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};
use parking_lot::Mutex;

use super::call::{Failure, Until};
use super::connection::Connection;
use super::garbage::{Garbage, Node};
use super::tenancy::Berth;
use crate::clock::Moment;
use crate::data::Origin;
use crate::error::{Error, LossReason};
use crate::node::Kind;
use crate::path::LockPath;
use crate::place::Observer;
use crate::signal::{Ended, Signal};
use crate::watch::Listening;
pub(super) use moving::{Confirmed, Move, Whereabouts};
use own_node::Revocation;
use passing::Recall;

/// What a seat is for; the same for its whole life.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// What it is part of, as users know it.
    pub(crate) lock: LockPath,
    pub(crate) directory: LockPath,
    pub(crate) kind: Kind,
    /// The thread that makes the claim, where a thread will own the hold.
    pub(crate) owner: Option<ThreadId>,
    /// What the node says of its maker.
    pub(crate) identity: Arc<str>,
    /// The directories that a release removes if it leaves them empty, innermost first.
    pub(crate) tidy: Vec<LockPath>,
    /// Of the directories that its create may make, those that some release removes.
    pub(crate) remember: Vec<LockPath>,
    /// A release does not wait for its answer.
    pub(crate) background: bool,
    /// Wants to know the place while it waits.
    pub(crate) observer: Option<Observer>,
}

/// A place in a queue.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u64,
    claim: Claim,
    core: Mutex<Core>,
    /// Raised when the hold ends, by release or by loss.
    ended: Signal,
    /// The same of any of those that were taken together.
    any_ended: Option<Arc<Signal>>,
    /// Signalled by the watcher thread when the place in the queue may have changed.
    wake: (Sender<u64>, Receiver<u64>),
}

/// | state | place | next | ends by |
/// |---|---|---|---|
/// | Waiting | from the first create on | while it moves | grant, giving up |
/// | Held | always | while it moves | release, loss |
/// | Lost | none: it is garbage | none | the release that reports it |
/// | Released | none: it is garbage | none | |
#[derive(Debug)]
struct Core {
    state: State,
    /// The node that the seat stands or falls with.
    place: Option<Place>,
    /// The node that shall take the place over on another session. It grants nothing until the
    /// old one was seen beside it.
    next: Option<Node>,
    /// The name of the node that was granted, kept after the end.
    name: String,
    /// None until it was read.
    origin: Option<Origin>,
    revocation: Revocation,
    /// The thread that owns the hold, where a thread owns it.
    owner: Option<ThreadId>,
    /// Nobody holds it: it is kept for the next thread of the process that wants it.
    kept: bool,
    recall: Recall,
    /// Since when it is held.
    granted: Instant,
    /// How many holds there are beside the first: a read may share the seat of its own write.
    shares: u32,
    /// A read was taken under it, in its place, which may outlive it.
    read_under: bool,
    /// Since when the seat has its place, and whether that is watched.
    since: Instant,
    watched: Option<Listening>,
}

/// A node and the connection whose session owns it.
#[derive(Debug)]
struct Place {
    id: String,
    /// None until its create is answered.
    name: Option<String>,
    berth: Berth,
}

impl Place {
    fn connection(&self) -> &Arc<Connection> {
        self.berth.connection()
    }

    fn is_on(&self, connection: &Arc<Connection>) -> bool {
        Arc::ptr_eq(self.connection(), connection)
    }

    fn into_node(self) -> Node {
        Node { id: self.id, name: self.name, connection: Arc::clone(self.berth.connection()) }
    }
}

#[derive(Debug)]
enum State {
    Waiting,
    /// In this term of the lease of the place's connection.
    Held {
        term: u64,
    },
    Lost(LossReason),
    Released,
}

/// What a seat leaves when it ends.
#[derive(Debug)]
pub(super) struct Over {
    /// How it stood before; as released if it was kept for nobody in particular.
    pub(super) before: Standing,
    /// The connection of its place.
    pub(super) connection: Option<Arc<Connection>>,
    /// The create of its place was answered.
    pub(super) named: bool,
    /// The ids of its nodes, which are garbage now.
    pub(super) ids: Vec<String>,
}

impl Over {
    pub(super) fn is_on(&self, connection: &Arc<Connection>) -> bool {
        let own = self.connection.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(own, connection))
    }
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
    pub(super) fn new(number: u64, claim: Claim, any_ended: Option<Arc<Signal>>) -> Seat {
        Seat {
            number,
            core: Mutex::new(Core {
                owner: claim.owner,
                kept: false,
                recall: Recall::default(),
                granted: Instant::now(),
                state: State::Waiting,
                place: None,
                next: None,
                name: String::new(),
                origin: None,
                revocation: Revocation::default(),
                shares: 0,
                read_under: false,
                since: Instant::now(),
                watched: None,
            }),
            claim,
            ended: Signal::new(),
            any_ended,
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
        self.claim.lock.as_str()
    }

    pub(crate) fn ended(&self) -> &Ended {
        self.ended.ended()
    }

    /// Of all that were taken together, the first end; its own if it was taken alone.
    pub(crate) fn any_ended(&self) -> &Ended {
        self.any_ended.as_deref().unwrap_or(&self.ended).ended()
    }

    /// What to say of its loss.
    pub(crate) fn lost(&self, reason: LossReason) -> Error {
        let path = self.path().to_owned();
        Error::Lost { path, reason }
    }

    /// The waiter's channel: whoever has the sender wakes it.
    pub(crate) fn wake(&self) -> &(Sender<u64>, Receiver<u64>) {
        &self.wake
    }

    /// Before a look: what was signalled until now it will see. On the waiter's own thread, since
    /// a job left over on a dead connection would take the signals of the next one.
    pub(crate) fn forget_signals(&self) {
        while self.wake.1.try_recv().is_ok() {}
    }

    /// Waits until what was looked at may have changed. False at the deadline.
    pub(crate) fn await_change(
        &self,
        connection: &Connection,
        until: &Until,
    ) -> Result<bool, Failure> {
        let expiry = until.expiry();
        select_biased! {
            recv(connection.died()) -> _ => Err(Failure::Dead),
            recv(self.wake.1) -> _ => Ok(true),
            recv(until.cancelled) -> _ => Err(Failure::Cancelled),
            recv(expiry) -> _ => Ok(false),
        }
    }

    // ---- the place in the queue

    /// A create is about to be sent on `connection`. Returns the id that its name carries; Cancelled
    /// if nobody wants the seat any more, and Dead if the connection is: the seat may live on
    /// another one by now, and a node of this one would stand in for its own.
    pub(crate) fn enter(&self, connection: &Arc<Connection>) -> Result<String, Failure> {
        let mut core = self.core.lock();
        if connection.is_dead() {
            return Err(Failure::Dead);
        }
        if !matches!(core.state, State::Waiting) || core.place.is_some() {
            return Err(Failure::Cancelled);
        }
        let id = new_id();
        core.place = Some(Place {
            id: id.clone(),
            name: None,
            berth: Berth::new(connection, self.claim.kind == Kind::Single),
        });
        Ok(id)
    }

    /// The create that carried `id` was answered. False if the seat was given up meanwhile: then
    /// the node is garbage, and whoever has the answer deletes it.
    pub(crate) fn entered(&self, id: &str, name: &str) -> bool {
        let mut core = self.core.lock();
        let name = Some(name.to_owned());
        if let Some(place) = core.place.as_mut().filter(|place| place.id == id) {
            place.name = name;
            core.since = Instant::now();
        } else if let Some(next) = core.next.as_mut().filter(|next| next.id == id) {
            next.name = name;
        } else {
            return false;
        }
        true
    }

    /// The node certainly does not exist: its create was refused, or it was seen to be gone.
    pub(crate) fn strike(&self, id_or_name: &str) {
        let is_it = |id: &str, name: &Option<String>| {
            id == id_or_name || name.as_deref() == Some(id_or_name)
        };
        let mut core = self.core.lock();
        let next = core.next.take_if(|next| is_it(&next.id, &next.name));
        let place = core.place.take_if(|place| is_it(&place.id, &place.name));
        let watched = place.is_some().then(|| core.forget_place()).flatten();
        drop(core);
        drop((next, place, watched));
    }

    /// The waiting seat leaves its place behind: its nodes are garbage from now on. Returns their
    /// ids.
    pub(crate) fn start_over(&self, garbage: &Garbage) -> Vec<String> {
        let mut core = self.core.lock();
        if !matches!(core.state, State::Waiting) {
            return Vec::new();
        }
        let watched = core.forget_place();
        let ids = self.discard(core.take_nodes(), garbage);
        drop(core);
        drop(watched);
        ids
    }

    /// These nodes are garbage from now on. Returns their ids.
    ///
    /// A lock that is a single node has none: its name does not say who made it, so only the
    /// connection that made it may delete it, and what that cannot delete goes with its session.
    fn discard(&self, nodes: impl Iterator<Item = Node>, garbage: &Garbage) -> Vec<String> {
        match self.claim.kind {
            Kind::Single => Vec::new(),
            _ => garbage.add(&self.claim.directory, nodes),
        }
    }

    /// The name of the node that the seat stands or falls with, and its connection.
    pub(crate) fn own(&self) -> Option<(String, Arc<Connection>)> {
        let core = self.core.lock();
        let place = core.place.as_ref()?;
        Some((place.name.clone()?, Arc::clone(place.connection())))
    }

    /// Is there a node, or may there be one?
    pub(crate) fn has_place(&self) -> bool {
        self.core.lock().place.is_some()
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
        let own =
            |place: &&mut Place| place.name.as_deref() == Some(name) && place.is_on(connection);
        let Some(place) = core.place.as_mut().filter(own) else {
            return Err(NotGranted::GivenUp);
        };
        let (term, left) = connection.lease(Moment::now());
        if left.is_zero() || !place.berth.hold() {
            return Err(NotGranted::NoLease);
        }
        core.state = State::Held { term };
        core.name = name.to_owned();
        core.granted = Instant::now();
        Ok(())
    }

    /// A read is about to stand in the seat's place, too.
    pub(crate) fn read_under(&self) {
        self.core.lock().read_under = true;
    }

    /// One more hold shares the seat: it takes one more release.
    pub(crate) fn share(&self) {
        self.core.lock().shares += 1;
    }

    /// Reads the clocks: a lease that has run out is a loss, whoever has noticed.
    pub(crate) fn standing(&self, now: Moment) -> Standing {
        self.core.lock().standing(now)
    }

    /// What is left of the lease; zero unless held.
    pub(crate) fn valid_for(&self, now: Moment) -> Duration {
        let core = self.core.lock();
        match (&core.place, core.standing(now)) {
            (Some(place), Standing::Held | Standing::Suspended) => place.connection().lease(now).1,
            _ => Duration::ZERO,
        }
    }

    /// The connection that the seat is held on.
    pub(crate) fn held_on(&self) -> Option<Arc<Connection>> {
        let core = self.core.lock();
        let held = matches!(core.state, State::Held { .. });
        let place = core.place.as_ref().filter(|_| held)?;
        Some(Arc::clone(place.connection()))
    }

    /// Ends the hold or the waiting. The nodes go to the garbage list, under the seat's mutex, so
    /// that a create's late answer finds either the seat or the garbage entry. None if there is
    /// nothing to end, or others share the hold.
    ///
    /// A lost seat stays lost.
    pub(super) fn end(
        &self,
        how: Ending<'_>,
        clock: impl FnOnce() -> Moment,
        garbage: &Garbage,
    ) -> Option<Over> {
        let mut core = self.core.lock();
        let before = core.standing(clock());
        if !how.applies(&core, before) {
            return None;
        }
        let held = matches!(before, Standing::Held | Standing::Suspended);
        if matches!(how, Ending::Release) && held && core.shares > 0 {
            core.shares -= 1;
            return None;
        }
        let kept = std::mem::take(&mut core.kept);
        let next = match how {
            _ if kept => State::Released,
            // Whoever asks later must not take a loss for a release.
            Ending::Release => match before {
                Standing::Lost(reason) => State::Lost(reason),
                _ => State::Released,
            },
            Ending::Unwanted => State::Released,
            Ending::Lapse => State::Lost(LossReason::LeaseExpired),
            Ending::NodeGone(_) => State::Lost(LossReason::NodeDeleted),
            Ending::NotConfirmed(_) => State::Lost(LossReason::NotConfirmed),
            Ending::Close => match core.state {
                State::Waiting => State::Released,
                _ => State::Lost(LossReason::ClientClosed),
            },
        };
        core.state = next;
        let place = core.place.as_ref();
        let connection = place.map(|place| Arc::clone(place.connection()));
        let named = place.is_some_and(|place| place.name.is_some());
        let ids = self.discard(core.take_nodes(), garbage);
        let watched = (core.watched.take(), std::mem::take(&mut core.recall));
        let asked = std::mem::take(&mut core.revocation);
        drop(core);
        drop((watched, asked));
        self.raise_ended();
        Some(Over {
            before: if kept { Standing::Released } else { before },
            connection,
            named,
            ids,
        })
    }

    fn raise_ended(&self) {
        self.ended.raise();
        if let Some(any) = &self.any_ended {
            any.raise();
        }
    }
}

impl Core {
    fn standing(&self, now: Moment) -> Standing {
        let term = match self.state {
            State::Waiting => return Standing::Waiting,
            State::Released => return Standing::Released,
            State::Lost(reason) => return Standing::Lost(reason),
            State::Held { term } => term,
        };
        // A hold without a place cannot be; as a loss it would be noticed.
        let connection = self.place.as_ref().map(Place::connection);
        match connection.map(|connection| (connection, connection.lease(now))) {
            Some((connection, (current, left))) if current == term && !left.is_zero() => {
                match connection.is_dead() {
                    true => Standing::Suspended,
                    false => Standing::Held,
                }
            }
            _ => Standing::Lost(LossReason::LeaseExpired),
        }
    }

    /// Every node that may exist, the place last.
    fn take_nodes(&mut self) -> impl Iterator<Item = Node> {
        let place = self.place.take().map(Place::into_node);
        self.next.take().into_iter().chain(place)
    }

    /// The next place is another one: nothing that is known of the old one is true of it. Returns
    /// what must be dropped without the mutex.
    fn forget_place(&mut self) -> Option<Listening> {
        self.origin = None;
        self.revocation.asked = None;
        self.watched.take()
    }
}

fn new_id() -> String {
    uuid::Uuid::new_v4().hyphenated().to_string()
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
    /// The node of this name, if it is still the seat's, was gone when the seat should move.
    NotConfirmed(&'a str),
    /// It is kept, and shall not be kept any longer.
    Unwanted,
    /// The client is being closed.
    Close,
}

impl Ending<'_> {
    fn applies(self, core: &Core, standing: Standing) -> bool {
        let lost = standing == Standing::Lost(LossReason::LeaseExpired);
        match (self, &core.state) {
            (_, State::Released) => false,
            (Ending::Release, _) => true,
            (Ending::Unwanted, _) => core.kept,
            (_, State::Lost(_)) => false,
            (Ending::Lapse, State::Held { .. }) => lost,
            (Ending::NodeGone(gone) | Ending::NotConfirmed(gone), State::Held { .. }) => {
                gone == core.name
            }
            (Ending::Close, _) => true,
            (Ending::Lapse | Ending::NodeGone(_) | Ending::NotConfirmed(_), State::Waiting) => {
                false
            }
        }
    }
}
