//! Decodes the requests of clients. Pure.

use std::sync::Arc;

use super::access;
use super::tree::TreeOp;
use crate::acl::Acl;
use crate::core::message::{self, CREATE, GET_CHILDREN, OpCode};
use crate::core::wire::{Malformed, Reader};
use crate::types::CreateMode;

#[derive(Debug)]
pub(super) enum Request<'a> {
    Ping,
    Auth {
        scheme: &'a str,
        secret: &'a [u8],
    },
    SetWatches {
        zxid: i64,
        data: Vec<&'a str>,
        exist: Vec<&'a str>,
        child: Vec<&'a str>,
    },
    Exists {
        path: &'a str,
        watch: bool,
    },
    GetData {
        path: &'a str,
        watch: bool,
    },
    GetChildren {
        path: &'a str,
        watch: bool,
        with_stat: bool,
    },
    /// The directories of a `multiRead`, which this client asks for nothing but lists.
    Lists(Vec<&'a str>),
    GetAcl {
        path: &'a str,
    },
    Sync {
        path: &'a str,
    },
    WhoAmI,
    Write {
        op: TreeOp<'a>,
        with_stat: bool,
    },
    Multi(Vec<TreeOp<'a>>),
    CloseSession,
    Unknown,
}

/// Returns a request and its number.
pub(super) fn request(frame: &[u8]) -> Result<(i32, Request<'_>), Malformed> {
    const PING: i32 = OpCode::Ping as i32;
    const AUTH: i32 = OpCode::Auth as i32;
    const SET_WATCHES: i32 = OpCode::SetWatches as i32;
    const EXISTS: i32 = OpCode::Exists as i32;
    const GET_DATA: i32 = OpCode::GetData as i32;
    const GET_CHILDREN_2: i32 = OpCode::GetChildren2 as i32;
    const GET_ACL: i32 = OpCode::GetAcl as i32;
    const SYNC: i32 = OpCode::Sync as i32;
    const WHO_AM_I: i32 = OpCode::WhoAmI as i32;
    const MULTI_READ: i32 = OpCode::MultiRead as i32;
    const MULTI: i32 = OpCode::Multi as i32;
    const CLOSE: i32 = OpCode::CloseSession as i32;
    let mut reader = Reader(frame);
    let (xid, code) = (reader.int()?, reader.int()?);
    let request = match code {
        PING => Request::Ping,
        CLOSE => Request::CloseSession,
        WHO_AM_I => Request::WhoAmI,
        AUTH => {
            let _kind = reader.int()?;
            Request::Auth { scheme: reader.string()?, secret: reader.buffer()? }
        }
        SET_WATCHES => {
            let zxid = reader.long()?;
            let mut paths = || reader.list(4, Reader::string);
            Request::SetWatches { zxid, data: paths()?, exist: paths()?, child: paths()? }
        }
        EXISTS => Request::Exists { path: reader.string()?, watch: reader.bool()? },
        GET_DATA => Request::GetData { path: reader.string()?, watch: reader.bool()? },
        GET_CHILDREN | GET_CHILDREN_2 => {
            let (path, watch) = (reader.string()?, reader.bool()?);
            Request::GetChildren { path, watch, with_stat: code == GET_CHILDREN_2 }
        }
        GET_ACL => Request::GetAcl { path: reader.string()? },
        SYNC => Request::Sync { path: reader.string()? },
        MULTI => {
            let mut ops = Vec::new();
            while let Some(code) = multi_header(&mut reader)? {
                let unknown = || Malformed(format!("an operation {code} in a multi"));
                ops.push(op(code, &mut reader)?.ok_or_else(unknown)?);
            }
            Request::Multi(ops)
        }
        MULTI_READ => {
            let mut paths = Vec::new();
            while let Some(code) = multi_header(&mut reader)? {
                if code != GET_CHILDREN {
                    return Err(Malformed(format!("an operation {code} in a multiRead")));
                }
                let (path, _watch) = (reader.string()?, reader.bool()?);
                paths.push(path);
            }
            Request::Lists(paths)
        }
        other => match op(other, &mut reader)? {
            Some(op) => Request::Write { op, with_stat: code != CREATE },
            // Its body is not known either.
            None => return Ok((xid, Request::Unknown)),
        },
    };
    reader.end().map(|()| (xid, request))
}

/// Returns the number of the next operation of a `multi` or a `multiRead`, or `None` at the end.
fn multi_header(reader: &mut Reader<'_>) -> Result<Option<i32>, Malformed> {
    let (code, is_end, _error) = (reader.int()?, reader.bool()?, reader.int()?);
    Ok((!is_end).then_some(code))
}

/// Returns an ACL. The open one is not copied.
fn acls(reader: &mut Reader<'_>) -> Result<Arc<[Acl]>, Malformed> {
    const OPEN: &[u8] = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone";
    if let Some(rest) = reader.0.strip_prefix(OPEN) {
        reader.0 = rest;
        return Ok(access::open());
    }
    message::acls(reader).map(Arc::from)
}

fn op<'a>(code: i32, reader: &mut Reader<'a>) -> Result<Option<TreeOp<'a>>, Malformed> {
    const DELETE: i32 = OpCode::Delete as i32;
    const SET_DATA: i32 = OpCode::SetData as i32;
    const SET_ACL: i32 = OpCode::SetAcl as i32;
    const CHECK: i32 = OpCode::Check as i32;
    const CREATE_2: i32 = OpCode::Create2 as i32;
    const CONTAINER: i32 = OpCode::CreateContainer as i32;
    const TTL: i32 = OpCode::CreateTtl as i32;
    Ok(Some(match code {
        CREATE | CREATE_2 | CONTAINER | TTL => {
            let (path, data) = (reader.string()?, reader.buffer()?);
            let (acl, flag) = (acls(reader)?, reader.int()?);
            let ttl = if code == TTL { reader.long()? } else { 0 };
            let mode = CreateMode::of_flag(flag, ttl)
                .ok_or_else(|| Malformed(format!("a node of the mode {flag}")))?;
            TreeOp::Create { path, data, acl, mode }
        }
        DELETE => TreeOp::Delete { path: reader.string()?, version: reader.int()? },
        SET_DATA => {
            let (path, data) = (reader.string()?, reader.buffer()?);
            TreeOp::SetData { path, data, version: reader.int()? }
        }
        SET_ACL => {
            let (path, acl) = (reader.string()?, acls(reader)?);
            TreeOp::SetAcl { path, acl, version: reader.int()? }
        }
        CHECK => TreeOp::Check { path: reader.string()?, version: reader.int()? },
        _ => return Ok(None),
    }))
}
