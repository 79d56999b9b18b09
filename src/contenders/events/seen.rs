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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use LockChange::{Asked, Gone, Holds, Waits};

    fn path(path: &str) -> LockPath {
        LockPath::parse_node(path).expect(path)
    }

    fn contender(path: &str, token: u64, holds: bool) -> Contender {
        Contender {
            path: path.to_owned(),
            node: format!("lock-{token:010}"),
            sequence: None,
            kind: crate::Kind::Exclusive,
            holds,
            identity: None,
            asked: false,
            session: 1,
            since: std::time::SystemTime::UNIX_EPOCH,
            token,
            holding: Vec::new(),
        }
    }

    /// Looks at a lock, and returns the events.
    fn look(seen: &mut Seen, at: &str, now: &[Contender]) -> Vec<(LockChange, u64)> {
        seen.look(&path(at), Some(Ok(now.to_vec())));
        told(seen)
    }

    fn told(seen: &mut Seen) -> Vec<(LockChange, u64)> {
        let events = std::iter::from_fn(|| seen.event()).map(|event| event.expect("an event"));
        events.map(|event| (event.change, event.contender.token)).collect()
    }

    #[test]
    fn events_lead_from_one_look_to_the_next() {
        let (mut seen, one) = (Seen::default(), |token, holds| contender("/a", token, holds));
        let asked = Contender { asked: true, ..one(1, true) };
        for (now, wanted) in [
            (vec![one(1, true), one(2, false)], vec![(Holds, 1), (Waits, 2)]),
            (vec![one(1, true), one(2, false)], vec![]),
            (vec![asked.clone(), one(2, false)], vec![(Asked, 1)]),
            (vec![asked, one(2, false)], vec![]),
            (vec![one(2, true), one(3, false)], vec![(Gone, 1), (Holds, 2), (Waits, 3)]),
            // A read with a lower number came late.
            (vec![one(4, true), one(2, false), one(3, false)], vec![(Waits, 2), (Holds, 4)]),
            (vec![], vec![(Gone, 4), (Gone, 2), (Gone, 3)]),
        ] {
            assert_eq!(look(&mut seen, "/a", &now), wanted);
        }
    }

    #[test]
    fn lock_that_was_not_found_is_gone_unless_it_may_not_be_read() {
        let mut seen = Seen::default();
        for (at, token) in [("/a", 1), ("/b/c", 2), ("/bc", 3)] {
            look(&mut seen, at, &[contender(at, token, true)]);
        }
        let denied = || Some(Err(Error::Denied { path: "/b".to_owned() }));
        seen.look(&path("/b"), denied());
        assert!(matches!(seen.event(), Some(Err(Error::Denied { .. }))));
        seen.look(&path("/b"), denied());
        assert!(seen.event().is_none(), "it is told once");
        seen.looked_at_all(&BTreeSet::from([path("/a")]), &[path("/b")]);
        assert_eq!(told(&mut seen), [(Gone, 3)]);
        seen.looked_at_all(&BTreeSet::from([path("/a")]), &[]);
        assert_eq!(told(&mut seen), [(Gone, 2)]);
    }
}
