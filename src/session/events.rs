//! What a client says of its connection: a state, events, and counts.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use parking_lot::Mutex;

use crate::clock::Moment;

/// How many events a subscriber may leave unread.
const UNREAD: usize = 256;

/// Whether a client has a connection.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientState {
    /// There is a connection that was alive when it was last heard of.
    Connected,
    /// There is none; leases of the last one may still run.
    Suspended,
    /// There is none, and every lease of the last one is over.
    Lost,
    /// The client was closed. It stays so.
    Closed,
}

/// A change of the connection, as [`Client::subscribe`](crate::Client::subscribe) tells it.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionEvent {
    /// The first connection is there.
    Connected,
    /// The connection broke. Held locks are still held while their leases run, and move to the
    /// next connection.
    Suspended,
    /// The next connection is there, and held locks are being moved to it.
    Reconnected,
    /// No connection came before the leases of the last one ran out.
    Lost,
}

/// Counts since the client was made. All but the gauges only grow.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Requests sent to the servers, heartbeats and probes among them.
    pub requests: u64,
    /// Watch events received.
    pub events: u64,
    /// Connections opened.
    pub connections: u64,
    /// Seats, held or waiting, that moved to a new session and kept their place.
    pub seats_moved: u64,
    /// Holds lost.
    pub seats_lost: u64,
    /// Gauge: seats in use, held or waiting.
    pub seats: usize,
    /// Gauge: nodes that are to be deleted and not known to be gone.
    pub garbage: usize,
    /// Gauge: handles of the `zookeeper` crate that are open, the live one among them.
    pub handles: usize,
}

/// The state of the connection and those who want to hear of it, under one mutex so that events
/// come in the order of the changes.
#[derive(Debug)]
pub(super) struct Link(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    closed: bool,
    state: LinkState,
    subscribers: Vec<Sender<ConnectionEvent>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum LinkState {
    Never,
    Connected,
    Suspended { since: Moment, timeout: Duration },
    Lost,
}

impl Link {
    pub(super) fn new() -> Link {
        Link(Mutex::new(Inner { closed: false, state: LinkState::Never, subscribers: Vec::new() }))
    }

    pub(super) fn state(&self) -> LinkState {
        self.0.lock().state
    }

    pub(super) fn subscribe(&self) -> Receiver<ConnectionEvent> {
        let (sender, receiver) = bounded(UNREAD);
        let mut inner = self.0.lock();
        if !inner.closed {
            inner.subscribers.push(sender);
        }
        receiver
    }

    pub(super) fn connected(&self) {
        let mut inner = self.0.lock();
        let first = matches!(inner.state, LinkState::Never);
        inner.state = LinkState::Connected;
        inner.tell(if first { ConnectionEvent::Connected } else { ConnectionEvent::Reconnected });
    }

    pub(super) fn suspended(&self, timeout: Duration) {
        let mut inner = self.0.lock();
        let since = Moment::now();
        inner.state = LinkState::Suspended { since, timeout };
        inner.tell(ConnectionEvent::Suspended);
    }

    /// Every lease is over. Nothing to tell if there is a connection meanwhile.
    pub(super) fn lost(&self) {
        let mut inner = self.0.lock();
        if matches!(inner.state, LinkState::Suspended { .. }) {
            inner.state = LinkState::Lost;
            inner.tell(ConnectionEvent::Lost);
        }
    }

    /// The channels end with the client.
    pub(super) fn close(&self) {
        let mut inner = self.0.lock();
        inner.closed = true;
        inner.subscribers.clear();
    }
}

impl Inner {
    /// Who does not read misses events. Without a word in the log: a logger may block.
    fn tell(&mut self, event: ConnectionEvent) {
        let gone = |result| matches!(result, Err(TrySendError::Disconnected(_)));
        self.subscribers.retain(|subscriber| !gone(subscriber.try_send(event)));
    }
}
