//! Decodes the requests of clients. No I/O.

use std::sync::Arc;

use crate::access::{self, Acl};
use crate::terms::CreateMode;
use crate::tree::TreeOp;
use crate::wire::{Malformed, Reader};

/// The codes of ZooKeeper's operations (`ZooDefs.OpCode`).
pub(crate) mod op {
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const GET_ACL: i32 = 6;
    pub(crate) const SET_ACL: i32 = 7;
    pub(crate) const GET_CHILDREN: i32 = 8;
    pub(crate) const SYNC: i32 = 9;
    pub(crate) const PING: i32 = 11;
    pub(crate) const GET_CHILDREN_2: i32 = 12;
    pub(crate) const CHECK: i32 = 13;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const CREATE_2: i32 = 15;
    pub(crate) const CREATE_CONTAINER: i32 = 19;
    pub(crate) const CREATE_TTL: i32 = 21;
    pub(crate) const AUTH: i32 = 100;
    pub(crate) const SET_WATCHES: i32 = 101;
    pub(crate) const WHO_AM_I: i32 = 107;
    pub(crate) const CLOSE: i32 = -11;
}

/// A handshake, the first request on a connection.
#[derive(Debug)]
pub(crate) struct ConnectRequest {
    pub(crate) zxid: i64,
    /// In milliseconds.
    pub(crate) timeout: i32,
    /// The session to resume, or 0 to request a new one.
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

#[derive(Debug)]
pub(super) enum Request<'a> {
    Ping,
    Auth { scheme: &'a str, secret: &'a [u8] },
    SetWatches { zxid: i64, data: Vec<&'a str>, exist: Vec<&'a str>, child: Vec<&'a str> },
    Exists { path: &'a str, watch: bool },
    GetData { path: &'a str, watch: bool },
    GetChildren { path: &'a str, watch: bool, with_stat: bool },
    GetAcl { path: &'a str },
    Sync { path: &'a str },
    WhoAmI,
    Write(TreeOp<'a>),
    Multi(Vec<TreeOp<'a>>),
    CloseSession,
    Unknown,
}

/// Returns a request and its xid.
pub(super) fn request(frame: &[u8]) -> Result<(i32, Request<'_>), Malformed> {
    let mut reader = Reader(frame);
    let (xid, code) = (reader.int()?, reader.int()?);
    let request = match code {
        op::PING => Request::Ping,
        op::CLOSE => Request::CloseSession,
        op::WHO_AM_I => Request::WhoAmI,
        op::AUTH => {
            let _kind = reader.int()?;
            Request::Auth { scheme: reader.string()?, secret: reader.buffer()? }
        }
        op::SET_WATCHES => {
            let zxid = reader.long()?;
            let mut paths = || reader.list(Reader::string);
            Request::SetWatches { zxid, data: paths()?, exist: paths()?, child: paths()? }
        }
        op::EXISTS => Request::Exists { path: reader.string()?, watch: reader.bool()? },
        op::GET_DATA => Request::GetData { path: reader.string()?, watch: reader.bool()? },
        op::GET_CHILDREN | op::GET_CHILDREN_2 => {
            let (path, watch) = (reader.string()?, reader.bool()?);
            Request::GetChildren { path, watch, with_stat: code == op::GET_CHILDREN_2 }
        }
        op::GET_ACL => Request::GetAcl { path: reader.string()? },
        op::SYNC => Request::Sync { path: reader.string()? },
        op::MULTI => {
            let mut ops = Vec::new();
            while let Some(code) = multi_header(&mut reader)? {
                ops.push(change(code, &mut reader)?.ok_or(Malformed)?);
            }
            Request::Multi(ops)
        }
        other => match change(other, &mut reader)? {
            Some(op) => Request::Write(op),
            // The format of this request's body is unknown.
            None => return Ok((xid, Request::Unknown)),
        },
    };
    reader.end().map(|()| (xid, request))
}

/// Returns the code of the next operation of a `multi`, or `None` at the end.
fn multi_header(reader: &mut Reader<'_>) -> Result<Option<i32>, Malformed> {
    let (code, is_end, _error) = (reader.int()?, reader.bool()?, reader.int()?);
    Ok((!is_end).then_some(code))
}

/// Returns an ACL. The ACL that permits everything is shared and not copied.
fn acls(reader: &mut Reader<'_>) -> Result<Arc<[Acl]>, Malformed> {
    const OPEN: &[u8] = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone";
    if let Some(rest) = reader.0.strip_prefix(OPEN) {
        reader.0 = rest;
        return Ok(access::open());
    }
    let acl = |reader: &mut Reader<'_>| {
        let (permissions, scheme, id) = (reader.int()?, reader.buffer()?, reader.buffer()?);
        let [scheme, id] = [scheme, id].map(|text| String::from_utf8_lossy(text).into_owned());
        Ok(Acl { permissions, scheme, id })
    };
    reader.list(acl).map(Arc::from)
}

fn change<'a>(code: i32, reader: &mut Reader<'a>) -> Result<Option<TreeOp<'a>>, Malformed> {
    Ok(Some(match code {
        op::CREATE | op::CREATE_2 | op::CREATE_CONTAINER | op::CREATE_TTL => {
            let (path, data) = (reader.string()?, reader.buffer()?);
            let (acl, flag) = (acls(reader)?, reader.int()?);
            if code == op::CREATE_TTL {
                reader.long()?;
            }
            let mode = CreateMode::of_flag(flag).ok_or(Malformed)?;
            TreeOp::Create { path, data, acl, mode, with_stat: code != op::CREATE }
        }
        op::DELETE => TreeOp::Delete { path: reader.string()?, version: reader.int()? },
        op::SET_DATA => {
            let (path, data) = (reader.string()?, reader.buffer()?);
            TreeOp::SetData { path, data, version: reader.int()? }
        }
        op::SET_ACL => {
            let (path, acl) = (reader.string()?, acls(reader)?);
            TreeOp::SetAcl { path, acl, version: reader.int()? }
        }
        op::CHECK => TreeOp::Check { path: reader.string()?, version: reader.int()? },
        _ => return Ok(None),
    }))
}
