//! A connection with one session: a handshake, and then one request at a time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::wire::{Reader, Writer};

/// How long to wait for an answer, by default.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
const RESUMED_WITHIN: Duration = Duration::from_secs(1);
const PASSWORD: usize = 16;
const LONGEST_FRAME: i32 = 64 << 20;

pub(crate) mod op {
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_CHILDREN: i32 = 8;
    pub(crate) const AUTH: i32 = 100;
    pub(crate) const CLOSE: i32 = -11;
}

const AUTH_ID: i32 = -4;

/// An answer to a handshake with which the server grants a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) id: i64,
    timeout: Duration,
    password: [u8; PASSWORD],
}

impl Grant {
    /// Parses the answer. Returns `None` if the session has expired.
    pub(crate) fn read(answer: &[u8]) -> io::Result<Option<Self>> {
        let mut answer = Reader::new(answer);
        let _protocol = answer.int()?;
        let timeout = Duration::from_millis(answer.int()?.max(0) as u64);
        let id = answer.long()?;
        let password = answer.buffer()?.try_into();
        let password = password.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let grant = Self { id, timeout, password };
        Ok(Some(grant).filter(|grant| grant.id != 0))
    }
}

/// A session and its connection. After a connection error, every call fails.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: TcpStream,
    pub(crate) id: i64,
    next_request: i32,
    ended: bool,
}

impl Session {
    /// Opens a session. Every answer must arrive within `patience`.
    pub(crate) fn connect(
        address: impl ToSocketAddrs,
        timeout: Duration,
        patience: Duration,
    ) -> io::Result<Self> {
        let stream = dial(address, patience)?;
        let session = Self::shake_hands(stream, 0, timeout, &[0; PASSWORD])?;
        session.ok_or_else(|| io::Error::other("the server grants no session"))
    }

    /// Ends another client's session. Returns false if the server answers that it has already ended.
    ///
    /// The client may be resuming the session at the same moment. A standalone server silently closes the second of the
    /// two connections. A follower that waits for the leader remembers only one of them, so the first never receives an
    /// answer. Therefore, this method retries.
    pub(crate) fn end(address: SocketAddr, grant: &Grant) -> io::Result<bool> {
        let give_up = Instant::now() + PATIENCE;
        let mut was_there = false;
        let mut end = || match Self::resume(address, grant, RESUMED_WITHIN)? {
            Some(mut session) => {
                was_there = true;
                session.close()
            }
            None => Ok(()),
        };
        loop {
            match end() {
                Err(error) if is_left_without_answer(&error) && Instant::now() < give_up => {}
                ended => return ended.map(|()| was_there),
            }
        }
    }

    /// Takes over a session. Returns `None` if the server answers that the session has ended.
    fn resume(address: SocketAddr, grant: &Grant, patience: Duration) -> io::Result<Option<Self>> {
        let stream = dial(address, patience)?;
        Self::shake_hands(stream, grant.id, grant.timeout, &grant.password)
    }

    fn shake_hands(
        mut stream: TcpStream,
        id: i64,
        timeout: Duration,
        password: &[u8],
    ) -> io::Result<Option<Self>> {
        let request = Writer::default()
            .int(0)
            .long(0)
            .int(timeout.as_millis().try_into().unwrap_or(i32::MAX))
            .long(id)
            .buffer(password)
            .bool(false);
        stream.write_all(&request.frame())?;
        let grant = Grant::read(&read_frame(&mut stream)?)?;
        Ok(grant.map(|grant| Self { stream, id: grant.id, next_request: 1, ended: false }))
    }

    /// Sends a request, and returns the body of its answer. Errors describe the request by `what`.
    pub(crate) fn call(&mut self, op: i32, body: &Writer, what: String) -> io::Result<Vec<u8>> {
        let id = self.send(op, body)?;
        loop {
            let frame = read_frame(&mut self.stream)?;
            let mut header = Reader::new(&frame);
            let (answered, _zxid, code) = (header.int()?, header.long()?, header.int()?);
            // All other frames are watch events, or late answers to calls that have timed out.
            if answered != id {
                continue;
            }
            return match code {
                0 => Ok(frame[16..].to_vec()),
                code => Err(server_error(code, &what)),
            };
        }
    }

    /// Closes the session, and waits until its ephemeral nodes have been deleted.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.ended = true;
        self.call(op::CLOSE, &Writer::default(), "close the session".into())?;
        Ok(())
    }

    fn send(&mut self, op: i32, body: &Writer) -> io::Result<i32> {
        let id = if op == op::AUTH { AUTH_ID } else { self.next_request };
        self.next_request = self.next_request.wrapping_add(1).max(1);
        let frame = Writer::default().int(id).int(op).append(body).frame();
        self.stream.write_all(&frame)?;
        Ok(id)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.send(op::CLOSE, &Writer::default());
        }
    }
}

/// Returns whether the error means that a request was accepted but received no answer.
fn is_left_without_answer(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    matches!(error.kind(), BrokenPipe | ConnectionReset | TimedOut | UnexpectedEof | WouldBlock)
}

fn dial(address: impl ToSocketAddrs, patience: Duration) -> io::Result<TcpStream> {
    let mut result = Err(io::Error::other("the address names no host"));
    for address in address.to_socket_addrs()? {
        result = TcpStream::connect_timeout(&address, patience);
        if result.is_ok() {
            break;
        }
    }
    let stream = result?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = i32::from_be_bytes(length);
    if !(0..=LONGEST_FRAME).contains(&length) {
        let text = format!("not a ZooKeeper frame: length {length}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut frame = vec![0; length as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

/// Returns the error for the code with which a server answered `request`.
pub(crate) fn server_error(code: i32, request: &str) -> io::Error {
    use io::ErrorKind::*;
    let (name, kind) = match code {
        -4 => ("ConnectionLoss", Other),
        -5 => ("MarshallingError", Other),
        -6 => ("Unimplemented", Other),
        -8 => ("BadArguments", InvalidInput),
        -101 => ("NoNode", NotFound),
        -102 => ("NoAuth", PermissionDenied),
        -103 => ("BadVersion", InvalidInput),
        -108 => ("NoChildrenForEphemerals", Other),
        -110 => ("NodeExists", AlreadyExists),
        -111 => ("NotEmpty", DirectoryNotEmpty),
        -112 => ("SessionExpired", Other),
        -114 => ("InvalidACL", InvalidInput),
        -115 => ("AuthFailed", PermissionDenied),
        -118 => ("SessionMoved", Other),
        _ => ("error", Other),
    };
    io::Error::new(kind, format!("failed to {request}: {name} ({code})"))
}
