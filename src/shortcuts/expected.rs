//! The event that grants: the end of the only node ahead needs no list.
//!
//! When a list has shown one node before ours, and no node can come before ours any more, the end
//! of that node makes ours the first. It proves that only while ours exists. So our own node is
//! watched as well: if it had been deleted first, that event would have come first. The server
//! sends events in its order, but does not send what happened without a connection.
//!
//! What the conclusion rests on, and who could break it:
//! - *No node comes before one that a list has shown first*: numbers rise, and all contenders let
//!   the server number their nodes. [`Next`] rules out a read under a write. A client can break
//!   this by creating, by hand, a node with the name of a lower contender. The grant overlooks that
//!   node; the next list does not. It holds nothing, because no queue gave it its position.
//! - *Our node existed when the nearest one ended*: its watch. A client can break this by taking
//!   READ of our node from us and deleting the node, because servers send events of a node only to
//!   clients that may read it by then. That hold has lost its node like any other whose node is
//!   deleted, and finds out at its first look.
//! - *Something has happened*: events, which the same client could suppress. So a waiter looks
//!   again after some session timeouts, with or without events (`Requests::next_look`).

use std::mem;

use zookeeper::{EventType, Names, WatchedEvent};

use super::are_on;
use crate::names::{self, Ahead, Mode, Next, Standing};
use crate::sys;

/// A reason to look.
pub(crate) struct News {
    /// The directory's nodes behind the events for which a list was sent.
    pub(crate) names: Option<Names>,
    /// The number of the [expectation](Heard::expect) that has come true: this is the grant.
    pub(crate) grants: Option<u64>,
}

/// What a waiter and the thread that delivers its events both know.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Paths of events that the waiter has not received yet.
    events: Vec<String>,
    /// A list is under way. It will show what happened before its answer.
    is_listing: bool,
    /// Dropped by any event except the end of the second node ahead.
    expected: Option<Expected>,
}

/// An expected grant. It comes with the end of the nearest node ahead, when that is watched, and so
/// are our own node and the second one ahead. The waiter believes it when it knows that they are.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Differs for each expectation.
    pub(crate) number: u64,
    pub(crate) mode: Mode,
    pub(crate) own: String,
    pub(crate) ahead: Ahead,
    /// How often the session had been resumed before they were watched.
    pub(crate) resumed: u64,
}

/// What has to be done for an event.
pub(crate) enum Reaction {
    /// The waiter has to know.
    Tell(News),
    /// A list has to be sent first.
    List,
    /// A list is under way, which will tell.
    Wait,
}

impl Expected {
    /// Returns whether the end of the second node and this list show that the nearest node is the
    /// only one ahead.
    fn has_come_closer(&self, names: &Names) -> bool {
        let nearest = self.ahead.nearest.clone();
        let closer = Standing::Behind(Ahead { nearest, next: Next::Grant });
        names::decide(self.mode, &names::children(names), &self.own) == closer
    }
}

impl Heard {
    /// Expects the grant, unless the waiter has not received all events yet.
    pub(crate) fn expect(&mut self, expected: Expected) {
        sys::reached_if(|| !self.events.is_empty(), "nothing is expected beside an unheard event");
        self.expected = (self.events.is_empty() && are_on()).then_some(expected);
    }

    /// Returns the paths of all events that the waiter receives now.
    pub(crate) fn receive(&mut self) -> Vec<String> {
        mem::take(&mut self.events)
    }

    /// Takes an event. With `lists`, one that does not grant needs a list.
    pub(crate) fn event(&mut self, event: &WatchedEvent, resumed: u64, lists: bool) -> Reaction {
        let grants = self.is_grant(event, resumed);
        let needs_list = lists && grants.is_none() && event.event_type != EventType::WatchEnded;
        match needs_list {
            false => Reaction::Tell(News { names: None, grants }),
            true if mem::replace(&mut self.is_listing, true) => {
                sys::reached("an event comes while a list is under way");
                Reaction::Wait
            }
            true => Reaction::List,
        }
    }

    /// Returns the number of the expectation, if this event is the grant.
    fn is_grant(&mut self, event: &WatchedEvent, resumed: u64) -> Option<u64> {
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
        // It is unknown what happened before the resume, so an older expectation is dropped.
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

    /// Takes a list. Returns the news for the waiter, or `None` if the waiter has only come closer.
    pub(crate) fn list(&mut self, names: Option<Names>) -> Option<News> {
        self.is_listing = false;
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

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "lock-0000000005";
    const NEAREST: &str = "lock-0000000004";
    const SECOND: &str = "lock-0000000003";

    /// Returns a waiter that expects grant 7, since the session was resumed once.
    fn expecting(next: Next) -> Heard {
        let mut heard = Heard::default();
        expect(&mut heard, next);
        heard
    }

    fn expect(heard: &mut Heard, next: Next) {
        let (own, ahead) = (OWN.to_owned(), Ahead { nearest: NEAREST.to_owned(), next });
        heard.expect(Expected { number: 7, mode: Mode::Exclusive, own, ahead, resumed: 1 });
    }

    fn second() -> Next {
        Next::Second(SECOND.to_owned())
    }

    /// Returns the expectation that this event makes true, after this many resumes.
    fn event(heard: &mut Heard, event_type: EventType, name: &str, resumed: u64) -> Option<u64> {
        heard.is_grant(&WatchedEvent { event_type, path: format!("/directory/{name}") }, resumed)
    }

    fn end(heard: &mut Heard, name: &str) -> Option<u64> {
        event(heard, EventType::NodeDeleted, name, 1)
    }

    /// Returns whether the waiter receives a list of these names.
    fn is_told(heard: &mut Heard, names: &[&str]) -> bool {
        heard.list(Some(names.iter().collect())).is_some()
    }

    #[test]
    fn expectation_ends_with_a_resume_or_an_unreceived_event() {
        let mut heard = expecting(Next::Grant);
        assert_eq!(event(&mut heard, EventType::NodeDeleted, NEAREST, 2), None);
        // A missed event has ended a watch, and the waiter has to set it again.
        for event_type in [EventType::NodeDataChanged, EventType::NodeDeleted] {
            for next in [Next::Grant, second()] {
                let mut heard = expecting(next);
                assert_eq!(event(&mut heard, event_type, SECOND, 2), None);
                assert!(is_told(&mut heard, &[OWN, NEAREST]), "{event_type:?}");
            }
        }

        let mut heard = Heard::default();
        end(&mut heard, OWN);
        expect(&mut heard, Next::Grant);
        assert_eq!(end(&mut heard, NEAREST), None);
        heard.receive();
        expect(&mut heard, Next::Grant);
        assert_eq!(end(&mut heard, NEAREST), Some(7));
    }
}
