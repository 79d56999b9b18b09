//! What a waiter hears while it waits. What comes next it need not ask for itself: the thread that brings an
//! event sends the next list, and wakes it with both; and the end of the only one ahead needs no list.
//!
//! When a list has shown one node before ours, and nothing can come there any more, its end makes us first. It
//! proves that only while ours is there. So ours is watched as well: had it gone first, that would have been told
//! first. The server tells what happens in its order, but not what happened while there was no connection.
//!
//! What is taken for known here, what that rests on, and who could break it:
//! - *Nothing comes before a node that a list has shown first*: numbers rise, and all who contend let the server number
//!   their nodes; a read under a write is ruled out by [`Next`]. Somebody could break it who makes a node by hand whose
//!   name looks like a lower contender's. The grant overlooks that node, the next list does not. It holds nothing:
//!   no queue gave it its place.
//! - *Our node was there when the nearest ended*: its watch. Somebody could break it who takes READ of our node from us
//!   and deletes it: servers tell nothing of a node to those who may not read it by then. That hold has lost its node
//!   like any other whose node is deleted, and finds out at its first look.
//! - *Something has happened*: events, and the same could break that. So a waiter looks again after some session
//!   timeouts, whatever it was told (`Session::next_look`).

use std::mem;
use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use zookeeper::{EventType, Names, WatchedEvent, Watcher};

use super::Want;
use crate::names::{self, Ahead, Mode, Next, Standing};
use crate::sys::{self, Mutex};

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
        sys::reached_if(|| !self.events.is_empty(), "nothing is expected beside an unheard event");
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
        let is_old = |expected: &Expected| expected.resumed != resumed;
        sys::reached_if(
            || self.expected.as_ref().is_some_and(is_old),
            "an expectation is older than a resume",
        );
        // Of one from before a resume it is not known what came before: it is forgotten like any other.
        let mut expected = self.expected.take().filter(|expected| expected.resumed == resumed)?;
        match &expected.ahead.next {
            Next::Grant => is_end(&expected.ahead.nearest).then_some(expected.number),
            Next::Second(second) if is_end(second) => {
                sys::reached("the second ahead goes first");
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
                sys::reached("a list says that the nearest is the last ahead");
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
            Some(_) if is_asked => return sys::reached("an event comes while a list is under way"),
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

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "lock-0000000005";
    const NEAREST: &str = "lock-0000000004";
    const SECOND: &str = "lock-0000000003";

    /// Behind the nearest, as number 7, since the session was resumed once.
    fn expecting(next: Next) -> Line {
        let mut line = Line::default();
        expect(&mut line, next);
        line
    }

    fn expect(line: &mut Line, next: Next) {
        let (own, ahead) = (OWN.to_owned(), Ahead { nearest: NEAREST.to_owned(), next });
        line.expect(Expected { number: 7, mode: Mode::Exclusive, own, ahead, resumed: 1 });
    }

    fn second() -> Next {
        Next::Second(SECOND.to_owned())
    }

    /// What this event of a node is taken for, after so many resumes.
    fn event(line: &mut Line, event_type: EventType, name: &str, resumed: u64) -> Option<u64> {
        line.comes(&WatchedEvent { event_type, path: format!("/directory/{name}") }, resumed)
    }

    fn end(line: &mut Line, name: &str) -> Option<u64> {
        event(line, EventType::NodeDeleted, name, 1)
    }

    /// Is the waiter told of a list of these names?
    fn is_told(line: &mut Line, names: &[&str]) -> bool {
        line.listed(Some(names.iter().collect())).is_some()
    }

    #[test]
    fn the_end_of_the_nearest_is_the_grant_if_it_is_expected_and_nothing_came_before() {
        let mut line = expecting(Next::Grant);
        assert_eq!(end(&mut line, NEAREST), Some(7));
        assert_eq!(line.hear(), [format!("/directory/{NEAREST}")]);
        // It is not expected twice.
        assert_eq!(end(&mut line, NEAREST), None);

        for (event_type, name) in [
            (EventType::NodeDeleted, OWN),
            (EventType::NodeDataChanged, OWN),
            (EventType::NodeDataChanged, NEAREST),
            (EventType::WatchEnded, NEAREST),
            (EventType::NodeDeleted, SECOND),
        ] {
            let mut line = expecting(Next::Grant);
            assert_eq!(event(&mut line, event_type, name, 1), None, "{event_type:?} of {name}");
            assert_eq!(end(&mut line, NEAREST), None, "behind {event_type:?} of {name}");
        }
        for next in [Next::List, second()] {
            assert_eq!(end(&mut expecting(next.clone()), NEAREST), None, "{next:?}");
        }
    }

    #[test]
    fn nothing_is_expected_over_a_resume_or_beside_what_was_not_heard_of() {
        let mut line = expecting(Next::Grant);
        assert_eq!(event(&mut line, EventType::NodeDeleted, NEAREST, 2), None);
        // What was missed has ended a watch, and the waiter is to set it again.
        for event_type in [EventType::NodeDataChanged, EventType::NodeDeleted] {
            for next in [Next::Grant, second()] {
                let mut line = expecting(next);
                assert_eq!(event(&mut line, event_type, SECOND, 2), None);
                assert!(is_told(&mut line, &[OWN, NEAREST]), "{event_type:?}");
            }
        }

        let mut line = Line::default();
        end(&mut line, OWN);
        expect(&mut line, Next::Grant);
        assert_eq!(end(&mut line, NEAREST), None);
        line.hear();
        expect(&mut line, Next::Grant);
        assert_eq!(end(&mut line, NEAREST), Some(7));
    }

    #[test]
    fn behind_the_end_of_the_second_a_list_says_whether_the_nearest_is_the_only_one() {
        let mut line = expecting(second());
        assert_eq!(end(&mut line, SECOND), None);
        assert!(!is_told(&mut line, &["lock-0000000006", OWN, NEAREST]));
        assert!(line.hear().is_empty(), "the waiter need not know");
        assert_eq!(end(&mut line, NEAREST), Some(7));

        for (what, names) in [
            ("another one is before it", &[OWN, NEAREST, "lock-0000000001"][..]),
            ("the nearest has gone, too", &[OWN]),
            ("our own has", &[NEAREST]),
        ] {
            let mut line = expecting(second());
            end(&mut line, SECOND);
            assert!(is_told(&mut line, names), "{what}");
            assert_eq!(line.hear().len(), 1, "{what}");
        }
        for name in [NEAREST, OWN] {
            let mut line = expecting(second());
            assert_eq!((end(&mut line, SECOND), end(&mut line, name)), (None, None));
            assert!(is_told(&mut line, &[OWN, NEAREST]), "{name} has gone before the list came");
            assert_eq!((line.hear().len(), end(&mut line, NEAREST)), (2, None));
        }
    }
}
