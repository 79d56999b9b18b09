//! The state, the events and the counts of a client's connection, for users. It knows no session.

use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::base::sys::{self, Mutex};

/// The most events that a subscriber may leave unread.
const UNREAD: usize = 256;

/// With fewer subscribers than this nobody looks for those that have gone.
const FEW: usize = 64;

/// Whether a client has a connection.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientState {
    /// There is a connection, which was alive at the last answer.
    Connected,
    /// There is no connection. Holds are held while their leases run.
    Suspended,
    /// There has been no connection for a session timeout, or the servers have ended the session.
    /// Nothing is held any more. If the session lives, waiting calls keep their queue positions.
    Lost,
    /// The client was closed, which is final.
    Closed,
}

/// A change of the connection, from [`Client::subscribe`](crate::Client::subscribe).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionEvent {
    /// The client has a connection: the next one, with the same session if that still lives,
    /// otherwise with a new one; or the first one, after
    /// [`connect_lazily`](crate::ClientBuilder::connect_lazily).
    Connected,
    /// The connection broke. Held locks stay held while their leases run.
    Suspended,
    /// No connection came for a session timeout, or the servers have ended the session. Nothing is
    /// held any more.
    Lost,
}

/// A channel of the connection's changes, from [`Client::subscribe`](crate::Client::subscribe). It
/// derefs to the receiver, for `select!` and for waits with a timeout. As an iterator it waits for
/// each event, until the client is closed.
///
/// Clones are the same channel, and one of them receives each event. The channel ends when the last
/// clone is dropped, also for clones of the receiver alone.
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
    /// Gauge: holds, and released locks that [`hold_at_least`](crate::LockOptions::hold_at_least)
    /// keeps busy. Permits that were taken together count once.
    pub held: usize,
    /// Gauge: calls that wait for a lock at the servers, or are about to have it. Threads that wait
    /// for another thread of this process are not counted.
    pub waiting: usize,
    /// Gauge: nodes that the client deletes or looks for without a caller, and that are not known to be
    /// gone. A release [in the background](crate::LockOptions::background_release) counts once its
    /// first deletion had no answer.
    pub deleting: usize,
    /// Gauge: whether a [reaper](crate::ClientBuilder::reaper) has accepted the client's session, as
    /// far as the client knows.
    pub is_registered: bool,
}

/// The subscribers, and what they were told last. One mutex for both keeps events in the order of
/// the changes.
#[derive(Debug, Default)]
pub(super) struct Subscribers(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    is_closed: bool,
    /// When the connection broke. `None` with a connection, and after `Lost` was told.
    suspended: Option<Instant>,
    /// When the current connection came.
    connected: Option<Instant>,
    /// `Lost` was told, and nothing since.
    is_lost: bool,
    subscribed: Vec<Subscribed>,
    /// With this many, those that have gone are removed.
    sweep_at: usize,
}

/// One subscriber. A sender alone cannot tell whether anybody receives.
#[derive(Debug)]
struct Subscribed {
    receiver: Weak<Receiver<ConnectionEvent>>,
    sender: Sender<ConnectionEvent>,
}

impl Subscribers {
    pub(super) fn subscribe(&self) -> Subscription {
        // A bounded channel would have memory for all `UNREAD` events from the beginning.
        let (sender, receiver) = unbounded();
        let receiver = Arc::new(receiver);
        let mut told = self.0.lock();
        if !told.is_closed {
            told.add(Subscribed { receiver: Arc::downgrade(&receiver), sender });
        }
        Subscription(receiver)
    }

    pub(super) fn suspended(&self) {
        let mut told = self.0.lock();
        (told.suspended, told.connected) = (Some(sys::now()), None);
        told.tell(ConnectionEvent::Suspended);
    }

    pub(super) fn connected(&self) {
        let mut told = self.0.lock();
        (told.suspended, told.is_lost) = (None, false);
        told.connected = Some(sys::now());
        told.tell(ConnectionEvent::Connected);
    }

    /// Tells once that the connection has been lost, if it has been suspended for `after`.
    pub(super) fn lost(&self, after: Duration) {
        let mut told = self.0.lock();
        if told.suspended.take_if(|since| sys::now() - *since >= after).is_some() {
            told.is_lost = true;
            told.tell(ConnectionEvent::Lost);
        }
    }

    /// Returns whether the connection has lasted for this long.
    pub(super) fn has_lasted(&self, time: Duration) -> bool {
        self.0.lock().connected.is_some_and(|since| sys::now() - since > time)
    }

    /// Returns whether subscribers were told of the loss, and of nothing since.
    pub(super) fn is_lost(&self) -> bool {
        self.0.lock().is_lost
    }

    /// Ends all channels with the client.
    pub(super) fn close(&self) {
        let mut told = self.0.lock();
        told.is_closed = true;
        told.subscribed.clear();
    }
}

impl Told {
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

    /// Sends an event, unless too many are unread. Logs nothing, because a logger may block.
    fn tell(&self, event: ConnectionEvent) {
        if self.sender.len() < UNREAD {
            // The receiver may be dropped just now.
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
