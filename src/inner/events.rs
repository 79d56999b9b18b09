//! What a client says of its connection: a state, events, and counts.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::sys::{self, Mutex};

/// How many events a subscriber may leave unread.
const UNREAD: usize = 256;

/// Fewer subscribers than this are not worth a look at who has gone.
const FEW: usize = 64;

/// Whether a client has a connection.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientState {
    /// There is a connection that was alive when it was last heard of.
    Connected,
    /// There is none; holds are held while their leases run.
    Suspended,
    /// There has been none for a session timeout, or the servers have ended the session: nothing is held
    /// any more. A session that lives has kept the places of what waits.
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
    /// The connection broke. Held locks are still held while their leases run.
    Suspended,
    /// The next connection is there, with the same session if that lives, or another.
    Reconnected,
    /// No connection came for a session timeout, or the servers have ended the session: nothing is held
    /// any more.
    Lost,
}

/// A channel of the connection's changes, from [`Client::subscribe`](crate::Client::subscribe). It derefs to the
/// receiver, for `select!` and for waits with a timeout; as an iterator it waits for each event, until the client
/// is closed.
///
/// Clones are the same channel, of which each event is received once. It ends when the last clone is dropped, also
/// for clones of the receiver alone.
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

/// Counts since the client was made. All but the gauges only grow.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Requests sent to the servers, heartbeats and pings among them.
    pub requests: u64,
    /// Watch events received.
    pub events: u64,
    /// Connections on which it had a session.
    pub connections: u64,
    /// Sessions opened: one more than have expired.
    pub sessions: u64,
    /// How often a session was resumed on another connection.
    pub resumed: u64,
    /// Holds lost.
    pub holds_lost: u64,
    /// Gauge: holds, and locks that are kept for the next thread. Permits that were taken together count
    /// once.
    pub held: usize,
    /// Gauge: calls that are at the servers for a lock, waiting or about to have it. Threads that wait for
    /// another one of this process are not counted.
    pub waiting: usize,
    /// Gauge: nodes that are to be deleted and not known to be gone.
    pub deleting: usize,
}

/// Those who want to hear of the connection, and what they were told last: under one mutex, so that
/// events come in the order of the changes.
#[derive(Debug, Default)]
pub(super) struct Subscribers(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_closed: bool,
    /// Since when there is no connection, from when that is told until its end.
    suspended: Option<Instant>,
    /// Since when there is the next one.
    reconnected: Option<Instant>,
    is_lost: bool,
    subscribed: Vec<Subscribed>,
    /// With so many it is time to look who has gone.
    sweep_at: usize,
}

/// A sender alone cannot tell whether anybody receives.
#[derive(Debug)]
struct Subscribed {
    receiver: Weak<Receiver<ConnectionEvent>>,
    sender: Sender<ConnectionEvent>,
}

impl Subscribers {
    pub(super) fn subscribe(&self) -> Subscription {
        // Not a bounded one, which has memory for all that may come from the beginning.
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

    /// Once, if it has been suspended for so long.
    pub(super) fn lost(&self, after: Duration) {
        let mut inner = self.0.lock();
        if inner.suspended.take_if(|since| sys::now() - *since >= after).is_some() {
            inner.is_lost = true;
            inner.tell(ConnectionEvent::Lost);
        }
    }

    /// Is the connection one that has lasted for so long, or the first?
    pub(super) fn has_lasted(&self, time: Duration) -> bool {
        let inner = self.0.lock();
        let connected = inner.suspended.is_none() && !inner.is_lost;
        connected && inner.reconnected.is_none_or(|since| sys::now() - since > time)
    }

    /// Was it told that it is lost, and nothing since?
    pub(super) fn is_lost(&self) -> bool {
        self.0.lock().is_lost
    }

    /// The channels end with the client.
    pub(super) fn close(&self) {
        let mut inner = self.0.lock();
        inner.is_closed = true;
        inner.subscribed.clear();
    }
}

impl Inner {
    /// Twice as many as there are receivers at most, whether there are events or not.
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

    /// Who does not read misses events. Without a word in the log: a logger may block.
    fn tell(&self, event: ConnectionEvent) {
        if self.sender.len() < UNREAD {
            // It may be dropped just now.
            let _ = self.sender.send(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_subscribers_use_no_memory() {
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
