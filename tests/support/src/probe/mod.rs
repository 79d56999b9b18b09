//! A small blocking ZooKeeper client that is independent of all others. Tests rely on its results.

mod session;
mod wire;

use std::io;
use std::net::ToSocketAddrs;
use std::sync::Mutex;
use std::time::Duration;

use crate::lock;
pub(crate) use session::{Grant, Session};
use session::{PATIENCE, op};
pub(crate) use wire::Reader;
use wire::Writer;

const SESSION_TIMEOUT: Duration = Duration::from_secs(60);
const ANY_VERSION: i32 = -1;
const EPHEMERAL: i32 = 1;
const SEQUENTIAL: i32 = 2;

/// All permissions for all clients, as permissions, scheme and id.
const OPEN_ACL: &[(u32, &str, &str)] = &[(31, "world", "anyone")];

/// The metadata of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// The id of the transaction that created the node.
    pub czxid: i64,
    /// The id of the transaction that last changed the data.
    pub mzxid: i64,
    /// The creation time, in milliseconds since 1970 by the server's clock.
    pub ctime: i64,
    /// The time at which the data were last changed, like `ctime`.
    pub mtime: i64,
    /// Number of changes of the data.
    pub version: i32,
    /// Number of changes of the children.
    pub cversion: i32,
    /// Number of changes of the access control list.
    pub aversion: i32,
    /// The session that owns the node, or 0 if the node is not ephemeral.
    pub ephemeral_owner: i64,
    /// Length of the data in bytes.
    pub data_length: i32,
    /// Number of children.
    pub num_children: i32,
    /// The id of the transaction that last added or removed a child.
    pub pzxid: i64,
}

impl Stat {
    fn read(from: &mut Reader<'_>) -> io::Result<Self> {
        Ok(Self {
            czxid: from.long()?,
            mzxid: from.long()?,
            ctime: from.long()?,
            mtime: from.long()?,
            version: from.int()?,
            cversion: from.int()?,
            aversion: from.int()?,
            ephemeral_owner: from.long()?,
            data_length: from.int()?,
            num_children: from.int()?,
            pzxid: from.long()?,
        })
    }
}

/// The entries of an access control list: permissions, scheme and id.
type Acl<'a> = &'a [(u32, &'a str, &'a str)];

/// A blocking client with one connection and one session.
///
/// It requests a session timeout of 60 s and sends no pings, so a session ends if a probe is not used for that long. A
/// call that receives no answer within 10 s fails. An error from the server becomes an `io::Error` with ZooKeeper's
/// name and code, whose kind is `NotFound` for NoNode, `AlreadyExists` for NodeExists, `PermissionDenied` for NoAuth
/// and `DirectoryNotEmpty` for NotEmpty. All other errors are from the connection, which is not reestablished.
///
/// Dropping the probe closes the session, like [`close`](Self::close), but ignores errors.
#[derive(Debug)]
pub struct Probe {
    session: Mutex<Session>,
}

impl Probe {
    /// Connects to a server, or to a proxy in front of one, with a session timeout of 60 s.
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_within(address, SESSION_TIMEOUT, PATIENCE)
    }

    /// Connects with this session timeout, which the server adjusts to its limits. Answers, including those to later
    /// calls, must arrive within `patience`.
    pub(crate) fn connect_within(
        address: impl ToSocketAddrs,
        timeout: Duration,
        patience: Duration,
    ) -> io::Result<Self> {
        let session = Session::connect(address, timeout, patience)?;
        Ok(Self { session: Mutex::new(session) })
    }

    /// Returns the id of the session.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        lock(&self.session).id
    }

    /// Returns the names of the node's children in any order, or an empty list if the node does not exist.
    pub fn children(&self, path: &str) -> io::Result<Vec<String>> {
        let body = Writer::default().string(path).bool(false);
        match found(self.call(op::GET_CHILDREN, &body, "list", path))? {
            Some(answer) => Reader::new(&answer).strings(),
            None => Ok(Vec::new()),
        }
    }

    /// Creates a node with all permissions for all clients, and returns its path. The path of a `sequential` node ends
    /// with a number.
    pub fn create(
        &self,
        path: &str,
        data: &[u8],
        ephemeral: bool,
        sequential: bool,
    ) -> io::Result<String> {
        let ephemeral = if ephemeral { EPHEMERAL } else { 0 };
        let sequential = if sequential { SEQUENTIAL } else { 0 };
        self.create_node(path, data, OPEN_ACL, ephemeral | sequential)
    }

    /// Creates a persistent node with an access control list, whose entries are permissions (1 read, 2 write, 4 create,
    /// 8 delete, 16 admin), scheme and id.
    pub fn create_with_acl(&self, path: &str, data: &[u8], acl: Acl<'_>) -> io::Result<String> {
        self.create_node(path, data, acl, 0)
    }

    /// Creates the node, and all parents that are missing.
    pub fn create_all(&self, path: &str) -> io::Result<()> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
        for end in ends.chain([path.len()]) {
            match self.create(&path[..end], b"", false, false) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Deletes a node, whatever its version.
    pub fn delete(&self, path: &str) -> io::Result<()> {
        let body = Writer::default().string(path).int(ANY_VERSION);
        self.call(op::DELETE, &body, "delete", path).map(drop)
    }

    /// Returns the data and the stat of a node, or `None` if it does not exist.
    pub fn get(&self, path: &str) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let body = Writer::default().string(path).bool(false);
        let Some(answer) = found(self.call(op::GET_DATA, &body, "read", path))? else {
            return Ok(None);
        };
        let mut answer = Reader::new(&answer);
        let data = answer.buffer()?.to_vec();
        Ok(Some((data, Stat::read(&mut answer)?)))
    }

    /// Replaces the data of a node, whatever its version.
    pub fn set(&self, path: &str, data: &[u8]) -> io::Result<Stat> {
        let body = Writer::default().string(path).buffer(data).int(ANY_VERSION);
        let answer = self.call(op::SET_DATA, &body, "write", path)?;
        Stat::read(&mut Reader::new(&answer))
    }

    /// Returns the stat of a node, or `None` if it does not exist.
    pub fn stat(&self, path: &str) -> io::Result<Option<Stat>> {
        let body = Writer::default().string(path).bool(false);
        let answer = found(self.call(op::EXISTS, &body, "look up", path))?;
        answer.map(|answer| Stat::read(&mut Reader::new(&answer))).transpose()
    }

    /// Returns whether the node exists.
    pub fn exists(&self, path: &str) -> io::Result<bool> {
        Ok(self.stat(path)?.is_some())
    }

    /// Adds credentials to the session, such as `digest` and `user:password`. A server that rejects them closes the
    /// session.
    pub fn add_auth(&self, scheme: &str, secret: &[u8]) -> io::Result<()> {
        let body = Writer::default().int(0).string(scheme).buffer(secret);
        self.call(op::AUTH, &body, "authenticate by", scheme).map(drop)
    }

    /// Closes the session, and waits until its ephemeral nodes have been deleted.
    pub fn close(self) -> io::Result<()> {
        lock(&self.session).close()
    }

    fn create_node(&self, path: &str, data: &[u8], acl: Acl<'_>, flags: i32) -> io::Result<String> {
        let mut body = Writer::default().string(path).buffer(data);
        body = body.int(acl.len() as i32);
        for (permissions, scheme, id) in acl {
            body = body.int(*permissions as i32).string(scheme).string(id);
        }
        let answer = self.call(op::CREATE, &body.int(flags), "create", path)?;
        Reader::new(&answer).string()
    }

    fn call(&self, op: i32, body: &Writer, verb: &str, object: &str) -> io::Result<Vec<u8>> {
        lock(&self.session).call(op, body, format!("{verb} `{object}`"))
    }
}

fn found(answer: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
