//! Receivers of events: channels and callbacks. This module is independent of sessions and nodes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, unbounded};

use crate::core::watches::Listen;
use crate::types::WatchedEvent;

/// A receiver of events: a channel or a callback.
///
/// All clones are the same listener. It receives events until the last clone is dropped, which removes
/// its watches and subscriptions.
///
/// ```
/// use zoolock_zookeeper::{WatchedEvent, Watcher};
///
/// let (watcher, events) = Watcher::channel();
/// let loud = Watcher::new(|event: &WatchedEvent| println!("{event:?}"));
/// # let _: (Watcher, Watcher, crossbeam_channel::Receiver<WatchedEvent>) = (watcher, loud, events);
/// ```
pub struct Listener<E> {
    tell: Arc<dyn Fn(&E) + Send + Sync>,
}

impl<E: Clone + Send + 'static> Listener<E> {
    /// Calls `callback` with each event, on the thread of the client that delivers all answers. The
    /// callback must not block. It may submit requests, but waiting for them fails with
    /// [`WouldBlock`](crate::ErrorKind::WouldBlock). If the callback panics, the thread continues.
    pub fn new(callback: impl Fn(&E) + Send + Sync + 'static) -> Listener<E> {
        Listener { tell: Arc::new(callback) }
    }

    /// Returns a listener that sends each event to the returned receiver, through an unbounded channel.
    #[must_use]
    pub fn channel() -> (Listener<E>, Receiver<E>) {
        let (sender, receiver) = unbounded();
        // A program that has dropped the receiver does not need the event.
        let send = move |event: &E| drop(sender.send(event.clone()));
        (Listener::new(send), receiver)
    }

    pub(crate) fn downgrade(&self) -> WeakListener<E> {
        WeakListener(Arc::downgrade(&self.tell))
    }
}

impl<E> Clone for Listener<E> {
    fn clone(&self) -> Listener<E> {
        let tell = Arc::clone(&self.tell);
        Listener { tell }
    }
}

impl<E> fmt::Debug for Listener<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener(..)")
    }
}

/// A [`Listener`] for changes of nodes. It receives one event for each watch that it sets.
pub type Watcher = Listener<WatchedEvent>;

/// The client's reference to a listener.
pub(crate) struct WeakListener<E>(Weak<dyn Fn(&E) + Send + Sync>);

impl<E> WeakListener<E> {
    /// Sends an event to the listener, if it still exists.
    pub(crate) fn tell(&self, event: &E) {
        let Some(tell) = self.0.upgrade() else {
            return;
        };
        call_out(move || {
            tell(event);
            // If this is the last reference to the callback, dropping it also drops the captured
            // values.
            drop(tell);
        });
    }
}

/// Calls foreign code. If it panics, the panic is printed, and the thread continues.
pub(crate) fn call_out(callback: impl FnOnce()) {
    let panicked = catch_unwind(AssertUnwindSafe(callback));
    // The destructor of the payload may also panic.
    std::mem::forget(panicked);
}

impl<E> Clone for WeakListener<E> {
    fn clone(&self) -> WeakListener<E> {
        WeakListener(Weak::clone(&self.0))
    }
}

impl<E> Listen for WeakListener<E> {
    fn is_live(&self) -> bool {
        self.0.strong_count() > 0
    }

    fn id(&self) -> usize {
        // The address is not reused as long as a weak reference to it exists.
        self.0.as_ptr().cast::<()>() as usize
    }
}

impl<E> fmt::Debug for WeakListener<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakListener(..)")
    }
}
