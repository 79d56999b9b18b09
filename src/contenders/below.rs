//! All locks below a path, found by the names of their nodes. A free lock cannot be distinguished
//! from any other empty directory.

use std::fmt;
use std::mem;
use std::sync::Arc;

use zookeeper::{ErrorKind, Names, Stat};

use super::{
    AT_ONCE, Contender, Kind, LEASES, LOCKS, Wanted, Znode, queue, read_nodes, semaphore, single,
};
use crate::base::data;
use crate::base::error::Result;
use crate::base::names;
use crate::base::path::LockPath;
use crate::base::wait::Until;
use crate::session::{Failure, Inner, Requests};

/// When this many contenders are waiting to be read, no further nodes are listed, because their
/// data are kept until the caller asks for the next item.
const ENOUGH: usize = 10 * AT_ONCE;

/// The locks below a path, each with its contenders; returned by
/// [`Client::locks_below`](crate::Client::locks_below).
#[must_use = "reads as it is iterated over"]
pub struct LocksBelow {
    inner: Arc<Inner>,
    root: LockPath,
    /// The remaining steps of the walk, the next one last. A path comes before the paths below it.
    steps: Vec<Step>,
}

enum Step {
    /// A node to list.
    Look(LockPath),
    /// A lock to return, or an error for a node that may not be read.
    Tell(Result<Vec<Contender>>),
}

/// What was found at a path.
struct Sight {
    what: What,
    /// Its nodes that are still to be read.
    wanted: Vec<Wanted>,
    /// Nodes that do not belong to a lock at this path.
    below: Vec<LockPath>,
}

enum What {
    Nothing,
    Denied(Failure),
    Single { only_ours: bool },
    Queue,
    Semaphore,
}

/// What is at a path: a lock with its contenders, or the error for nodes that may not be read.
type Lock = Option<Result<Vec<Contender>>>;

/// The children of a node and its own `Stat`, or the error for a node that may not be read.
type Listed = Result<(Names, Stat), Failure>;

impl LocksBelow {
    pub(crate) fn new(inner: Arc<Inner>, root: LockPath) -> LocksBelow {
        LocksBelow { inner, steps: vec![Step::Look(root.clone())], root }
    }

    /// Lists the next nodes, many at a time, and replaces their steps with the results.
    fn look(&mut self) -> Result<()> {
        let (requests, root) = (&self.inner.requests, self.root.or_slash());
        let until = Until::within(requests.timeout());
        requests.await_connection(root, &until)?;
        let steps = self.steps.split_off(self.steps.len().saturating_sub(AT_ONCE));
        let nodes: Vec<_> = steps.iter().rev().filter_map(Step::node).cloned().collect();
        let seen = look_at(requests, &nodes, false, &until).and_then(|mut sights| {
            let locks = read(requests, &nodes, &mut sights, &until)?;
            Ok(locks.into_iter().zip(sights))
        });
        let mut seen = seen.map_err(|failure| requests.error(root, failure))?;
        let mut next = Vec::new();
        for step in steps.into_iter().rev() {
            match step {
                Step::Look(node) => match seen.next() {
                    Some((lock, sight)) => {
                        next.extend(lock.map(Step::Tell));
                        next.extend(sight.below.into_iter().map(Step::Look));
                    }
                    None => next.push(Step::Look(node)),
                },
                tell => next.push(tell),
            }
        }
        self.steps.extend(next.into_iter().rev());
        Ok(())
    }
}

impl Iterator for LocksBelow {
    type Item = Result<Vec<Contender>>;

    fn next(&mut self) -> Option<Result<Vec<Contender>>> {
        loop {
            match self.steps.pop()? {
                Step::Tell(found) => return Some(found),
                step => self.steps.push(step),
            }
            if let Err(error) = self.look() {
                self.steps.clear();
                return Some(Err(error));
            }
        }
    }
}

impl fmt::Debug for LocksBelow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocksBelow").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Step {
    fn node(&self) -> Option<&LockPath> {
        match self {
            Step::Look(node) => Some(node),
            Step::Tell(_) => None,
        }
    }
}

/// Returns the contenders of one lock, and all other nodes there.
pub(super) fn one(requests: &Requests, path: &LockPath, until: &Until) -> Result<Vec<Contender>> {
    let nodes = [path.clone()];
    let seen = look_at(requests, &nodes, true, until)
        .and_then(|mut sights| read(requests, &nodes, &mut sights, until));
    let seen = seen.map_err(|failure| requests.error(path.as_str(), failure))?.pop().flatten();
    seen.unwrap_or(Ok(Vec::new()))
}

/// Lists these nodes, or only the first ones if those have enough contenders, and returns what is
/// there. With `all`, this includes nodes that do not contend.
fn look_at(
    requests: &Requests,
    nodes: &[LockPath],
    all: bool,
    until: &Until,
) -> Result<Vec<Sight>, Failure> {
    let lists = list_each(requests, nodes, until)?;
    // A semaphore normally has `leases`, because waiters exist without permits only for a moment.
    let has_parts = |names: &Names| names.contains(LEASES) || all && names.contains(LOCKS);
    let may_be_semaphore = |list: &Listed| list.as_ref().is_ok_and(|(names, _)| has_parts(names));
    let may_be_semaphores = nodes.iter().zip(&lists).filter(|(_, list)| may_be_semaphore(list));
    // First the permits: if a permit's queue node is missing from the later list, the permit is
    // held, or gone.
    let parts: Vec<_> = may_be_semaphores
        .flat_map(|(node, _)| [LEASES, LOCKS].map(|part| node.below(part)))
        .collect();
    let mut parts = list_each(requests, &parts, until)?.into_iter();
    let mut sights = Vec::with_capacity(nodes.len());
    let mut contenders = 0;
    for (node, list) in nodes.iter().zip(lists) {
        if contenders >= ENOUGH {
            break;
        }
        let parts = may_be_semaphore(&list).then(|| parts.next().zip(parts.next())).flatten();
        let sight = sight(node, list, parts, all);
        contenders += sight.wanted.iter().map(|wanted| wanted.names.len()).sum::<usize>();
        sights.push(sight);
    }
    Ok(sights)
}

/// Returns what is at a node, decided by its children and by the subdirectories that it would have
/// as a semaphore.
fn sight(node: &LockPath, list: Listed, parts: Option<(Listed, Listed)>, all: bool) -> Sight {
    let (names, stat) = match list {
        Ok(list) => list,
        Err(denied) => {
            return Sight { what: What::Denied(denied), wanted: Vec::new(), below: Vec::new() };
        }
    };
    let contends = |name: &&str| names::mode_of(name).is_some();
    let waits = |names: &Names| owned(names.iter().filter(|name| all || contends(name)));
    let has_contenders = names.iter().any(|name| contends(&name));
    let (mut what, mut wanted) = (What::Nothing, Vec::new());
    match parts.filter(|_| !has_contenders) {
        // The root cannot be a lock.
        _ if node.is_root() => {}
        _ if stat.ephemeral_owner != 0 => {
            let (directory, name) = node.split();
            wanted.push(Wanted { directory, names: owned([name]) });
            what = What::Single { only_ours: !all };
        }
        Some((Ok((leases, _)), Ok((turns, _)))) => {
            let turns = waits(&turns);
            let leases = owned(leases.iter().filter(|name| all || names::is_permit(name)));
            if all || !turns.is_empty() || !leases.is_empty() {
                wanted.push(Wanted { directory: node.below(LOCKS), names: turns });
                wanted.push(Wanted { directory: node.below(LEASES), names: leases });
                let others = names.iter().filter(|name| all && ![LOCKS, LEASES].contains(name));
                wanted.push(Wanted { directory: node.clone(), names: owned(others) });
                what = What::Semaphore;
            }
        }
        Some((Err(denied), _) | (_, Err(denied))) if all => what = What::Denied(denied),
        _ if all || has_contenders => {
            wanted.push(Wanted { directory: node.clone(), names: waits(&names) });
            what = What::Queue;
        }
        // A directory that may not belong to a semaphore is listed separately.
        _ => {}
    }
    let is_part = |name: &str| match what {
        What::Queue => contends(&name),
        What::Semaphore => [LOCKS, LEASES].contains(&name),
        _ => false,
    };
    let mut below: Vec<_> =
        names.iter().filter(|name| !is_part(name)).map(|name| node.below(name)).collect();
    below.sort_unstable();
    Sight { what, wanted, below }
}

fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// Returns the locks that were found at these nodes and still exist.
fn read(
    requests: &Requests,
    nodes: &[LockPath],
    sights: &mut [Sight],
    until: &Until,
) -> Result<Vec<Lock>, Failure> {
    let wanted: Vec<_> = sights.iter_mut().flat_map(|sight| mem::take(&mut sight.wanted)).collect();
    let mut found = read_nodes(requests, &wanted, until)?.into_iter().zip(&wanted);
    let locks = nodes.iter().zip(sights).map(|(node, sight)| {
        let mut listed = &[][..];
        let mut next = || match found.next() {
            Some((nodes, wanted)) => {
                listed = &*wanted.names;
                nodes
            }
            None => Ok(Vec::new()),
        };
        let contenders = match &sight.what {
            What::Nothing => return None,
            What::Denied(failure) => Err(failure.clone()),
            What::Single { only_ours } => next().map(|nodes| holder(node, nodes, *only_ours)),
            What::Queue => next().map(|nodes| queue(node, nodes, listed)),
            What::Semaphore => {
                let (turns, leases, others) = (next(), next(), next());
                let all = turns.and_then(|turns| Ok(semaphore(node, turns, leases?)));
                all.and_then(|mut all| {
                    all.extend(queue(node, others?, &[]));
                    all.sort_by_key(|contender| contender.kind == Kind::Foreign);
                    Ok(all)
                })
            }
        };
        match contenders {
            Ok(vanished) if vanished.is_empty() => None,
            seen => Some(seen.map_err(|failure| requests.error(node.or_slash(), failure))),
        }
    });
    Ok(locks.collect())
}

/// Returns the holder of a lock that is a single node. Other programs create ephemeral nodes for
/// other purposes.
fn holder(path: &LockPath, mut nodes: Vec<Znode>, only_ours: bool) -> Vec<Contender> {
    nodes.retain(|node| !only_ours || data::decode_single(&node.data).is_some());
    let unnamed = nodes.into_iter().map(|node| Znode { name: String::new(), ..node });
    unnamed.map(|node| single(path, node)).collect()
}

/// Lists nodes, all requests in one write.
fn list_each(
    requests: &Requests,
    nodes: &[LockPath],
    until: &Until,
) -> Result<Vec<Listed>, Failure> {
    let paths: Vec<_> = nodes.iter().map(|node| node.or_slash().to_owned()).collect();
    let lists =
        requests.ask_each(None, until, &paths, |batch, path| batch.get_children(path, None));
    let lists = lists?.into_iter().map(|list| match list {
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(Ok(Default::default())),
        Err(error) if error.kind() == ErrorKind::NoAuth => Ok(Err(error.into())),
        list => Ok(Ok(list?)),
    });
    lists.collect()
}
