//! What a waiter hears while it waits. What comes next it need not ask for itself: the thread that brings an
//! event sends the next list, and wakes it with both.

use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use parking_lot::Mutex;
use zookeeper::{EventType, WatchedEvent, Watcher};

use super::Want;

/// Hears of nodes, by a watcher.
pub(super) struct Ear {
    pub(super) watcher: Watcher,
    pub(super) news: Receiver<News>,
    /// The path of the only node ahead, when its end is ours to come in.
    last: Arc<Mutex<Option<String>>>,
}

/// Something has happened.
pub(super) struct News {
    pub(super) event: WatchedEvent,
    /// What was in the directory behind that.
    pub(super) names: Option<Vec<String>>,
}

impl Ear {
    pub(super) fn new(want: &Want<'_>) -> Ear {
        let (tell, news) = unbounded();
        let last = Arc::<Mutex<Option<String>>>::default();
        let (session, directory) = (Arc::downgrade(want.session), want.claim.directory.clone());
        let (awaited, lists) =
            (Arc::clone(&last), !want.claim.is_single() && !want.recipe.watches_list());
        let watcher = Watcher::new(move |event: &WatchedEvent| {
            let (event, tell) = (event.clone(), tell.clone());
            let session = session.upgrade().filter(|_| lists && !is_end_of(&awaited, &event));
            match session {
                // Nobody may wait for it any more.
                None => drop(tell.send(News { event, names: None })),
                Some(session) => session.list(&directory).on_done(move |listed| {
                    let names = listed.ok().map(|(names, _)| names);
                    let _ = tell.send(News { event, names });
                }),
            }
        });
        Ear { watcher, news, last }
    }

    /// Only this node is ahead, if any is given: when it has gone there is no need to look.
    pub(super) fn expect(&self, last: Option<String>) {
        *self.last.lock() = last;
    }

    /// Is it the end of the only node ahead?
    pub(super) fn is_over(&self, event: &WatchedEvent) -> bool {
        is_end_of(&self.last, event)
    }
}

fn is_end_of(last: &Mutex<Option<String>>, event: &WatchedEvent) -> bool {
    event.event_type == EventType::NodeDeleted && last.lock().as_ref() == Some(&event.path)
}
