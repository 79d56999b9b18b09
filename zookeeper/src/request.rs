//! What can be asked of the servers: each request with what its answer means. It sends nothing.

use std::fmt;

use crate::Watcher;
use crate::acl::Acl;
use crate::core::message::{self, MultiResult, OpCode};
use crate::core::path;
use crate::core::watches::WatchKind;
use crate::core::wire::{Malformed, Reader};
use crate::error::{Error, ErrorKind, Result};
use crate::multi::{Op, OpResult};
use crate::types::{CreateMode, Stat};

/// Requests longer than this are refused by servers as they come, by cutting the connection
/// (`jute.maxbuffer`), and so are not sent.
const LONGEST: usize = 0xf_ffff;
/// What ZooKeeper allows as a time to live.
const TTL_MAX: u128 = 1 << 40;

/// A request for [`submit`](crate::ZooKeeper::submit), and what its answer is.
///
/// The constructors are the operations of [`ZooKeeper`](crate::ZooKeeper) and do the same.
pub struct Request<'a, T> {
    pub(crate) code: OpCode,
    /// In words, for errors; never with data in it.
    verb: &'static str,
    path: &'a str,
    pub(crate) watcher: Option<&'a Watcher>,
    body: Body<'a>,
    pub(crate) decode: Decode<T>,
}

enum Body<'a> {
    Path,
    Create(&'a [u8], &'a [Acl], CreateMode),
    Version(Option<i32>),
    Watched,
    Data(&'a [u8], Option<i32>),
    Acl(&'a [Acl], Option<i32>),
    Multi(&'a [Op<'a>]),
}

/// How an answer is read.
pub(crate) struct Decode<T> {
    /// The body; paths in it begin with so many bytes of the client's root.
    pub(crate) read: fn(&mut Reader<'_>, usize) -> Result<T, Unread>,
    /// What it means that there is no such node, if that is not an error.
    pub(crate) no_node: fn() -> Option<T>,
}

impl<T> Clone for Decode<T> {
    fn clone(&self) -> Decode<T> {
        *self
    }
}

impl<T> Copy for Decode<T> {}

impl Decode<()> {
    /// Of an answer without a body.
    pub(crate) fn nothing() -> Decode<()> {
        let no_node = || None;
        Decode {
            read: nothing,
            no_node,
        }
    }
}

/// Why an answer does not mean success.
pub(crate) enum Unread {
    Malformed(Malformed),
    /// The operation with this index was refused.
    Refused(ErrorKind, usize),
}

impl From<Malformed> for Unread {
    fn from(malformed: Malformed) -> Unread {
        Unread::Malformed(malformed)
    }
}

fn nothing(_: &mut Reader<'_>, _: usize) -> Result<(), Unread> {
    Ok(())
}

/// A path as the client's user knows it.
fn below(path: &str, root: usize) -> String {
    path.get(root..).unwrap_or(path).to_owned()
}

fn stat(reader: &mut Reader<'_>, _: usize) -> Result<Stat, Unread> {
    Ok(message::stat(reader)?)
}

fn results(reader: &mut Reader<'_>, root: usize) -> Result<Vec<OpResult>, Unread> {
    let mut results = Vec::new();
    let mut refused = None;
    while let Some(result) = message::multi_result(reader)? {
        let index = results.len();
        results.push(match result {
            MultiResult::Created(path) => OpResult::Created(below(path, root)),
            MultiResult::Deleted => OpResult::Deleted,
            MultiResult::Set(stat) => OpResult::Set(stat),
            MultiResult::Checked => OpResult::Checked,
            // Those before the one that was refused are undone and have the code 0.
            MultiResult::Failed(code) => {
                let found = (code != 0 && refused.is_none()).then_some((code, index));
                refused = refused.or(found);
                OpResult::Checked
            }
        });
    }
    match refused {
        Some((code, index)) => Err(Unread::Refused(ErrorKind::of_code(code), index)),
        None => Ok(results),
    }
}

impl<'a, T> Request<'a, T> {
    fn new(
        (code, verb): (OpCode, &'static str),
        path: &'a str,
        body: Body<'a>,
        read: fn(&mut Reader<'_>, usize) -> Result<T, Unread>,
    ) -> Request<'a, T> {
        let no_node = || None;
        Request {
            code,
            verb,
            path,
            watcher: None,
            body,
            decode: Decode { read, no_node },
        }
    }

    /// What is asked, in words.
    pub(crate) fn describe(&self) -> String {
        match self.body {
            Body::Multi(ops) => format!("{} {} operations", self.verb, ops.len()),
            _ => format!("{} `{}`", self.verb, self.path),
        }
    }

    /// The frame to send, with `root` before all paths.
    pub(crate) fn encode(&self, root: &str) -> Result<Vec<u8>> {
        let full;
        let path = match root {
            "" => self.path,
            _ => {
                full = join(root, self.path);
                &full
            }
        };
        match &self.body {
            Body::Multi(ops) => ops.iter().try_for_each(Op::check)?,
            Body::Create(_, _, mode) => check_create(self.path, *mode)?,
            _ => check_path(self.path)?,
        }
        let frame = message::request(self.code, |out| match &self.body {
            Body::Path => message::path(out, path),
            Body::Create(data, acl, mode) => message::create(out, path, data, acl, *mode),
            Body::Version(version) => message::versioned(out, path, *version),
            Body::Watched => message::watched(out, path, self.watcher.is_some()),
            Body::Data(data, version) => message::set_data(out, path, data, *version),
            Body::Acl(acl, version) => message::set_acl(out, path, acl, *version),
            Body::Multi(ops) => {
                ops.iter().for_each(|op| op.encode(out, root));
                message::multi_header(out, None);
            }
        });
        match frame.len() - 4 {
            0..=LONGEST => Ok(frame),
            length => Err(bad(format!(
                "it has {length} bytes, a server takes {LONGEST}"
            ))),
        }
    }

    /// What is to be registered when the watch is set.
    pub(crate) fn watch(&self, root: &str) -> Option<(WatchKind, String)> {
        let kind = match self.code {
            OpCode::GetChildren2 => WatchKind::Child,
            _ => WatchKind::Data,
        };
        self.watcher.map(|_| (kind, join(root, self.path)))
    }

    /// The same request; if it succeeds, `watcher` is told once of what happens to the node.
    fn watched(mut self, watcher: Option<&'a Watcher>) -> Request<'a, T> {
        self.watcher = watcher;
        self
    }
}

/// A path with the client's root before it.
pub(crate) fn join(root: &str, path: &str) -> String {
    match path {
        "/" if !root.is_empty() => root.to_owned(),
        _ => format!("{root}{path}"),
    }
}

pub(crate) fn bad(reason: impl Into<std::sync::Arc<str>>) -> Error {
    Error::because(ErrorKind::BadArguments, reason)
}

pub(crate) fn check_path(path: &str) -> Result<()> {
    path::check(path).map_err(|problem| bad(format!("the path is invalid: {problem}")))
}

pub(crate) fn check_create(path: &str, mode: CreateMode) -> Result<()> {
    match mode.ttl().map(|ttl| ttl.as_millis()) {
        Some(ttl) if !(1..=TTL_MAX).contains(&ttl) => {
            return Err(bad(format!(
                "a time to live of {ttl} ms, 1 to {TTL_MAX} are allowed"
            )));
        }
        _ => {}
    }
    // The server appends a number, which may well be the whole name.
    match mode.is_sequential() && path.ends_with('/') {
        true => check_path(&format!("{path}0")),
        false => check_path(path),
    }
}

impl<'a> Request<'a, (String, Stat)> {
    /// See [`ZooKeeper::create`](crate::ZooKeeper::create).
    #[must_use]
    pub fn create(path: &'a str, data: &'a [u8], acl: &'a [Acl], mode: CreateMode) -> Self {
        let read = |reader: &mut Reader<'_>, root: usize| {
            let path = below(reader.string()?, root);
            Ok((path, message::stat(reader)?))
        };
        let code = OpCode::of_create(mode);
        Request::new((code, "create"), path, Body::Create(data, acl, mode), read)
    }
}

impl<'a> Request<'a, ()> {
    /// See [`ZooKeeper::delete`](crate::ZooKeeper::delete).
    #[must_use]
    pub fn delete(path: &'a str, version: Option<i32>) -> Self {
        Request::new(
            (OpCode::Delete, "delete"),
            path,
            Body::Version(version),
            nothing,
        )
    }

    /// See [`ZooKeeper::sync`](crate::ZooKeeper::sync).
    #[must_use]
    pub fn sync(path: &'a str) -> Self {
        let read = |reader: &mut Reader<'_>, _: usize| Ok(reader.string().map(|_| ())?);
        Request::new((OpCode::Sync, "sync"), path, Body::Path, read)
    }

    /// That there is no such node is what was wanted.
    pub(crate) fn delete_if_there(path: &'a str) -> Self {
        let mut request = Request::delete(path, None);
        request.decode.no_node = || Some(());
        request
    }
}

impl<'a> Request<'a, Option<Stat>> {
    /// See [`ZooKeeper::exists`](crate::ZooKeeper::exists).
    #[must_use]
    pub fn exists(path: &'a str, watcher: Option<&'a Watcher>) -> Self {
        let read = |reader: &mut Reader<'_>, _: usize| Ok(Some(message::stat(reader)?));
        let mut request = Request::new((OpCode::Exists, "look for"), path, Body::Watched, read);
        request.decode.no_node = || Some(None);
        request.watched(watcher)
    }
}

impl<'a> Request<'a, (Vec<u8>, Stat)> {
    /// See [`ZooKeeper::get_data`](crate::ZooKeeper::get_data).
    #[must_use]
    pub fn get_data(path: &'a str, watcher: Option<&'a Watcher>) -> Self {
        let read = |reader: &mut Reader<'_>, _: usize| {
            let data = reader.buffer()?.to_vec();
            Ok((data, message::stat(reader)?))
        };
        Request::new((OpCode::GetData, "read"), path, Body::Watched, read).watched(watcher)
    }
}

impl<'a> Request<'a, Stat> {
    /// See [`ZooKeeper::set_data`](crate::ZooKeeper::set_data).
    #[must_use]
    pub fn set_data(path: &'a str, data: &'a [u8], version: Option<i32>) -> Self {
        Request::new(
            (OpCode::SetData, "write"),
            path,
            Body::Data(data, version),
            stat,
        )
    }

    /// See [`ZooKeeper::set_acl`](crate::ZooKeeper::set_acl).
    #[must_use]
    pub fn set_acl(path: &'a str, acl: &'a [Acl], version: Option<i32>) -> Self {
        Request::new(
            (OpCode::SetAcl, "set the ACL of"),
            path,
            Body::Acl(acl, version),
            stat,
        )
    }
}

impl<'a> Request<'a, (Vec<String>, Stat)> {
    /// See [`ZooKeeper::get_children`](crate::ZooKeeper::get_children).
    #[must_use]
    pub fn get_children(path: &'a str, watcher: Option<&'a Watcher>) -> Self {
        let read = |reader: &mut Reader<'_>, _: usize| {
            let names = message::names(reader)?;
            Ok((names, message::stat(reader)?))
        };
        let what = (OpCode::GetChildren2, "list");
        Request::new(what, path, Body::Watched, read).watched(watcher)
    }
}

impl<'a> Request<'a, (Vec<Acl>, Stat)> {
    /// See [`ZooKeeper::get_acl`](crate::ZooKeeper::get_acl).
    #[must_use]
    pub fn get_acl(path: &'a str) -> Self {
        let read = |reader: &mut Reader<'_>, _: usize| {
            let acl = message::acls(reader)?;
            Ok((acl, message::stat(reader)?))
        };
        Request::new((OpCode::GetAcl, "read the ACL of"), path, Body::Path, read)
    }
}

impl<'a> Request<'a, Vec<OpResult>> {
    /// See [`ZooKeeper::multi`](crate::ZooKeeper::multi).
    #[must_use]
    pub fn multi(ops: &'a [Op<'a>]) -> Self {
        Request::new((OpCode::Multi, "do"), "", Body::Multi(ops), results)
    }
}

impl<T> fmt::Debug for Request<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({})", self.describe())
    }
}

impl Op<'_> {
    fn check(&self) -> Result<()> {
        match *self {
            Op::Create { path, mode, .. } => check_create(path, mode),
            Op::Delete { path, .. } | Op::SetData { path, .. } | Op::Check { path, .. } => {
                check_path(path)
            }
        }
    }

    fn encode(&self, out: &mut Vec<u8>, root: &str) {
        let mut begin = |code: i32| message::multi_header(out, Some(code));
        match *self {
            Op::Create {
                path,
                data,
                acl,
                mode,
            } => {
                begin(message::multi_create_code(mode));
                message::create(out, &join(root, path), data, acl, mode);
            }
            Op::Delete { path, version } => {
                begin(OpCode::Delete as i32);
                message::versioned(out, &join(root, path), version);
            }
            Op::SetData {
                path,
                data,
                version,
            } => {
                begin(OpCode::SetData as i32);
                message::set_data(out, &join(root, path), data, version);
            }
            Op::Check { path, version } => {
                begin(OpCode::Check as i32);
                message::versioned(out, &join(root, path), version);
            }
        }
    }
}
