//! Session events of a client.

use std::cell::RefCell;

use crossbeam_channel::Receiver;
use zoolock_zookeeper::{Listener, SessionEvent, SessionEventKind, ZooKeeper};

use super::SOON;

/// Records a client's session events from now on.
pub(crate) struct Told {
    _listener: Listener<SessionEvent>,
    events: Receiver<SessionEvent>,
    heard: RefCell<Vec<SessionEvent>>,
}

impl Told {
    pub(crate) fn by(client: &ZooKeeper) -> Told {
        let (listener, events) = Listener::channel();
        client.subscribe(&listener);
        Told { _listener: listener, events, heard: RefCell::default() }
    }

    /// Waits for the next event of this kind, and skips all before.
    #[track_caller]
    pub(crate) fn until(&self, kind: SessionEventKind) -> SessionEvent {
        loop {
            let Ok(event) = self.events.recv_timeout(SOON) else {
                panic!("nothing more was told after {:?}", self.heard.borrow());
            };
            self.heard.borrow_mut().push(event);
            if event.kind == kind {
                return event;
            }
        }
    }

    /// All events so far.
    pub(crate) fn all(&self) -> Vec<SessionEvent> {
        let mut heard = self.heard.borrow_mut();
        heard.extend(self.events.try_iter());
        heard.clone()
    }

    pub(crate) fn kinds(&self) -> Vec<SessionEventKind> {
        self.all().iter().map(|event| event.kind).collect()
    }
}
