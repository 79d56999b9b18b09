//! Notifies any number of threads that something is over. The channels of this module never carry a
//! message; they are disconnected instead. This module does not use other layers.

use std::convert::Infallible;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};

use crate::base::sys::Mutex;

/// A receiver that is disconnected when the event has happened.
pub(crate) type Ended = Receiver<Infallible>;

/// An event that happens once.
#[derive(Debug)]
pub(crate) struct Signal {
    keeper: Mutex<Option<Sender<Infallible>>>,
    ended: Ended,
}

impl Default for Signal {
    fn default() -> Signal {
        let (keeper, ended) = bounded(0);
        Signal { keeper: Mutex::new(Some(keeper)), ended }
    }
}

impl Signal {
    /// Raises the event. Returns true for the first call.
    pub(crate) fn raise(&self) -> bool {
        // The sender is taken out before it is dropped, so that listeners wake while the mutex is
        // unlocked.
        let keeper = self.keeper.lock().take();
        keeper.is_some()
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.ended.try_recv() == Err(TryRecvError::Disconnected)
    }

    pub(crate) fn ended(&self) -> &Ended {
        &self.ended
    }
}

/// An event that happens repeatedly. Each listener receives the first event after it began to
/// listen.
#[derive(Debug, Default)]
pub(crate) struct Broadcast(Mutex<Signal>);

impl Broadcast {
    pub(crate) fn listen(&self) -> Ended {
        self.0.lock().ended().clone()
    }

    pub(crate) fn send(&self) {
        let old = std::mem::take(&mut *self.0.lock());
        old.raise();
    }
}
