//! The server's side of the protocol, for the servers that tests use: it reads the first request of
//! a connection and writes answers and events. Pure.

use super::message;
use super::wire::{Malformed, Put, Reader};
use crate::types::Stat;

/// The first request on a connection.
#[derive(Debug)]
pub(crate) struct ConnectRequest {
    pub(crate) zxid: i64,
    /// In milliseconds.
    pub(crate) timeout: i32,
    /// The session to resume; 0 asks for a new one.
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
}

pub(crate) fn connect_request(frame: &[u8]) -> Result<ConnectRequest, Malformed> {
    let mut reader = Reader(frame);
    let _version = reader.int()?;
    let greeting = ConnectRequest {
        zxid: reader.long()?,
        timeout: reader.int()?,
        session: reader.long()?,
        password: reader.buffer()?.to_vec(),
    };
    let _read_only = reader.bool()?;
    reader.end().map(|()| greeting)
}

/// Returns a frame: this body behind its length.
pub(crate) fn frame(body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    // Most answers are shorter.
    let mut out = Vec::with_capacity(160);
    out.put_int(0);
    body(&mut out);
    let length = out.len() as u32 - 4;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Returns the answer to a [`ConnectRequest`]. A timeout of 0 says that the session is over.
pub(crate) fn connected(timeout: i32, session: i64, password: &[u8]) -> Vec<u8> {
    frame(|out| {
        out.put_int(0);
        out.put_int(timeout);
        out.put_long(session);
        out.put_buffer(password);
        out.put_bool(false);
    })
}

pub(crate) fn header(out: &mut Vec<u8>, xid: i32, zxid: i64, code: i32) {
    out.put_int(xid);
    out.put_long(zxid);
    out.put_int(code);
}

pub(crate) fn event(zxid: i64, kind: i32, path: &str) -> Vec<u8> {
    frame(|out| {
        header(out, message::EVENT, zxid, 0);
        out.put_int(kind);
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
