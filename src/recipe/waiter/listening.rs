//! What a waiter hears while it waits. What comes next it need not ask for itself: the thread that brings an
//! event sends the next list, and wakes it with both; and the end of the only one ahead needs no list.
//!
//! When a list has shown one node before ours, and nothing can come there any more, its end makes us first. It
//! proves that only while ours is there. So ours is watched as well, and was before the one ahead: had it gone
//! first, that would have been told first. The server tells what happens in its order, but not what happened
//! while there was no connection.

use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use parking_lot::Mutex;
use zookeeper::{EventType, WatchedEvent, Watcher};

use super::Want;

/// Something has happened.
pub(super) struct News {
    pub(super) event: WatchedEvent,
    /// What was in the directory behind that, where a list tells.
    pub(super) names: Option<Vec<String>>,
    /// It is the end that was [expected](Line::expect), with this number.
    pub(super) opens: Option<u64>,
}

/// What a waiter and those who tell it of events both know.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// How many events have come.
    events: u64,
    /// Forgotten with any event.
    expected: Option<Expected>,
}

#[derive(Debug)]
struct Expected {
    number: u64,
    path: String,
    resumed: u64,
}

impl Line {
    /// From now on the end of the node at this path is a grant, until the next event, or until the session is
    /// resumed more often than so often. Nothing if there were other events than so many.
    pub(super) fn expect(&mut self, number: u64, path: String, (events, resumed): (u64, u64)) {
        self.expected = (self.events == events).then_some(Expected { number, path, resumed });
    }

    /// Whether this is what was expected.
    fn hears(&mut self, event: &WatchedEvent, resumed: u64) -> Option<u64> {
        self.events += 1;
        let expected = self.expected.take()?;
        let is_end = event.event_type == EventType::NodeDeleted && event.path == expected.path;
        (is_end && expected.resumed == resumed).then_some(expected.number)
    }
}

/// Hears of nodes.
pub(super) fn listen(want: &Want<'_>) -> (Watcher, Receiver<News>, Arc<Mutex<Line>>) {
    let (tell, news) = unbounded();
    let line = Arc::<Mutex<Line>>::default();
    let heard = Arc::clone(&line);
    let (session, directory) = (Arc::downgrade(want.session), want.claim.directory.clone());
    let lists = !want.claim.is_single() && !want.recipe.watches_list();
    let watcher = Watcher::new(move |event: &WatchedEvent| {
        let (event, tell) = (event.clone(), tell.clone());
        let session = session.upgrade();
        let resumed = session.as_ref().map_or(0, |session| session.resumed());
        let opens = heard.lock().hears(&event, resumed);
        let asks = lists && opens.is_none() && event.event_type != EventType::WatchEnded;
        match session.filter(|_| asks) {
            // Nobody may wait for it any more.
            None => drop(tell.send(News { event, names: None, opens })),
            Some(session) => session.list(&directory).on_done(move |listed| {
                let names = listed.ok().map(|(names, _)| names);
                let _ = tell.send(News { event, names, opens });
            }),
        }
    });
    (watcher, news, line)
}
