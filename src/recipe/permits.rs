//! Permits of a semaphore: granted when no more nodes than the limit were made before them and with them
//! and are still there, whoever made them.
//!
//! That alone keeps the limit: of those that are granted at any time, the last one made saw all others. The turn,
//! which is a lock, is for order, and so that of two who want many permits one gets all of them.
//!
//! Who was made before is told by the numbers in names, which the server gives to every permit. A node that somebody
//! made there by hand counts as its name says, and is no permit of anybody's: it can only take one away.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::never;
use zookeeper::{CreateMode, Names};

use super::rule::{New, Recipe, Step};
use crate::names::{self, Child, Mode};
use crate::session::{Grant, Node};
use crate::signal::{Broadcast, Ended};

/// The most permits there may be.
#[derive(Debug)]
pub(crate) struct Limit {
    most: AtomicU32,
    changed: Broadcast,
}

impl Limit {
    pub(crate) fn new(most: u32) -> Limit {
        Limit { most: AtomicU32::new(most), changed: Broadcast::new() }
    }

    pub(crate) fn get(&self) -> u32 {
        self.most.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, most: u32) {
        self.most.store(most, Ordering::SeqCst);
        self.changed.send();
    }
}

/// So many at once, all or none.
pub(crate) struct Permits<'a> {
    count: usize,
    limit: &'a Limit,
    /// Only while this is held, if they are waited for.
    turn: Option<&'a Arc<Grant>>,
    changed: RefCell<Ended>,
}

impl<'a> Permits<'a> {
    pub(crate) fn new(count: u32, limit: &'a Limit, turn: Option<&'a Arc<Grant>>) -> Permits<'a> {
        Permits { count: count as usize, limit, turn, changed: RefCell::new(never()) }
    }
}

impl Recipe for Permits<'_> {
    fn count(&self) -> usize {
        self.count
    }

    fn node(&self) -> New {
        let id = names::new_permit_id(self.turn.map(|turn| turn.list()[0].name.as_str()));
        let name = names::new_name_prefix(&id, Mode::Permit);
        New { id, name, mode: CreateMode::EphemeralSequential }
    }

    fn is_free(&self, list: &Names) -> bool {
        list.len() + self.count <= self.limit.get() as usize
    }

    fn step(&self, list: &[Child<'_>], own: &[Node]) -> Step {
        if let Some(Err(lost)) = self.turn.map(|turn| turn.check()) {
            return Step::Refused(lost);
        }
        // Before the look at it, so that no change is missed.
        self.changed.replace(self.limit.changed.listen());
        // Those whose numbers tell nothing count as before.
        let last =
            own.iter().map(|node| names::normal_number(&node.name).unwrap_or(i32::MAX)).max();
        let before = list.iter().filter(|child| names::normal_number(child.name) <= last);
        match before.count() <= self.limit.get() as usize {
            true => Step::Granted,
            false => Step::Behind(None),
        }
    }

    fn watches_list(&self) -> bool {
        self.turn.is_some()
    }

    fn changes(&self) -> [Ended; 2] {
        let ended = self.turn.map_or_else(never, |turn| turn.ended().clone());
        [self.changed.borrow().clone(), ended]
    }
}
