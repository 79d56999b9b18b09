//! Encodes what servers send: answers and events. No I/O.

use crate::access::Acl;
use crate::terms::{EventType, Stat};
use crate::wire::Put;

/// The xid of an event. An answer has its request's xid instead.
pub(crate) const EVENT: i32 = -1;

/// Returns a frame: the length of this body, and the body.
pub(crate) fn frame(body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    // This capacity suffices for most answers.
    let mut out = Vec::with_capacity(160);
    out.put_int(0);
    body(&mut out);
    let length = out.len() as u32 - 4;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Returns the answer to a handshake. A timeout of 0 means that the session has ended. ClickHouse Keeper sends no
/// password, and does not report whether it accepts writes.
pub(crate) fn connected(timeout: i32, session: i64, password: Option<&[u8]>) -> Vec<u8> {
    frame(|out| {
        out.put_int(0);
        out.put_int(timeout);
        out.put_long(session);
        out.put_buffer(password.unwrap_or(&[0; 16]));
        if password.is_some() {
            out.put_bool(false);
        }
    })
}

pub(crate) fn header(out: &mut Vec<u8>, xid: i32, zxid: i64, code: i32) {
    out.put_int(xid);
    out.put_long(zxid);
    out.put_int(code);
}

pub(crate) fn event(zxid: i64, kind: EventType, path: &str) -> Vec<u8> {
    frame(|out| {
        header(out, EVENT, zxid, 0);
        out.put_int(kind as i32);
        out.put_int(3); // connected
        out.put_buffer(path.as_bytes());
    })
}

pub(crate) fn stat(out: &mut Vec<u8>, stat: &Stat) {
    out.put_long(stat.czxid);
    out.put_long(stat.mzxid);
    out.put_long(stat.ctime);
    out.put_long(stat.mtime);
    out.put_int(stat.version);
    out.put_int(stat.cversion);
    out.put_int(stat.aversion);
    out.put_long(stat.ephemeral_owner);
    out.put_int(stat.data_length);
    out.put_int(stat.num_children);
    out.put_long(stat.pzxid);
}

pub(crate) fn acl(out: &mut Vec<u8>, acl: &[Acl]) {
    out.put_int(acl.len() as i32);
    for Acl { permissions, scheme, id } in acl {
        out.put_int(*permissions);
        out.put_buffer(scheme.as_bytes());
        out.put_buffer(id.as_bytes());
    }
}

/// Encodes the header of a result of a `multi`, which consists of its code and its error, or, for `None`, the end. In a
/// request, the header of an operation has the same form, with the error -1.
pub(crate) fn multi_header(out: &mut Vec<u8>, result: Option<(i32, i32)>) {
    let (code, error) = result.unwrap_or((-1, -1));
    out.put_int(code);
    out.put_bool(result.is_none());
    out.put_int(error);
}
