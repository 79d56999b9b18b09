//! What a waiter hears while it waits. What comes next it need not ask for itself: the thread that brings an
//! event sends the next list, and wakes it with both.

use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use zookeeper::{EventType, Names, WatchedEvent, Watcher};

use super::Want;

/// Something has happened.
pub(super) struct News {
    pub(super) event: WatchedEvent,
    /// What was in the directory behind that, where a list tells.
    pub(super) names: Option<Names>,
}

/// Hears of nodes.
pub(super) fn listen(want: &Want<'_>) -> (Watcher, Receiver<News>) {
    let (tell, news) = unbounded();
    let (session, directory) = (Arc::downgrade(want.session), want.claim.directory.clone());
    let lists = !want.claim.is_single() && !want.recipe.watches_list();
    let watcher = Watcher::new(move |event: &WatchedEvent| {
        let (event, tell) = (event.clone(), tell.clone());
        let asks = lists && event.event_type != EventType::WatchEnded;
        match session.upgrade().filter(|_| asks) {
            // Nobody may wait for it any more.
            None => drop(tell.send(News { event, names: None })),
            Some(session) => session.list(&directory).on_done(move |listed| {
                let names = listed.ok().map(|(names, _)| names);
                let _ = tell.send(News { event, names });
            }),
        }
    });
    (watcher, news)
}
