//! The names in a lock's directory: which of them are contenders, in what order, and whether a node
//! is granted or which node it has to wait for. This module is pure: it neither sends requests nor
//! waits.

use std::cmp::Reverse;
use std::{iter, mem};

use uuid::{Builder, Uuid};

use zookeeper::Names;

use crate::base::kind::LockKind;
use crate::base::stay::{Ahead, Next};
use crate::base::sys::new_uuid;

/// A contender's name ends in one of these markers and a sequence number. This library and Curator
/// use the first four; go-zookeeper and the .NET client use `lock-`. kazoo uses the others. All of
/// them count, so that the contenders of different clients in one directory have a single order.
const MARKERS: [(&str, LockKind); 6] = [
    ("lock-", LockKind::Exclusive),
    ("__READ__", LockKind::Read),
    ("__WRIT__", LockKind::Write),
    ("latch-", LockKind::Latch),
    ("__lock__", LockKind::Exclusive),
    ("__rlock__", LockKind::Read),
];

/// Precedes the uuid, as in Curator. The number of characters that follow is fixed: go-zookeeper
/// panics if there are fewer.
const PREFIX: &str = "_c_";
const ID_LEN: usize = 36;
/// The last group of a uuid.
const GROUP_LEN: usize = 12;

/// A child of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Child<'a> {
    pub(crate) name: &'a str,
    /// The id of the transaction that created the child, if known. Lists do not include it; see
    /// [`Standing::NeedsCzxid`].
    pub(crate) czxid: Option<i64>,
}

/// Returns the children that a list names.
pub(crate) fn children(names: &Names) -> Vec<Child<'_>> {
    names.iter().map(|name| Child { name, czxid: None }).collect()
}

/// The position of nodes in their queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The nodes are granted: no lower node blocks them.
    Granted,
    Behind(Ahead<String>),
    /// Too many permits were created before these nodes or with them. Any change of the list may
    /// change this.
    Full,
    /// A node does not exist, or its name has no sequence. It can never be granted.
    Gone,
    /// The node with this name belongs to a contender that ignores ours, so both would be granted:
    /// one of the two uses a latch, and the other does not.
    Apart(String),
    /// The order depends on when these nodes were created. Request their czxids from the server,
    /// leave out nodes that no longer exist, and decide again.
    NeedsCzxid(Vec<String>),
}

/// Returns what follows when the node `nearest` ends.
fn next(kind: LockKind, nearest: &str, second: Option<String>) -> Next<String> {
    let ahead = kind_of(nearest);
    // Only one kind of node gets a lower number than nodes that already exist: the read node of a
    // thread that holds the write lock. All contenders except readers wait for that read node.
    let may_downgrade = ahead == Some(LockKind::Write) && kind != LockKind::Read;
    // Many reads may wait for one write. If each read watched the node before that write, one event
    // would wake many clients.
    Next::of(may_downgrade, second, |second| {
        let kinds = ahead.zip(kind_of(second));
        kind != LockKind::Read && kinds.is_some_and(|(one, other)| one.waits_for(other))
    })
}

fn behind(nearest: String, next: Next<String>) -> Standing {
    Standing::Behind(Ahead { nearest, next })
}

/// Returns the standing of the node `own` among the children. Every other child is a rival,
/// including children of the same client.
///
/// Nodes with normal sequences come first, ordered by number. After them come the nodes whose
/// numbers [do not determine an order](is_normal). They are ordered by czxid; only for these nodes
/// is a czxid necessary. Whole names are never compared for order, because uuids are random.
///
/// Of any two exclusive contenders, one waits for the other, regardless of other nodes in the
/// directory.
pub(crate) fn decide(kind: LockKind, children: &[Child<'_>], own: &str) -> Standing {
    let Some(place) = sequence(own).map(place_of) else {
        return Standing::Gone;
    };
    let (mut me, mut nearest, mut second, mut unordered) = (None, None, None, Vec::new());
    for child in children {
        let other = contender(child.name);
        if other.is_some_and(|(other, _)| kind.is_apart_from(other)) {
            return Standing::Apart(child.name.to_owned());
        }
        let rival = other.filter(|&(rival, _)| kind.waits_for(rival));
        match rival.map(|(_, sequence)| place_of(sequence)) {
            _ if child.name == own => me = Some(child),
            // If several nodes have the same position, any of them will do. The same one is always
            // picked, so that a caller that lists again watches the same node again.
            Some(lower) if lower < place => {
                let one = Some((lower, Reverse(child.name)));
                match one > nearest {
                    true => second = mem::replace(&mut nearest, one),
                    false => second = second.max(one),
                }
            }
            Some(i32::MAX) if place == i32::MAX => unordered.push(child),
            _ => {}
        }
    }
    let Some(me) = me else {
        return Standing::Gone;
    };
    if !unordered.is_empty() {
        let asked = iter::once(&me).chain(&unordered).filter(|child| child.czxid.is_none());
        let unknown: Vec<String> = asked.map(|child| child.name.to_owned()).collect();
        if !unknown.is_empty() {
            return Standing::NeedsCzxid(unknown);
        }
    }
    let earlier = unordered.iter().filter(|other| other.czxid < me.czxid);
    let last = earlier.map(|other| (other.czxid, Reverse(other.name))).max();
    let name = |(_, Reverse(name)): (i32, Reverse<&str>)| name.to_owned();
    match (last, nearest.map(name)) {
        (Some((_, Reverse(last))), _) => behind(last.to_owned(), Next::List),
        (None, Some(nearest)) if place == i32::MAX => behind(nearest, Next::List),
        (None, Some(nearest)) => {
            let next = next(kind, &nearest, second.map(name));
            behind(nearest, next)
        }
        (None, None) => Standing::Granted,
    }
}

/// Returns how many contenders are ahead of our node, whatever they request. Only the numbers
/// are compared. Nodes whose numbers [do not determine an order](is_normal) share the last
/// position, so none of them is ahead of another.
pub(crate) fn count_ahead(names: &Names, own: &str) -> usize {
    let place = sequence(own).map(place_of);
    names.iter().filter_map(sequence).filter(|&rival| Some(place_of(rival)) < place).count()
}

/// Returns the position of a node: its number, if that alone determines the position. All other
/// nodes share one position after those.
fn place_of(sequence: i32) -> i32 {
    if is_normal(sequence) { sequence } else { i32::MAX }
}

/// Returns whether a new contender of this kind would be granted at once. Any blocking name
/// prevents that, whatever sequence it has, because the new node would get a higher one from the
/// server.
pub(crate) fn vacant(kind: LockKind, names: &Names) -> bool {
    !names.iter().any(|name| kind_of(name).is_some_and(|other| kind.waits_for(other)))
}

// ---- names of this library

/// Returns a new id, for one create request.
pub(crate) fn new_id() -> String {
    new_uuid().hyphenated().to_string()
}

/// Returns the name to which the server appends the sequence: `_c_<id>-lock-`.
pub(crate) fn new_name_prefix(id: &str, kind: LockKind) -> String {
    debug_assert_eq!(id.len(), ID_LEN, "{id:?}");
    format!("{PREFIX}{id}-{}", kind.marker())
}

/// Returns an id for permits. It is a uuid of version 8, unlike those of other libraries' permits,
/// and begins with the limit. A call that waits for permits first acquires a lock, the *turn* of
/// the semaphore. The ids of its permits end in the same group as the id of the turn's node. The
/// name has to contain the limit and this group, because any client may overwrite the node's data.
pub(crate) fn new_permit_id(turn: Option<&str>, limit: u32) -> String {
    let mut bytes = new_uuid().into_bytes();
    bytes[..4].copy_from_slice(&limit.to_be_bytes());
    let mut id = Builder::from_custom_bytes(bytes).into_uuid().hyphenated().to_string();
    if let Some(group) = turn.and_then(last_group) {
        id.replace_range(ID_LEN - GROUP_LEN.., group);
    }
    id
}

/// Returns the limit under which a permit was requested, or `None` if another library requested it.
pub(crate) fn limit_of(permit: &str) -> Option<u32> {
    let id = Uuid::try_parse(id_of(permit)?).ok()?;
    (id.get_version_num() == 8 && is_permit(permit)).then_some(id.as_fields().0)
}

/// Returns how many of the nodes of a semaphore are permits. Others may belong to a lock at the
/// same path.
pub(crate) fn count_permits(names: &Names) -> usize {
    names.iter().filter(|name| is_permit(name)).count()
}

/// Returns whether the permits of one call are granted: up to and including the last permit of the
/// call, there are at most as many permits as the limit allows. `all` includes the call's own
/// permits.
pub(crate) fn fit<'a>(all: impl Iterator<Item = &'a str>, own: &[&str], limit: u32) -> bool {
    // If the number of a permit does not determine its position, the permit counts as ahead of the
    // call's last one.
    let last = own.iter().map(|name| normal_number(name).unwrap_or(i32::MAX)).max();
    all.filter(|name| is_permit(name) && normal_number(name) <= last).count() <= limit as usize
}

/// Returns whether the permit was requested by the call that has this node as its turn. Returns
/// `None` if another library requested it.
pub(crate) fn is_of_turn(permit: &str, turn: &str) -> Option<bool> {
    limit_of(permit).map(|_| last_group(permit) == last_group(turn))
}

fn last_group(name: &str) -> Option<&str> {
    id_of(name).and_then(|id| id.get(ID_LEN - GROUP_LEN..))
}

/// Returns the id and name of a read that a thread acquires under its own write. The read has the
/// same sequence as the write, so that a queued writer cannot come between them. Its id contains
/// the write's token, which is also the token of the read. Use it only if the sequence alone
/// determines the position.
pub(crate) fn read_under(write: &str, token: u64) -> (String, String) {
    let sequence = sequence(write).unwrap_or(i32::MAX);
    let mut bytes = new_uuid().into_bytes();
    // The last 62 bits of a version 8 uuid are free. Transaction ids need fewer bits during the
    // lifetime of any ensemble.
    bytes[8..].copy_from_slice(&token.to_be_bytes());
    let id = Builder::from_custom_bytes(bytes).into_uuid().hyphenated().to_string();
    let name = format!("{}{sequence:010}", new_name_prefix(&id, LockKind::Read));
    (id, name)
}

/// Returns the token of a read under a write, if this is the name of such a read.
pub(crate) fn token_under(name: &str) -> Option<u64> {
    let id = Uuid::try_parse(id_of(name)?).ok()?;
    let custom = kind_of(name) == Some(LockKind::Read) && id.get_version_num() == 8;
    custom.then_some(id.as_u64_pair().1 & (u64::MAX >> 2))
}

/// Returns whether this name contains `id`, the id of a create request.
pub(crate) fn carries(name: &str, id: &str) -> bool {
    id_of(name) == Some(id)
}

/// Returns the id in this name, if Curator or this library created it.
pub(crate) fn id_of(name: &str) -> Option<&str> {
    let (id, rest) = name.strip_prefix(PREFIX)?.split_at_checked(ID_LEN)?;
    rest.starts_with('-').then_some(id)
}

// ---- names of any client

/// Returns the sequence in a contender's name.
pub(crate) fn sequence(name: &str) -> Option<i32> {
    contender(name).map(|(_, sequence)| sequence)
}

/// Returns what the contender with this name requests, or `None` if it is not a contender's name.
pub(crate) fn kind_of(name: &str) -> Option<LockKind> {
    contender(name).map(|(kind, _)| kind)
}

/// Returns whether this is the name of a permit of a semaphore.
pub(crate) fn is_permit(name: &str) -> bool {
    let mut heads = [10, 11].into_iter().filter_map(|length| split(name, length));
    heads.any(|(head, _)| head.ends_with(LockKind::Semaphore.marker()))
}

/// Returns the number that a server appended to a name, whether or not it is a contender's.
pub(crate) fn number(name: &str) -> Option<i32> {
    let number = |length| {
        let (head, number) = split(name, length)?;
        // The dash that ends `lease-` is not a minus sign.
        (number >= 0 || !head.ends_with("lease")).then_some(number)
    };
    sequence(name).or_else(|| [11, 10].into_iter().find_map(number))
}

/// Returns whether the number alone determines the position. The server assigns each of these
/// numbers once, in rising order. After that, it assigns 2147483647 forever, and negative numbers
/// to concurrent create requests.
pub(crate) fn is_normal(sequence: i32) -> bool {
    (0..i32::MAX).contains(&sequence)
}

/// Returns the [`number`] of a node, if it alone determines the position.
pub(crate) fn normal_number(name: &str) -> Option<i32> {
    number(name).filter(|&number| is_normal(number))
}

/// Returns the kind and sequence in a contender's name. Any text may precede the marker. All other
/// names belong to other programs, and neither block a contender nor cause an error.
fn contender(name: &str) -> Option<(LockKind, i32)> {
    // At most one length fits: the dash of `lock-` is followed by either a digit or the minus sign.
    [10, 11].into_iter().find_map(|length| {
        let (head, sequence) = split(name, length)?;
        let &(_, kind) = MARKERS.iter().find(|(marker, _)| head.ends_with(marker))?;
        Some((kind, sequence))
    })
}

/// Splits off the number that a server appends: a signed 32-bit number, printed as `%010d`. A
/// server never appends ten digits above 2147483647, or minus zero. Nodes with such names would
/// stay forever; therefore, they must not block.
fn split(name: &str, length: usize) -> Option<(&str, i32)> {
    let (head, tail) = name.split_at_checked(name.len().checked_sub(length)?)?;
    let (sign, digits) = tail.strip_prefix('-').map_or((1, tail), |digits| (-1, digits));
    let value = digits.bytes().try_fold(0, |value: i64, byte| {
        byte.is_ascii_digit().then(|| 10 * value + i64::from(byte - b'0'))
    })?;
    let sequence = i32::try_from(sign * value).ok()?;
    let printed = if sequence <= -1_000_000_000 { 11 } else { 10 };
    (length == printed && (sign < 0) == (sequence < 0)).then_some((head, sequence))
}

#[cfg(test)]
mod tests;
