//! The only callback that events of the servers reach: it routes a node's event to the channels
//! of those who wait for it. It knows channels and paths, nothing of locks or connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::Sender;
use parking_lot::Mutex;
use zookeeper::WatchedEvent;

/// Who waits for events, on one connection.
///
/// A server sends one event for a path however many requests set the watch, so a path has a
/// *list* of listeners, and all of them are signalled. An event never says more than "look
/// again". The mutex is held for an operation of the map and nothing else, since the callback
/// must not wait.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    listeners: Mutex<HashMap<String, Vec<Listener>>>,
    next: AtomicU64,
    events: AtomicU64,
}

#[derive(Debug)]
struct Listener {
    number: u64,
    sender: Sender<u64>,
    token: u64,
}

/// Listening to a path, until it is dropped or an event has come.
#[derive(Debug)]
pub(crate) struct Listening {
    watches: Arc<Watches>,
    path: String,
    number: u64,
}

impl Watches {
    /// Registers `sender`, which will get `token`, for the next event at `path`. To be called
    /// *before* the read that sets the watch: the event may overtake the read's answer.
    pub(crate) fn listen(
        self: &Arc<Self>,
        path: String,
        sender: Sender<u64>,
        token: u64,
    ) -> Listening {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let listener = Listener { number, sender, token };
        self.listeners.lock().entry(path.clone()).or_default().push(listener);
        Listening { watches: Arc::clone(self), path, number }
    }

    /// What the event thread calls. A full channel has its signal already.
    pub(crate) fn dispatch(&self, event: &WatchedEvent) {
        self.events.fetch_add(1, Ordering::Relaxed);
        let Some(path) = &event.path else { return };
        let listeners = self.listeners.lock().remove(path);
        for listener in listeners.into_iter().flatten() {
            let _ = listener.sender.try_send(listener.token);
        }
    }

    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    fn forget(&self, path: &str, number: u64) {
        let mut listeners = self.listeners.lock();
        let Some(list) = listeners.get_mut(path) else {
            return;
        };
        list.retain(|listener| listener.number != number);
        if list.is_empty() {
            listeners.remove(path);
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.watches.forget(&self.path, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;
    use zookeeper::{KeeperState, WatchedEventType};

    fn deleted(path: &str) -> WatchedEvent {
        WatchedEvent {
            event_type: WatchedEventType::NodeDeleted,
            keeper_state: KeeperState::SyncConnected,
            path: Some(path.to_owned()),
        }
    }

    #[test]
    fn every_listener_of_the_path_is_signalled_and_no_other() {
        let watches = Arc::new(Watches::default());
        let channels: Vec<_> = (0..3).map(|_| bounded(1)).collect();
        let _listening: Vec<_> = channels
            .iter()
            .zip(["/a", "/a", "/b"])
            .map(|((sender, _), path)| watches.listen(path.to_owned(), sender.clone(), 7))
            .collect();
        watches.dispatch(&deleted("/a"));
        let seen: Vec<_> = channels.iter().map(|(_, r)| r.try_recv().ok()).collect();
        assert_eq!(seen, [Some(7), Some(7), None]);
    }

    #[test]
    fn who_stopped_listening_leaves_nothing_behind() {
        let watches = Arc::new(Watches::default());
        let (sender, receiver) = bounded(1);
        drop(watches.listen("/a".to_owned(), sender, 0));
        watches.dispatch(&deleted("/a"));
        assert!(receiver.try_recv().is_err());
        assert!(watches.listeners.lock().is_empty(), "{watches:?}");
    }

    #[test]
    fn a_full_channel_does_not_stop_the_callback() {
        let watches = Arc::new(Watches::default());
        let (sender, receiver) = bounded(1);
        for _ in 0..2 {
            let listening = watches.listen("/a".to_owned(), sender.clone(), 1);
            watches.dispatch(&deleted("/a"));
            drop(listening);
        }
        assert_eq!(receiver.len(), 1);
    }
}
