//! The reports of a client about its connection: a state, events, and counts.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::sys::{self, Mutex};

/// How many events a subscriber may leave unread.
const UNREAD: usize = 256;

/// With fewer subscribers than this, dead ones are not removed.
const FEW: usize = 64;

/// Whether a client has a connection.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientState {
    /// There is a connection, and it was alive at its last answer.
    Connected,
    /// There is no connection; holds stay held while their leases run.
    Suspended,
    /// There has been no connection for a session timeout, or the servers have ended the session:
    /// nothing is held any more. While the session lives, waiting calls keep their queue positions.
    Lost,
    /// The client was closed, which is final.
    Closed,
}

/// A change of the connection, as [`Client::subscribe`](crate::Client::subscribe) reports it.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionEvent {
    /// The client has its first connection.
    Connected,
    /// The connection broke. Held locks stay held while their leases run.
    Suspended,
    /// The client has its next connection, with the same session if that still lives, otherwise
    /// with a new one.
    Reconnected,
    /// No connection came for a session timeout, or the servers have ended the session: nothing is
    /// held any more.
    Lost,
}

/// A channel of the connection's changes, from [`Client::subscribe`](crate::Client::subscribe). It
/// derefs to the receiver, for `select!` and for waits with a timeout; as an iterator it waits for
/// each event, until the client is closed.
///
/// Clones are the same channel, and each event goes to one of them. The channel ends when the last
/// clone is dropped, even if clones of the receiver alone remain.
///
/// ```no_run
/// # fn f(client: &zoolock::Client, work: &zoolock::crossbeam_channel::Receiver<u32>) {
/// use zoolock::crossbeam_channel::select;
///
/// let events = client.subscribe();
/// select! {
///     recv(events) -> event => println!("the connection: {event:?}"),
///     recv(work) -> work => println!("work: {work:?}"),
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "events are told to whoever keeps it"]
pub struct Subscription(Arc<Receiver<ConnectionEvent>>);

impl Deref for Subscription {
    type Target = Receiver<ConnectionEvent>;

    fn deref(&self) -> &Receiver<ConnectionEvent> {
        &self.0
    }
}

impl Iterator for Subscription {
    type Item = ConnectionEvent;

    fn next(&mut self) -> Option<ConnectionEvent> {
        sys::recv(self).ok()
    }
}

/// Counts since the client was created. All except the gauges only grow.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Requests sent to the servers, including heartbeats and pings.
    pub requests: u64,
    /// Watch events received.
    pub events: u64,
    /// Connections on which the client had a session.
    pub connections: u64,
    /// Sessions opened: one more than those that have expired.
    pub sessions: u64,
    /// Sessions resumed on another connection.
    pub resumed: u64,
    /// Holds lost.
    pub holds_lost: u64,
    /// Gauge: holds, and locks that are kept for the next thread. Permits that were taken together
    /// count once.
    pub held: usize,
    /// Gauge: calls that wait at the servers for a lock, or are about to acquire it. Threads that
    /// wait for another thread of this process do not count.
    pub waiting: usize,
    /// Gauge: nodes that the client is deleting, and that are not known to be gone.
    pub deleting: usize,
}

/// The subscribers, and the last state that was reported to them. One mutex covers both, so that
/// events come in the order of the changes.
#[derive(Debug, Default)]
pub(super) struct Subscribers(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_closed: bool,
    /// When the connection was lost, if there is none and `Lost` was not reported yet.
    suspended: Option<Instant>,
    /// When the client connected again.
    reconnected: Option<Instant>,
    is_lost: bool,
    subscribed: Vec<Subscribed>,
    /// The number of subscribers at which dead ones are removed.
    sweep_at: usize,
}

/// A subscriber. The sender alone does not show whether the receiver still exists.
#[derive(Debug)]
struct Subscribed {
    receiver: Weak<Receiver<ConnectionEvent>>,
    sender: Sender<ConnectionEvent>,
}

impl Subscribers {
    pub(super) fn subscribe(&self) -> Subscription {
        // A bounded channel would allocate memory for all its events at once.
        let (sender, receiver) = unbounded();
        let receiver = Arc::new(receiver);
        let mut inner = self.0.lock();
        if !inner.is_closed {
            inner.add(Subscribed { receiver: Arc::downgrade(&receiver), sender });
        }
        Subscription(receiver)
    }

    pub(super) fn suspended(&self) {
        let mut inner = self.0.lock();
        (inner.suspended, inner.reconnected) = (Some(sys::now()), None);
        inner.tell(ConnectionEvent::Suspended);
    }

    pub(super) fn reconnected(&self) {
        let mut inner = self.0.lock();
        (inner.suspended, inner.is_lost) = (None, false);
        inner.reconnected = Some(sys::now());
        inner.tell(ConnectionEvent::Reconnected);
    }

    /// Reports `Lost`, once, if there was no connection for this long.
    pub(super) fn lost(&self, after: Duration) {
        let mut inner = self.0.lock();
        if inner.suspended.take_if(|since| sys::now() - *since >= after).is_some() {
            inner.is_lost = true;
            inner.tell(ConnectionEvent::Lost);
        }
    }

    /// Returns whether the connection has lasted for this long, or is the first.
    pub(super) fn has_lasted(&self, time: Duration) -> bool {
        let inner = self.0.lock();
        let connected = inner.suspended.is_none() && !inner.is_lost;
        connected && inner.reconnected.is_none_or(|since| sys::now() - since > time)
    }

    /// Returns whether `Lost` was the last event.
    pub(super) fn is_lost(&self) -> bool {
        self.0.lock().is_lost
    }

    /// Ends all channels, with the client.
    pub(super) fn close(&self) {
        let mut inner = self.0.lock();
        inner.is_closed = true;
        inner.subscribed.clear();
    }
}

impl Inner {
    /// Adds a subscriber. Keeps at most twice as many as there are receivers, even without events.
    fn add(&mut self, subscribed: Subscribed) {
        if self.subscribed.len() >= self.sweep_at {
            self.subscribed.retain(Subscribed::is_live);
            self.sweep_at = FEW.max(2 * self.subscribed.len());
        }
        self.subscribed.push(subscribed);
    }

    fn tell(&mut self, event: ConnectionEvent) {
        self.subscribed.retain(Subscribed::is_live);
        self.subscribed.iter().for_each(|subscribed| subscribed.tell(event));
    }
}

impl Subscribed {
    fn is_live(&self) -> bool {
        self.receiver.strong_count() > 0
    }

    /// Sends an event. A subscriber that does not read misses events. This is not logged, because a
    /// logger may block.
    fn tell(&self, event: ConnectionEvent) {
        if self.sender.len() < UNREAD {
            // The receiver may be dropped at this moment.
            let _ = self.sender.send(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_that_have_gone_take_no_memory() {
        let subscribers = Subscribers::default();
        let stays: Vec<_> = (0..10).map(|_| subscribers.subscribe()).collect();
        let mut most = 0;
        for _ in 0..100_000 {
            drop(subscribers.subscribe());
            most = most.max(subscribers.0.lock().subscribed.len());
        }
        println!("at most {most} senders for 11 receivers");
        assert!(most <= 64, "{most} senders");
        subscribers.suspended();
        for events in stays {
            assert_eq!(events.try_recv(), Ok(ConnectionEvent::Suspended));
        }
    }
}
