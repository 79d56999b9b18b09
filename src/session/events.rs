//! The state, the events and the counts of a client's connection, for users. This module does not
//! use sessions.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::base::sys::{self, Mutex};

/// The maximum number of unread events of a subscriber.
const UNREAD: usize = 256;

/// Whether a client has a connection.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientState {
    /// There is a connection, which was alive when the last answer arrived.
    Connected,
    /// There is no connection. Holds last while their leases run.
    Suspended,
    /// There has been no connection for a session timeout, or the servers have ended the session.
    /// The client no longer holds any lock. If the session is still alive, waiting calls keep their
    /// queue positions.
    Lost,
    /// The client was closed. This state is final.
    Closed,
}

/// A change of the connection, from [`Client::subscribe`](crate::Client::subscribe).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionEvent {
    /// The client has connected: for the first time, after
    /// [`connect_lazily`](crate::ClientBuilder::connect_lazily), or again. After an interruption,
    /// the session is the same if it is still alive, and otherwise a new one.
    Connected,
    /// The connection broke. Held locks stay held while their leases run.
    Suspended,
    /// The client could not connect for a session timeout, or the servers have ended the session.
    /// It no longer holds any lock.
    Lost,
}

/// A channel that receives the changes of the connection, from
/// [`Client::subscribe`](crate::Client::subscribe). It dereferences to the receiver, for `select!`
/// and for waits with a timeout. As an iterator, it waits for each event, until the client is
/// closed.
///
/// Clones share the same channel, and each event is received by only one of them. The channel ends
/// when the last clone is dropped, even if clones of the receiver itself still exist.
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
#[must_use = "events are received only while the subscription exists"]
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

/// Counts since the client was created. All values except the gauges only increase.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Requests sent to the servers, including heartbeats and pings.
    pub requests: u64,
    /// Watch events received.
    pub events: u64,
    /// Connections on which the client had a session.
    pub connections: u64,
    /// Sessions opened: one more than the number of sessions that have expired.
    pub sessions: u64,
    /// Sessions resumed on another connection.
    pub resumed: u64,
    /// Holds lost.
    pub holds_lost: u64,
    /// Gauge: holds, and released locks that [`hold_at_least`](crate::LockOptions::hold_at_least)
    /// keeps busy. Permits that were acquired together count once.
    pub held: usize,
    /// Gauge: calls that wait for a lock on the servers, or are about to acquire it. Threads that
    /// wait for another thread of this process are not counted.
    pub waiting: usize,
    /// Gauge: nodes that the client deletes or searches for in the background, until it is certain
    /// that they do not exist. A release [in the
    /// background](crate::LockOptions::background_release) counts only if its first deletion did
    /// not get an answer.
    pub deleting: usize,
    /// Gauge: whether a [reaper](crate::ClientBuilder::reaper) has accepted the client's session, as
    /// far as the client knows.
    pub is_registered: bool,
}

/// The subscribers, and the last event that was sent to them. A single mutex for both keeps events
/// in the order of the changes.
#[derive(Debug)]
pub(crate) struct Subscribers(Mutex<Told>);

#[derive(Debug)]
struct Told {
    is_closed: bool,
    /// The last event that was sent, and when.
    last: ConnectionEvent,
    since: Instant,
    subscribed: Vec<Subscribed>,
}

/// One subscriber. The receiver is included because a sender cannot check whether its channel still
/// has a receiver.
#[derive(Debug)]
struct Subscribed {
    receiver: Weak<Receiver<ConnectionEvent>>,
    sender: Sender<ConnectionEvent>,
}

impl Subscribers {
    pub(super) fn new() -> Subscribers {
        let (last, since) = (ConnectionEvent::Suspended, sys::now());
        Subscribers(Mutex::new(Told { is_closed: false, last, since, subscribed: Vec::new() }))
    }

    pub(crate) fn subscribe(&self) -> Subscription {
        // A bounded channel would allocate memory for all `UNREAD` events at the beginning.
        let (sender, receiver) = unbounded();
        let receiver = Arc::new(receiver);
        let mut told = self.0.lock();
        // Even without events, subscribers that were dropped do not use memory.
        told.subscribed.retain(Subscribed::is_live);
        if !told.is_closed {
            told.subscribed.push(Subscribed { receiver: Arc::downgrade(&receiver), sender });
        }
        Subscription(receiver)
    }

    pub(super) fn tell(&self, event: ConnectionEvent) {
        self.0.lock().tell(event);
    }

    /// Sends `Lost` once, if the connection has been suspended for `after`.
    pub(super) fn lost(&self, after: Duration) {
        let mut told = self.0.lock();
        if told.last == ConnectionEvent::Suspended && sys::now() - told.since >= after {
            told.tell(ConnectionEvent::Lost);
        }
    }

    /// Returns whether the connection has lasted for this long.
    pub(crate) fn has_lasted(&self, time: Duration) -> bool {
        let told = self.0.lock();
        told.last == ConnectionEvent::Connected && sys::now() - told.since > time
    }

    /// Returns whether `Lost` was the last event that was sent to subscribers.
    pub(super) fn is_lost(&self) -> bool {
        self.0.lock().last == ConnectionEvent::Lost
    }

    /// Ends all channels, because the client is closed.
    pub(super) fn close(&self) {
        let mut told = self.0.lock();
        told.is_closed = true;
        told.subscribed.clear();
    }
}

impl Told {
    fn tell(&mut self, event: ConnectionEvent) {
        self.subscribed.retain(Subscribed::is_live);
        self.subscribed.iter().for_each(|subscribed| subscribed.tell(event));
        (self.last, self.since) = (event, sys::now());
    }
}

impl Subscribed {
    fn is_live(&self) -> bool {
        self.receiver.strong_count() > 0
    }

    /// Sends an event, unless too many events are unread. Does not log, because a logger may block.
    fn tell(&self, event: ConnectionEvent) {
        if self.sender.len() < UNREAD {
            // The receiver may have been dropped at this moment.
            let _ = self.sender.send(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_subscribers_use_no_memory() {
        let subscribers = Subscribers::new();
        let stays: Vec<_> = (0..10).map(|_| subscribers.subscribe()).collect();
        let mut most = 0;
        for _ in 0..100_000 {
            drop(subscribers.subscribe());
            most = most.max(subscribers.0.lock().subscribed.len());
        }
        println!("at most {most} senders for 11 receivers");
        assert!(most <= 64, "{most} senders");
        subscribers.tell(ConnectionEvent::Suspended);
        for events in stays {
            assert_eq!(events.try_recv(), Ok(ConnectionEvent::Suspended));
        }
    }
}
