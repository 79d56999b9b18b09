//! What a waiter hears while it waits. What comes next it need not ask for itself: the thread that brings an
//! event sends the next list, and wakes it with both; and the end of the only one ahead needs no list.
//!
//! When a list has shown one node before ours, and nothing can come there any more, its end makes us first. It
//! proves that only while ours is there. So ours is watched as well: had it gone first, that would have been told
//! first. The server tells what happens in its order, but not what happened while there was no connection.

use std::mem;
use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use parking_lot::Mutex;
use zookeeper::{EventType, Names, WatchedEvent, Watcher};

use super::Want;
use crate::names::{self, Ahead, Mode, Next, Standing};

/// A reason to look.
pub(super) struct News {
    /// What was in the directory behind the events that a list was sent for.
    pub(super) names: Option<Names>,
    /// It is the grant that was [expected](Line::expect) under this number.
    pub(super) grants: Option<u64>,
}

/// What a waiter and whoever tells it of events both know.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The paths of what has come and the waiter has not heard of.
    events: Vec<String>,
    /// A list is under way. What is told before its answer, it shows.
    lists: bool,
    /// Forgotten with any event, but the end of the second.
    expected: Option<Expected>,
}

/// The grant comes with the end of the nearest, which is watched, as our own node and the second are.
#[derive(Debug)]
pub(super) struct Expected {
    /// No other expectation has it.
    pub(super) number: u64,
    pub(super) mode: Mode,
    pub(super) own: String,
    pub(super) ahead: Ahead,
    /// How often the session had been resumed when all that was watched.
    pub(super) resumed: u64,
}

impl Expected {
    /// Do the end of the second and this list say that the nearest is the only one?
    fn has_come_closer(&self, names: &Names) -> bool {
        let nearest = self.ahead.nearest.clone();
        let closer = Standing::Behind(Ahead { nearest, next: Next::Grant });
        names::decide(self.mode, &names::children(names), &self.own) == closer
    }
}

impl Line {
    /// Nothing is expected if something has come that the waiter has not heard of.
    pub(super) fn expect(&mut self, expected: Expected) {
        self.expected = self.events.is_empty().then_some(expected);
    }

    /// What the waiter hears of now.
    pub(super) fn hear(&mut self) -> Vec<String> {
        mem::take(&mut self.events)
    }

    /// The number of the expectation, if this is the grant.
    fn comes(&mut self, event: &WatchedEvent, resumed: u64) -> Option<u64> {
        self.events.push(event.path.clone());
        let is_end = |name: &str| {
            let last = event.path.rsplit('/').next();
            event.event_type == EventType::NodeDeleted && last == Some(name)
        };
        let mut expected = self.expected.take_if(|expected| expected.resumed == resumed)?;
        match &expected.ahead.next {
            Next::Grant => is_end(&expected.ahead.nearest).then_some(expected.number),
            Next::Second(second) if is_end(second) => {
                expected.ahead.next = Next::List;
                self.expected = Some(expected);
                None
            }
            _ => None,
        }
    }

    /// What the waiter is to be told of a list; nothing if it has only come closer.
    fn listed(&mut self, names: Option<Names>) -> Option<News> {
        self.lists = false;
        match (&mut self.expected, &names) {
            (Some(expected), Some(names)) if expected.has_come_closer(names) => {
                expected.ahead.next = Next::Grant;
                self.events.clear();
                None
            }
            _ => Some(News { names, grants: None }),
        }
    }
}

/// Hears of nodes.
pub(super) fn listen(want: &Want<'_>) -> (Watcher, Receiver<News>, Arc<Mutex<Line>>) {
    let (tell, news) = unbounded();
    let line = Arc::<Mutex<Line>>::default();
    let (known, session) = (Arc::clone(&line), Arc::downgrade(want.session));
    let directory = want.claim.directory.clone();
    let lists = !want.claim.is_single() && !want.recipe.watches_list();
    let watcher = Watcher::new(move |event: &WatchedEvent| {
        let session = session.upgrade();
        let resumed = session.as_ref().map_or(0, |session| session.resumed());
        let mut line = known.lock();
        let grants = line.comes(event, resumed);
        let asks = lists && grants.is_none() && event.event_type != EventType::WatchEnded;
        let session = session.filter(|_| asks);
        let is_asked = session.is_some() && mem::replace(&mut line.lists, true);
        drop(line);
        let session = match session {
            Some(_) if is_asked => return,
            Some(session) => session,
            // Nobody may wait for it any more.
            None => return drop(tell.send(News { names: None, grants })),
        };
        let (known, tell) = (Arc::clone(&known), tell.clone());
        session.list(&directory).on_done(move |listed| {
            let names = listed.ok().map(|(names, _)| names);
            let news = known.lock().listed(names);
            news.map(|news| tell.send(news));
        });
    });
    (watcher, news, line)
}
