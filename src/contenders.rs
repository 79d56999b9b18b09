//! Who holds a lock and who waits for it, for people and programs that look from outside.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::data::{self, Origin};
use crate::error::Result;
use crate::node;
use crate::path::LockPath;
use crate::semaphore::{LEASES, LOCKS};
use crate::session::{Claim, Connection, Failure, Session, Until, Znode, look, survey};

/// What a contender asks for.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// To be alone.
    Exclusive,
    /// To read beside others.
    Read,
    /// To write, and to be alone.
    Write,
    /// A permit of a semaphore.
    Permit,
    /// Nothing that a lock knows: a node that somebody else has put there. It blocks nobody.
    Foreign,
}

/// One node in a lock's directory: somebody who holds the lock, or waits for it.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// The lock's path.
    pub path: String,
    /// The node's name below it; empty for an [`EphemeralLock`](crate::EphemeralLock), whose path
    /// is the node. It changes when the contender moves to another session.
    pub node: String,
    /// The number that the order goes by; none for nodes that have none.
    pub sequence: Option<i64>,
    /// What it asks for.
    pub kind: Kind,
    /// Does it hold the lock? Else it waits.
    pub holds: bool,
    /// What it says of itself; none if the node's data are something else.
    pub identity: Option<String>,
    /// The id of its session, as ZooKeeper's logs and four-letter words have it in hexadecimal. 0
    /// for a node that is not ephemeral.
    pub session: i64,
    /// Since when it is there, by the server's clock; before it moved, if it did.
    pub since: SystemTime,
    /// What [`Hold::fencing_token`](crate::Hold::fencing_token) is if it holds or will.
    pub token: u64,
}

impl Contender {
    /// The path of the node.
    pub(crate) fn znode(&self) -> String {
        match self.node.as_str() {
            "" => self.path.clone(),
            node => format!("{}/{node}", self.path),
        }
    }
}

/// Who holds the lock at `path` and who waits for it, in the order in which they are served.
pub(crate) fn contenders(session: &Arc<Session>, path: &LockPath) -> Result<Vec<Contender>> {
    let until = Until::within(session.timeout());
    let connection = session.await_live(path.as_str(), &until)?;
    read(&connection, path, &until).map_err(|failure| session.error(path.as_str(), failure))
}

/// Below a lock's path, and never made: who writes to it is told so by the leader.
const NOBODY: &str = "_zoolock_nobody";

/// Has the current holder of the lock at `path`, or one of them, this token?
///
/// A follower may lag behind, so that what it says is old. The answer to a write comes behind all
/// that the leader has done before it, so what the same server says then is no older than the call.
/// A write to a node that is not there changes nothing, and needs no permission.
pub(crate) fn verify(session: &Arc<Session>, path: &LockPath, token: u64) -> Result<bool> {
    let connection = session.require_live(path.as_str())?;
    let until = Until::within(connection.timeout() / 3);
    let nobody = path.below(NOBODY);
    let caught_up = connection.call(&until, move |wire| wire.heartbeat(nobody.as_str()));
    let contenders = caught_up.and_then(|_| read(&connection, path, &until));
    let contenders = contenders.map_err(|failure| session.error(path.as_str(), failure))?;
    let is_it = |contender: &Contender| contender.holds && contender.token == token;
    Ok(contenders.iter().any(is_it))
}

fn read(
    connection: &Arc<Connection>,
    path: &LockPath,
    until: &Until,
) -> std::result::Result<Vec<Contender>, Failure> {
    let nodes = survey(connection, path, until)?;
    if nodes.is_empty() {
        let own = look(connection, path, until)?;
        let own = own.filter(|node| node.session != 0);
        return Ok(own.into_iter().map(|node| single(path, node)).collect());
    }
    let is_part = |node: &Znode| node.session == 0 && [LOCKS, LEASES].contains(&&*node.name);
    let contends = |node: &Znode| node::kind_of(&node.name).is_some();
    if !nodes.iter().any(is_part) || nodes.iter().any(contends) {
        return Ok(queue(path, nodes));
    }
    let turns = survey(connection, &path.below(LOCKS), until)?;
    let leases = survey(connection, &path.below(LEASES), until)?;
    let strangers = nodes.into_iter().filter(|node| !is_part(node)).collect();
    let mut contenders = semaphore(path, turns, leases);
    contenders.extend(queue(path, strangers));
    contenders.sort_by_key(|contender| contender.kind == Kind::Foreign);
    Ok(contenders)
}

/// Of a lock with a queue.
fn queue(path: &LockPath, nodes: Vec<Znode>) -> Vec<Contender> {
    let low = nodes.iter().any(|node| node::sequence(&node.name).is_some_and(node::is_low));
    let mut nodes: Vec<_> = nodes.into_iter().map(|node| (order(&node, low), node)).collect();
    nodes.sort_unstable_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    // The kinds of all that are before the place, and of those in it.
    let (mut ahead, mut beside): (Vec<node::Kind>, Vec<node::Kind>) = Default::default();
    let mut last = None;
    let mut contenders = Vec::with_capacity(nodes.len());
    for (order, node) in nodes {
        // Equal sequences are one place: they do not wait for each other.
        if last.replace(order) != Some(order) {
            ahead.append(&mut beside);
        }
        let kind = node::kind_of(&node.name);
        let holds = kind.is_some_and(|kind| !ahead.iter().any(|&other| kind.waits_for(other)));
        let new = |kind: &node::Kind| !ahead.contains(kind) && !beside.contains(kind);
        beside.extend(kind.filter(new));
        contenders.push(contender(path, None, public(kind), holds, node));
    }
    contenders
}

/// Normal sequences first, by number, then the others as they were made, then what is foreign. If
/// there are low ones, those that an old server gives before them stand before them.
fn order(node: &Znode, low: bool) -> (u8, u64) {
    match node::sequence(&node.name) {
        Some(sequence) if node::is_normal(sequence) => (1, sequence.unsigned_abs().into()),
        Some(sequence) if low && node::is_late(sequence) => (0, node.origin.token),
        Some(_) => (2, node.origin.token),
        None => (3, 0),
    }
}

/// Of a semaphore: who has permits, and behind them who waits for the turn to get some.
fn semaphore(path: &LockPath, turns: Vec<Znode>, leases: Vec<Znode>) -> Vec<Contender> {
    let turns = queue(&path.below(LOCKS), turns);
    // Whoever has the turn is not granted what it has made since, or would have given it back.
    let acquiring = turns.iter().find(|turn| turn.holds);
    let waits = |lease: &Contender, made_in: Option<&str>| {
        acquiring.is_some_and(|turn| {
            let same = match made_in {
                Some(made_in) => node::place_mark(&turn.node) == made_in,
                // Of others it can only be guessed.
                None => lease.token > turn.token,
            };
            same && lease.session == turn.session
        })
    };
    let leases = leases.into_iter().map(|lease| {
        let mut lease = contender(path, Some(LEASES), Kind::Permit, true, lease);
        let identity = lease.identity.take();
        let said = identity.as_deref().map(data::split_turn);
        lease.holds = !waits(&lease, said.and_then(|(_, turn)| turn));
        lease.identity = said.map(|(identity, _)| identity.to_owned());
        lease
    });
    let mut leases: Vec<_> = leases.collect();
    leases.sort_unstable_by_key(|lease| (!lease.holds, lease.token));
    let waiting = turns.iter().map(|turn| Contender {
        path: path.as_str().to_owned(),
        node: format!("{LOCKS}/{}", turn.node),
        kind: match turn.kind {
            Kind::Foreign => Kind::Foreign,
            _ => Kind::Permit,
        },
        holds: false,
        ..turn.clone()
    });
    leases.into_iter().chain(waiting).collect()
}

/// The first of a queue that a seat with this claim waits in.
pub(crate) fn ahead(claim: &Claim, name: &str, node: Znode) -> Contender {
    let (path, kind) = (&claim.lock, public(node::kind_of(name)));
    let name = name.to_owned();
    let node = Znode { name, ..node };
    match claim.directory == *path {
        true => contender(path, None, kind, true, node),
        // It has the turn, which is not what people ask for.
        false => contender(path, Some(LOCKS), Kind::Permit, false, node),
    }
}

/// Of a lock that is a single node.
fn single(path: &LockPath, node: Znode) -> Contender {
    // Of ours an id stands before it.
    let identity = data::decode_single(&node.data).map(|(_, identity)| identity.to_owned());
    let own = contender(path, None, Kind::Exclusive, true, node);
    Contender { identity: identity.or(own.identity), ..own }
}

fn public(kind: Option<node::Kind>) -> Kind {
    match kind {
        Some(node::Kind::Exclusive | node::Kind::Single) => Kind::Exclusive,
        Some(node::Kind::Read) => Kind::Read,
        Some(node::Kind::Write) => Kind::Write,
        Some(node::Kind::Permit) => Kind::Permit,
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
    let (identity, moved) = data::decode(&node.data);
    let Origin { token, since } = moved.unwrap_or(node.origin);
    Contender {
        path: path.as_str().to_owned(),
        sequence: sequence(&node.name).map(i64::from),
        node: match below {
            Some(directory) => format!("{directory}/{}", node.name),
            None => node.name,
        },
        kind,
        holds,
        identity,
        session: node.session,
        // Anybody may have written it, and not every platform's clock goes so far.
        since: SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_millis(since))
            .unwrap_or(SystemTime::UNIX_EPOCH),
        token,
    }
}

/// The number behind the marker: a dash that ends the marker is no sign.
fn sequence(name: &str) -> Option<i32> {
    let lease = name.rsplit_once(node::Kind::Permit.marker());
    let unmarked = lease.map_or(name, |(_, number)| number);
    node::sequence(name).or_else(|| node::number(unmarked))
}

#[cfg(test)]
mod tests;
