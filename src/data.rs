//! The data of a node: the identity of the client that created it. They are for people, and carry
//! revocation requests. No lock depends on them, except the single-node lock: the name of its node
//! does not say who created it.

use uuid::Uuid;

/// The data that ask the holder of a node to release it. The same as Curator's.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// Precedes the previous data in a request, so that they stay readable. In a request for a single
/// node, the requested token follows.
const REVOKED: &str = "__REVOKE__ ";

/// Returns the data of a new single node.
pub(crate) fn encode_single(id: &str, identity: &str) -> Vec<u8> {
    format!("{id} {identity}").into_bytes()
}

/// Returns the id and the identity of this library's single node with this token, even if the data
/// are a request. A request for another token came too late, and says nothing about this node.
pub(crate) fn decode_single(data: &[u8], token: u64) -> Option<(&str, &str)> {
    let text = str::from_utf8(data).ok()?;
    let said = request(text).map_or(Some(text), |(of, said)| (of == token).then_some(said))?;
    id_and_identity(said)
}

fn id_and_identity(said: &str) -> Option<(&str, &str)> {
    said.split_once(' ').filter(|(id, _)| Uuid::try_parse(id).is_ok())
}

/// Returns whether these are the data of this library's single node, or a request for one.
pub(crate) fn is_single(data: &[u8]) -> bool {
    let text = str::from_utf8(data).ok();
    let said = text.map(|text| request(text).map_or(text, |(_, said)| said));
    said.and_then(id_and_identity).is_some()
}

/// Returns the data that ask the holder of a single node to release it, if the node has these data
/// and this token.
pub(crate) fn revoke_single(data: &[u8], token: u64) -> Vec<u8> {
    match decode_single(data, token) {
        Some((id, identity)) => format!("{REVOKED}{token} {id} {identity}").into_bytes(),
        None => REVOKE.to_vec(),
    }
}

/// Returns whether the data of a holder's node ask it to release the lock. `single` is the token of
/// a single-node hold: a late request for another hold may have reached this node.
pub(crate) fn asks(data: &[u8], single: Option<u64>) -> bool {
    let is_for = |token| {
        let request = str::from_utf8(data).ok().and_then(request);
        request.is_some_and(|(of, _)| of == token)
    };
    is_request(data) || single.is_some_and(is_for)
}

/// Returns the token in a request for a single node, and the data before the request.
fn request(text: &str) -> Option<(u64, &str)> {
    let (token, said) = text.strip_prefix(REVOKED)?.split_once(' ')?;
    Some((token.parse().ok()?, said))
}

/// Returns the data that the holder of a queued node writes after a request, because the request
/// replaced its identity. The answer is not itself a request.
pub(crate) fn answer(identity: &str) -> Vec<u8> {
    [REVOKED, identity].concat().into_bytes()
}

/// What the data of a node say.
pub(crate) struct Said {
    /// The holder was asked to release it.
    pub(crate) asked: bool,
    /// The identity, if there is one. It may be any other text.
    pub(crate) identity: Option<String>,
}

/// Reads the data of a node. Only a later `version` of the data can be an [`answer`].
pub(crate) fn said(data: &[u8], version: i32) -> Said {
    if is_request(data) {
        return Said { asked: true, identity: None };
    }
    let answer = Some(data).filter(|_| version > 0);
    let answer = answer.and_then(|data| data.strip_prefix(REVOKED.as_bytes()));
    let identity = str::from_utf8(answer.unwrap_or(data)).ok().map(str::to_owned);
    Said { asked: answer.is_some(), identity }
}

/// Returns whether these data are only a request.
pub(crate) fn is_request(data: &[u8]) -> bool {
    data == REVOKE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(data: &[u8], version: i32) -> (bool, Option<String>) {
        let said = said(data, version);
        (said.asked, said.identity)
    }

    #[test]
    fn single_node_shows_its_owner_even_after_a_revocation() {
        let id = "00000000-0000-4000-8000-000000000000";
        let data = encode_single(id, "host/1/main thread");
        let asked = revoke_single(&data, 7);
        println!("{:?}", String::from_utf8_lossy(&asked));
        for data in [&data, &asked, &revoke_single(&asked, 7)] {
            assert_eq!(decode_single(data, 7), Some((id, "host/1/main thread")));
        }
        assert_eq!((asks(&data, Some(7)), asks(&asked, Some(7))), (false, true));
        assert_eq!(decode_single(&asked, 8), None, "it says nothing of another hold");
        assert!(!asks(&asked, Some(8)), "it is for another hold");
        assert!(asks(&revoke_single(&asked, 8), Some(8)), "the last request counts");
        assert!(!asks(&asked, None), "to others it is data as any");
        assert!(asks(REVOKE, Some(7)) && asks(REVOKE, None));
    }

    #[test]
    fn answer_to_a_revocation_asks_nothing_and_keeps_the_identity() {
        for identity in ["host/1/main", "", "__REVOKE__ a", "é"] {
            let answer = answer(identity);
            assert!(!asks(&answer, None), "{identity:?}");
            assert_eq!(both(&answer, 2), (true, Some(identity.to_owned())));
            assert_eq!(both(identity.as_bytes(), 0), (false, Some(identity.to_owned())));
        }
        assert_eq!(both(b"__REVOKE__ \xff", 2), (true, None));
    }

    #[test]
    fn foreign_text_is_an_identity() {
        for version in [0, 1] {
            assert_eq!(both(b"\xff\xfe", version), (false, None));
            assert_eq!(both(REVOKE, version), (true, None));
        }
        for text in ["", "192.168.0.1", "a\nb"] {
            assert_eq!(both(text.as_bytes(), 1), (false, Some(text.to_owned())));
            assert_eq!(decode_single(text.as_bytes(), 7), None);
            assert_eq!(revoke_single(text.as_bytes(), 7), REVOKE);
        }
    }
}
