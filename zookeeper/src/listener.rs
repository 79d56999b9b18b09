//! Who is told of events: a channel or a callback. It knows neither sessions nor nodes.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, unbounded};

use crate::core::watches::Listen;

/// Somebody who is told of events, by a channel or a callback.
///
/// Clones are the same listener. It hears until the last clone is dropped, and what it was to hear of
/// is forgotten then.
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
    /// Calls `callback` with each event, on a thread of the client that everybody else's answers wait
    /// for: it must not block. It may submit requests, and must not wait for them, which fails with
    /// [`WouldBlock`](crate::ErrorKind::WouldBlock). Should it panic, that thread goes on.
    pub fn new(callback: impl Fn(&E) + Send + Sync + 'static) -> Listener<E> {
        Listener { tell: Arc::new(callback) }
    }

    /// Sends each event to the receiver, which takes any number of them.
    #[must_use]
    pub fn channel() -> (Listener<E>, Receiver<E>) {
        let (sender, receiver) = unbounded();
        // Whoever has dropped the receiver does not want it.
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

/// A listener as the client knows it.
pub(crate) struct WeakListener<E>(Weak<dyn Fn(&E) + Send + Sync>);

impl<E> WeakListener<E> {
    /// Tells it, if it is still there.
    pub(crate) fn tell(&self, event: &E) {
        let Some(tell) = self.0.upgrade() else {
            return;
        };
        call_out(move || {
            tell(event);
            // It may have been the last to know the callback, and what that has captured goes with it.
            drop(tell);
        });
    }
}

/// Calls what is not this crate's. What it panics with is printed; the thread goes on.
pub(crate) fn call_out(callback: impl FnOnce()) {
    let panicked = catch_unwind(AssertUnwindSafe(callback));
    // Its payload may panic, too.
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
        // Nothing else is there as long as a weak reference to it is kept.
        self.0.as_ptr().cast::<()>() as usize
    }
}

impl<E> fmt::Debug for WeakListener<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakListener(..)")
    }
}
