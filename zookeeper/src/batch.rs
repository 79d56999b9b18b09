//! The requests that can be sent, and the meaning of their answers. This module encodes requests, but
//! does not send them.

use std::fmt;
use std::time::Duration;

use crate::acl::Acl;
use crate::core::clock::FOREVER;
use crate::core::connection::{Effect, Share};
use crate::core::message::{self, MultiResult, OpCode, WatchedPaths};
use crate::core::path::{self, below};
use crate::core::watches::WatchKind;
use crate::core::wire::{Malformed, Reader};
use crate::error::{Error, ErrorKind, Result};
use crate::listener::Watcher;
use crate::names::Names;
use crate::pending::{Decode, Expected, Pending, Read, Unread, UserCall};
use crate::sys;
use crate::types::{CreateMode, Stat};

/// The length of the longest request that is sent, in bytes. If a request is longer, servers close the
/// connection (`jute.maxbuffer`).
const LONGEST: usize = 0xf_ffff;
/// The longest time to live that ZooKeeper allows, in milliseconds.
const TTL_MAX: u128 = (1 << 40) - 1;
/// Requests that are sent together, in the order in which they were created. They are sent in one
/// write, so that their answers may arrive in one read. This is not a transaction; see
/// [`ZooKeeper::multi`](crate::ZooKeeper::multi).
///
/// The methods are the operations of [`ZooKeeper`](crate::ZooKeeper), with the same errors. A method
/// that is given a watcher is the operation whose name ends in `_w` there. See
/// [`submit`](crate::ZooKeeper::submit).
pub struct Batch<'a> {
    /// The client's root: all paths are below it.
    pub(crate) root: &'a str,
    pub(crate) timeout: Duration,
    pub(crate) session: Option<i64>,
    pub(crate) calls: Vec<UserCall>,
}

/// If creating the rest of the batch panicked, fails the requests, which were never sent.
impl Drop for Batch<'_> {
    fn drop(&mut self) {
        for slot in self.calls.drain(..).filter_map(|call| call.slot) {
            slot.settle(Err(Error::bad("the request was never sent")));
        }
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} requests)", self.calls.len())
    }
}

/// One operation of a [`multi`](crate::ZooKeeper::multi).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Op<'a> {
    /// Creates a node at this path, with this data.
    Create(&'a str, &'a [u8], &'a [Acl], CreateMode),
    /// Deletes a node. If a version is given, the node must have it.
    Delete(&'a str, Option<i32>),
    /// Sets the data of a node. If a version is given, the node must have it.
    SetData(&'a str, &'a [u8], Option<i32>),
    /// Changes nothing. Fails if the node does not exist or has another version.
    Check(&'a str, Option<i32>),
}

/// The result of an [`Op`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpResult {
    /// A node was created.
    Created {
        /// Its path, including the number that the server may have appended.
        path: String,
        /// The transaction that created it, which is the transaction of the whole `multi`.
        czxid: i64,
    },
    /// The node was deleted.
    Deleted,
    /// The data was set.
    Set(Stat),
    /// The node exists and has the version.
    Checked,
}

pub(crate) const NOTHING: Read<()> = |_, _| Ok(());
const STAT: Read<Stat> = |reader, _| Ok(message::stat(reader)?);

impl Batch<'_> {
    /// See [`ZooKeeper::create`](crate::ZooKeeper::create).
    pub fn create(
        &mut self,
        path: &str,
        data: &[u8],
        acl: &[Acl],
        mode: CreateMode,
    ) -> Pending<(String, Stat)> {
        self.create_below(self.root, path, data, acl, mode)
    }

    /// Creates a persistent node without data. `path` is the full path on the servers: the client's
    /// root itself, or a path above it.
    #[doc(hidden)]
    pub fn create_outside(&mut self, path: &str, acl: &[Acl]) -> Pending<(String, Stat)> {
        self.create_below("", path, b"", acl, CreateMode::Persistent)
    }

    pub(crate) fn create_below(
        &mut self,
        root: &str,
        path: &str,
        data: &[u8],
        acl: &[Acl],
        mode: CreateMode,
    ) -> Pending<(String, Stat)> {
        let read: Read<_> =
            |reader, asked| Ok((below(reader.string()?, asked.root), message::stat(reader)?));
        let checked = check_create(path, mode);
        self.add(OpCode::of_create(mode), checked, read, |out, _| {
            message::create(out, (root, path), data, acl, mode);
        })
    }

    /// Creates a node like [`create`](Self::create), and returns its path and its czxid. The node
    /// shares a transaction with the other shared creates and deletes of its batch; together they cost
    /// one request and one sync of the servers. While two other writes of this client are in flight,
    /// this write waits for one of them, and shares a transaction with all other writes that wait.
    ///
    /// The servers carry out such a transaction as a whole or not at all. If they refuse one part, the
    /// client sends all parts again, each in its own request. Therefore use this only for writes that
    /// you expect to succeed. Two creates share a transaction only if their directories differ and
    /// neither is below the other. Nodes in the same directory therefore have different czxids.
    ///
    /// Reads that are submitted later show the node. But shared creates and deletes may be carried out
    /// in any order, including before earlier requests of other batches. If a request of another kind
    /// precedes this one in the batch, this is an ordinary create.
    pub fn shared_create(
        &mut self,
        path: &str,
        data: &[u8],
        acl: &[Acl],
        mode: CreateMode,
    ) -> Pending<(String, i64)> {
        let read: Read<_> = |reader, asked| {
            let path = below(reader.string()?, asked.root);
            // Within a transaction, the answer to a create has no `Stat`, but the header contains the
            // transaction's zxid.
            let is_whole = reader.0.is_empty();
            let czxid = if is_whole { asked.zxid } else { message::stat(reader)?.czxid };
            Ok((path, czxid))
        };
        let (before, checked) = (self.calls.len(), check_create(path, mode));
        let pending = self.add(OpCode::of_create(mode), checked, read, |out, root| {
            message::create(out, (root, path), data, acl, mode);
        });
        self.share(before, 1, Some(message::PREFIX));
        pending
    }

    /// Deletes a node of any version, like [`delete`](Self::delete). The request may share a
    /// transaction, like [`shared_create`](Self::shared_create).
    pub fn shared_delete(&mut self, path: &str) -> Pending<()> {
        let before = self.calls.len();
        let pending = self.delete(path, None);
        self.share(before, 1, None);
        pending
    }

    /// Carries out operations like [`multi`](Self::multi). They may share a transaction with other
    /// writes, like [`shared_create`](Self::shared_create). Only the node that the last operation
    /// creates has a czxid that is unique in its directory.
    pub fn shared_multi(&mut self, ops: &[Op<'_>]) -> Pending<Vec<OpResult>> {
        let (before, mut last) = (self.calls.len(), 0);
        let pending = self.add_multi(ops, |begin| last = begin);
        let creates = matches!(ops.last(), Some(Op::Create(..)));
        self.share(before, ops.len(), creates.then_some(last));
        pending
    }

    /// See [`ZooKeeper::delete`](crate::ZooKeeper::delete).
    pub fn delete(&mut self, path: &str, version: Option<i32>) -> Pending<()> {
        self.add(OpCode::Delete, check(path), NOTHING, |out, root| {
            message::versioned(out, (root, path), version);
        })
    }

    /// See [`ZooKeeper::delete_eventually`](crate::ZooKeeper::delete_eventually).
    pub fn delete_eventually(&mut self, path: &str) -> Pending<()> {
        let (encode, before) = (message::versioned, self.calls.len());
        let decode = Decode { read: NOTHING, no_node: || Some(()), ops: 0 };
        let pending = self.add(OpCode::Delete, check(path), decode, |out, root| {
            encode(out, (root, path), None);
        });
        if let Some(call) = self.calls.get_mut(before) {
            (call.deadline, call.repeat) = (None, true);
        }
        pending.without_deadline()
    }

    /// See [`ZooKeeper::exists`](crate::ZooKeeper::exists).
    pub fn exists(&mut self, path: &str, watcher: Option<&Watcher>) -> Pending<Option<Stat>> {
        let read: Read<_> = |reader, _| Ok(Some(message::stat(reader)?));
        let decode = Decode { read, no_node: || Some(None), ops: 0 };
        self.watch(OpCode::Exists, path, WatchKind::Data, watcher, decode)
    }

    /// See [`ZooKeeper::get_data`](crate::ZooKeeper::get_data).
    pub fn get_data(&mut self, path: &str, watcher: Option<&Watcher>) -> Pending<(Vec<u8>, Stat)> {
        let read: Read<_> = |reader, _| Ok((reader.buffer()?.to_vec(), message::stat(reader)?));
        self.watch(OpCode::GetData, path, WatchKind::Data, watcher, read)
    }

    /// See [`ZooKeeper::set_watches`](crate::ZooKeeper::set_watches).
    pub fn set_watches(
        &mut self,
        relative_zxid: i64,
        paths: &[impl AsRef<str>],
        watcher: &Watcher,
    ) -> Pending<()> {
        let mut each = paths.iter().map(AsRef::as_ref);
        let data = each.clone().map(|path| message::full((self.root, path)).collect()).collect();
        let checked =
            each.try_for_each(|path| check(path).map_err(|error| error.of("watch", path)));
        let watched = WatchedPaths { data, ..WatchedPaths::default() };
        let before = self.calls.len();
        let pending = self.add(OpCode::SetWatches, checked, NOTHING, |out, _| {
            message::set_watches(out, relative_zxid, &watched);
        });
        if let Some(call) = self.calls.get_mut(before) {
            call.effect = Effect::WatchEach(watched.data, watcher.downgrade());
        }
        pending
    }

    /// See [`ZooKeeper::set_data`](crate::ZooKeeper::set_data).
    pub fn set_data(&mut self, path: &str, data: &[u8], version: Option<i32>) -> Pending<Stat> {
        self.add(OpCode::SetData, check(path), STAT, |out, root| {
            message::set_data(out, (root, path), data, version);
        })
    }

    /// See [`ZooKeeper::get_children`](crate::ZooKeeper::get_children).
    pub fn get_children(
        &mut self,
        path: &str,
        watcher: Option<&Watcher>,
    ) -> Pending<(Names, Stat)> {
        let read: Read<_> = |reader, _| Ok((message::names(reader)?, message::stat(reader)?));
        self.watch(OpCode::GetChildren2, path, WatchKind::Child, watcher, read)
    }

    /// See [`ZooKeeper::get_acl`](crate::ZooKeeper::get_acl).
    pub fn get_acl(&mut self, path: &str) -> Pending<(Vec<Acl>, Stat)> {
        let read: Read<_> = |reader, _| Ok((message::acls(reader)?, message::stat(reader)?));
        self.add(OpCode::GetAcl, check(path), read, |out, root| message::path(out, (root, path)))
    }

    /// See [`ZooKeeper::who_am_i`](crate::ZooKeeper::who_am_i).
    pub fn who_am_i(&mut self) -> Pending<Vec<(String, String)>> {
        let read: Read<_> = |reader, _| Ok(message::identities(reader)?);
        self.add(OpCode::WhoAmI, Ok(()), read, |_, _| {})
    }

    /// See [`ZooKeeper::set_acl`](crate::ZooKeeper::set_acl).
    pub fn set_acl(&mut self, path: &str, acl: &[Acl], version: Option<i32>) -> Pending<Stat> {
        self.add(OpCode::SetAcl, check(path), STAT, |out, root| {
            message::set_acl(out, (root, path), acl, version);
        })
    }

    /// See [`ZooKeeper::sync`](crate::ZooKeeper::sync).
    pub fn sync(&mut self, path: &str) -> Pending<()> {
        let read: Read<_> = |reader, _| Ok(reader.string().map(|_| ())?);
        self.add(OpCode::Sync, check(path), read, |out, root| message::path(out, (root, path)))
    }

    /// See [`ZooKeeper::multi`](crate::ZooKeeper::multi).
    pub fn multi(&mut self, ops: &[Op<'_>]) -> Pending<Vec<OpResult>> {
        self.add_multi(ops, |_| {})
    }

    /// Adds a `multi`. Calls `begins` with the position at which each operation begins in the frame.
    fn add_multi(
        &mut self,
        ops: &[Op<'_>],
        mut begins: impl FnMut(usize),
    ) -> Pending<Vec<OpResult>> {
        let check = |op: &Op<'_>| match *op {
            Op::Create(path, _, _, mode) => check_create(path, mode),
            Op::Delete(path, _) | Op::SetData(path, ..) | Op::Check(path, _) => check(path),
        };
        let mut checks = ops.iter().enumerate();
        let checked = checks.try_for_each(|(index, op)| check(op).map_err(|error| error.at(index)));
        let decode = Decode { read: results, no_node: || None, ops: ops.len() };
        self.add(OpCode::Multi, checked, decode, |out, root| {
            for op in ops {
                begins(out.len() + message::MULTI_HEADER);
                encode_op(op, out, root);
            }
            message::multi_header(out, None);
        })
    }

    /// See [`ZooKeeper::renew_lease`](crate::ZooKeeper::renew_lease).
    pub fn renew_lease(&mut self) -> Pending<()> {
        // The request names a node that never exists. The leader makes a proposal even for a
        // refused request.
        let decode = Decode { read: NOTHING, no_node: || Some(()), ops: 0 };
        self.add(OpCode::SetData, Ok(()), decode, |out, _| message::renew_lease(out))
    }

    pub(crate) fn auth(&mut self, scheme: &str, secret: &[u8]) -> Pending<()> {
        self.add(OpCode::Auth, Ok(()), NOTHING, |out, _| message::auth(out, scheme, secret))
    }

    fn watch<T: Send + 'static>(
        &mut self,
        code: OpCode,
        path: &str,
        kind: WatchKind,
        watcher: Option<&Watcher>,
        decode: impl Into<Decode<T>>,
    ) -> Pending<T> {
        let before = self.calls.len();
        let pending = self.add(code, check(path), decode, |out, root| {
            message::watched(out, (root, path), watcher.is_some());
        });
        if let (Some(watcher), Some(call)) = (watcher, self.calls.get_mut(before)) {
            let path = message::full((self.root, path)).collect();
            call.effect = Effect::Watch(kind, path, watcher.downgrade());
        }
        pending
    }

    /// Lets the request at this index share a transaction, if all requests before it do. The request
    /// has `ops` operations. The one at `create` in its frame, if any, creates a node.
    fn share(&mut self, index: usize, ops: usize, create: Option<usize>) {
        if let Some((call, before)) = self.calls.get_mut(..=index).and_then(<[_]>::split_last_mut)
            && matches!(call.code, OpCode::Create2 | OpCode::Delete | OpCode::Multi)
            && before.iter().all(|before| before.share.is_some())
        {
            let created_in = create.map(|begin| message::directory_at(&call.frame, begin));
            call.share = Some(Share { ops, created_in });
        }
    }

    /// Adds a request. A request that cannot be sent fails at once.
    fn add<T: Send + 'static>(
        &mut self,
        code: OpCode,
        checked: Result<()>,
        decode: impl Into<Decode<T>>,
        encode: impl FnOnce(&mut Vec<u8>, &str),
    ) -> Pending<T> {
        let deadline = sys::now() + self.timeout.min(FOREVER);
        let (pending, slot) = Pending::new(self.root, deadline, decode.into());
        let frame = checked.map(|()| message::request(code, |out| encode(out, self.root)));
        let frame = frame.and_then(|frame| match frame.len() - 4 {
            0..=LONGEST => Ok(frame),
            length => Err(Error::bad(format!(
                "the request has {length} bytes, but servers accept at most {LONGEST}"
            ))),
        });
        match frame {
            Ok(frame) => self.calls.push(UserCall {
                frame,
                code,
                slot: Some(slot),
                effect: Effect::None,
                deadline: Some(deadline),
                repeat: false,
                was_sent: false,
                session: self.session,
                share: None,
                parts: Vec::new(),
            }),
            Err(error) => slot.settle(Err(error)),
        }
        pending
    }
}

impl Op<'_> {
    /// Returns the operation's verb and path.
    pub(crate) fn describe(&self) -> (&'static str, &str) {
        match *self {
            Op::Create(path, ..) => ("create", path),
            Op::Delete(path, _) => ("delete", path),
            Op::SetData(path, ..) => ("write", path),
            Op::Check(path, _) => ("check", path),
        }
    }
}

fn encode_op(op: &Op<'_>, out: &mut Vec<u8>, root: &str) {
    let mut begin = |code: i32| message::multi_header(out, Some(code));
    match *op {
        Op::Create(path, data, acl, mode) => {
            begin(message::multi_code(OpCode::of_create(mode)));
            message::create(out, (root, path), data, acl, mode);
        }
        Op::Delete(path, version) => {
            begin(OpCode::Delete as i32);
            message::versioned(out, (root, path), version);
        }
        Op::SetData(path, data, version) => {
            begin(OpCode::SetData as i32);
            message::set_data(out, (root, path), data, version);
        }
        Op::Check(path, version) => {
            begin(OpCode::Check as i32);
            message::versioned(out, (root, path), version);
        }
    }
}

fn results(reader: &mut Reader<'_>, asked: Expected) -> Result<Vec<OpResult>, Unread> {
    let (mut results, mut refused, mut failed) = (Vec::new(), None, false);
    // The results of one part of a shared transaction have no end marker.
    let has_more = |reader: &Reader<'_>, count| count < asked.ops || !reader.0.is_empty();
    while has_more(reader, results.len())
        && let Some(result) = message::multi_result(reader)?
    {
        let index = results.len();
        if index == asked.ops {
            return Err(Malformed(format!("more than {index} results")).into());
        }
        results.push(match result {
            // In the answer to a `multi`, a created node has no `Stat`. The header contains the
            // zxid of the `multi`: a server applies one write at a time, and reads the zxid
            // directly after each write (FinalRequestProcessor).
            MultiResult::Created(path) => {
                OpResult::Created { path: below(path, asked.root), czxid: asked.zxid }
            }
            MultiResult::Deleted => OpResult::Deleted,
            MultiResult::Set(stat) => OpResult::Set(stat),
            MultiResult::Checked => OpResult::Checked,
            // The operations before the refused one are undone and have the code 0.
            MultiResult::Failed(code) => {
                failed = true;
                refused = refused.or((code != 0).then_some((code, index)));
                OpResult::Checked
            }
        });
    }
    match (refused, results.len()) {
        (_, count) if count < asked.ops => {
            Err(Malformed(format!("{count} results of {} operations", asked.ops)).into())
        }
        (Some((code, index)), _) => Err(Unread::Refused(ErrorKind::of_code(code), index)),
        (None, _) if failed => Err(Malformed("failed operations without a cause".into()).into()),
        (None, _) => Ok(results),
    }
}

pub(crate) fn check(path: &str) -> Result<()> {
    path::check(path).map_err(|problem| Error::bad(format!("the path is invalid: {problem}")))
}

fn check_create(path: &str, mode: CreateMode) -> Result<()> {
    if let Some(ttl) = mode.ttl().map(|ttl| ttl.as_millis())
        && !(1..=TTL_MAX).contains(&ttl)
    {
        return Err(Error::bad(format!(
            "the time to live is {ttl} ms, but must be 1 to {TTL_MAX} ms"
        )));
    }
    // The server appends a number, which may be the whole name.
    match mode.is_sequential() && path.ends_with('/') {
        true => check(&format!("{path}0")),
        false => check(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(root: &str) -> Batch<'_> {
        Batch { root, timeout: Duration::from_secs(1), session: None, calls: Vec::new() }
    }

    /// Returns the text of the error with which a request fails without being sent.
    fn refused<T: fmt::Debug + Send + 'static>(
        make: impl FnOnce(&mut Batch<'_>) -> Pending<T>,
    ) -> String {
        let mut batch = batch("");
        let pending = make(&mut batch);
        assert!(batch.calls.is_empty() && pending.is_done(), "{batch:?} is sent");
        let error = pending.wait().expect_err("it is refused");
        println!("{error}");
        assert_eq!(error.kind(), ErrorKind::BadArguments);
        error.to_string()
    }

    #[test]
    fn unsendable_request_is_refused_with_the_reason() {
        const TTL: &str = "the time to live is ";
        let ttl = |milliseconds| CreateMode::PersistentWithTtl(Duration::from_millis(milliseconds));
        let create =
            |path: &'static str, mode| refused(move |batch| batch.create(path, b"", &[], mode));
        for (seen, expected) in [
            (create("a", CreateMode::Persistent), "it does not start with a slash"),
            (create("/a/", CreateMode::Persistent), "it ends in a slash"),
            (create("/a//", CreateMode::PersistentSequential), "part 2 is empty"),
            (create("/a", ttl(0)), TTL),
            (create("/a", CreateMode::PersistentWithTtl(Duration::from_micros(999))), TTL),
            (create("/a", ttl(1 << 40)), TTL),
            (create("/a", CreateMode::PersistentSequentialWithTtl(Duration::MAX)), TTL),
            (refused(|batch| batch.delete("/a/..", None)), "relative paths"),
            (refused(|batch| batch.delete_eventually("")), "it is empty"),
            (refused(|batch| batch.exists("/\0", None)), "U+0000"),
            (refused(|batch| batch.get_data("/\u{1f512}", None)), "U+1F512"),
            (refused(|batch| batch.set_data("//", b"", None)), "the path is invalid"),
            (refused(|batch| batch.get_children("/a//b", None)), "part 2 is empty"),
            (refused(|batch| batch.get_acl("")), "it is empty"),
            (refused(|batch| batch.set_acl("x", &[], None)), "a slash"),
            (refused(|batch| batch.sync("/.")), "relative paths"),
            (
                refused(|batch| batch.multi(&[Op::Check("/a", None), Op::Delete("b", None)])),
                "a slash",
            ),
        ] {
            assert!(seen.contains(expected), "{seen:?} does not say {expected:?}");
        }
    }
}
