//! The session layer: keeps a client connected, its seats registered and its leases watched. It
//! alone touches the `zookeeper` crate, and knows nothing of what a lock means.

mod alarm;
mod connection;
mod events;
mod garbage;
mod handshake;
mod lease;
mod opening;
mod pulse;
mod reaper;
mod seat;
mod supervisor;
mod timer;
mod vitals;
mod wire;
mod workers;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select_biased, unbounded};
use log::{debug, error, info, warn};
use parking_lot::Mutex;
use zookeeper::{Permission, ZkError};

pub(crate) use connection::{Connection, Failure, Until};
pub use events::{ClientState, ConnectionEvent, Stats};
pub(crate) use garbage::Deleted;
pub(crate) use seat::{Claim, NotGranted, Seat, Standing};
pub(crate) use wire::{Make, Wire};

use crate::acl::{Acl, Permissions};
use crate::clock::Moment;
use crate::error::{Error, LossReason, Result};
use crate::hosts::HostList;
use crate::signal::{Broadcast, Ended, Signal};
use events::{Link, LinkState};
use garbage::Garbage;
use opening::Timeouts;
use seat::Ending;

/// The most bytes of node paths a client may have. A session that owns 38,000 nodes, closed, makes
/// one transaction so large that a standalone server cannot restart (ZOOKEEPER-4306).
const MOST_PATH_BYTES: usize = 512 * 1024;
/// What a node's name adds to its directory's path: `/_c_`, 36 characters of id, a marker and ten
/// digits.
const NAME_BYTES: usize = 64;

/// What a client was built with.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) hosts: HostList,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) auth: Vec<(String, Secret)>,
    pub(crate) acl: Vec<zookeeper::Acl>,
}

/// Bytes that are never printed.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

/// What all parts of one client share.
///
/// Mutexes are taken in this order, and held across nothing else: a seat's, then a connection's
/// or the garbage list's. The map of seats is read by copying it out.
pub(crate) struct Session {
    config: Config,
    timeouts: Timeouts,
    current: Mutex<Option<Arc<Connection>>>,
    /// Sent whenever a connection comes or goes, or a handle is reaped.
    changed: Broadcast,
    closed: Signal,
    seats: Mutex<Seats>,
    seat_events: (Sender<u64>, Receiver<u64>),
    garbage: Garbage,
    timer: alarm::Alarm,
    link: Link,
    handles: AtomicUsize,
    counters: Counters,
}

/// All live seats: those that wait and those that hold.
#[derive(Debug, Default)]
struct Seats {
    by_number: HashMap<u64, Arc<Seat>>,
    next: u64,
    path_bytes: usize,
    closed: bool,
}

#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    /// Of the connections that have gone.
    requests: AtomicU64,
    events: AtomicU64,
    seats_lost: AtomicU64,
}

/// What became of granting a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    /// It is held.
    Held,
    /// Its node was deleted by somebody.
    NodeGone,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("hosts", &self.config.hosts)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

// ---- opening and closing

impl Session {
    /// Connects, and stays connected until [`Session::shut_down`]. Fails within the connect
    /// timeout.
    pub(crate) fn start(config: Config) -> Result<Arc<Session>> {
        let session = Arc::new(Session {
            timeouts: Timeouts::default(),
            current: Mutex::new(None),
            changed: Broadcast::new(),
            closed: Signal::new(),
            seats: Mutex::default(),
            seat_events: unbounded(),
            garbage: Garbage::new(),
            timer: alarm::Alarm::new(),
            link: Link::new(),
            handles: AtomicUsize::new(0),
            counters: Counters::default(),
            config,
        });
        let (first, outcome) = bounded(1);
        let (supervised, timed) = (Arc::clone(&session), Arc::clone(&session));
        let started = workers::spawn("supervisor", move || supervisor::run(&supervised, &first))
            .and_then(|()| workers::spawn("timer", move || timer::run(&timed)));
        let patience = session.config.connect_timeout;
        let outcome = match started {
            Ok(()) => outcome
                .recv_timeout(patience)
                .unwrap_or_else(|_| Err(format!("no answer within {patience:?}"))),
            Err(error) => Err(error.to_string()),
        };
        outcome.map(|()| Arc::clone(&session)).map_err(|cause| {
            session.shut_down();
            let hosts = session.config.hosts.to_string();
            Error::Connect { hosts, cause }
        })
    }

    /// Ends every hold, wait and thread. Never blocks; the session's end takes a while longer.
    pub(crate) fn shut_down(&self) {
        let seats = {
            let mut seats = self.seats.lock();
            seats.closed = true;
            std::mem::take(&mut seats.by_number)
        };
        self.closed.raise();
        for seat in seats.values() {
            if let Some((Standing::Held | Standing::Suspended, _)) =
                seat.end(Ending::Close, &self.garbage)
            {
                self.count_loss(seat, LossReason::ClientClosed);
            }
        }
        self.link.close();
        self.timer.ring();
    }

    /// After [`Session::shut_down`]: waits until every handle is closed, so that the servers have
    /// ended the session and let others in. False if that takes longer than `limit`.
    pub(crate) fn await_end(&self, limit: Duration) -> bool {
        let until = Until::within(limit);
        loop {
            let changed = self.changed.listen();
            if self.current.lock().is_none() && self.open_handles() == 0 {
                return true;
            }
            select_biased! {
                recv(changed) -> _ => {}
                recv(until.expiry()) -> _ => return false,
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_raised()
    }

    pub(crate) fn closed(&self) -> &Ended {
        self.closed.ended()
    }
}

// ---- connections

impl Session {
    /// A new connection takes its place.
    fn adopt(self: &Arc<Self>, connection: &Arc<Connection>) {
        info!(
            target: "zoolock::session",
            "connected to {} with a session timeout of {:?}",
            connection.address(), connection.timeout()
        );
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        let (session, pulsed) = (Arc::clone(self), Arc::clone(connection));
        if workers::spawn("pulse", move || pulse::run(&session, &pulsed)).is_err() {
            connection.kill(connection::Cause::NoThread);
        }
        *self.current.lock() = Some(Arc::clone(connection));
        self.link.connected();
        self.changed.send();
        self.timer.ring();
    }

    /// A dead connection leaves.
    fn retire(self: &Arc<Self>, connection: Arc<Connection>) {
        if let Some(cause) = connection.cause() {
            info!(target: "zoolock::session", "{} is gone: {cause:?}", connection.address());
        }
        *self.current.lock() = None;
        if !self.is_closed() {
            self.link.suspended(Arc::clone(&connection));
        }
        self.bury(connection);
        self.changed.send();
        self.timer.ring();
    }

    /// Has the handle of a dead connection closed in the background.
    fn bury(self: &Arc<Self>, connection: Arc<Connection>) {
        connection.dismiss();
        let counters = &self.counters;
        counters
            .requests
            .fetch_add(connection.requests(), Ordering::Relaxed);
        let events = connection.watches().events();
        counters.events.fetch_add(events, Ordering::Relaxed);
        let session = Arc::clone(self);
        let burying = workers::spawn("reaper", move || reaper::run(&session, &connection));
        if let Err(cause) = burying {
            error!(target: "zoolock::session", "a handle stays open: {cause}");
        }
    }

    fn handle_opened(&self) {
        self.handles.fetch_add(1, Ordering::SeqCst);
    }

    fn handle_reaped(&self) {
        self.handles.fetch_sub(1, Ordering::SeqCst);
        self.changed.send();
        self.garbage.nudge();
    }

    fn open_handles(&self) -> usize {
        self.handles.load(Ordering::SeqCst)
    }

    /// The connection, if there is a live one.
    pub(crate) fn live(&self) -> Option<Arc<Connection>> {
        let current = self.current.lock().clone();
        current.filter(|connection| !connection.is_dead())
    }

    /// Waits for a live connection. Without one at the deadline, or at once if it is over:
    /// Disconnected.
    pub(crate) fn await_live(&self, path: &str, until: &Until) -> Result<Arc<Connection>> {
        loop {
            let changed = self.changed.listen();
            if self.is_closed() {
                return Err(Error::Closed);
            }
            if let Some(connection) = self.live() {
                return Ok(connection);
            }
            let path = || path.to_owned();
            select_biased! {
                recv(changed) -> _ => {}
                recv(self.closed()) -> _ => return Err(Error::Closed),
                recv(until.cancelled) -> _ => return Err(Error::Cancelled { path: path() }),
                recv(until.expiry()) -> _ => return Err(Error::Disconnected { path: path() }),
            }
        }
    }

    /// What a failed request means to a user.
    pub(crate) fn error(&self, path: &str, failure: Failure) -> Error {
        let path = path.to_owned();
        match failure {
            Failure::Dead if self.is_closed() => Error::Closed,
            Failure::Dead | Failure::Deadline => Error::Disconnected { path },
            Failure::Cancelled => Error::Cancelled { path },
            Failure::Refused(ZkError::NoAuth | ZkError::AuthFailed) => Error::Denied { path },
            Failure::Refused(ZkError::InvalidACL) => Error::InvalidArgument {
                what: "ACL",
                reason: "the server refused it; it may name credentials that were not given"
                    .to_owned(),
            },
            Failure::Refused(ZkError::NoChildrenForEphemerals) => Error::InvalidPath {
                path,
                reason: "a node above it is ephemeral and cannot have children".to_owned(),
            },
            Failure::Refused(cause) => Error::ZooKeeper {
                path,
                cause: Arc::new(cause),
            },
        }
    }
}

// ---- state, events, counts

impl Session {
    pub(crate) fn state(&self) -> ClientState {
        if self.is_closed() {
            return ClientState::Closed;
        }
        match self.link.state() {
            LinkState::Connected if self.live().is_some() => ClientState::Connected,
            LinkState::Lost => ClientState::Lost,
            _ => ClientState::Suspended,
        }
    }

    pub(crate) fn subscribe(&self) -> Receiver<ConnectionEvent> {
        self.link.subscribe()
    }

    /// While suspended: announces the end of the last connection's leases when it has come.
    /// Returns how long it takes until then, or none if there is nothing to wait for.
    fn lose_link(&self, now: Moment) -> Option<Duration> {
        let LinkState::Suspended(last) = self.link.state() else {
            return None;
        };
        let (_, left) = last.lease(now);
        if left.is_zero() {
            self.link.lost(&last);
            return None;
        }
        Some(left)
    }

    pub(crate) fn stats(&self) -> Stats {
        let current = self.current.lock().clone();
        let current_requests = current.as_ref().map_or(0, |c| c.requests());
        let current_events = current.as_ref().map_or(0, |c| c.watches().events());
        Stats {
            requests: self.counters.requests.load(Ordering::Relaxed) + current_requests,
            events: self.counters.events.load(Ordering::Relaxed) + current_events,
            connections: self.counters.connections.load(Ordering::Relaxed),
            seats_lost: self.counters.seats_lost.load(Ordering::Relaxed),
            seats_moved: 0,
            seats: self.seats.lock().by_number.len(),
            garbage: self.garbage.len(),
            handles: self.open_handles(),
        }
    }

    /// The session timeout: of the current connection, else what was asked for.
    pub(crate) fn timeout(&self) -> Duration {
        let current = self.current.lock().clone();
        current.map_or(self.config.timeout, |connection| connection.timeout())
    }
}

// ---- seats

impl Session {
    /// A new waiting seat, registered.
    pub(crate) fn seat(&self, claim: Claim) -> Result<Arc<Seat>> {
        let mut seats = self.seats.lock();
        if seats.closed {
            return Err(Error::Closed);
        }
        let bytes = path_bytes(&claim);
        if seats.path_bytes + bytes > MOST_PATH_BYTES {
            return Err(Error::Limit {
                what: "bytes of node paths of one client",
                max: MOST_PATH_BYTES,
            });
        }
        seats.path_bytes += bytes;
        seats.next += 1;
        let number = seats.next;
        let seat = Arc::new(Seat::new(number, claim));
        seats.by_number.insert(number, Arc::clone(&seat));
        Ok(seat)
    }

    fn forget(&self, seat: &Seat) {
        let mut seats = self.seats.lock();
        if seats.by_number.remove(&seat.number()).is_some() {
            seats.path_bytes -= path_bytes(seat.claim());
        }
    }

    /// Does the claim's owner hold a seat in the same directory already? Then it would wait for
    /// itself.
    pub(crate) fn holds_here(&self, claim: &Claim) -> bool {
        let same = |seat: &Arc<Seat>| {
            seat.claim().owner == claim.owner && seat.claim().directory == claim.directory
        };
        let held = |seat: &Arc<Seat>| {
            matches!(
                seat.standing(Moment::now()),
                Standing::Held | Standing::Suspended
            )
        };
        claim.owner.is_some() && self.seats().iter().any(|seat| same(seat) && held(seat))
    }

    /// The seats as they are now, to be looked at without the map's mutex.
    pub(crate) fn seats(&self) -> Vec<Arc<Seat>> {
        self.seats.lock().by_number.values().cloned().collect()
    }

    /// Makes a waiting seat that is first in its queue a held one. `name` is its node, made on
    /// `connection`. A lease shorter than 9/20 of the session timeout is renewed first, with one
    /// request: if the connection falls silent right after the grant, that is noticed a quarter
    /// of the session timeout later, and a fifth is left to reconnect with.
    pub(crate) fn grant(
        self: &Arc<Self>,
        seat: &Arc<Seat>,
        connection: &Arc<Connection>,
        name: &str,
        until: &Until,
    ) -> std::result::Result<Grant, Failure> {
        let (_, left) = connection.lease(Moment::now());
        if left < connection.timeout() / 20 * 9 {
            let path = seat.claim().directory.child(name);
            if !connection.call(until, move |wire| wire.heartbeat(&path))? {
                return Ok(Grant::NodeGone);
            }
        }
        match seat.grant(connection, name) {
            Ok(()) => {}
            Err(NotGranted::GivenUp) => return Err(Failure::Dead),
            Err(NotGranted::NoLease) => {
                connection.kill(connection::Cause::Silent(connection.timeout()));
                return Err(Failure::Dead);
            }
        }
        self.timer.set(Instant::now() + self.tick());
        connection.pulse.set(connection.keep_due());
        debug!(target: "zoolock::queue", "{} holds {}", name, seat.path());
        Ok(Grant::Held)
    }

    /// Ends a hold. Waits for the answer to its deletion for a third of the session timeout; what
    /// has no answer by then is deleted in the background. Lost if the hold was lost before.
    pub(crate) fn release(self: &Arc<Self>, seat: &Arc<Seat>) -> Result<()> {
        let connection = seat.held_on();
        let Some((before, ids)) = seat.end(Ending::Release, &self.garbage) else {
            return Ok(());
        };
        self.forget(seat);
        let lost = |reason| Error::Lost {
            path: seat.path().to_owned(),
            reason,
        };
        match (before, connection) {
            (Standing::Lost(reason), _) => {
                if reason == LossReason::LeaseExpired {
                    self.delete_later(&ids);
                }
                Err(lost(reason))
            }
            (Standing::Held, Some(connection)) => match self.delete(&connection, ids) {
                Ok(Deleted::Now) => Ok(()),
                Ok(Deleted::Before) => {
                    self.count_loss(seat, LossReason::NodeDeleted);
                    Err(lost(LossReason::NodeDeleted))
                }
                Err(Failure::Refused(error)) => {
                    Err(self.error(seat.path(), Failure::Refused(error)))
                }
                Err(failure) => {
                    warn!(
                        target: "zoolock::session",
                        "the node of {} is deleted in the background: {failure:?}", seat.path()
                    );
                    Ok(())
                }
            },
            // On a dead connection the garbage list has it until there is another.
            _ => Ok(()),
        }
    }

    fn delete(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        ids: Vec<String>,
    ) -> std::result::Result<Deleted, Failure> {
        let session = Arc::clone(self);
        let until = Until::within(connection.timeout() / 3);
        connection.call(&until, move |wire| {
            let mut deleted = Deleted::Before;
            for id in &ids {
                deleted = session.garbage.delete(wire, id)?;
            }
            Ok(deleted)
        })
    }

    /// Gives up waiting: the seat's nodes are deleted in the background.
    pub(crate) fn give_up(self: &Arc<Self>, seat: &Arc<Seat>) {
        if let Some((_, ids)) = seat.end(Ending::Release, &self.garbage) {
            self.delete_later(&ids);
        }
        self.forget(seat);
    }

    /// Deletes what is on the garbage list under these ids, in the background. Without a
    /// connection that waits for the next one.
    fn delete_later(self: &Arc<Self>, ids: &[String]) {
        let Some(connection) = self.live().filter(|_| !ids.is_empty()) else {
            return;
        };
        let (session, ids) = (Arc::clone(self), ids.to_vec());
        connection.run(move |wire| {
            for id in &ids {
                // A failure is a retry later.
                let _ = session.garbage.delete(wire, id);
            }
            session.garbage.nudge();
        });
    }

    /// Works off the garbage list on a worker.
    fn sweep(self: &Arc<Self>, connection: &Arc<Connection>) {
        if self.garbage.len() == 0 {
            return;
        }
        let session = Arc::clone(self);
        connection.run(move |wire| {
            session.garbage.work_off(wire);
            session.garbage.nudge();
        });
    }

    pub(crate) fn garbage(&self) -> &Garbage {
        &self.garbage
    }
}

// ---- losses

impl Session {
    /// Marks every hold lost whose lease has run out. Says whether anything is still held.
    fn lapse(self: &Arc<Self>) -> bool {
        let mut held = false;
        for seat in self.seats() {
            match seat.standing(Moment::now()) {
                Standing::Held | Standing::Suspended => held = true,
                Standing::Lost(_) => self.lose(&seat, Ending::Lapse, LossReason::LeaseExpired),
                Standing::Waiting | Standing::Released => {}
            }
        }
        held
    }

    fn lose(self: &Arc<Self>, seat: &Arc<Seat>, ending: Ending<'_>, reason: LossReason) {
        if let Some((_, ids)) = seat.end(ending, &self.garbage) {
            self.forget(seat);
            self.count_loss(seat, reason);
            self.delete_later(&ids);
        }
    }

    fn count_loss(&self, seat: &Seat, reason: LossReason) {
        self.counters.seats_lost.fetch_add(1, Ordering::Relaxed);
        error!(target: "zoolock", "lock {} was lost: {reason}", seat.path());
    }

    /// How often the timer looks while anything is held.
    fn tick(&self) -> Duration {
        (self.timeout() / 20).min(Duration::from_millis(100))
    }

    // ---- the own nodes

    fn any_held_on(&self, connection: &Arc<Connection>) -> Option<(Arc<Seat>, String)> {
        let on_it = |seat: &Arc<Seat>| {
            let on = seat.held_on()?;
            Arc::ptr_eq(&on, connection).then(|| (Arc::clone(seat), seat.node()))
        };
        self.seats().iter().find_map(on_it)
    }

    /// Sets the watch over the own node of every seat that has had it for a quarter of the
    /// session timeout. Short holds and waits cost nothing. Returns when the next is due.
    fn watch_holds(self: &Arc<Self>, connection: &Arc<Connection>) -> Instant {
        let now = Instant::now();
        let mut next = now + connection.timeout();
        for seat in self.seats() {
            match seat.watch_due(connection) {
                Some(due) if due <= now => self.watch(&seat, connection),
                Some(due) => next = next.min(due),
                None => {}
            }
        }
        next
    }

    /// A watch over a seat's own node has fired.
    fn review(self: &Arc<Self>, number: u64, connection: &Arc<Connection>) {
        let seat = self.seats.lock().by_number.get(&number).cloned();
        if let Some(seat) = seat {
            self.watch(&seat, connection);
        }
    }

    /// Looks whether the own node is there, and watches it from now on.
    fn watch(self: &Arc<Self>, seat: &Arc<Seat>, connection: &Arc<Connection>) {
        let Some((name, on)) = seat.own() else { return };
        if !Arc::ptr_eq(&on, connection) {
            return;
        }
        let path = seat.claim().directory.child(&name);
        let full = format!("{}{path}", connection.chroot());
        let events = self.seat_events.0.clone();
        seat.watched(connection.watches().listen(full, events, seat.number()));
        let (session, seat) = (Arc::clone(self), Arc::clone(seat));
        connection.run(move |wire| {
            if wire.data(&path, true).is_err_and(Failure::is_no_node) {
                session.node_gone(&seat, &name);
            }
        });
    }

    /// The seat's own node is gone though nobody here deleted it. A hold is lost; a waiter looks
    /// for itself.
    fn node_gone(self: &Arc<Self>, seat: &Arc<Seat>, name: &str) {
        self.lose(seat, Ending::NodeGone(name), LossReason::NodeDeleted);
        let _ = seat.wake().0.try_send(0);
    }

    fn seat_events(&self) -> &Receiver<u64> {
        &self.seat_events.1
    }
}

impl Config {
    /// The list in the crate's terms.
    pub(crate) fn acl(acl: &Acl) -> Vec<zookeeper::Acl> {
        let entry = |(permissions, scheme, id): &(Permissions, String, String)| {
            let permission = permissions
                .each()
                .fold(Permission::NONE, |all, one| all | bit(one));
            zookeeper::Acl::new(permission, scheme, id)
        };
        acl.entries.iter().map(entry).collect()
    }
}

fn bit(one: Permissions) -> Permission {
    match one {
        Permissions::READ => Permission::READ,
        Permissions::WRITE => Permission::WRITE,
        Permissions::CREATE => Permission::CREATE,
        Permissions::DELETE => Permission::DELETE,
        _ => Permission::ADMIN,
    }
}

fn path_bytes(claim: &Claim) -> usize {
    claim.directory.as_str().len() + NAME_BYTES
}
