//! The contenders as they were seen last, and the events between two looks. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::super::below::Lock;
use crate::contender::{Contender, LockChange, LockEvent};
use crate::error::Result;
use crate::path::LockPath;

/// The locks with contenders, as they were seen last.
#[derive(Debug, Default)]
pub(super) struct Seen {
    locks: BTreeMap<LockPath, Vec<Contender>>,
    /// Paths that could not be read at the last look.
    denied: BTreeSet<LockPath>,
    /// Events that nobody has taken yet.
    events: VecDeque<Result<LockEvent>>,
}

impl Seen {
    /// Returns the next event.
    pub(super) fn event(&mut self) -> Option<Result<LockEvent>> {
        self.events.pop_front()
    }

    pub(super) fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the contenders of a lock at the last look.
    pub(super) fn contenders(&self, path: &LockPath) -> Option<&[Contender]> {
        self.locks.get(path).map(Vec::as_slice)
    }

    /// Notes what is at a path now.
    pub(super) fn look(&mut self, path: &LockPath, lock: Lock) {
        match lock.transpose() {
            Ok(contenders) => {
                self.denied.remove(path);
                self.changed(path, contenders.unwrap_or_default());
            }
            // It is told once, and what was seen stays as it is.
            Err(denied) if self.denied.insert(path.clone()) => self.events.push_back(Err(denied)),
            Err(_) => {}
        }
    }

    /// Notes the end of a look at everything, in which these locks were found. Nothing is known of
    /// locks at and below paths that could not be read.
    pub(super) fn looked_at_all(&mut self, found: &BTreeSet<LockPath>, denied: &[LockPath]) {
        let is_hidden = |path: &LockPath| denied.iter().any(|denied| path.is_in(denied));
        let missed = self.locks.keys().filter(|path| !found.contains(path) && !is_hidden(path));
        for path in missed.cloned().collect::<Vec<_>>() {
            self.changed(&path, Vec::new());
        }
        self.denied.retain(|path| denied.contains(path));
    }

    fn changed(&mut self, path: &LockPath, now: Vec<Contender>) {
        let before = self.locks.remove(path).unwrap_or_default();
        let gone = before.iter().filter(|one| same(&now, one).is_none());
        let gone = gone.map(|one| event(LockChange::Gone, one));
        // Whoever holds no longer comes before whoever holds instead.
        let waits_again =
            |one: &&Contender| !one.holds && same(&before, one).is_some_and(|before| before.holds);
        let (again, others): (Vec<_>, Vec<_>) = now.iter().partition(waits_again);
        let others = again.into_iter().chain(others);
        let others = others.flat_map(|one| changes(same(&before, one), one));
        self.events.extend(gone.chain(others).map(Ok));
        if !now.is_empty() {
            self.locks.insert(path.clone(), now);
        }
    }
}

/// Returns the events that lead to the contender `now`.
fn changes(before: Option<&Contender>, now: &Contender) -> impl Iterator<Item = LockEvent> {
    let state = if now.holds { LockChange::Holds } else { LockChange::Waits };
    let is_new = before.is_none_or(|before| before.holds != now.holds);
    let is_asked = now.asked && before.is_none_or(|before| !before.asked);
    let changes = [is_new.then_some(state), is_asked.then_some(LockChange::Asked)];
    changes.into_iter().flatten().map(|change| event(change, now))
}

fn event(change: LockChange, contender: &Contender) -> LockEvent {
    LockEvent { change, contender: contender.clone() }
}

/// Returns the same node in another look. Nodes of single-node locks have the same name.
fn same<'a>(others: &'a [Contender], one: &Contender) -> Option<&'a Contender> {
    others.iter().find(|other| (&other.node, other.token) == (&one.node, one.token))
}
