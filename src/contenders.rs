//! Who holds a lock and who waits for it, for people and programs that look from outside.

use std::time::{Duration, SystemTime};

use zookeeper::{ErrorKind, Stat};

use crate::data;
use crate::error::Result;
use crate::names::{self, Mode};
use crate::path::LockPath;
use crate::session::{Claim, Failure, Session};
use crate::signal::Until;
use crate::sys;

/// The directories below a semaphore's path: of those who wait, and of the permits.
pub(crate) const LOCKS: &str = "locks";
pub(crate) const LEASES: &str = "leases";

/// How many nodes are read at once.
const AT_ONCE: usize = 100;

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
    /// is the node.
    pub node: String,
    /// The number behind its name, if there is one.
    pub sequence: Option<i64>,
    /// What it asks for.
    pub kind: Kind,
    /// Does it hold the lock? Else it waits.
    pub holds: bool,
    /// What it says of itself; none if the node's data are something else, or a request that it has not heard of
    /// yet.
    pub identity: Option<String>,
    /// Was it [asked](crate::Client::revoke) to let go?
    pub asked: bool,
    /// The id of its session, as ZooKeeper's logs and four-letter words have it in hexadecimal. 0
    /// for a node that is not ephemeral.
    pub session: i64,
    /// Since when it is there, by the server's clock.
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

/// A node and what it says.
#[derive(Debug, Clone)]
struct Znode {
    /// Empty if it was asked for by its path.
    name: String,
    data: Vec<u8>,
    stat: Stat,
}

/// Deletes the node of a contender in a queue, and no other that has its path by now; `NoNode` if it has gone.
pub(crate) fn remove(
    session: &Session,
    contender: &Contender,
    until: &Until,
) -> Result<(), Failure> {
    loop {
        match remove_as_read(session, contender, until) {
            // Somebody has written to it since.
            Err(failure) if failure.is(ErrorKind::BadVersion) => {
                sys::reached("a node is written to before it is removed");
            }
            removed => return removed,
        }
    }
}

fn remove_as_read(session: &Session, contender: &Contender, until: &Until) -> Result<(), Failure> {
    let path = contender.znode();
    let name = contender.node.rsplit('/').next().unwrap_or_default();
    let its_version = |stat: Stat| match token(name, &stat) == contender.token {
        true => Ok(Some(stat.version)),
        false => {
            sys::reached("a node to be removed is another one by now");
            Err(Failure::Refused(ErrorKind::NoNode.into()))
        }
    };
    let read = session.ask_one(None, until, |batch| batch.get_data(&path, None));
    let version = its_version(read?.1)?;
    session.ask_one(None, until, |batch| batch.delete(&path, version))
}

/// Who holds the lock at `path` and who waits for it, in the order in which they are served.
pub(crate) fn contenders(session: &Session, path: &LockPath) -> Result<Vec<Contender>> {
    let until = Until::within(session.timeout());
    session.await_connection(path.as_str(), &until)?;
    read(session, path, &until).map_err(|failure| session.error(path.as_str(), failure))
}

/// Has the current holder of the lock at `path`, or one of them, this token?
///
/// A follower may lag behind, so that what it says is old. The answer to a write comes behind all
/// that the leader has done before it, so what the same server says then is no older than the call.
pub(crate) fn verify(session: &Session, path: &LockPath, token: u64) -> Result<bool> {
    session.require_connection(path.as_str())?;
    let until = Until::within(session.patience());
    let caught_up = session.ask_one(None, &until, |batch| batch.renew_lease());
    let contenders = caught_up.and_then(|()| read(session, path, &until));
    let contenders = contenders.map_err(|failure| session.error(path.as_str(), failure))?;
    Ok(contenders.iter().any(|contender| contender.holds && contender.token == token))
}

fn read(session: &Session, path: &LockPath, until: &Until) -> Result<Vec<Contender>, Failure> {
    let nodes = survey(session, path, until)?;
    if nodes.is_empty() {
        let own = look(session, path.as_str(), until)?;
        let own = own.filter(|node| node.stat.ephemeral_owner != 0);
        return Ok(own.into_iter().map(|node| single(path, node)).collect());
    }
    let is_part =
        |node: &Znode| node.stat.ephemeral_owner == 0 && [LOCKS, LEASES].contains(&&*node.name);
    let contends = |node: &Znode| names::mode_of(&node.name).is_some();
    if !nodes.iter().any(is_part) || nodes.iter().any(contends) {
        return Ok(queue(path, nodes));
    }
    let turns = survey(session, &path.below(LOCKS), until)?;
    let leases = survey(session, &path.below(LEASES), until)?;
    let strangers = nodes.into_iter().filter(|node| !is_part(node)).collect();
    let mut contenders = semaphore(path, turns, leases);
    contenders.extend(queue(path, strangers));
    contenders.sort_by_key(|contender| contender.kind == Kind::Foreign);
    Ok(contenders)
}

/// The nodes in `directory`; none if there is no directory. Those that vanish meanwhile are left out.
fn survey(session: &Session, directory: &LockPath, until: &Until) -> Result<Vec<Znode>, Failure> {
    let listed = session.ask_one(None, until, |batch| batch.get_children(directory.as_str(), None));
    let names = match listed {
        Err(failure) if failure.is(ErrorKind::NoNode) => return Ok(Vec::new()),
        listed => listed?.0,
    };
    let wanted =
        Wanted { directory: directory.clone(), names: names.iter().map(str::to_owned).collect() };
    let nodes = read_nodes(session, &[wanted], until)?.pop();
    nodes.unwrap_or_else(|| Ok(Vec::new()))
}

/// Nodes of a directory that are to be read.
struct Wanted {
    directory: LockPath,
    names: Vec<String>,
}

/// Reads the nodes of several directories, [`AT_ONCE`]. Those that vanish meanwhile are left out. If
/// one may not be read, that is what is said of its directory.
fn read_nodes(
    session: &Session,
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
        let reads = session.read_each(None, until, &paths, None)?;
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

/// The node at `path`, if there is one.
fn look(session: &Session, path: &str, until: &Until) -> Result<Option<Znode>, Failure> {
    match session.ask_one(None, until, |batch| batch.get_data(path, None)) {
        Ok((data, stat)) => Ok(Some(Znode { name: String::new(), data, stat })),
        Err(failure) if failure.is(ErrorKind::NoNode) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Of a lock with a queue.
fn queue(path: &LockPath, mut nodes: Vec<Znode>) -> Vec<Contender> {
    nodes.sort_unstable_by(|a, b| (order(a), &a.name).cmp(&(order(b), &b.name)));
    // The kinds of all that are before the place, and of those in it.
    let (mut ahead, mut beside): (Vec<Mode>, Vec<Mode>) = Default::default();
    let mut last = None;
    let mut contenders = Vec::with_capacity(nodes.len());
    for node in nodes {
        let order = order(&node);
        // Equal sequences are one place: they do not wait for each other.
        if last.replace(order) != Some(order) {
            ahead.append(&mut beside);
        }
        let mode = names::mode_of(&node.name);
        let holds = mode.is_some_and(|mode| !ahead.iter().any(|&other| mode.waits_for(other)));
        let new = |mode: &Mode| !ahead.contains(mode) && !beside.contains(mode);
        beside.extend(mode.filter(new));
        contenders.push(contender(path, None, public(mode), holds, node));
    }
    contenders
}

/// Normal sequences first, by number, then the others as they were made, then what is foreign.
fn order(node: &Znode) -> (u8, i64) {
    match names::sequence(&node.name) {
        Some(sequence) if names::is_normal(sequence) => (0, sequence.into()),
        Some(_) => (1, node.stat.czxid),
        None => (2, 0),
    }
}

/// Of a semaphore: who has permits, and behind them who waits for the turn to get some.
fn semaphore(path: &LockPath, turns: Vec<Znode>, leases: Vec<Znode>) -> Vec<Contender> {
    let turns = queue(&path.below(LOCKS), turns);
    // Whoever has the turn is not granted what it has made since, or would have given it back.
    let acquiring = turns.iter().find(|turn| turn.holds);
    let waits = |lease: &Contender, name: &str| {
        acquiring.is_some_and(|turn| {
            // Of others it can only be guessed.
            let guess = || lease.token > turn.token;
            names::is_of_turn(name, &turn.node).unwrap_or_else(guess)
                && lease.session == turn.session
        })
    };
    let leases = leases.into_iter().map(|lease| {
        let name = lease.name.clone();
        let lease = contender(path, Some(LEASES), Kind::Permit, true, lease);
        Contender { holds: !waits(&lease, &name), ..lease }
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

/// The first of the queue that somebody with this claim waits in; none if it has gone.
pub(crate) fn first_of(
    session: &Session,
    claim: &Claim,
    name: &str,
    until: &Until,
) -> Result<Option<Contender>, Failure> {
    let node = look(session, &claim.directory.child(name), until)?;
    let (path, kind) = (&claim.lock, public(names::mode_of(name)));
    Ok(node.map(|node| {
        let node = Znode { name: name.to_owned(), ..node };
        match claim.directory == *path {
            true => contender(path, None, kind, true, node),
            // It has the turn, which is not what people ask for.
            false => contender(path, Some(LOCKS), Kind::Permit, false, node),
        }
    }))
}

/// Of a lock that is a single node.
fn single(path: &LockPath, node: Znode) -> Contender {
    // Of ours an id stands before it.
    let of = token(&node.name, &node.stat);
    let identity = data::decode_single(&node.data, of).map(|(_, identity)| identity.to_owned());
    let asked = data::asks(&node.data, Some(of));
    let own = contender(path, None, Kind::Exclusive, true, node);
    Contender { identity: identity.or(own.identity), asked, ..own }
}

fn public(mode: Option<Mode>) -> Kind {
    match mode {
        Some(Mode::Exclusive) => Kind::Exclusive,
        Some(Mode::Read) => Kind::Read,
        Some(Mode::Write) => Kind::Write,
        Some(Mode::Permit) => Kind::Permit,
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
    let (asked, identity) = data::said(&data, stat.version);
    Contender {
        path: path.as_str().to_owned(),
        sequence: names::number(&name).map(i64::from),
        token: token(&name, &stat),
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

pub(crate) use below::Below;
