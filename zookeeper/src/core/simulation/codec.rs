//! The server's side of the protocol, in bytes.
//!
//! Every path in a request has the number of its call behind it, `/w1#17`, so that no two requests are
//! alike. Servers leave it out, and put it into the `ctime` of what they answer.

use super::super::message::{self, OpCode};
use super::super::served::{self, frame, header};
use super::super::wire::{Malformed, Put, Reader};
use super::tree::{Node, Tree};
use crate::types::Stat;

/// Requests that nobody made but the core itself.
pub(super) const NOBODY: u32 = u32::MAX;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    Ping,
    Auth,
    SetWatches { zxid: i64, lists: [Vec<String>; 3] },
    Exists { watch: bool },
    GetData { watch: bool },
    GetChildren { watch: bool },
    Create { ephemeral: bool },
    Delete,
    SetData { version: i32 },
    Close,
}

#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) xid: i32,
    pub(super) op: Op,
    pub(super) path: String,
    pub(super) tag: u32,
}

pub(super) fn asked(frame: &[u8]) -> Result<Asked, Malformed> {
    let mut reader = Reader(frame);
    let (xid, code) = (reader.int()?, reader.int()?);
    let mut whole = "";
    let op = match code {
        11 => Op::Ping,
        -11 => Op::Close,
        100 => {
            reader.int()?;
            reader.buffer()?;
            reader.buffer()?;
            Op::Auth
        }
        101 => {
            let zxid = reader.long()?;
            let mut list = || reader.list(4, |reader| reader.string().map(str::to_owned));
            let mut lists = [list()?, list()?, list()?];
            lists.iter_mut().for_each(|list| list.sort());
            Op::SetWatches { zxid, lists }
        }
        3 | 4 | 12 => {
            whole = reader.string()?;
            let watch = reader.bool()?;
            match code {
                3 => Op::Exists { watch },
                4 => Op::GetData { watch },
                _ => Op::GetChildren { watch },
            }
        }
        15 => {
            whole = reader.string()?;
            reader.buffer()?;
            reader.list(12, |reader| {
                Ok((reader.int()?, reader.buffer()?, reader.buffer()?))
                    .map(|_: (i32, &[u8], &[u8])| ())
            })?;
            Op::Create { ephemeral: reader.int()? == 1 }
        }
        2 => {
            whole = reader.string()?;
            reader.int()?;
            Op::Delete
        }
        5 => {
            whole = reader.string()?;
            reader.buffer()?;
            Op::SetData { version: reader.int()? }
        }
        other => return Err(Malformed(format!("the operation {other}"))),
    };
    reader.end()?;
    let (path, tag) = match whole.split_once('#') {
        Some((path, tag)) => (path, tag.parse().unwrap_or(NOBODY)),
        None => (whole, NOBODY),
    };
    Ok(Asked { xid, op, path: path.to_owned(), tag })
}

// ---- what servers say

/// The answer to anything, with what `tree` has to say.
pub(super) fn answer(asked: &Asked, code: i32, tree: &Tree) -> Vec<u8> {
    frame(|out| {
        header(out, asked.xid, tree.zxid, code);
        if code != 0 {
            return;
        }
        match asked.op {
            Op::Ping | Op::Auth | Op::SetWatches { .. } | Op::Delete | Op::Close => {}
            Op::Exists { .. } | Op::SetData { .. } => stat(out, tree.node(&asked.path), asked.tag),
            // The data of a node is its path.
            Op::GetData { .. } | Op::Create { .. } => {
                out.put_buffer(asked.path.as_bytes());
                stat(out, tree.node(&asked.path), asked.tag);
            }
            Op::GetChildren { .. } => {
                let names = tree.children(&asked.path);
                out.put_int(names.len() as i32);
                names.iter().for_each(|name| out.put_buffer(name.as_bytes()));
                stat(out, tree.node(&asked.path), asked.tag);
            }
        }
    })
}

fn stat(out: &mut Vec<u8>, node: Option<&Node>, tag: u32) {
    // A node that the same transaction's successor has deleted already.
    let gone = Node::default();
    let node = node.unwrap_or(&gone);
    served::stat(
        out,
        &Stat {
            czxid: node.czxid,
            mzxid: node.mzxid,
            ctime: tag.into(),
            version: node.version,
            ephemeral_owner: node.owner,
            num_children: node.children,
            pzxid: node.pzxid,
            ..Stat::default()
        },
    );
}

/// Reads an answer as the client's callers do: the call that its content is for, if it says so.
pub(super) fn content(code: OpCode, body: &[u8]) -> Result<Option<i64>, Malformed> {
    let mut reader = Reader(body);
    let stat: Option<Stat> = match code {
        OpCode::Exists | OpCode::SetData => Some(message::stat(&mut reader)?),
        OpCode::GetData | OpCode::Create2 => {
            reader.buffer()?;
            Some(message::stat(&mut reader)?)
        }
        OpCode::GetChildren2 => {
            message::names(&mut reader)?;
            Some(message::stat(&mut reader)?)
        }
        _ => None,
    };
    reader.end()?;
    Ok(stat.map(|stat| stat.ctime))
}
