//! What the data of a node say: who made it and, of one that has moved to another session, where
//! it began. For people, for other clients' questions, and as the letter box of a revocation; no
//! lock depends on it.

use uuid::Uuid;

use crate::node::Kind;

/// What to write to a node to ask its holder to let go. Curator's.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// Stands before the data of a single node that was asked for. They stay readable: its name does not
/// say whose it is.
const REVOKED: &[u8] = b"__REVOKE__ ";

/// Begins the line of a node that has moved.
const ORIGIN: &str = "\n_zoolock ";
/// Begins the line of a permit: it is granted when whoever made it gives back this turn.
const TURN: &str = "\n_zoolock turn=";

/// Where a seat began: with the node that it first had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The transaction that made the node.
    pub(crate) token: u64,
    /// When, in milliseconds of the server's clock since 1970.
    pub(crate) since: u64,
}

/// What the maker of a single node writes.
pub(crate) fn encode_single(id: &str, identity: &str) -> Vec<u8> {
    format!("{id} {identity}").into_bytes()
}

/// The id and the identity of a single node of ours, also of one that was asked for.
pub(crate) fn decode_single(data: &[u8]) -> Option<(&str, &str)> {
    let data = data.strip_prefix(REVOKED).unwrap_or(data);
    let (id, identity) = str::from_utf8(data).ok()?.split_once(' ')?;
    Uuid::try_parse(id).ok()?;
    Some((id, identity))
}

/// What to write to a single node with these data to ask its holder to let go.
pub(crate) fn revoke_single(data: &[u8]) -> Vec<u8> {
    match decode_single(data) {
        Some((id, identity)) => [REVOKED, &encode_single(id, identity)].concat(),
        None => REVOKE.to_vec(),
    }
}

/// Do the data of a holder's node ask it to let go?
pub(crate) fn asks(kind: Kind, data: &[u8]) -> bool {
    data == REVOKE || kind == Kind::Single && data.starts_with(REVOKED)
}

/// What a node's maker writes.
pub(crate) fn encode(identity: &str, origin: Option<Origin>) -> Vec<u8> {
    let mut data = identity.as_bytes().to_vec();
    if let Some(Origin { token, since }) = origin {
        data.extend(format!("{ORIGIN}token={token} since={since}").bytes());
    }
    data
}

/// Who made a node, and where it began if it has moved; nothing if it was not written by a lock.
pub(crate) fn decode(data: &[u8]) -> (Option<String>, Option<Origin>) {
    let Ok(text) = str::from_utf8(data) else {
        return (None, None);
    };
    if data == REVOKE {
        return (None, None);
    }
    let moved = text.rsplit_once(ORIGIN);
    let moved = moved.and_then(|(identity, origin)| Some((identity, parse(origin)?)));
    match moved {
        Some((identity, origin)) => (Some(identity.to_owned()), Some(origin)),
        None => (Some(text.to_owned()), None),
    }
}

/// The identity of a permit that was made in the turn with this mark.
pub(crate) fn with_turn(identity: &str, turn: &str) -> String {
    format!("{identity}{TURN}{turn}")
}

/// An identity without the turn, and the turn if there was one.
pub(crate) fn split_turn(identity: &str) -> (&str, Option<&str>) {
    match identity.rsplit_once(TURN) {
        Some((identity, turn)) => (identity, Some(turn)),
        None => (identity, None),
    }
}

fn parse(origin: &str) -> Option<Origin> {
    let (token, since) = origin.split_once(' ')?;
    Some(Origin {
        token: token.strip_prefix("token=")?.parse().ok()?,
        since: since.strip_prefix("since=")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Origin = Origin { token: 4_294_967_314, since: 1_700_000_000_000 };

    #[test]
    fn what_was_written_is_read() {
        for identity in ["host/7/main", "", "two\nlines", "\n_zoolock token=1 since=x"] {
            for origin in [None, Some(SOME)] {
                let read = decode(&encode(identity, origin));
                assert_eq!(read, (Some(identity.to_owned()), origin), "{identity:?}");
            }
        }
    }

    #[test]
    fn what_others_write_is_no_origin() {
        for data in [&b"\xff\xfe"[..], REVOKE] {
            assert_eq!(decode(data), (None, None), "{data:?}");
        }
        for text in ["192.168.0.1", "_zoolock token=1 since=2", "a\n_zoolock token=-1 since=2"] {
            assert_eq!(decode(text.as_bytes()), (Some(text.to_owned()), None));
        }
    }
}
