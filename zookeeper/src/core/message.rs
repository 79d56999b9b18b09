//! The messages of the protocol, one function each. Pure, and without state: what belongs to what is
//! known elsewhere.

use super::wire::{Malformed, Put, Reader};
use crate::acl::{Acl, Permissions};
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
    CloseSession = -11,
}

/// The number that `create` has in a `multi`, where its answer has no [`Stat`].
const CREATE: i32 = 1;

impl OpCode {
    /// Does the leader propose it to the quorum?
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

/// The numbers that take the place of a request's own.
pub(crate) const EVENT: i32 = -1;
pub(crate) const PING: i32 = -2;
pub(crate) const AUTH: i32 = -4;

/// The version that stands for any.
const ANY: i32 = -1;

// ---- what is sent

/// A frame with `body`, its length before it. The request's number is put in when it is sent.
pub(crate) fn request(code: OpCode, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.put_int(0);
    out.put_int(0);
    out.put_int(code as i32);
    body(&mut out);
    finish(out)
}

fn finish(mut frame: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Puts the number in.
pub(crate) fn number(frame: &mut [u8], xid: i32) {
    frame[4..8].copy_from_slice(&xid.to_be_bytes());
}

/// What a connection begins with. A session of 0 asks for a new one.
pub(crate) fn connect(zxid: i64, timeout: i32, session: i64, password: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.put_int(0);
    out.put_int(0); // the version of the protocol
    out.put_long(zxid);
    out.put_int(timeout);
    out.put_long(session);
    out.put_buffer(if session == 0 { &[0; 16] } else { password });
    out.put_bool(false); // a server that only takes reads will not do
    finish(out)
}

/// A path below the client's root, without the root's end if it is the root itself.
pub(crate) type RootedPath<'a> = (&'a str, &'a str);

/// The parts of the whole path.
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
        // The name that comes may be the number alone, below a slash.
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

pub(crate) fn set_acl(out: &mut Vec<u8>, node: RootedPath<'_>, acl: &[Acl], version: Option<i32>) {
    path(out, node);
    acl_list(out, acl);
    out.put_int(version.unwrap_or(ANY));
}

fn acl_list(out: &mut Vec<u8>, acl: &[Acl]) {
    out.put_int(acl.len() as i32);
    for entry in acl {
        out.put_int(entry.permissions.0);
        out.put_buffer(entry.scheme.as_bytes());
        out.put_buffer(entry.id.as_bytes());
    }
}

/// The beginning of an operation of a `multi`; with none its end.
pub(crate) fn multi_header(out: &mut Vec<u8>, code: Option<i32>) {
    out.put_int(code.unwrap_or(-1));
    out.put_bool(code.is_none());
    out.put_int(-1);
}

pub(crate) fn multi_create_code(mode: CreateMode) -> i32 {
    match OpCode::of_create(mode) {
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

/// The paths of the watches to be set again, by what they are for.
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
    /// In milliseconds; 0 when the session is over.
    pub(crate) timeout: i32,
    pub(crate) session: i64,
    pub(crate) password: &'a [u8],
    pub(crate) read_only: bool,
}

pub(crate) fn connected(frame: &[u8]) -> Result<Connected<'_>, Malformed> {
    let mut reader = Reader(frame);
    let _version = reader.int()?;
    let connected = Connected {
        timeout: reader.int()?,
        session: reader.long()?,
        password: reader.buffer()?,
        // Servers before 3.4 do not say.
        read_only: !reader.0.is_empty() && reader.bool()?,
    };
    reader.end().map(|()| connected)
}

/// What every other frame begins with, in bytes.
pub(crate) const HEADER: usize = 16;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) xid: i32,
    pub(crate) zxid: i64,
    pub(crate) code: i32,
}

pub(crate) fn header(reader: &mut Reader<'_>) -> Result<Header, Malformed> {
    Ok(Header { xid: reader.int()?, zxid: reader.long()?, code: reader.int()? })
}

/// The body of a frame with the number [`EVENT`]. None for an event that is not about a node.
pub(crate) fn event<'a>(
    reader: &mut Reader<'a>,
) -> Result<Option<(EventType, &'a str)>, Malformed> {
    let event_type = match reader.int()? {
        1 => Some(EventType::NodeCreated),
        2 => Some(EventType::NodeDeleted),
        3 => Some(EventType::NodeDataChanged),
        4 => Some(EventType::NodeChildrenChanged),
        // The state of the connection, and the ends of watches that this client never removes.
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

pub(crate) fn names(reader: &mut Reader<'_>) -> Result<Vec<String>, Malformed> {
    reader.list(4, |reader| reader.string().map(str::to_owned))
}

pub(crate) fn acls(reader: &mut Reader<'_>) -> Result<Vec<Acl>, Malformed> {
    reader.list(12, |reader| {
        let permissions = Permissions(reader.int()?);
        // Java's servers write what is beyond U+FFFF in a way of their own.
        let scheme = String::from_utf8_lossy(reader.buffer()?);
        let id = String::from_utf8_lossy(reader.buffer()?);
        Ok(Acl::new(permissions, scheme, id))
    })
}

/// What one operation of a `multi` has come to.
#[derive(Debug)]
pub(crate) enum MultiResult<'a> {
    Created(&'a str),
    Deleted,
    Set(Stat),
    Checked,
    Failed(i32),
}

/// The next result of a `multi`; none after the last.
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
