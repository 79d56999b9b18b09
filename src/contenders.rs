//! The holders and waiters of a lock, for operators and programs that do not contend.

use std::time::{Duration, SystemTime};

use zookeeper::{ErrorKind, Names, Stat};

use crate::base::contender::Contender;
use crate::base::data;
use crate::base::error::Result;
use crate::base::kind::LockKind;
use crate::base::names;
use crate::base::path::LockPath;
use crate::base::sys;
use crate::base::wait::Until;
use crate::session::{Failure, Requests};

/// The directories below a semaphore's path: `locks` contains the waiters, `leases` the permits.
pub(crate) const LOCKS: &str = "locks";
pub(crate) const LEASES: &str = "leases";

/// How many requests to read nodes are sent at a time.
const AT_ONCE: usize = 100;

/// A node that a list named.
#[derive(Debug, Clone)]
struct Znode {
    /// Empty for a lock that is a single node.
    name: String,
    /// The node's data. `None` if the node has vanished since the list.
    found: Option<(Vec<u8>, Stat)>,
}

/// Deletes the node of a contender in a queue, but not another node that has replaced it at the
/// same path. Fails with `NoNode` if the node is gone.
pub(crate) fn remove(
    requests: &Requests,
    contender: &Contender,
    until: &Until,
) -> Result<(), Failure> {
    let path = contender.znode();
    let name = contender.node.rsplit('/').next().unwrap_or_default();
    loop {
        let read = requests.ask_one(None, until, |batch| batch.get_data(&path, None));
        let (_, stat) = read.map_err(Failure::of_a_read)?;
        if token(name, &stat) != contender.token {
            sys::reached("another node has replaced a node to be removed");
            return Err(Failure::Refused(ErrorKind::NoNode.into()));
        }
        match requests.ask_one(None, until, |batch| batch.delete(&path, Some(stat.version))) {
            // A client has written to the node in the meantime.
            Err(failure) if failure.is(ErrorKind::BadVersion) => {
                sys::reached("a node is written to before it is removed");
            }
            removed => return removed,
        }
    }
}

/// Returns the holders and waiters of the lock at `path`, in the order in which they are served.
pub(crate) fn contenders(requests: &Requests, path: &LockPath) -> Result<Vec<Contender>> {
    let until = Until::within(requests.timeout());
    requests.await_connection(path.as_str(), &until)?;
    look(requests, path, &until).map_err(|failure| requests.error(path.as_str(), failure))
}

/// Returns whether a current holder of the lock at `path` has this token.
///
/// A follower may lag, and its answers may be outdated. But the answer to a write arrives after
/// everything that the leader did before that write. Later answers of the same server are therefore
/// no older than the call.
pub(crate) fn verify(requests: &Requests, path: &LockPath, token: u64) -> Result<bool> {
    requests.require_connection(path.as_str())?;
    let until = Until::within(requests.patience());
    let caught_up = requests.ask_one(None, &until, |batch| batch.renew_lease());
    let found = caught_up.and_then(|_| look(requests, path, &until));
    let found = found.map_err(|failure| requests.error(path.as_str(), failure))?;
    Ok(found.iter().any(|contender| contender.holds && contender.token == token))
}

/// Returns the paths of the nodes in a directory that are not contenders, sorted by their bytes.
pub(crate) fn paths_below(requests: &Requests, directory: &LockPath) -> Result<Vec<String>> {
    let (path, until) = (directory.or_slash(), Until::within(requests.timeout()));
    requests.await_connection(path, &until)?;
    let listed = list(requests, directory, &until);
    let (names, _) = listed.map_err(|failure| requests.error(path, failure))?;
    let others = names.iter().filter(|name| !names::is_permit(name));
    let paths = others.map(|name| directory.child(name));
    let mut paths: Vec<_> = paths.filter(|path| LockPath::parse(path).is_ok()).collect();
    paths.sort_unstable();
    Ok(paths)
}

fn look(requests: &Requests, path: &LockPath, until: &Until) -> Result<Vec<Contender>, Failure> {
    let (names, stat) = list(requests, path, until)?;
    if stat.ephemeral_owner != 0 {
        let (directory, name) = path.split();
        let nodes = read(requests, &directory, vec![name.to_owned()], until)?;
        return Ok(nodes.into_iter().filter_map(|node| single(path, node)).collect());
    }
    let contends = |name: &str| names::kind_of(name).is_some();
    let has_parts = [LOCKS, LEASES].iter().any(|part| names.contains(part));
    if !has_parts || names.iter().any(contends) {
        return Ok(queue(path, read(requests, path, those(&names, contends), until)?));
    }
    // The queue is listed after the permits. Therefore, a permit whose queue node is missing from
    // the queue is either held or gone.
    let part = |part, contends: fn(&str) -> bool| {
        let directory = path.below(part);
        let (names, _) = list(requests, &directory, until)?;
        read(requests, &directory, those(&names, contends), until)
    };
    let leases = part(LEASES, names::is_permit)?;
    Ok(semaphore(path, part(LOCKS, contends)?, leases))
}

fn those(names: &Names, contends: impl Fn(&str) -> bool) -> Vec<String> {
    names.iter().filter(|name| contends(name)).map(str::to_owned).collect()
}

/// Lists a directory. The list of a missing directory is empty.
pub(crate) fn list(
    requests: &Requests,
    directory: &LockPath,
    until: &Until,
) -> Result<(Names, Stat), Failure> {
    let path = directory.or_slash();
    match requests.ask_one(None, until, |batch| batch.get_children(path, None)) {
        Err(failure) if failure.is(ErrorKind::NoNode) => Ok(Default::default()),
        listed => listed,
    }
}

/// Reads nodes of a directory, [`AT_ONCE`] at a time.
fn read(
    requests: &Requests,
    directory: &LockPath,
    names: Vec<String>,
    until: &Until,
) -> Result<Vec<Znode>, Failure> {
    let mut reads = Vec::with_capacity(names.len());
    for names in names.chunks(AT_ONCE) {
        let paths: Vec<_> = names.iter().map(|name| directory.child(name)).collect();
        let all = requests.ask_each(None, until, &paths, |batch, path| batch.get_data(path, None));
        reads.extend(all?);
    }
    let nodes = names.into_iter().zip(reads).map(|(name, read)| match read {
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(Znode { name, found: None }),
        read => Ok(Znode { name, found: Some(read?) }),
    });
    nodes.collect()
}

/// Returns the contenders of a lock with a queue. A node that has vanished still counts as ahead of
/// the others: its thread may have replaced it with a read node, which it created while it had the
/// write lock.
fn queue(path: &LockPath, nodes: Vec<Znode>) -> Vec<Contender> {
    let with_place = |node: Znode| Some((place(&node)?, node));
    let mut nodes: Vec<_> = nodes.into_iter().filter_map(with_place).collect();
    nodes.sort_unstable_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    // `ahead`: the kinds before the current place (queue position); `beside`: the kinds at that
    // place.
    let (mut ahead, mut beside): (Vec<LockKind>, Vec<LockKind>) = Default::default();
    let mut last = None;
    let mut contenders = Vec::with_capacity(nodes.len());
    for (place, node) in nodes {
        let Some(kind) = names::kind_of(&node.name) else { continue };
        // Contenders with equal sequence numbers share a place: they do not wait for each other.
        if last.replace(place) != Some(place) {
            ahead.append(&mut beside);
        }
        let holds = !ahead.iter().any(|&other| kind.waits_for(other));
        if !ahead.contains(&kind) && !beside.contains(&kind) {
            beside.push(kind);
        }
        contenders.extend(contender(path, kind, holds, node));
    }
    contenders
}

/// Returns a node's place. Normal sequence numbers come first, by number; the others follow, by
/// creation. `None` if the node has no place, or if that can no longer be determined.
fn place(node: &Znode) -> Option<(u8, i64)> {
    match names::sequence(&node.name)? {
        sequence if names::is_normal(sequence) => Some((0, sequence.into())),
        _ => Some((1, node.found.as_ref()?.1.czxid)),
    }
}

/// Returns the contenders of a semaphore: the permits that are held, then the waiting calls, each
/// represented by one of its nodes.
fn semaphore(path: &LockPath, turns: Vec<Znode>, leases: Vec<Znode>) -> Vec<Contender> {
    let turns = queue(path, turns);
    let acquiring = turns.first().filter(|turn| turn.holds);
    let (mut permits, mut wanted) = (Vec::new(), Vec::new());
    for permit in
        leases.into_iter().filter_map(|node| contender(path, LockKind::Semaphore, true, node))
    {
        let turn = acquiring.filter(|turn| turn.session == permit.session);
        let is_its = turn.map(|turn| names::is_of_turn(&permit.node, &turn.node).ok_or(turn.token));
        match is_its {
            Some(Ok(true)) => wanted.push(permit),
            // For a permit of another library, `holds` is only an estimate.
            Some(Err(turn)) => permits.push(Contender { holds: permit.token < turn, ..permit }),
            Some(Ok(false)) | None => permits.push(permit),
        }
    }
    let its_own = usize::from(!wanted.is_empty());
    let own: Vec<_> = wanted.iter().map(|one| &*one.node).collect();
    let all = permits.iter().map(|one| &*one.node).chain(own.iter().copied());
    let limit = wanted.iter().find_map(|permit| permit.limit);
    // The call may already have its permits although its queue node is not deleted yet.
    if limit.is_some_and(|limit| names::fit(all, &own, limit)) {
        permits.append(&mut wanted);
    }
    permits.sort_unstable_by_key(|permit| (!permit.holds, permit.token));
    // A waiting call is listed as its first permit, and not as its queue node, because only permits
    // can be revoked.
    let first = wanted.into_iter().min_by_key(|permit| permit.token);
    let first = first.map(|permit| Contender { holds: false, ..permit });
    let in_part = |part: &str, one: Contender| Contender {
        node: format!("{part}/{}", one.node),
        kind: LockKind::Semaphore,
        ..one
    };
    let waiting = turns.into_iter().skip(its_own);
    let waiting = waiting.map(|turn| in_part(LOCKS, Contender { holds: false, ..turn }));
    let permits = permits.into_iter().chain(first).map(|permit| in_part(LEASES, permit));
    permits.chain(waiting).collect()
}

/// Returns the contender of a lock that is a single node.
fn single(path: &LockPath, node: Znode) -> Option<Contender> {
    // In a node of this library, the identity comes after the id of the hold.
    let data = node.found.as_ref().map(|(data, _)| &**data);
    let identity = data.and_then(data::decode_single).map(|(_, identity)| identity.to_owned());
    let node = Znode { name: String::new(), ..node };
    // An ephemeral node of another program counts as `Exclusive`, whatever its purpose is.
    let kind = if identity.is_some() { LockKind::Ephemeral } else { LockKind::Exclusive };
    let own = contender(path, kind, true, node)?;
    Some(Contender { identity: identity.or(own.identity), ..own })
}

/// Returns the contender with this node, unless the node has vanished.
fn contender(path: &LockPath, kind: LockKind, holds: bool, node: Znode) -> Option<Contender> {
    let Znode { name, found } = node;
    let (data, stat) = found?;
    let data::Said { asked, identity } = data::said(&data, stat.version);
    Some(Contender {
        path: path.as_str().to_owned(),
        sequence: names::number(&name).map(i64::from),
        token: token(&name, &stat),
        limit: names::limit_of(&name),
        node: name,
        kind,
        holds,
        identity,
        asked,
        session: stat.ephemeral_owner,
        since: SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_millis(stat.ctime.unsigned_abs()))
            .unwrap_or(SystemTime::UNIX_EPOCH),
    })
}

fn token(name: &str, stat: &Stat) -> u64 {
    names::token_under(name).unwrap_or(stat.czxid.unsigned_abs())
}

#[cfg(test)]
mod tests;
