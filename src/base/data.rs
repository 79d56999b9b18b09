//! The data of a node: the identity of the client that created it. The data inform operators, and
//! carry revocation requests. Only the single-node lock depends on them, because the name of its
//! node does not identify its creator.

use uuid::Uuid;

/// The data that a client writes to a node to request that its holder release the lock. Curator
/// uses the same data.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// Precedes the identity in a holder's answer to such a request, so that the identity stays
/// readable.
const REVOKED: &str = "__REVOKE__ ";

/// Returns the data of a new single node.
pub(crate) fn encode_single(id: &str, identity: &str) -> Vec<u8> {
    format!("{id} {identity}").into_bytes()
}

/// Returns the id and the identity in the data of a single node that this library created.
pub(crate) fn decode_single(data: &[u8]) -> Option<(&str, &str)> {
    let said = str::from_utf8(data).ok()?.split_once(' ');
    said.filter(|(id, _)| Uuid::try_parse(id).is_ok())
}

/// Returns the data with which the holder of a queued node answers a request. The request has
/// overwritten the holder's identity, and the answer restores it. The answer is not itself a
/// request.
pub(crate) fn answer(identity: &str) -> Vec<u8> {
    [REVOKED, identity].concat().into_bytes()
}

/// The meaning of a node's data.
pub(crate) struct Said {
    /// A client has requested that the holder release the lock.
    pub(crate) asked: bool,
    /// The identity, or any other text that the data contain. `None` if they are not text.
    pub(crate) identity: Option<String>,
}

/// Parses the data of a node. The data can be an [`answer`] only if their `version` is not the
/// first.
pub(crate) fn said(data: &[u8], version: i32) -> Said {
    if is_request(data) {
        return Said { asked: true, identity: None };
    }
    let answer = Some(data).filter(|_| version > 0);
    let answer = answer.and_then(|data| data.strip_prefix(REVOKED.as_bytes()));
    let identity = str::from_utf8(answer.unwrap_or(data)).ok().map(str::to_owned);
    Said { asked: answer.is_some(), identity }
}

/// Returns whether these data are a request, and not an answer to one.
pub(crate) fn is_request(data: &[u8]) -> bool {
    data == REVOKE
}
