//! Deadlocks: circles of contenders that wait for each other. Looks at the nodes of all locks, so it
//! finds those among machines. The search is pure.
//!
//! An owner is a thread of a session, as far as its identity names it; otherwise the whole session.
//! It waits for all contenders ahead of it that exclude it, so any circle of owners is a deadlock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Contender, Kind};
use crate::error::Result;

/// Contenders that wait for each other in a circle; see
/// [`Client::deadlocks_below`](crate::Client::deadlocks_below).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadlock {
    /// Each contender that waits, with one that is ahead of it at the same lock. The owner of that
    /// one is the next one that waits; behind the last one comes the first.
    pub waits: Vec<(Contender, Contender)>,
}

/// The contenders of each lock, in order.
type Locks = Vec<Vec<Contender>>;

/// A session, and what its node says of the thread.
type Owner<'a> = (i64, Option<&'a str>);

/// A contender that waits, and one that it waits for.
type Edge<'a> = (&'a Contender, &'a Contender);

/// Returns the circles that two looks show with the same nodes. The second look takes place only if
/// the first one shows any.
pub(crate) fn find(look: impl Fn() -> Result<Locks>) -> Result<Vec<Deadlock>> {
    let locks = look()?;
    let mut found = circles(&locks);
    if found.is_empty() {
        return Ok(found);
    }
    let again = look()?;
    let place = |(waiting, ahead): Edge<'_>| (waiting.path.clone(), waiting.token, ahead.token);
    let seen: BTreeSet<_> = edges(&again).into_iter().map(place).collect();
    let is_seen =
        |(waiting, ahead): &(Contender, Contender)| seen.contains(&place((waiting, ahead)));
    found.retain(|deadlock| deadlock.waits.iter().all(is_seen));
    Ok(found)
}

fn owner(contender: &Contender) -> Owner<'_> {
    (contender.session, contender.identity.as_deref())
}

/// Returns who waits for whom. Of those ahead, the nearest that excludes all others counts: it
/// waits for them itself.
fn edges(locks: &Locks) -> Vec<Edge<'_>> {
    let mut edges = Vec::new();
    for lock in locks {
        // Permits wait for any of those ahead, and not for all. Foreign nodes exclude nobody.
        let takes_part = |one: &&Contender| {
            one.session != 0 && !matches!(one.kind, Kind::Permit | Kind::Foreign)
        };
        let queue: Vec<_> = lock.iter().filter(takes_part).collect();
        for (index, waiting) in queue.iter().enumerate().filter(|(_, one)| !one.holds) {
            let reads = waiting.kind == Kind::Read;
            for ahead in queue[..index].iter().rev() {
                let excludes = !(reads && ahead.kind == Kind::Read);
                if excludes {
                    edges.push((*waiting, *ahead));
                }
                if ahead.kind != Kind::Read && !ahead.holds {
                    break;
                }
            }
        }
    }
    edges
}

/// Returns a shortest circle through each owner, each circle once.
fn circles(locks: &Locks) -> Vec<Deadlock> {
    let mut from: BTreeMap<Owner<'_>, Vec<Edge<'_>>> = BTreeMap::new();
    for edge in edges(locks) {
        from.entry(owner(edge.0)).or_default().push(edge);
    }
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    for &start in from.keys() {
        let Some(waits) = circle(start, &from) else {
            continue;
        };
        let mut members: Vec<_> = waits.iter().map(|(waiting, _)| owner(waiting)).collect();
        members.sort_unstable();
        if known.insert(members) {
            let waits = waits.into_iter().map(|(one, other)| (one.clone(), other.clone()));
            found.push(Deadlock { waits: waits.collect() });
        }
    }
    found
}

/// Returns the shortest way from an owner back to it.
fn circle<'a>(
    start: Owner<'a>,
    from: &BTreeMap<Owner<'a>, Vec<Edge<'a>>>,
) -> Option<Vec<Edge<'a>>> {
    let mut came: BTreeMap<Owner<'a>, Edge<'a>> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(at) = next.pop_front() {
        for &edge in from.get(&at).into_iter().flatten() {
            let to = owner(edge.1);
            if came.contains_key(&to) {
                continue;
            }
            came.insert(to, edge);
            if to != start {
                next.push_back(to);
                continue;
            }
            let mut way = vec![edge];
            while owner(way[way.len() - 1].0) != start {
                way.push(came[&owner(way[way.len() - 1].0)]);
            }
            way.reverse();
            return Some(way);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::SystemTime;

    use super::*;

    /// Returns the contenders of a lock from `kind session`, of which the first `holders` hold it.
    fn lock(path: &str, holders: usize, all: &[(Kind, i64)]) -> Vec<Contender> {
        let contender = |(index, (kind, session)): (usize, &(Kind, i64))| Contender {
            path: path.to_owned(),
            node: format!("node-{index}"),
            sequence: Some(index as i64),
            kind: *kind,
            holds: index < holders,
            identity: Some("host/1/main".to_owned()),
            asked: false,
            session: *session,
            since: SystemTime::UNIX_EPOCH,
            token: index as u64,
        };
        all.iter().enumerate().map(contender).collect()
    }

    fn members(deadlocks: &[Deadlock]) -> Vec<Vec<(i64, &str)>> {
        deadlocks
            .iter()
            .map(|one| one.waits.iter().map(|(w, _)| (w.session, w.path.as_str())).collect())
            .collect()
    }

    #[test]
    fn circles_are_found_and_chains_are_none() {
        use Kind::{Exclusive as X, Foreign, Permit, Read as R, Write as W};
        let (a, b, c) = ("/a", "/b", "/c");
        for (locks, expected) in [
            (vec![lock(a, 1, &[(X, 1), (X, 2)]), lock(b, 1, &[(X, 2), (X, 3)])], vec![]),
            (
                vec![lock(a, 1, &[(X, 1), (X, 2)]), lock(b, 1, &[(X, 2), (X, 1)])],
                vec![vec![(1, b), (2, a)]],
            ),
            (
                vec![
                    lock(a, 1, &[(X, 1), (X, 2)]),
                    lock(b, 1, &[(X, 2), (X, 3)]),
                    lock(c, 1, &[(X, 3), (X, 1)]),
                ],
                vec![vec![(1, c), (3, b), (2, a)]],
            ),
            // A place in the queue behind somebody who waits counts as well.
            (
                vec![lock(a, 1, &[(X, 9), (X, 1), (X, 2)]), lock(b, 1, &[(X, 2), (X, 1)])],
                vec![vec![(1, b), (2, a)]],
            ),
            // Readers do not wait for each other, and a writer waits for all of them.
            (vec![lock(a, 2, &[(R, 1), (R, 2)]), lock(b, 1, &[(W, 2), (W, 1)])], vec![]),
            (
                vec![lock(a, 2, &[(R, 1), (R, 3), (W, 2)]), lock(b, 1, &[(X, 2), (X, 1)])],
                vec![vec![(1, b), (2, a)]],
            ),
            // A permit may come from anybody, and foreign nodes block nobody.
            (vec![lock(a, 1, &[(Permit, 1), (Permit, 2)]), lock(b, 1, &[(X, 2), (X, 1)])], vec![]),
            (vec![lock(a, 0, &[(Foreign, 1), (X, 2)]), lock(b, 1, &[(X, 2), (X, 1)])], vec![]),
        ] {
            let found = circles(&locks);
            println!("{:?}", members(&found));
            assert_eq!(members(&found), expected);
        }
    }

    #[test]
    fn threads_of_a_session_are_told_apart() {
        let mut locks = vec![
            lock("/a", 1, &[(Kind::Exclusive, 1), (Kind::Exclusive, 2)]),
            lock("/b", 1, &[(Kind::Exclusive, 2), (Kind::Exclusive, 1)]),
        ];
        locks[1][1].identity = Some("host/1/other".to_owned());
        assert_eq!(circles(&locks), []);
    }

    #[test]
    fn circle_has_to_be_seen_twice_with_the_same_nodes() {
        let both = |token| {
            let mut locks = vec![
                lock("/a", 1, &[(Kind::Exclusive, 1), (Kind::Exclusive, 2)]),
                lock("/b", 1, &[(Kind::Exclusive, 2), (Kind::Exclusive, 1)]),
            ];
            locks[1][1].token = token;
            locks
        };
        for (second, is_found) in [(7, true), (8, false)] {
            let looks = Cell::new(0);
            let found = find(|| {
                looks.set(looks.get() + 1);
                Ok(both(if looks.get() == 1 { 7 } else { second }))
            });
            assert_eq!((found.unwrap().len() == 1, looks.get()), (is_found, 2));
        }
    }
}
