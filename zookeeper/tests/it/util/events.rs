//! The session events of a client.

use std::cell::RefCell;

use crossbeam_channel::Receiver;
use zoolock_zookeeper::{Listener, SessionEvent, SessionEventKind, ZooKeeper};

use super::SOON;

/// A listener that records all session events of a client from now on.
pub(crate) struct Events {
    _listener: Listener<SessionEvent>,
    events: Receiver<SessionEvent>,
    seen: RefCell<Vec<SessionEvent>>,
}

impl Events {
    pub(crate) fn of(client: &ZooKeeper) -> Events {
        let (listener, events) = Listener::channel();
        client.subscribe(&listener);
        Events { _listener: listener, events, seen: RefCell::default() }
    }

    /// Waits for the next event of this kind. Skips all events before it.
    #[track_caller]
    pub(crate) fn until(&self, kind: SessionEventKind) -> SessionEvent {
        loop {
            let Ok(event) = self.events.recv_timeout(SOON) else {
                panic!("no further event came after {:?}", self.seen.borrow());
            };
            self.seen.borrow_mut().push(event);
            if event.kind == kind {
                return event;
            }
        }
    }

    /// Returns all events so far.
    pub(crate) fn all(&self) -> Vec<SessionEvent> {
        let mut seen = self.seen.borrow_mut();
        seen.extend(self.events.try_iter());
        seen.clone()
    }

    pub(crate) fn kinds(&self) -> Vec<SessionEventKind> {
        self.all().iter().map(|event| event.kind).collect()
    }
}
