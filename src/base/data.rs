//! The data of a node: the identity of the client that created it. They are for people, and carry
//! revocation requests. No lock depends on them, except the single-node lock: the name of its node
//! does not say who created it.

use uuid::Uuid;

/// The data that ask the holder of a node to release it. The same as Curator's.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// Precedes the holder's identity in its answer to a request, so that it stays readable.
const REVOKED: &str = "__REVOKE__ ";

/// Returns the data of a new single node.
pub(crate) fn encode_single(id: &str, identity: &str) -> Vec<u8> {
    format!("{id} {identity}").into_bytes()
}

/// Returns the id and the identity of this library's single node.
pub(crate) fn decode_single(data: &[u8]) -> Option<(&str, &str)> {
    let said = str::from_utf8(data).ok()?.split_once(' ');
    said.filter(|(id, _)| Uuid::try_parse(id).is_ok())
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
