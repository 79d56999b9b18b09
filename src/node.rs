//! The names in a lock's directory: which of them contend, in what order, and whether a seat is
//! granted or behind whom. Pure: must not know requests, sessions or watches.

use std::cmp::Reverse;
use std::iter;

/// Names that contend end in one of these and a sequence. The first three are ours and Curator's
/// (`lock-` is also go-zookeeper's and .NET's), the others kazoo's, which count so that a mixed
/// directory still has one order.
const MARKERS: [(&str, Kind); 5] = [
    ("lock-", Kind::Exclusive),
    ("__READ__", Kind::Read),
    ("__WRIT__", Kind::Write),
    ("__lock__", Kind::Exclusive),
    ("__rlock__", Kind::Read),
];

/// Stands before the uuid. Curator's, and the number of characters that follow is fixed:
/// go-zookeeper panics on fewer.
const PREFIX: &str = "_c_";
const ID_LEN: usize = 36;

/// Half of the numbers on either side of zero: contenders that meet are nearer to each other.
const HALF: i32 = 1 << 30;

/// What a contender asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The only kind of a plain lock. To a read-write lock on the same path it is a write.
    Exclusive,
    Read,
    Write,
    /// One of the permits of a semaphore: they are counted, and have no order.
    Permit,
    /// The lock is the node itself: it has no sequence, and there is no queue.
    Single,
}

impl Kind {
    /// What a name of this kind that we make has before its sequence.
    pub(crate) fn marker(self) -> &'static str {
        match self {
            Kind::Exclusive => "lock-",
            Kind::Read => "__READ__",
            Kind::Write => "__WRIT__",
            Kind::Permit => "lease-",
            Kind::Single => "",
        }
    }

    /// Whether this contender must let a lower `other` go first.
    pub(crate) fn waits_for(self, other: Kind) -> bool {
        self != Kind::Read || other != Kind::Read
    }
}

/// A child of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) name: String,
    /// The transaction that made it, where it is known. Lists do not have it; see
    /// [`Standing::NeedsCzxid`].
    pub(crate) czxid: Option<i64>,
}

/// Where a seat stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing strictly lower counts against it.
    Granted,
    /// The nearest lower node that counts against it: the one to watch.
    Behind(String),
    /// Its node is not there (or has no sequence, so that it can never be granted): it must queue
    /// again.
    Gone,
    /// The order hangs on when these nodes were made. Ask the server, leave out those that have
    /// vanished, and decide again.
    NeedsCzxid(Vec<String>),
}

/// Where the seat whose node is `own` stands among the children. Every other one is a rival, also
/// one of the same client.
///
/// Normal sequences come first, by number. A server from 3.6 on gives 2147483647 to all contenders
/// once it has got there, but for negative numbers to those that come at the same time; older ones
/// go on with negative numbers, and after -1 with 0. These are ordered by czxid, which only
/// contenders with such a sequence have to know; and the numbers shortly before 0 come before those
/// shortly behind it. Whole names are never compared for order: uuids are random.
///
/// Of any two who want to be alone one waits for the other, whatever there is beside them. So there
/// are never two holders, even if numbers from all over the range should meet.
pub(crate) fn decide(kind: Kind, children: &[Child], own: &str) -> Standing {
    let me = children.iter().find(|child| child.name == own);
    let (Some(me), Some(sequence)) = (me, sequence(own)) else {
        return Standing::Gone;
    };
    let rivals = children.iter().filter_map(|child| {
        let (rival, sequence) = contender(&child.name)?;
        (kind.waits_for(rival) && child.name != own).then_some((sequence, child))
    });
    let before = |&(rival, _): &(i32, &Child)| is_before(rival, sequence);
    if is_normal(sequence) {
        nearest(rivals.filter(before))
    } else {
        let (normal, abnormal) = rivals.partition(|&(rival, _)| is_normal(rival));
        decide_by_czxid(me, abnormal, normal.into_iter().filter(before))
    }
}

/// Does one with the number `rival` come before one with `own`, as far as the numbers tell, which
/// they do not of two abnormal ones?
fn is_before(rival: i32, own: i32) -> bool {
    match (is_normal(rival), is_normal(own)) {
        (true, true) => rival < own,
        (true, false) => !(is_low(rival) && is_late(own)),
        (false, true) => is_late(rival) && is_low(own),
        (false, false) => false,
    }
}

/// Who stands before `own`, whatever they want, first things first. By the numbers alone: of two
/// that do not tell, neither is before the other.
pub(crate) fn ahead<'a>(children: &'a [Child], own: &str) -> Vec<&'a str> {
    let Some(own) = sequence(own) else {
        return Vec::new();
    };
    let mut before: Vec<_> = children
        .iter()
        .filter_map(|child| Some((sequence(&child.name)?, child.name.as_str())))
        .filter(|&(rival, _)| is_before(rival, own))
        .collect();
    // Late ones are there only if they were made before the low ones.
    before.sort_unstable_by_key(|&(rival, name)| (!is_late(rival), rival, name));
    before.into_iter().map(|(_, name)| name).collect()
}

/// Whether a newcomer of this kind would be granted at once. Nothing that counts may be there,
/// whatever its sequence: the server would give the newcomer a higher one.
pub(crate) fn vacant(kind: Kind, children: &[Child]) -> bool {
    let blocks = |child: &Child| kind_of(&child.name).is_some_and(|other| kind.waits_for(other));
    !children.iter().any(blocks)
}

/// For a seat with an abnormal sequence: behind those `normal` ones, and the `abnormal` ones made
/// before it.
fn decide_by_czxid<'a>(
    me: &Child,
    abnormal: Vec<(i32, &'a Child)>,
    normal: impl Iterator<Item = (i32, &'a Child)>,
) -> Standing {
    if abnormal.is_empty() {
        return nearest(normal);
    }
    let asked = iter::once(me).chain(abnormal.iter().map(|&(_, child)| child));
    let unknown: Vec<String> =
        asked.filter(|child| child.czxid.is_none()).map(|child| child.name.clone()).collect();
    if !unknown.is_empty() {
        return Standing::NeedsCzxid(unknown);
    }
    let lower = abnormal
        .iter()
        .map(|&(_, child)| (child.czxid, child))
        .filter(|&(czxid, _)| czxid < me.czxid);
    match nearest(lower) {
        Standing::Granted => nearest(normal),
        behind => behind,
    }
}

/// Behind the highest of those that are lower. Among equals any would do; always the same one, so
/// that callers that list again watch the same node again.
fn nearest<'a, K: Ord>(lower: impl Iterator<Item = (K, &'a Child)>) -> Standing {
    match lower.map(|(place, child)| (place, Reverse(&child.name))).max() {
        Some((_, Reverse(name))) => Standing::Behind(name.clone()),
        None => Standing::Granted,
    }
}

/// What to create with a sequence behind it: `_c_<id>-lock-`. `id` is a lower-case uuid, new for
/// every create.
pub(crate) fn new_name_prefix(id: &str, kind: Kind) -> String {
    debug_assert_eq!(id.len(), ID_LEN, "{id:?}");
    format!("{PREFIX}{id}-{}", kind.marker())
}

/// The name under which the place of `name`, one of ours, moves to another session: with a new
/// `id` and the same sequence. None if the sequence alone does not tell the place; that of a permit
/// does not matter.
pub(crate) fn moved_name(kind: Kind, name: &str, id: &str) -> Option<String> {
    debug_assert_eq!(id.len(), ID_LEN, "{id:?}");
    let after_id = name.get(PREFIX.len() + ID_LEN..)?;
    let moves = match kind {
        Kind::Single => false,
        Kind::Permit => true,
        Kind::Exclusive | Kind::Read | Kind::Write => sequence(name).is_some_and(is_normal),
    };
    (moves && name.starts_with(PREFIX)).then(|| format!("{PREFIX}{id}{after_id}"))
}

/// The name of a read that its thread takes under its own write `name`: with the same sequence, so
/// that no queued writer comes between. None if the sequence alone does not tell the place.
pub(crate) fn read_under(name: &str, id: &str) -> Option<String> {
    let sequence = sequence(name).filter(|&sequence| is_normal(sequence))?;
    Some(format!("{}{sequence:010}", new_name_prefix(id, Kind::Read)))
}

/// Whether this is the name of the create that carried `id`.
pub(crate) fn carries(name: &str, id: &str) -> bool {
    let after_id = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(id));
    !id.is_empty() && after_id.is_some_and(|rest| rest.starts_with('-'))
}

/// The sequence of a name that contends.
pub(crate) fn sequence(name: &str) -> Option<i32> {
    contender(name).map(|(_, sequence)| sequence)
}

/// What a name asks for; None if it does not contend.
pub(crate) fn kind_of(name: &str) -> Option<Kind> {
    contender(name).map(|(kind, _)| kind)
}

/// The number that a server has put behind any name.
pub(crate) fn number(name: &str) -> Option<i32> {
    [11, 10].into_iter().find_map(|length| {
        let (_, tail) = name.split_at_checked(name.len().checked_sub(length)?)?;
        parse_sequence(tail)
    })
}

/// Whether the number alone tells the place. The server gives each of these once, in rising order.
pub(crate) fn is_normal(sequence: i32) -> bool {
    (0..i32::MAX).contains(&sequence)
}

/// Of the first half of the normal ones. When a server before 3.6 comes round to them there may be
/// [late](is_late) ones yet.
pub(crate) fn is_low(sequence: i32) -> bool {
    (0..HALF).contains(&sequence)
}

/// Of the second half of the negative ones, which only servers before 3.6 get to.
pub(crate) fn is_late(sequence: i32) -> bool {
    (-HALF..0).contains(&sequence)
}

/// What tells the place of the node in its queue from all others: its number, which does not change
/// when it moves, or its whole name, which does not change if the number does not tell.
pub(crate) fn place_mark(name: &str) -> &str {
    match sequence(name) {
        Some(sequence) if is_normal(sequence) => &name[name.len() - 10..],
        _ => name,
    }
}

/// Takes a name apart from its end; what precedes the marker is free. Everything that does not fit
/// is somebody else's business and neither blocks nor fails.
fn contender(name: &str) -> Option<(Kind, i32)> {
    // At most one length fits: behind the dash of `lock-` stands either a digit or the minus sign.
    [10, 11].into_iter().find_map(|length| {
        let (head, tail) = name.split_at_checked(name.len().checked_sub(length)?)?;
        let sequence = parse_sequence(tail)?;
        let &(_, kind) = MARKERS.iter().find(|(marker, _)| head.ends_with(marker))?;
        Some((kind, sequence))
    })
}

/// Reads what a server prints, `%010d` of a signed 32-bit number, and nothing else. Ten digits
/// above 2147483647 or a minus zero come from no server: as junk they would stay for ever, so they
/// must not block.
fn parse_sequence(tail: &str) -> Option<i32> {
    let digits = tail.strip_prefix('-').unwrap_or(tail);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let sequence: i32 = tail.parse().ok()?;
    let length = if sequence <= -1_000_000_000 { 11 } else { 10 };
    (tail.len() == length && tail.starts_with('-') == (sequence < 0)).then_some(sequence)
}

#[cfg(test)]
mod tests;
