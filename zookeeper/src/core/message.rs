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
/// there: followers before 3.7.2 and 3.8.2 do not know it in a transaction, and 3.6.3 skips such a
/// transaction, so that its tree differs from the leader's (ZOOKEEPER-4026).
pub(crate) const CREATE: i32 = 1;

impl OpCode {
    /// Returns whether the leader proposes it to the quorum.
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

/// Fixed numbers, in place of a request's number.
pub(crate) const EVENT: i32 = -1;
pub(crate) const PING: i32 = -2;
pub(crate) const AUTH: i32 = -4;

/// The version that matches any version.
const ANY: i32 = -1;

// ---- what is sent

/// Returns a frame: `body` behind its length. The request gets its number when it is sent.
pub(crate) fn request(code: OpCode, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.put_int(0);
    out.put_int(0);
    out.put_int(code as i32);
    body(&mut out);
    finish(out)
}

/// What stands before the body of a request: its length, number and operation.
pub(crate) const PREFIX: usize = 12;

fn finish(mut frame: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Returns where the directory of a create is in its frame: the path up to the last slash. The
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

/// Returns the first frame of a connection. A session of 0 asks for a new one.
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
        // The server appends a number, which may be the whole name below a slash.
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
    /// `None` if the server does not say, as those before 3.4.
    pub(crate) read_only: Option<bool>,
}

impl Connected<'_> {
    /// Returns whether this is no ZooKeeper, by what confirms a session.
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

/// The length of the header of every other frame, in bytes.
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
        // The state of the connection, or the removal of a watch, which has nobody who listens.
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
    // The names cannot have more bytes than the message has left, without their lengths.
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

/// Returns where the results of each part are in the answer to a `multi`, or `None` if it was
/// refused. `parts` are the requests, and their numbers of operations. The result of a single
/// operation begins where it does in the answer to that operation alone.
pub(crate) fn multi_results(
    frame: &[u8],
    parts: impl Iterator<Item = (OpCode, usize)>,
) -> Result<Option<Vec<Range<usize>>>, Malformed> {
    let mut reader = Reader(frame.get(HEADER..).unwrap_or_default());
    let mut results = Vec::new();
    let wrong = |relation| Malformed(format!("{relation} results of the parts of a transaction"));
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

#[cfg(test)]
mod tests {
    use super::super::fuzz::frame;
    use super::*;

    /// Returns the body of a recorded answer, after a header without an error.
    fn body(name: &str) -> Reader<'static> {
        let mut reader = Reader(frame(name));
        let header = header(&mut reader).expect("a header");
        assert_eq!(header.code, 0, "{name}");
        reader
    }

    fn read<T>(name: &str, read: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>) -> T {
        let mut reader = body(name);
        let value = read(&mut reader).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert_eq!(reader.end(), Ok(()), "{name}");
        value
    }

    const PERSISTENT: Stat = Stat {
        czxid: 3,
        mzxid: 3,
        ctime: 0x1a2_0245_74b9,
        mtime: 0x1a2_0245_74b9,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: 0,
        data_length: 9,
        num_children: 0,
        pzxid: 3,
    };

    #[test]
    fn server_handshakes_are_parsed() {
        for (name, timeout, session, read_only) in [
            ("connect", 30_000, 0x0100_0011_07b8_0000, Some(false)),
            ("connect before 3.4", 30_000, 0x0100_0011_07b8_0000, None),
            ("connect read-only", 30_000, 0x0100_0011_07b8_0000, Some(true)),
            ("connect expired", 0, 0, Some(false)),
        ] {
            let seen = connected(frame(name)).expect(name);
            println!("{name}: {seen:?}");
            let known = (seen.timeout, seen.session, seen.read_only, seen.password.len());
            assert_eq!(known, (timeout, session, read_only, 16), "{name}");
        }
    }

    #[test]
    fn server_headers_are_parsed() {
        for (name, xid, zxid, code) in [
            ("create", 2, 3, 0),
            ("delete refused", 0x25, 0x1b, -101),
            ("exists missing", 0xf, 0xe, -101),
            ("add auth", AUTH, 0, 0),
            ("auth refused", AUTH, 0, -115),
            ("ping", PING, 0xe, 0),
            ("event data", EVENT, -1, 0),
            ("set watches", 0xd, 0x1e, 0),
            ("close", 0x26, 0x1c, 0),
        ] {
            let seen = header(&mut Reader(frame(name))).expect(name);
            assert_eq!((seen.xid, seen.zxid, seen.code), (xid, zxid, code), "{name}");
        }
    }

    #[test]
    fn server_answers_are_parsed_to_their_end() {
        let path_and_stat =
            |reader: &mut Reader<'_>| Ok((reader.string()?.to_owned(), stat(reader)?));
        let created = |name| read(name, path_and_stat);
        assert_eq!(created("create"), ("/root/persistent".into(), PERSISTENT));
        assert_eq!(created("create sequential").0, "/root/eseq-0000000003");
        assert_eq!(created("create sequential").1.ephemeral_owner, 0x0100_0011_07b8_0000);
        assert_eq!(
            created("create non-ASCII").0,
            "/root/stra\u{df}e-\u{43a}\u{43b}\u{44e}\u{447}-\u{9375}"
        );
        assert_eq!(created("create container").0, "/root/container");
        assert_eq!(created("create with TTL").0, "/root/ttl");
        assert_eq!(read("exists", stat), PERSISTENT);
        assert_eq!((read("set data", stat).version, read("set data", stat).data_length), (1, 5));
        assert_eq!(read("set ACL", stat).aversion, 1);
        let data = |name| read(name, |reader| Ok((reader.buffer()?.to_vec(), stat(reader)?)));
        assert_eq!(data("get data"), (b"some data".to_vec(), PERSISTENT));
        assert_eq!(data("get data null"), (Vec::new(), Stat { data_length: 0, ..PERSISTENT }));
        assert_eq!(read("sync", |reader| reader.string().map(str::len)), 16);
        read("delete", |_| Ok(()));
        read("set watches", |_| Ok(()));
    }

    #[test]
    fn server_lists_are_parsed() {
        let children = |name| read(name, |reader| Ok((names(reader)?, stat(reader)?)));
        let (list, stat_) = children("get children");
        println!("{list:?}");
        assert_eq!((list.len(), stat_.num_children), (12, 12));
        assert!(list.contains("stra\u{df}e-\u{43a}\u{43b}\u{44e}\u{447}-\u{9375}"));
        assert_eq!(children("get children none").0, [""; 0]);
        assert_eq!(children("get children null").0, [""; 0]);
        let acl = |name| read(name, |reader| Ok((acls(reader)?, stat(reader)?))).0;
        let expected = [
            Acl::new(Permissions::ALL, "world", "anyone"),
            Acl::new(Permissions::READ | Permissions::WRITE, "digest", "user:aGFzaA=="),
            Acl::new(Permissions::CREATE | Permissions::DELETE, "ip", "127.0.0.1"),
            Acl::new(Permissions::ADMIN, "digest", "\u{43a}\u{43b}\u{44e}\u{447}:aGFzaA=="),
        ];
        assert_eq!(acl("get ACL"), expected);
        assert_eq!(
            acl("get ACL beyond U+FFFF")[0].id,
            "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}:h"
        );
    }

    #[test]
    fn server_results_of_a_multi_are_parsed() {
        let all = |name| {
            read(name, |reader| {
                let mut results = Vec::new();
                while let Some(result) = multi_result(reader)? {
                    results.push(match result {
                        MultiResult::Created(path) => path.to_owned(),
                        MultiResult::Deleted => "deleted".into(),
                        MultiResult::Set(stat) => format!("set {}", stat.version),
                        MultiResult::Checked => "checked".into(),
                        MultiResult::Failed(code) => code.to_string(),
                    });
                }
                Ok(results)
            })
        };
        assert_eq!(all("multi"), ["/root/m", "set 1", "checked", "deleted"]);
        assert_eq!(
            all("multi of other modes"),
            [
                "/root/m-0000000013",
                "/root/me",
                "/root/me-0000000015",
                "/root/mc",
                "set 4",
                "deleted"
            ]
        );
        assert_eq!(all("multi with TTL"), ["/root/mt", "/root/mt-0000000018"]);
        assert_eq!(all("multi refused"), ["-101"]);
        assert_eq!(all("multi third refused"), ["0", "0", "-101", "-2"]);
    }

    #[test]
    fn server_events_are_parsed() {
        for (name, expected) in [
            ("event created", Some((EventType::NodeCreated, "/root/missing"))),
            ("event deleted", Some((EventType::NodeDeleted, "/root/below"))),
            ("event data", Some((EventType::NodeDataChanged, "/root/persistent"))),
            ("event children", Some((EventType::NodeChildrenChanged, "/root"))),
            ("event state", None),
            ("event watch removed", None),
        ] {
            assert_eq!(event(&mut body(name)), Ok(expected), "{name}");
        }
    }

    #[test]
    fn truncated_answer_is_malformed() {
        type Cut = fn(&mut Reader<'_>) -> Result<(), Malformed>;
        let results: Cut = |reader| {
            while multi_result(reader)?.is_some() {}
            Ok(())
        };
        let cases: [(&str, Cut); 6] = [
            ("create", |reader| reader.string().and_then(|_| stat(reader)).map(drop)),
            ("get data", |reader| reader.buffer().and_then(|_| stat(reader)).map(drop)),
            ("get children", |reader| names(reader).and_then(|_| stat(reader)).map(drop)),
            ("get ACL", |reader| acls(reader).and_then(|_| stat(reader)).map(drop)),
            ("event data", |reader| event(reader).map(drop)),
            ("multi of other modes", results),
        ];
        for (name, read) in cases {
            let whole = body(name).0;
            for length in 0..whole.len() {
                let seen = read(&mut Reader(&whole[..length]));
                assert!(seen.is_err(), "{name}, {length} bytes of {}", whole.len());
            }
            assert_eq!(read(&mut Reader(whole)), Ok(()), "{name}");
            println!("{name}: cut at each of {} bytes", whole.len());
        }
        let whole = frame("connect");
        for length in 0..whole.len() {
            // Only the shorter answer of servers before 3.4 is complete.
            let is_whole = connected(&whole[..length]).is_ok();
            assert_eq!(is_whole, length == whole.len() - 1, "{length} bytes");
        }
    }
}
