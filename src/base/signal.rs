//! Tells any number of threads that something is over, through channels that never carry a message:
//! listeners see the channel disconnected. It uses no other layer.

use std::convert::Infallible;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};

use crate::base::sys::Mutex;

/// A receiver that is disconnected when the event has come.
pub(crate) type Ended = Receiver<Infallible>;

/// An event that comes once.
#[derive(Debug)]
pub(crate) struct Signal {
    keeper: Mutex<Option<Sender<Infallible>>>,
    ended: Ended,
}

impl Signal {
    pub(crate) fn new() -> Signal {
        let (keeper, ended) = bounded(0);
        Signal { keeper: Mutex::new(Some(keeper)), ended }
    }

    /// Brings the event about. Returns true for the first call.
    pub(crate) fn raise(&self) -> bool {
        // The sender is taken out first, so that listeners wake without the mutex.
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

/// An event that comes repeatedly. Each listener receives the first one after it began to listen.
#[derive(Debug)]
pub(crate) struct Broadcast(Mutex<Signal>);

impl Broadcast {
    pub(crate) fn new() -> Broadcast {
        Broadcast(Mutex::new(Signal::new()))
    }

    pub(crate) fn listen(&self) -> Ended {
        self.0.lock().ended().clone()
    }

    pub(crate) fn send(&self) {
        let old = std::mem::replace(&mut *self.0.lock(), Signal::new());
        old.raise();
    }
}
