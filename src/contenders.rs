//! The holders and waiters of a lock, for operators and programs that do not contend.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use zookeeper::{ErrorKind, Stat};

use crate::base::contender::{Contender, Kind};
use crate::base::data;
use crate::base::error::Result;
use crate::base::names::{self, Mode};
use crate::base::path::LockPath;
use crate::base::sys;
use crate::base::wait::Until;
use crate::session::{Failure, Requests};

/// The directories below a semaphore's path: `locks` has the waiters, `leases` the permits.
pub(crate) const LOCKS: &str = "locks";
pub(crate) const LEASES: &str = "leases";

/// How many requests to read nodes are sent at a time.
const AT_ONCE: usize = 100;

/// A node and its data.
#[derive(Debug, Clone)]
struct Znode {
    /// Empty for a lock that is a single node.
    name: String,
    data: Vec<u8>,
    stat: Stat,
}

/// Deletes the node of a contender in a queue, but not another node that has replaced it at the
/// same path. Fails with `NoNode` if the node is gone.
pub(crate) fn remove(
    requests: &Requests,
    contender: &Contender,
    until: &Until,
) -> Result<(), Failure> {
    loop {
        match remove_as_read(requests, contender, until) {
            // A client has written to the node in the meantime.
            Err(failure) if failure.is(ErrorKind::BadVersion) => {
                sys::reached("a node is written to before it is removed");
            }
            removed => return removed,
        }
    }
}

fn remove_as_read(
    requests: &Requests,
    contender: &Contender,
    until: &Until,
) -> Result<(), Failure> {
    let path = contender.znode();
    let name = contender.node.rsplit('/').next().unwrap_or_default();
    let its_version = |stat: Stat| match token(name, &stat) == contender.token {
        true => Ok(Some(stat.version)),
        false => {
            sys::reached("a node to be removed is another one by now");
            Err(Failure::Refused(ErrorKind::NoNode.into()))
        }
    };
    let read = requests.ask_one(None, until, |batch| batch.get_data(&path, None));
    let version = its_version(read.map_err(Failure::of_a_read)?.1)?;
    requests.ask_one(None, until, |batch| batch.delete(&path, version))
}

/// Returns the holders and waiters of the lock at `path`, in the order in which they are served.
pub(crate) fn contenders(requests: &Requests, path: &LockPath) -> Result<Vec<Contender>> {
    let until = Until::within(requests.timeout());
    requests.await_connection(path.as_str(), &until)?;
    below::one(requests, path, &until)
}

/// Returns whether the current holder of the lock at `path`, or one of several, has this token.
///
/// A follower may lag, and its answers may be outdated. But the answer to a write arrives after
/// everything that the leader did before it. Later answers of the same server are therefore no
/// older than the call.
pub(crate) fn verify(requests: &Requests, path: &LockPath, token: u64) -> Result<bool> {
    requests.require_connection(path.as_str())?;
    let until = Until::within(requests.patience());
    let caught_up = requests.ask_one(None, &until, |batch| batch.renew_lease());
    caught_up.map_err(|failure| requests.error(path.as_str(), failure))?;
    let contenders = below::one(requests, path, &until)?;
    Ok(contenders.iter().any(|contender| contender.holds && contender.token == token))
}

/// Nodes of a directory to read.
struct Wanted {
    directory: LockPath,
    names: Vec<String>,
}

/// Reads the nodes of several directories, [`AT_ONCE`] at a time. Nodes that vanish in the meantime
/// are left out. If a node may not be read, its directory gets that error.
fn read_nodes(
    requests: &Requests,
    wanted: &[Wanted],
    until: &Until,
) -> Result<Vec<Result<Vec<Znode>, Failure>>, Failure> {
    let mut found: Vec<_> = wanted.iter().map(|_| Ok(Vec::new())).collect();
    let all = wanted.iter().enumerate();
    let all: Vec<_> =
        all.flat_map(|(index, of)| of.names.iter().map(move |name| (index, name))).collect();
    for chunk in all.chunks(AT_ONCE) {
        let paths: Vec<_> =
            chunk.iter().map(|&(index, name)| wanted[index].directory.child(name)).collect();
        let reads =
            requests.ask_each(None, until, &paths, |batch, path| batch.get_data(path, None))?;
        for (&(index, name), read) in chunk.iter().zip(reads) {
            match (read, &mut found[index]) {
                (Ok((data, stat)), Ok(nodes)) => {
                    nodes.push(Znode { name: name.clone(), data, stat });
                }
                (Ok(_), Err(_)) => {}
                (Err(error), _) if error.kind() == ErrorKind::NoNode => {}
                (Err(error), found) if error.kind() == ErrorKind::NoAuth => {
                    *found = Err(error.into());
                }
                (Err(error), _) => return Err(error.into()),
            }
        }
    }
    Ok(found)
}

/// Returns the contenders of a lock with a queue that had these names when it was listed. A node
/// that has vanished since still counts as ahead of the others: its thread may have replaced it
/// with a read node that it created while it had the write lock.
fn queue(path: &LockPath, mut nodes: Vec<Znode>, listed: &[String]) -> Vec<Contender> {
    let gone = vanished(&nodes, listed);
    nodes.sort_unstable_by(|a, b| (order(a), &a.name).cmp(&(order(b), &b.name)));
    // The modes of all contenders before the current position, and of those at this position.
    let (mut ahead, mut beside): (Vec<Mode>, Vec<Mode>) = Default::default();
    let mut last = None;
    let mut contenders = Vec::with_capacity(nodes.len());
    for node in nodes {
        let order = order(&node);
        // Contenders with equal sequence numbers share a position: they do not wait for each other.
        if last.replace(order) != Some(order) {
            ahead.append(&mut beside);
        }
        let mode = names::mode_of(&node.name);
        let gone = gone.iter().filter(|(gone, _)| *gone < order).map(|(_, mode)| mode);
        let holds =
            mode.is_some_and(|mode| !ahead.iter().chain(gone).any(|&other| mode.waits_for(other)));
        let new = |mode: &Mode| !ahead.contains(mode) && !beside.contains(mode);
        beside.extend(mode.filter(new));
        contenders.push(contender(path, None, public(mode), holds, node));
    }
    contenders
}

/// Returns the modes of the listed nodes that were not found, each with its first position.
fn vanished(nodes: &[Znode], listed: &[String]) -> Vec<((u8, i64), Mode)> {
    let found: HashSet<&str> = nodes.iter().map(|node| &*node.name).collect();
    let gone = listed.iter().filter(|name| !found.contains(name.as_str())).filter_map(|name| {
        let sequence = names::sequence(name).filter(|&sequence| names::is_normal(sequence))?;
        Some(((0, i64::from(sequence)), names::mode_of(name)?))
    });
    let mut gone: Vec<_> = gone.collect();
    gone.sort_unstable_by_key(|(place, _)| *place);
    let mut first: Vec<(_, Mode)> = Vec::new();
    for (place, mode) in gone {
        if first.iter().all(|(_, other)| *other != mode) {
            first.push((place, mode));
        }
    }
    first
}

/// Orders normal sequence numbers first, by number, then other sequence numbers by creation, then
/// foreign nodes.
fn order(node: &Znode) -> (u8, i64) {
    match names::sequence(&node.name) {
        Some(sequence) if names::is_normal(sequence) => (0, sequence.into()),
        Some(_) => (1, node.stat.czxid),
        None => (2, 0),
    }
}

/// Returns the contenders of a semaphore: the permits that are held, then the waiting calls, each
/// by one of its nodes.
fn semaphore(path: &LockPath, turns: Vec<Znode>, leases: Vec<Znode>) -> Vec<Contender> {
    let turns = queue(&path.below(LOCKS), turns, &[]);
    let acquiring = turns.first().filter(|turn| turn.holds);
    let is_permit = |node: &Znode| names::is_permit(&node.name);
    let (leases, others): (Vec<_>, Vec<_>) = leases.into_iter().partition(is_permit);
    let (mut permits, mut wanted) = (Vec::new(), Vec::new());
    for lease in leases {
        let turn = acquiring.filter(|turn| turn.session == lease.stat.ephemeral_owner);
        let is_its = turn.map(|turn| names::is_of_turn(&lease.name, &turn.node).ok_or(turn.token));
        let permit = contender(path, Some(LEASES), Kind::Permit, true, lease);
        match is_its {
            Some(Ok(true)) => wanted.push(permit),
            // For permits of other libraries, this is an estimate.
            Some(Err(turn)) => permits.push(Contender { holds: permit.token < turn, ..permit }),
            Some(Ok(false)) | None => permits.push(permit),
        }
    }
    let its_own = usize::from(!wanted.is_empty());
    let all = permits.iter().chain(&wanted).map(|one| &*one.node);
    let limit = wanted.iter().find_map(|permit| permit.limit);
    // The call may have its permits while its queue node is not yet deleted.
    if limit.is_some_and(|limit| names::fit(all.clone(), &names_of(&wanted), limit)) {
        permits.append(&mut wanted);
    }
    permits.sort_unstable_by_key(|permit| (!permit.holds, permit.token));
    // Only this node can be revoked, not the call's node in the queue.
    let first = wanted.into_iter().min_by_key(|permit| permit.token);
    let first = first.map(|permit| Contender { holds: false, ..permit });
    let waiting = turns.iter().skip(its_own).map(|turn| Contender {
        path: path.as_str().to_owned(),
        node: format!("{LOCKS}/{}", turn.node),
        kind: match turn.kind {
            Kind::Foreign => Kind::Foreign,
            _ => Kind::Permit,
        },
        holds: false,
        ..turn.clone()
    });
    let others =
        others.into_iter().map(|node| contender(path, Some(LEASES), Kind::Foreign, false, node));
    permits.into_iter().chain(first).chain(waiting).chain(others).collect()
}

fn names_of(all: &[Contender]) -> Vec<&str> {
    all.iter().map(|one| &*one.node).collect()
}

/// Returns the contender of a lock that is a single node.
fn single(path: &LockPath, node: Znode) -> Contender {
    // In a node of this library, the identity follows an id.
    let identity = data::decode_single(&node.data).map(|(_, identity)| identity.to_owned());
    let own = contender(path, None, Kind::Exclusive, true, node);
    Contender { identity: identity.or(own.identity), ..own }
}

fn public(mode: Option<Mode>) -> Kind {
    match mode {
        Some(Mode::Exclusive) => Kind::Exclusive,
        Some(Mode::Read) => Kind::Read,
        Some(Mode::Write) => Kind::Write,
        Some(Mode::Permit) => Kind::Permit,
        Some(Mode::Latch) => Kind::Latch,
        None => Kind::Foreign,
    }
}

fn contender(
    path: &LockPath,
    below: Option<&str>,
    kind: Kind,
    holds: bool,
    node: Znode,
) -> Contender {
    let Znode { name, data, stat } = node;
    let data::Said { asked, identity } = data::said(&data, stat.version);
    Contender {
        path: path.as_str().to_owned(),
        sequence: names::number(&name).map(i64::from),
        token: token(&name, &stat),
        limit: names::limit_of(&name),
        node: below.map_or(name.clone(), |directory| format!("{directory}/{name}")),
        kind,
        holds,
        identity,
        asked,
        session: stat.ephemeral_owner,
        since: SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_millis(stat.ctime.unsigned_abs()))
            .unwrap_or(SystemTime::UNIX_EPOCH),
    }
}

fn token(name: &str, stat: &Stat) -> u64 {
    names::token_under(name).unwrap_or(stat.czxid.unsigned_abs())
}

mod below;
#[cfg(test)]
mod tests;

pub use below::LocksBelow;
