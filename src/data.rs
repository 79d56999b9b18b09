//! What the data of a node say: who made it. For people, and as the letter box of a revocation; no lock
//! depends on it but the single node, whose name does not tell whose it is.

use uuid::Uuid;

/// What to write to a node to ask its holder to let go. Curator's.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// Stands before the data of a single node that was asked for, which stay readable.
const REVOKED: &[u8] = b"__REVOKE__ ";

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
pub(crate) fn asks(data: &[u8], is_single: bool) -> bool {
    data == REVOKE || is_single && data.starts_with(REVOKED)
}

/// Who made a node; none if it does not say.
pub(crate) fn identity(data: &[u8]) -> Option<String> {
    let text = str::from_utf8(data).ok().filter(|_| data != REVOKE)?;
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_node_says_whose_it_is_also_when_it_was_asked_for() {
        let id = "00000000-0000-4000-8000-000000000000";
        let data = encode_single(id, "host/1/main thread");
        let asked = revoke_single(&data);
        println!("{:?}", String::from_utf8_lossy(&asked));
        for data in [&data, &asked, &revoke_single(&asked)] {
            assert_eq!(decode_single(data), Some((id, "host/1/main thread")));
        }
        assert_eq!((asks(&data, true), asks(&asked, true)), (false, true));
        assert!(!asks(&asked, false), "to others it is data as any");
        assert!(asks(REVOKE, true) && asks(REVOKE, false));
    }

    #[test]
    fn what_others_write_is_an_identity_if_it_is_text() {
        for data in [&b"\xff\xfe"[..], REVOKE] {
            assert_eq!(identity(data), None, "{data:?}");
        }
        for text in ["", "192.168.0.1", "a\nb"] {
            assert_eq!(identity(text.as_bytes()).as_deref(), Some(text));
            assert_eq!(decode_single(text.as_bytes()), None);
            assert_eq!(revoke_single(text.as_bytes()), REVOKE);
        }
    }
}
