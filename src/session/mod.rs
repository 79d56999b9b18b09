//! The session layer: keeps a client connected, its seats registered and its leases watched. It
//! alone touches the `zookeeper` crate, and knows nothing of what a lock means.

mod alarm;
mod call;
mod config;
mod connection;
mod create;
mod death;
mod directories;
mod events;
mod garbage;
mod handshake;
mod holds;
mod keeping;
mod lease;
mod links;
mod moves;
mod opening;
mod pulse;
mod reaper;
mod releasing;
mod seat;
mod seats;
#[cfg(test)]
mod simulation;
mod single_node;
#[cfg(test)]
pub(crate) mod stage;
mod supervisor;
mod survey;
mod tenancy;
mod timer;
mod vitals;
mod wire;
mod workers;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, select_biased, unbounded};
use parking_lot::Mutex;

pub(crate) use call::{Failure, Until};
pub(crate) use config::{Config, MOST_REQUESTS, Secret};
pub(crate) use connection::Connection;
pub use events::{ClientState, ConnectionEvent, Stats};
pub(crate) use holds::Grant;
pub(crate) use seat::{Claim, Seat, Standing};
pub(crate) use single_node::{create_single, revoke_single};
pub(crate) use survey::{Znode, look, survey};
pub(crate) use wire::{Make, Wire};

use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::path::LockPath;
use crate::signal::{Broadcast, Ended, Signal};
use events::{Link, LinkState};
use garbage::Garbage;
use links::Handles;
use seats::Seats;

/// What all parts of one client share.
///
/// Mutexes are taken in this order, and held across nothing else: a seat's, then a connection's
/// or the garbage list's, or the map's of seats, which is read by copying it out.
pub(crate) struct Session {
    config: Config,
    timeout: Mutex<Duration>,
    current: Mutex<Option<Arc<Connection>>>,
    /// Sent when a connection takes its place. All who wait for one wake: nothing else may wake them.
    connected: Broadcast,
    /// Sent when a connection has left its place, or a handle is reaped.
    left: Broadcast,
    /// No call succeeds any more ..
    closing: AtomicBool,
    /// .. and nothing is held or waited for.
    closed: Signal,
    seats: Seats,
    seat_events: (Sender<u64>, Receiver<u64>),
    /// Of seats in whose directory something has changed.
    recalls: (Sender<u64>, Receiver<u64>),
    garbage: Garbage,
    timer: alarm::Alarm,
    link: Link,
    handles: Mutex<Handles>,
    counters: Counters,
    /// The directories that this client has made and is to remove.
    made: Mutex<HashSet<LockPath>>,
}

#[derive(Debug, Default)]
struct Counters {
    connections: AtomicU64,
    /// Of the connections that have gone.
    requests: AtomicU64,
    events: AtomicU64,
    seats_moved: AtomicU64,
    seats_lost: AtomicU64,
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
            current: Mutex::new(None),
            connected: Broadcast::new(),
            left: Broadcast::new(),
            closing: AtomicBool::new(false),
            closed: Signal::new(),
            seats: Seats::default(),
            seat_events: unbounded(),
            recalls: unbounded(),
            garbage: Garbage::new(),
            timer: alarm::Alarm::new(),
            link: Link::new(),
            handles: Mutex::default(),
            counters: Counters::default(),
            made: Mutex::default(),
            timeout: Mutex::new(config.timeout),
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
        if self.closing.swap(true, Ordering::SeqCst) {
            return;
        }
        // First, so that the supervisor finds their nodes among what it deletes at the end.
        self.end_all_seats();
        self.closed.raise();
        self.link.close();
        self.timer.ring();
    }

    /// After [`Session::shut_down`]: waits until every handle is closed and no node is left on a
    /// session that may live, so that others can come in. False if that takes longer than `limit`.
    pub(crate) fn await_end(&self, limit: Duration) -> bool {
        let until = Until::within(limit);
        loop {
            let left = self.left.listen();
            let closed = self.current.lock().is_none() && self.open_handles() == 0;
            if closed && self.garbage.is_over() {
                return true;
            }
            select_biased! {
                recv(left) -> _ => {}
                recv(until.expiry()) -> _ => return false,
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub(crate) fn closed(&self) -> &Ended {
        self.closed.ended()
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

    /// The servers, and the chroot that every path is below.
    pub(crate) fn hosts(&self) -> &crate::hosts::HostList {
        &self.config.hosts
    }

    pub(crate) fn subscribe(&self) -> Receiver<ConnectionEvent> {
        self.link.subscribe()
    }

    /// While suspended: announces that every lease of the last connection is over, a session
    /// timeout after its death. Returns how long it takes until then, or none if there is nothing
    /// to wait for.
    fn lose_link(&self, now: Moment) -> Option<Duration> {
        let LinkState::Suspended { since, timeout } = self.link.state() else {
            return None;
        };
        let left = timeout.saturating_sub(now.at_most_since(since));
        if left.is_zero() {
            self.link.lost();
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
            seats_moved: self.counters.seats_moved.load(Ordering::Relaxed),
            seats_lost: self.counters.seats_lost.load(Ordering::Relaxed),
            seats: self.seats.len(),
            garbage: self.garbage.len(),
            handles: self.open_handles(),
        }
    }

    /// The session timeout as the last server gave it; what was asked for before the first.
    pub(crate) fn timeout(&self) -> Duration {
        *self.timeout.lock()
    }
}
