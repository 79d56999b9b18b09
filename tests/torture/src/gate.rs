//! Lets the workers of a process into a phase, and tells them when it is over.

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use zoolock::crossbeam_channel::{Receiver, Sender, bounded};

/// Never carries a message; disconnected when the phase is over.
pub(crate) type Drained = Receiver<Infallible>;

#[derive(Debug)]
pub(crate) struct Gate(Mutex<State>);

#[derive(Debug)]
struct State {
    /// This phase and those before it are over.
    closed: u32,
    /// Kept for its end only.
    _open: Sender<Infallible>,
    drained: Drained,
}

impl Gate {
    /// Phases count from 1.
    pub(crate) fn new() -> Gate {
        Gate(Mutex::new(State::after(0)))
    }

    /// None if the phase is over.
    pub(crate) fn enter(&self, phase: u32) -> Option<Drained> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (phase > state.closed).then(|| state.drained.clone())
    }

    pub(crate) fn close(&self, phase: u32) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = State::after(phase);
    }
}

impl State {
    fn after(closed: u32) -> State {
        let (open, drained) = bounded(0);
        State { closed, _open: open, drained }
    }
}
