//! Splits a TCP stream into ZooKeeper frames, and reads the few fields that the proxy needs.

use std::io::{self, BufRead, BufReader, Read};

use super::link::Way;
use super::op::Op;
use crate::probe::{Grant, Reader};

const PREFIX: usize = 4;
/// Far above ZooKeeper's limit, and far below a four-letter word when read as a length.
const LONGEST: i32 = 64 << 20;
const EVENT_ID: i32 = -1;
/// Far above the length of a member's few addresses.
const LONGEST_INTRODUCTION: i32 = 1 << 16;

/// The protocol on the connections of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Clients and servers: frames, or four-letter words.
    Client,
    /// Followers and their leader: plain bytes for the proxy.
    Quorum,
    /// Voting members of an ensemble: the connecting member introduces itself, then plain bytes follow.
    Election,
}

/// The output of a [`Source`].
#[derive(Debug)]
pub(crate) enum Piece {
    /// A frame, with its length before it.
    Frame(Vec<u8>),
    /// Bytes of a stream without frames: a four-letter word or its answer.
    Raw(Vec<u8>),
}

/// Reads frames from one direction of a connection.
#[derive(Debug)]
pub(crate) struct Source<R> {
    stream: BufReader<R>,
    mode: Mode,
}

/// How to split the next bytes.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Frame,
    Introduction,
    Raw,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(stream: R, protocol: Protocol, way: Way) -> Self {
        let mode = match (protocol, way) {
            (Protocol::Client, _) => Mode::Frame,
            (Protocol::Election, Way::ToServer) => Mode::Introduction,
            (Protocol::Election | Protocol::Quorum, _) => Mode::Raw,
        };
        let stream = BufReader::new(stream);
        Self { stream, mode }
    }

    /// Returns the next piece. The end of the stream is reported as an error, even in the middle of a frame.
    pub(crate) fn next(&mut self) -> io::Result<Piece> {
        match self.mode {
            Mode::Frame => self.next_frame(),
            Mode::Introduction => self.introduction(),
            Mode::Raw => self.next_raw(),
        }
    }

    fn next_frame(&mut self) -> io::Result<Piece> {
        let prefix: [u8; PREFIX] = self.array()?;
        let (length, mut frame) = (i32::from_be_bytes(prefix), prefix.to_vec());
        if !(0..=LONGEST).contains(&length) {
            self.mode = Mode::Raw;
            return Ok(Piece::Raw(frame));
        }
        frame.resize(PREFIX + length as usize, 0);
        self.stream.read_exact(&mut frame[PREFIX..])?;
        Ok(Piece::Frame(frame))
    }

    /// Returns the number of the connecting member, without the address that it has added since 3.5. The other member
    /// would connect back to that address and bypass all proxies. Without the address, it uses the configured one, as
    /// before 3.5.
    fn introduction(&mut self) -> io::Result<Piece> {
        self.mode = Mode::Raw;
        let first = self.array()?;
        if i64::from_be_bytes(first) >= 0 {
            return Ok(Piece::Raw(first.to_vec()));
        }
        // The first eight bytes were the protocol version, which is negative so that it differs from a
        // member's number.
        let member: [u8; 8] = self.array()?;
        let length = i32::from_be_bytes(self.array()?);
        if !(0..=LONGEST_INTRODUCTION).contains(&length) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.stream.read_exact(&mut vec![0; length as usize])?;
        Ok(Piece::Raw(member.to_vec()))
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut array = [0; N];
        self.stream.read_exact(&mut array)?;
        Ok(array)
    }

    fn next_raw(&mut self) -> io::Result<Piece> {
        let bytes = self.stream.fill_buf()?.to_vec();
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.stream.consume(bytes.len());
        Ok(Piece::Raw(bytes))
    }
}

/// The content of a frame from a client.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: i32,
    pub(crate) op: Op,
    pub(crate) path: String,
}

impl Request {
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let mut fields = fields(frame, 0)?;
        let (id, op) = (fields.int().ok()?, Op::from_code(fields.int().ok()?));
        // The path of the first operation of a `multi` is behind its number, a flag and an error. If a
        // directory is created with its node, the first path is that of the directory; if both are deleted,
        // it is that of the node.
        let path = match op {
            Op::Multi => self::fields(frame, 8 + 9).map(path),
            _ if op.has_path() => Some(path(fields)),
            _ => None,
        };
        Some(Self { id, op, path: path.unwrap_or_default() })
    }
}

/// The content of a frame from a server.
#[derive(Debug)]
pub(crate) enum Answer {
    To { id: i32, error: i32 },
    Event { path: String },
}

impl Answer {
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let mut fields = fields(frame, 0)?;
        let (id, _zxid, error) = (fields.int().ok()?, fields.long().ok()?, fields.int().ok()?);
        if id == EVENT_ID {
            // The header is followed by the type, the state, and the path.
            let path = path(self::fields(frame, 24)?);
            return Some(Self::Event { path });
        }
        Some(Self::To { id, error })
    }
}

/// Returns the session that the first frame from a server grants.
pub(crate) fn granted(frame: &[u8]) -> Option<Grant> {
    Grant::read(frame.get(PREFIX..)?).ok().flatten()
}

/// Returns a reader for a frame that starts at this byte after the length.
fn fields(frame: &[u8], at: usize) -> Option<Reader<'_>> {
    frame.get(PREFIX + at..).map(Reader::new)
}

fn path(mut fields: Reader<'_>) -> String {
    String::from_utf8_lossy(fields.buffer().unwrap_or_default()).into_owned()
}
