//! The messages of the protocol, one function each. Pure, and without state.

use std::ops::Range;

use super::wire::{Malformed, Put, Reader};
use crate::acl::{Acl, Permissions};
use crate::names::Names;
use crate::types::{CreateMode, EventType, Stat};

/// The numbers of ZooKeeper's operations that this client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum OpCode {
    Delete = 2,
    Exists = 3,
    GetData = 4,
    SetData = 5,
    GetAcl = 6,
    SetAcl = 7,
    Sync = 9,
    Ping = 11,
    GetChildren2 = 12,
    Check = 13,
    Multi = 14,
    Create2 = 15,
    CreateContainer = 19,
    CreateTtl = 21,
    Auth = 100,
    SetWatches = 101,
    #[cfg(feature = "sasl")]
    Sasl = 102,
    WhoAmI = 107,
    CloseSession = -11,
}

/// The number of `create` in a `multi`, where its answer has no [`Stat`]. A `create2` is never sent
/// there: followers before 3.7.2 and 3.8.2 do not support it in a transaction, and 3.6.3 skips such a
/// transaction, so that its tree differs from the leader's (ZOOKEEPER-4026).
pub(crate) const CREATE: i32 = 1;

impl OpCode {
    /// Returns whether the leader proposes this operation to the quorum.
    pub(crate) fn is_write(self) -> bool {
        use OpCode::{Create2, CreateContainer, CreateTtl, Delete, Multi, SetAcl, SetData};
        matches!(self, Create2 | CreateContainer | CreateTtl | Delete | SetData | SetAcl | Multi)
    }

    pub(crate) fn of_create(mode: CreateMode) -> OpCode {
        match mode {
            CreateMode::Container => OpCode::CreateContainer,
            mode if mode.ttl().is_some() => OpCode::CreateTtl,
            _ => OpCode::Create2,
        }
    }
}

/// Fixed numbers, used instead of a request's number.
pub(crate) const EVENT: i32 = -1;
pub(crate) const PING: i32 = -2;
pub(crate) const AUTH: i32 = -4;

/// The version that matches any version.
const ANY: i32 = -1;

// ---- what is sent

/// Returns a frame: `body` after its length. The request gets its number when it is sent.
pub(crate) fn request(code: OpCode, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.put_int(0);
    out.put_int(0);
    out.put_int(code as i32);
    body(&mut out);
    finish(out)
}

/// What precedes the body of a request: its length, number and operation.
pub(crate) const PREFIX: usize = 12;

fn finish(mut frame: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Returns where in the frame of a create request the directory is: the path up to the last slash. The
/// operation begins at `begin`.
pub(crate) fn directory_at(frame: &[u8], begin: usize) -> Range<usize> {
    let path = Reader(frame.get(begin..).unwrap_or_default()).buffer().unwrap_or_default();
    let length = path.iter().rposition(|byte| *byte == b'/').unwrap_or(path.len());
    begin + 4..begin + 4 + length
}

/// Returns the frame of a `multi` of these requests, which are creates, deletes and `multi`s.
pub(crate) fn multi_of<'a>(requests: impl Iterator<Item = (OpCode, &'a [u8])>) -> Vec<u8> {
    request(OpCode::Multi, |out| {
        for (code, frame) in requests {
            let body = frame.get(PREFIX..).unwrap_or_default();
            match code {
                OpCode::Multi => out.extend_from_slice(&body[..body.len() - MULTI_HEADER]),
                code => {
                    multi_header(out, Some(multi_code(code)));
                    out.extend_from_slice(body);
                }
            }
        }
        multi_header(out, None);
    })
}

/// Sets the number of a request.
pub(crate) fn number(frame: &mut [u8], xid: i32) {
    frame[4..8].copy_from_slice(&xid.to_be_bytes());
}

/// Returns the first frame of a connection. A session of 0 requests a new one.
pub(crate) fn connect(zxid: i64, timeout: i32, session: i64, password: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.put_int(0);
    out.put_int(0); // the version of the protocol
    out.put_long(zxid);
    out.put_int(timeout);
    out.put_long(session);
    out.put_buffer(if session == 0 { &[0; 16] } else { password });
    out.put_bool(false); // a read-only server cannot be used
    finish(out)
}

/// A path below the client's root.
pub(crate) type RootedPath<'a> = (&'a str, &'a str);

/// Returns the parts of the whole path.
pub(crate) fn full<'a>((root, path): RootedPath<'a>) -> impl Iterator<Item = &'a str> + Clone {
    let path = if path == "/" && !root.is_empty() { "" } else { path };
    [root, path].into_iter()
}

pub(crate) fn path(out: &mut Vec<u8>, path: RootedPath<'_>) {
    parts(out, full(path));
}

fn parts<'a>(out: &mut Vec<u8>, parts: impl Iterator<Item = &'a str> + Clone) {
    out.put_int(parts.clone().map(str::len).sum::<usize>() as i32);
    parts.for_each(|part| out.extend_from_slice(part.as_bytes()));
}

pub(crate) fn create(
    out: &mut Vec<u8>,
    (root, node): RootedPath<'_>,
    data: &[u8],
    acl: &[Acl],
    mode: CreateMode,
) {
    match mode.is_sequential() {
        // The path may end with a slash: the server appends a number, which is then the node's whole
        // name.
        true => parts(out, [root, node].into_iter()),
        false => path(out, (root, node)),
    }
    out.put_buffer(data);
    acl_list(out, acl);
    out.put_int(mode.flag());
    if let Some(ttl) = mode.ttl() {
        out.put_long(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
    }
}

pub(crate) fn versioned(out: &mut Vec<u8>, node: RootedPath<'_>, version: Option<i32>) {
    path(out, node);
    out.put_int(version.unwrap_or(ANY));
}

pub(crate) fn watched(out: &mut Vec<u8>, node: RootedPath<'_>, watch: bool) {
    path(out, node);
    out.put_bool(watch);
}

pub(crate) fn set_data(out: &mut Vec<u8>, node: RootedPath<'_>, data: &[u8], version: Option<i32>) {
    path(out, node);
    out.put_buffer(data);
    out.put_int(version.unwrap_or(ANY));
}

/// Encodes a write that the leader always refuses. It costs a proposal and changes nothing.
pub(crate) fn renew_lease(out: &mut Vec<u8>) {
    set_data(out, ("", "/zookeeper/no-such-node"), &[], Some(i32::MAX));
}

pub(crate) fn set_acl(out: &mut Vec<u8>, node: RootedPath<'_>, acl: &[Acl], version: Option<i32>) {
    path(out, node);
    acl_list(out, acl);
    out.put_int(version.unwrap_or(ANY));
}

pub(crate) fn acl_list(out: &mut Vec<u8>, acl: &[Acl]) {
    out.put_int(acl.len() as i32);
    for entry in acl {
        out.put_int(entry.permissions.0);
        out.put_buffer(entry.scheme.as_bytes());
        out.put_buffer(entry.id.as_bytes());
    }
}

/// Encodes the beginning of an operation of a `multi`; with `None`, the end of the `multi`.
pub(crate) fn multi_header(out: &mut Vec<u8>, code: Option<i32>) {
    out.put_int(code.unwrap_or(-1));
    out.put_bool(code.is_none());
    out.put_int(-1);
}

/// Returns the number of this operation in a `multi`.
pub(crate) fn multi_code(code: OpCode) -> i32 {
    match code {
        OpCode::Create2 => CREATE,
        other => other as i32,
    }
}

pub(crate) fn auth(out: &mut Vec<u8>, scheme: &str, secret: &[u8]) {
    out.put_int(0);
    out.put_buffer(scheme.as_bytes());
    out.put_buffer(secret);
}

pub(crate) fn ping() -> Vec<u8> {
    let mut frame = request(OpCode::Ping, |_| {});
    number(&mut frame, PING);
    frame
}

/// The paths of watches to set, by kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchedPaths {
    pub(crate) data: Vec<String>,
    pub(crate) exist: Vec<String>,
    pub(crate) child: Vec<String>,
}

pub(crate) fn set_watches(out: &mut Vec<u8>, zxid: i64, paths: &WatchedPaths) {
    out.put_long(zxid);
    for list in [&paths.data, &paths.exist, &paths.child] {
        out.put_int(list.len() as i32);
        list.iter().for_each(|watched| out.put_buffer(watched.as_bytes()));
    }
}

// ---- what comes back

/// The answer to [`connect`].
#[derive(Debug)]
pub(crate) struct Connected<'a> {
    pub(crate) version: i32,
    /// In milliseconds; 0 when the session is over.
    pub(crate) timeout: i32,
    pub(crate) session: i64,
    pub(crate) password: &'a [u8],
    /// `None` if the answer does not contain it, as with servers before 3.4.
    pub(crate) read_only: Option<bool>,
}

impl Connected<'_> {
    /// Returns whether the answer shows that the server is not ZooKeeper.
    pub(crate) fn is_foreign(&self) -> bool {
        let is_empty = self.password.iter().all(|byte| *byte == 0);
        is_empty || self.version != 0 || self.session == -1 || self.read_only.is_none()
    }
}

pub(crate) fn connected(frame: &[u8]) -> Result<Connected<'_>, Malformed> {
    let mut reader = Reader(frame);
    let connected = Connected {
        version: reader.int()?,
        timeout: reader.int()?,
        session: reader.long()?,
        password: reader.buffer()?,
        read_only: if reader.0.is_empty() { None } else { Some(reader.bool()?) },
    };
    reader.end().map(|()| connected)
}

/// The length of the header of every frame except the answer to [`connect`], in bytes.
pub(crate) const HEADER: usize = 16;
/// The length of the header of an operation of a `multi`, and of its result.
pub(crate) const MULTI_HEADER: usize = 9;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) code: i32,
}

pub(crate) fn header(reader: &mut Reader<'_>) -> Result<Header, Malformed> {
    Ok(Header { xid: reader.int()?, zxid: reader.long()?, code: reader.int()? })
}

/// Decodes the body of a frame with the number [`EVENT`]. Returns `None` for an event that is not
/// about a node.
pub(crate) fn event<'a>(
    reader: &mut Reader<'a>,
) -> Result<Option<(EventType, &'a str)>, Malformed> {
    let event_type = match reader.int()? {
        1 => Some(EventType::NodeCreated),
        2 => Some(EventType::NodeDeleted),
        3 => Some(EventType::NodeDataChanged),
        4 => Some(EventType::NodeChildrenChanged),
        // An event about the state of the connection, or about a removed watch; no listener receives
        // these.
        -1 | 5..=7 => None,
        other => return Err(Malformed(format!("an event of the type {other}"))),
    };
    let _state = reader.int()?;
    let path = reader.string()?;
    reader.end()?;
    Ok(event_type.map(|event_type| (event_type, path)))
}

pub(crate) fn stat(reader: &mut Reader<'_>) -> Result<Stat, Malformed> {
    Ok(Stat {
        czxid: reader.long()?,
        mzxid: reader.long()?,
        ctime: reader.long()?,
        mtime: reader.long()?,
        version: reader.int()?,
        cversion: reader.int()?,
        aversion: reader.int()?,
        ephemeral_owner: reader.long()?,
        data_length: reader.int()?,
        num_children: reader.int()?,
        pzxid: reader.long()?,
    })
}

pub(crate) fn names(reader: &mut Reader<'_>) -> Result<Names, Malformed> {
    let count = reader.count(4)?;
    // The names fit into the bytes that are left in the message, minus four bytes for the length of
    // each name.
    let mut names = Names::with_capacity(count, reader.0.len() - 4 * count);
    for _ in 0..count {
        names.push(reader.string()?);
    }
    Ok(names)
}

pub(crate) fn acls(reader: &mut Reader<'_>) -> Result<Vec<Acl>, Malformed> {
    reader.list(12, |reader| {
        let permissions = Permissions(reader.int()?);
        let (scheme, id) = identity(reader)?;
        Ok(Acl::new(permissions, scheme, id))
    })
}

/// Returns the identities of a connection: the scheme and the user of each.
pub(crate) fn identities(reader: &mut Reader<'_>) -> Result<Vec<(String, String)>, Malformed> {
    reader.list(8, identity)
}

/// Returns a scheme and a user. Java's servers do not write characters above U+FFFF as UTF-8.
fn identity(reader: &mut Reader<'_>) -> Result<(String, String), Malformed> {
    let [scheme, user] = [reader.buffer()?, reader.buffer()?].map(String::from_utf8_lossy);
    Ok((scheme.into_owned(), user.into_owned()))
}

/// The result of one operation of a `multi`.
#[derive(Debug)]
pub(crate) enum MultiResult<'a> {
    Created(&'a str),
    Deleted,
    Set(Stat),
    Checked,
    Failed(i32),
}

/// Returns where the results of each part are in the answer to a `multi`, or `None` if the `multi` was
/// refused. `parts` contains the code of each request and its number of operations. The range of a
/// single operation begins where its answer would begin if it had been sent alone.
pub(crate) fn multi_results(
    frame: &[u8],
    parts: impl Iterator<Item = (OpCode, usize)>,
) -> Result<Option<Vec<Range<usize>>>, Malformed> {
    let mut reader = Reader(frame.get(HEADER..).unwrap_or_default());
    let mut results = Vec::new();
    let wrong = |relation| Malformed(format!("{relation} results for the parts of a transaction"));
    for (code, ops) in parts {
        let header = if code == OpCode::Multi { 0 } else { MULTI_HEADER };
        let begin = frame.len() - reader.0.len() + header;
        for _ in 0..ops {
            match multi_result(&mut reader)? {
                Some(MultiResult::Failed(_)) => return Ok(None),
                Some(_) => {}
                None => return Err(wrong("too few")),
            }
        }
        results.push(begin..frame.len() - reader.0.len());
    }
    match multi_result(&mut reader)? {
        None => reader.end().map(|()| Some(results)),
        Some(_) => Err(wrong("too many")),
    }
}

/// Decodes the next result of a `multi`. Returns `None` after the last.
pub(crate) fn multi_result<'a>(
    reader: &mut Reader<'a>,
) -> Result<Option<MultiResult<'a>>, Malformed> {
    const DELETE: i32 = OpCode::Delete as i32;
    const SET_DATA: i32 = OpCode::SetData as i32;
    const CHECK: i32 = OpCode::Check as i32;
    const CREATE2: i32 = OpCode::Create2 as i32;
    const CONTAINER: i32 = OpCode::CreateContainer as i32;
    const TTL: i32 = OpCode::CreateTtl as i32;
    let code = reader.int()?;
    let done = reader.bool()?;
    let _error = reader.int()?;
    if done {
        return Ok(None);
    }
    let result = match code {
        CREATE => MultiResult::Created(reader.string()?),
        CREATE2 | CONTAINER | TTL => {
            let path = reader.string()?;
            stat(reader)?;
            MultiResult::Created(path)
        }
        DELETE => MultiResult::Deleted,
        SET_DATA => MultiResult::Set(stat(reader)?),
        CHECK => MultiResult::Checked,
        -1 => MultiResult::Failed(reader.int()?),
        other => return Err(Malformed(format!("the result of an operation {other}"))),
    };
    Ok(Some(result))
}
