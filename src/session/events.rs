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
    /// There is a connection, which was alive when the last answer arrived. After an interruption,
    /// the client has the same session if that is still alive, and otherwise a new one.
    Connected,
    /// There is no connection. Holds last while their leases run.
    Suspended,
    /// There has been no connection for a session timeout, or the servers have ended the session.
    /// The client no longer holds any lock. If the session is still alive, waiting calls keep their
    /// queue positions.
    Lost,
    /// The client was closed. This state is final. Subscriptions do not receive it; instead, they
    /// end.
    Closed,
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
pub struct Subscription(Arc<Receiver<ClientState>>);

impl Deref for Subscription {
    type Target = Receiver<ClientState>;

    fn deref(&self) -> &Receiver<ClientState> {
        &self.0
    }
}

impl Iterator for Subscription {
    type Item = ClientState;

    fn next(&mut self) -> Option<ClientState> {
        sys::recv(self).ok()
    }
}

/// Counts of what has happened since the client was created. All values except the gauges only
/// increase.
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
    /// Gauge: whether a [reaper](crate::ClientBuilder::reaper) has accepted the client's session,
    /// as far as the client knows.
    pub is_registered: bool,
}

/// The subscribers, and the last state that was sent to them. A single mutex for both keeps the
/// states in the order of the changes.
#[derive(Debug)]
pub(crate) struct Subscribers(Mutex<Told>);

#[derive(Debug)]
struct Told {
    /// The last state, and since when.
    last: ClientState,
    since: Instant,
    subscribed: Vec<Subscriber>,
}

/// The receiver is included because a sender cannot check whether its channel still has a receiver.
type Subscriber = (Weak<Receiver<ClientState>>, Sender<ClientState>);

impl Subscribers {
    pub(super) fn new() -> Subscribers {
        let (last, since) = (ClientState::Suspended, sys::now());
        Subscribers(Mutex::new(Told { last, since, subscribed: Vec::new() }))
    }

    pub(crate) fn subscribe(&self) -> Subscription {
        // A bounded channel would allocate memory for `UNREAD` states at once.
        let (sender, receiver) = unbounded();
        let receiver = Arc::new(receiver);
        let mut told = self.0.lock();
        // While the state does not change, only this line removes dropped subscribers.
        told.subscribed.retain(|(receiver, _)| receiver.strong_count() > 0);
        if told.last != ClientState::Closed {
            told.subscribed.push((Arc::downgrade(&receiver), sender));
        }
        Subscription(receiver)
    }

    pub(super) fn tell(&self, state: ClientState) {
        self.0.lock().tell(state);
    }

    /// Sends `Lost` once, if the connection has been suspended for `after`.
    pub(super) fn lost(&self, after: Duration) {
        let mut told = self.0.lock();
        if told.last == ClientState::Suspended && sys::now() - told.since >= after {
            told.tell(ClientState::Lost);
        }
    }

    /// Returns whether there has been a connection for longer than `time`.
    pub(crate) fn has_lasted(&self, time: Duration) -> bool {
        let told = self.0.lock();
        told.last == ClientState::Connected && sys::now() - told.since > time
    }

    /// Returns whether `Lost` was the last state that was sent.
    pub(super) fn is_lost(&self) -> bool {
        self.0.lock().last == ClientState::Lost
    }

    /// Ends all subscriptions.
    pub(super) fn close(&self) {
        let mut told = self.0.lock();
        told.last = ClientState::Closed;
        told.subscribed.clear();
    }
}

impl Told {
    fn tell(&mut self, state: ClientState) {
        if self.last == ClientState::Closed {
            return;
        }
        self.subscribed.retain(|(receiver, sender)| {
            let is_live = receiver.strong_count() > 0;
            // If too many states are unread, this one is dropped, without a warning: a logger may
            // block.
            if is_live && sender.len() < UNREAD {
                // The receiver may have just been dropped.
                let _ = sender.send(state);
            }
            is_live
        });
        (self.last, self.since) = (state, sys::now());
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
        assert!(most <= 64, "{most} senders");
        subscribers.tell(ClientState::Suspended);
        for events in stays {
            assert_eq!(events.try_recv(), Ok(ClientState::Suspended));
        }
    }
}
