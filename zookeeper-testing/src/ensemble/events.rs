//! The pending events of an ensemble, ordered by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::settings::Time;
use crate::access::Id;

/// Where an answer has to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) server: usize,
    pub(super) connection: u64,
    pub(super) number: u64,
}

/// A request that a server sends to its leader.
#[derive(Debug)]
pub(super) struct LeaderRequest {
    pub(super) origin: Origin,
    pub(super) session: i64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Open(Time),
    Sync,
    /// A client's request, and the identities that the client has authenticated.
    Request(Vec<u8>, Arc<Vec<Id>>),
}

/// A pending event. A message within a reign is dropped when either of its servers has left the reign.
#[derive(Debug)]
pub(super) enum Event {
    Applied { server: usize, reign: usize, upto: usize },
    Pinged { server: usize, reign: usize },
    Heard { server: usize, reign: usize, touched: Vec<(i64, Time)> },
    Forwarded { server: usize, reign: usize, asked: LeaderRequest },
    Revalidate { server: usize, reign: usize, connection: u64, session: i64, timeout: Time },
    Revalidated { server: usize, reign: usize, connection: u64, lives: bool },
    Synced { server: usize, reign: usize, upto: usize, connection: u64, number: u64 },
    Commit { reign: usize },
    Expiry { reign: usize, session: i64 },
    Leave { server: usize, reign: usize },
    Join { server: usize },
    Elect,
    Sweep,
    Thaw { server: usize },
    Abandon { reign: usize },
}

impl Event {
    /// Returns the server and the reign if this is a message between a server and its leader.
    pub(super) fn parties(&self) -> Option<(usize, usize)> {
        match *self {
            Event::Applied { server, reign, .. }
            | Event::Pinged { server, reign }
            | Event::Heard { server, reign, .. }
            | Event::Forwarded { server, reign, .. }
            | Event::Revalidate { server, reign, .. }
            | Event::Revalidated { server, reign, .. }
            | Event::Synced { server, reign, .. } => Some((server, reign)),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) now: Time,
    queue: BinaryHeap<Entry>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry(Reverse<(Time, u64)>, Event);

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.0 == other.0
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl Events {
    pub(super) fn at(&mut self, time: Time, event: Event) {
        self.pushed += 1;
        self.queue.push(Entry(Reverse((time.max(self.now), self.pushed)), event));
    }

    pub(super) fn after(&mut self, delay: Time, event: Event) {
        self.at(self.now.saturating_add(delay), event);
    }

    /// Makes delayed messages arrive now, in order. No server leaves reign `ruling` because of a delay any more, and
    /// servers leave all other reigns now.
    pub(super) fn hasten(&mut self, ruling: Option<usize>) {
        let mut entries = std::mem::take(&mut self.queue).into_vec();
        entries.sort_by_key(|Entry(Reverse(order), _)| *order);
        for Entry(Reverse((time, _)), event) in entries {
            match event {
                Event::Leave { reign, .. } if Some(reign) == ruling => {}
                Event::Leave { .. } => self.at(self.now, event),
                _ if event.parties().is_some() => self.at(self.now, event),
                _ => self.at(time, event),
            }
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.queue.peek().map(|Entry(Reverse((time, _)), _)| *time)
    }

    /// Returns the next event if it is due by `until`, and sets the time to that of the event.
    pub(super) fn take(&mut self, until: Time) -> Option<Event> {
        self.next().filter(|time| *time <= until)?;
        let Entry(Reverse((time, _)), event) = self.queue.pop()?;
        self.now = time;
        Some(event)
    }
}
