//! What a waiter hears while it waits. What comes next it need not ask for itself: the thread that brings an
//! event sends the next list, and wakes it with both; and the end of the only one ahead needs no list.
//!
//! When a list has shown one node before ours, and nothing can come there any more, its end makes us first. It
//! proves that only while ours is there. So ours is watched as well: had it gone first, that would have been told
//! first. The server tells what happens in its order, but not what happened while there was no connection.

use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use parking_lot::Mutex;
use zookeeper::{EventType, Names, WatchedEvent, Watcher};

use super::Want;
use crate::names::{self, Ahead, Mode, Next, Standing};

/// Something has happened.
pub(super) struct News {
    pub(super) event: WatchedEvent,
    /// What was in the directory behind that, where a list tells.
    pub(super) names: Option<Names>,
    /// It is the grant that was [expected](Line::expect) under this number.
    pub(super) grants: Option<u64>,
}

/// What a waiter and whoever tells it of events both know.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Events that have come and that the waiter has not heard of.
    unheard: u64,
    expected: Option<Expected>,
}

/// The grant comes with the end of the nearest, which is watched, as our own node and the second are.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    /// No other expectation has it.
    pub(super) number: u64,
    pub(super) mode: Mode,
    pub(super) own: String,
    pub(super) ahead: Ahead,
    /// How often the session had been resumed when all that was watched.
    pub(super) resumed: u64,
}

/// What an event means to whoever waits.
enum Meaning {
    Grant(u64),
    /// The second has gone: is the nearest the only one now?
    Closer(u64),
    News,
}

impl Line {
    /// Any event forgets it. Nothing is expected if one has come already.
    pub(super) fn expect(&mut self, expected: Expected) {
        self.expected = (self.unheard == 0).then_some(expected);
    }

    pub(super) fn has_heard(&mut self) {
        self.unheard -= 1;
    }

    fn comes(&mut self, event: &WatchedEvent, resumed: u64) -> Meaning {
        self.unheard += 1;
        let is_end = |name: &str| {
            let last = event.path.rsplit('/').next();
            event.event_type == EventType::NodeDeleted && last == Some(name)
        };
        let Some(mut expected) = self.expected.take_if(|expected| expected.resumed == resumed)
        else {
            return Meaning::News;
        };
        let number = expected.number;
        match &expected.ahead.next {
            Next::Grant if is_end(&expected.ahead.nearest) => Meaning::Grant(number),
            Next::Second(second) if is_end(second) => {
                expected.ahead.next = Next::List;
                self.expected = Some(expected);
                Meaning::Closer(number)
            }
            _ => Meaning::News,
        }
    }

    /// Does this list say that the nearest is the only one? Then its end is the grant, and the waiter need not
    /// hear of this event.
    fn has_come_closer(&mut self, number: u64, names: &Names) -> bool {
        let Some(expected) = self.expected.as_mut().filter(|expected| expected.number == number)
        else {
            return false;
        };
        let grants = Ahead { next: Next::Grant, nearest: expected.ahead.nearest.clone() };
        let standing = names::decide(expected.mode, &names::children(names), &expected.own);
        if standing != Standing::Behind(grants) {
            return false;
        }
        expected.ahead.next = Next::Grant;
        self.unheard -= 1;
        true
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
        let (event, tell) = (event.clone(), tell.clone());
        let session = session.upgrade();
        let resumed = session.as_ref().map_or(0, |session| session.resumed());
        let (grants, closer) = match known.lock().comes(&event, resumed) {
            Meaning::Grant(number) => (Some(number), None),
            Meaning::Closer(number) => (None, Some(number)),
            Meaning::News => (None, None),
        };
        let asks = lists && grants.is_none() && event.event_type != EventType::WatchEnded;
        let Some(session) = session.filter(|_| asks) else {
            // Nobody may wait for it any more.
            return drop(tell.send(News { event, names: None, grants }));
        };
        let known = Arc::clone(&known);
        session.list(&directory).on_done(move |listed| {
            let names = listed.ok().map(|(names, _)| names);
            let is_closer = |(number, names)| known.lock().has_come_closer(number, names);
            if !closer.zip(names.as_ref()).is_some_and(is_closer) {
                let _ = tell.send(News { event, names, grants });
            }
        });
    });
    (watcher, news, line)
}
