//! Deadlocks: circles of contenders that wait for each other. A look reads nodes, so it finds those
//! among machines. The search is pure.
//!
//! A contender that waits is held up by all that are ahead of it and exclude it. One of these waits
//! itself, or it holds, and then its thread may wait elsewhere. So any circle is a deadlock. There
//! are two looks. A waiting call looks from its thread's holds, backward: its client and the nodes of
//! others say which nodes a waiting thread holds, so it is exact. And a user may look at all locks
//! below a path, whose nodes may be anybody's; there, a thread is known by session and identity.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use log::{debug, warn};

use super::{data, read};
use crate::calls::{Place, Waiter};
use crate::contender::{Contender, Deadlock, Kind};
use crate::error::Result;
use crate::inner::{Failure, HeldNode, Inner, Key};
use crate::names;
use crate::path::LockPath;
use crate::sys;
use crate::sys::thread::ThreadId;
use crate::wait::Until;

/// A look from a waiting call reads this many locks at the most.
const MOST_LOCKS: usize = 100;
/// A waiting node says this many of its thread's holds at the most.
const MOST_HOLDS: usize = 32;

/// The contenders of each lock, in order.
type Locks = Vec<Vec<Contender>>;

/// A contender that waits, and one that it waits for.
type Edge<'a> = (&'a Contender, &'a Contender);

/// A contender that waits. Calls without a node have different numbers.
type Vertex<'a> = (&'a str, &'a str, Option<i64>);

/// Returns whether the thread that waits has the other contender, too.
type Owns = fn(waiting: &Contender, other: &Contender) -> bool;

/// Returns the circles that two looks show with the same nodes. The second look takes place only if
/// the first one shows any.
pub(crate) fn find(look: impl Fn() -> Result<Locks>) -> Result<Vec<Deadlock>> {
    find_by(look, is_likely_to_own)
}

/// Compares what anybody's nodes say of their makers.
fn is_likely_to_own(waiting: &Contender, other: &Contender) -> bool {
    (waiting.session, &waiting.identity) == (other.session, &other.identity)
}

fn find_by<E>(look: impl Fn() -> Result<Locks, E>, owns: Owns) -> Result<Vec<Deadlock>, E> {
    let locks = look()?;
    let mut found = circles(&locks, owns);
    if found.is_empty() {
        return Ok(found);
    }
    let again = look()?;
    let place = |(waiting, ahead): Edge<'_>| {
        let (path, node, number) = vertex(waiting);
        (path.to_owned(), node.to_owned(), number, waiting.token, ahead.token)
    };
    let seen: BTreeSet<_> = edges(&again).into_iter().map(place).collect();
    let is_seen =
        |(waiting, ahead): &(Contender, Contender)| seen.contains(&place((waiting, ahead)));
    found.retain(|deadlock| deadlock.waits.iter().all(is_seen));
    Ok(found)
}

fn vertex(contender: &Contender) -> Vertex<'_> {
    (&contender.path, &contender.node, contender.sequence)
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

/// Returns a shortest circle through each contender, each circle once.
fn circles(locks: &Locks, owns: Owns) -> Vec<Deadlock> {
    let mut from: BTreeMap<Vertex<'_>, Vec<Edge<'_>>> = BTreeMap::new();
    let mut waiting: HashMap<i64, BTreeMap<Vertex<'_>, &Contender>> = HashMap::new();
    for edge in edges(locks) {
        from.entry(vertex(edge.0)).or_default().push(edge);
        waiting.entry(edge.0.session).or_default().insert(vertex(edge.0), edge.0);
    }
    let mut next: BTreeMap<Vertex<'_>, Vec<Vertex<'_>>> = BTreeMap::new();
    for (_, ahead) in from.values().flatten() {
        let at = vertex(ahead);
        next.entry(at).or_insert_with(|| {
            let of_session = waiting.get(&ahead.session).into_iter().flatten();
            let its = of_session.filter(|(other, one)| **other == at || owns(one, ahead));
            its.map(|(other, _)| *other).collect()
        });
    }
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    for &start in from.keys() {
        let Some(waits) = circle(start, &from, &next) else {
            continue;
        };
        let mut members: Vec<_> = waits.iter().map(|(waiting, _)| vertex(waiting)).collect();
        members.sort_unstable();
        if known.insert(members) {
            let waits = waits.into_iter().map(|(one, other)| (one.clone(), other.clone()));
            found.push(Deadlock { waits: waits.collect() });
        }
    }
    found
}

/// Returns the shortest way from a contender back to it. `next` has what the thread of each
/// contender waits with.
fn circle<'a>(
    start: Vertex<'a>,
    from: &BTreeMap<Vertex<'a>, Vec<Edge<'a>>>,
    next: &BTreeMap<Vertex<'a>, Vec<Vertex<'a>>>,
) -> Option<Vec<Edge<'a>>> {
    let mut came: BTreeMap<Vertex<'a>, Edge<'a>> = BTreeMap::new();
    let mut todo = VecDeque::from([start]);
    while let Some(at) = todo.pop_front() {
        for &edge in from.get(&at).into_iter().flatten() {
            for &to in next.get(&vertex(edge.1)).into_iter().flatten() {
                if came.contains_key(&to) {
                    continue;
                }
                came.insert(to, edge);
                if to != start {
                    todo.push_back(to);
                    continue;
                }
                let mut way = vec![edge];
                while vertex(way[way.len() - 1].0) != start {
                    way.push(came[&vertex(way[way.len() - 1].0)]);
                }
                way.reverse();
                return Some(way);
            }
        }
    }
    None
}

// ---- a waiting call

/// Looks for a deadlock of this call, if it is time for that and its thread holds anything. Logs
/// what it finds, and ends the call if it is the youngest. Blocks for at most a third of the session
/// timeout.
pub(crate) fn look_for_deadlock(inner: &Inner, until: &Until) {
    let Some(call) = until.call() else {
        return;
    };
    let Some(me) = call.start_look() else {
        return;
    };
    let own = inner.holds.registry.held_by(me.thread);
    if own.is_empty() || !inner.requests.is_connected() {
        return;
    }
    sys::reached("a waiting call looks for a deadlock");
    let limit = inner.requests.patience().min(until.left());
    let within = Until::new(Some(sys::now() + limit), call.ended().clone());
    if !me.is_told && tell(inner, &me, &own, &within) {
        call.note_told(&me.place);
    }
    let owns: Owns = |waiting, held| waiting.holding.contains(&held.znode());
    let lock = me.place.lock().as_str();
    let found = match find_by(|| gather(inner, &me, &own, &within), owns) {
        Ok(found) => found,
        Err(failure) => {
            debug!(target: "zoolock::queue", lock:%; "{lock}: no look for a deadlock: {failure:?}");
            return;
        }
    };
    for deadlock in found {
        let mut waiting = deadlock.waits.iter().map(|(waiting, _)| waiting);
        let Some(mine) = waiting.find(|one| one.holding.contains(&own[0].path)) else {
            continue;
        };
        sys::reached("a waiting call finds its deadlock");
        warn!(target: "zoolock", lock:%; "deadlock: {deadlock}");
        let waiters = inner.calls.waiters();
        if is_youngest(mine, &deadlock, |one| number_of(&waiters, one)) {
            return call.break_deadlock(deadlock);
        }
    }
}

/// Writes into the node of a waiting call which nodes its thread holds. Returns false if that is to be
/// tried again.
fn tell(inner: &Inner, me: &Waiter, own: &[HeldNode], until: &Until) -> bool {
    let Place::Queue { directory, name } = &me.place else {
        return true;
    };
    let holds = own.iter().take(MOST_HOLDS).map(|node| node.path.as_str());
    let (path, data) = (directory.child(name), data::waiting(&me.identity, holds));
    let told = inner.requests.ask_one(None, until, |batch| batch.set_data(&path, &data, Some(0)));
    match told {
        Ok(_) => true,
        // Whatever somebody has written is worth more, and an ACL may forbid it.
        Err(failure) => matches!(failure, Failure::Refused(_)),
    }
}

/// Reads the locks that may be in a circle with this call: those of its thread's holds, and if
/// anybody waits there, those of the holds of each thread that waits, and the call's own.
fn gather(inner: &Inner, me: &Waiter, own: &[HeldNode], until: &Until) -> Result<Locks, Failure> {
    let waiters = inner.calls.waiters();
    let mut locks: BTreeMap<LockPath, Vec<Contender>> = BTreeMap::new();
    let mut todo: VecDeque<_> = own.iter().map(|node| node.lock.clone()).collect();
    let mut is_first = true;
    loop {
        while let Some(path) = todo.pop_front().filter(|_| locks.len() < MOST_LOCKS) {
            if locks.contains_key(&path) {
                continue;
            }
            let mut queue = read(&inner.requests, &path, until)?;
            add_own(inner, &waiters, &path, &mut queue);
            let waits = queue.iter().filter(|contender| !contender.holds);
            let locks_of = waits.flat_map(|one| &one.holding).filter_map(|node| lock_of(node));
            todo.extend(locks_of);
            locks.insert(path, queue);
        }
        let is_any = locks.values().flatten().any(|contender| !contender.holds);
        if !is_first || !is_any {
            return Ok(locks.into_values().collect());
        }
        is_first = false;
        todo.push_back(me.place.lock().clone());
    }
}

/// Returns the lock of a node in a queue, or of a single node.
fn lock_of(node: &str) -> Option<LockPath> {
    let node = LockPath::parse_node(node).ok()?;
    let (directory, name) = node.split();
    Some(if names::mode_of(name).is_some() { directory } else { node.clone() })
}

/// Notes what the waiting threads of this client hold, and adds those without a node. Each goes to
/// the end of the queue, where its node would be.
fn add_own(inner: &Inner, waiters: &[Waiter], path: &LockPath, queue: &mut Vec<Contender>) {
    let registry = &inner.holds.registry;
    for waiter in waiters.iter().filter(|waiter| waiter.place.lock() == path) {
        let held = registry.held_by(waiter.thread);
        let holding: Vec<_> = held.into_iter().map(|node| node.path).collect();
        let ahead = match &waiter.place {
            Place::Queue { name, .. } => {
                let own = queue.iter_mut().find(|one| one.node == *name && !one.holds);
                own.into_iter().for_each(|own| own.holding.clone_from(&holding));
                None
            }
            Place::FirstLevel { lock, directory, kind } if !kind.is_single_node() => {
                let key = Key { lock: lock.clone(), directory: directory.clone(), kind: *kind };
                let owner = inner.levels.owner(&key);
                let nodes = owner.map(|owner| nodes_of(inner, waiters, owner)).unwrap_or_default();
                queue.iter().find(|one| nodes.contains(&one.znode()))
            }
            Place::FirstLevel { .. } | Place::SingleNode(_) => queue.iter().find(|one| one.holds),
        };
        if let Some(ahead) = ahead.filter(|_| !holding.is_empty()) {
            sys::reached("a look for a deadlock sees a call without a node");
            queue.push(Contender {
                node: String::new(),
                sequence: Some(waiter.number as i64),
                holds: false,
                asked: false,
                token: 0,
                session: inner.requests.session_id(),
                identity: Some(waiter.identity.to_string()),
                since: sys::system_time() - (sys::now() - waiter.since),
                holding,
                ..ahead.clone()
            });
        }
    }
}

/// Returns the paths of the nodes with which a thread holds or waits.
fn nodes_of(inner: &Inner, waiters: &[Waiter], thread: ThreadId) -> Vec<String> {
    let held = inner.holds.registry.held_by(thread).into_iter().map(|node| node.path);
    let waits = waiters.iter().filter(|other| other.thread == thread);
    held.chain(waits.filter_map(|other| other.place.node())).collect()
}

/// Returns the number of the call that waits with this contender, if it still does.
fn number_of(waiters: &[Waiter], one: &Contender) -> Option<i64> {
    if one.node.is_empty() {
        return one.sequence;
    }
    let its = |waiter: &&Waiter| waiter.place.node() == Some(one.znode());
    waiters.iter().find(its).map(|waiter| waiter.number as i64)
}

/// Returns whether this contender is the youngest of a deadlock. Only its own client sees a call
/// without a node, so then the youngest of that client counts. `number` returns the number of a call
/// of that client.
fn is_youngest(
    mine: &Contender,
    deadlock: &Deadlock,
    number: impl Fn(&Contender) -> Option<i64>,
) -> bool {
    let waiting = deadlock.waits.iter().map(|(waiting, _)| waiting);
    if waiting.clone().all(|one| !one.node.is_empty()) {
        return waiting.map(|one| one.token).max() == Some(mine.token);
    }
    let of_client = waiting.filter(|one| one.session == mine.session);
    // One that has gone since has perhaps broken the circle.
    let numbers: Option<Vec<_>> = of_client.map(&number).collect();
    numbers.is_some_and(|numbers| numbers.into_iter().max() == number(mine))
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
            holding: Vec::new(),
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
                vec![vec![(2, a), (1, b)]],
            ),
            (
                vec![
                    lock(a, 1, &[(X, 1), (X, 2)]),
                    lock(b, 1, &[(X, 2), (X, 3)]),
                    lock(c, 1, &[(X, 3), (X, 1)]),
                ],
                vec![vec![(2, a), (1, c), (3, b)]],
            ),
            // A place in the queue behind somebody who waits counts as well.
            (
                vec![lock(a, 1, &[(X, 9), (X, 1), (X, 2)]), lock(b, 1, &[(X, 2), (X, 1)])],
                vec![vec![(2, a), (1, b)]],
            ),
            // Readers do not wait for each other, and a writer waits for all of them.
            (vec![lock(a, 2, &[(R, 1), (R, 2)]), lock(b, 1, &[(W, 2), (W, 1)])], vec![]),
            (
                vec![lock(a, 2, &[(R, 1), (R, 3), (W, 2)]), lock(b, 1, &[(X, 2), (X, 1)])],
                vec![vec![(2, a), (1, b)]],
            ),
            // A permit may come from anybody, and foreign nodes block nobody.
            (vec![lock(a, 1, &[(Permit, 1), (Permit, 2)]), lock(b, 1, &[(X, 2), (X, 1)])], vec![]),
            (vec![lock(a, 0, &[(Foreign, 1), (X, 2)]), lock(b, 1, &[(X, 2), (X, 1)])], vec![]),
        ] {
            let found = circles(&locks, is_likely_to_own);
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
        assert_eq!(circles(&locks, is_likely_to_own), []);
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

    #[test]
    fn youngest_is_the_last_node_or_the_last_call_of_the_client() {
        let waiting = |path: &str, session, token| {
            let one = lock(path, 0, &[(Kind::Exclusive, session)]).remove(0);
            Contender { token, ..one }
        };
        let of = |waiting: [&Contender; 2]| Deadlock {
            waits: waiting.map(|one| (one.clone(), one.clone())).to_vec(),
        };
        let (old, young) = (waiting("/a", 1, 7), waiting("/b", 2, 8));
        let both = of([&old, &young]);
        assert!(is_youngest(&young, &both, |_| None) && !is_youngest(&old, &both, |_| None));
        // A call without a node, and one with a node of the same client.
        let call = Contender { node: String::new(), sequence: Some(5), token: 0, ..old.clone() };
        let beside = waiting("/b", 1, 8);
        for (number, ends) in [(Some(4), true), (Some(6), false), (None, false)] {
            let number = |one: &Contender| if *one == call { Some(5) } else { number };
            assert_eq!(is_youngest(&call, &of([&call, &beside]), number), ends);
        }
    }
}
