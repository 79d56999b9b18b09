//! Requests that are encoded by hand.

use crate::answers::frame;
use crate::terms::CreateMode;
use crate::wire::Put;

/// Returns a handshake.
pub(super) fn connect(zxid: i64, timeout: i32, session: i64, password: &[u8]) -> Vec<u8> {
    frame(|out| {
        out.put_int(0);
        out.put_long(zxid);
        out.put_int(timeout);
        out.put_long(session);
        out.put_buffer(password);
        out.put_bool(false);
    })
}

pub(super) fn request(xid: i32, code: i32, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    frame(|out| {
        out.put_int(xid);
        out.put_int(code);
        body(out);
    })
}

pub(super) fn path(out: &mut Vec<u8>, path: &str) {
    out.put_buffer(path.as_bytes());
}

/// Encodes the create of a node that is open to all clients.
pub(super) fn create(out: &mut Vec<u8>, node: &str, data: &[u8], mode: CreateMode) {
    path(out, node);
    out.put_buffer(data);
    crate::answers::acl(out, &crate::access::open());
    out.put_int(mode as i32);
}

pub(super) fn watched(out: &mut Vec<u8>, node: &str, watch: bool) {
    path(out, node);
    out.put_bool(watch);
}
