//! Splits a TCP stream into ZooKeeper frames, and reads the few fields that the proxy needs.

use std::io::{self, BufRead, BufReader, Read};

use super::link::Way;
use super::op::Op;
use crate::probe::{Grant, Reader};

const PREFIX: usize = 4;
/// The longest frame. ZooKeeper's limit is far lower, and a four-letter word, read as a length, is far higher.
const LONGEST: i32 = 64 << 20;
const EVENT_ID: i32 = -1;
/// The longest addresses of a member. They are far shorter in practice.
const LONGEST_INTRODUCTION: i32 = 1 << 16;

/// What is spoken on the connections of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Between clients and servers: frames, or four-letter words.
    Client,
    /// Between followers and their leader. The proxy treats this as plain bytes.
    Quorum,
    /// Between voting members of an ensemble: the connecting member introduces itself, and plain bytes follow.
    Election,
}

/// A part of a stream, as returned by a [`Source`].
#[derive(Debug)]
pub(crate) enum Piece {
    /// A frame, including the length that precedes it.
    Frame(Vec<u8>),
    /// Bytes of a stream that has no frames: a four-letter word, its answer, or the traffic between members.
    Raw(Vec<u8>),
}

/// Reads frames from one direction of a connection.
#[derive(Debug)]
pub(crate) struct Source<R> {
    stream: BufReader<R>,
    mode: Mode,
}

/// How the next bytes are split.
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

    /// Returns the next piece. The end of the stream is an error, whether or not it is in the middle of a frame.
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

    /// Returns the introduction of the connecting member: its number, without the address that members add since 3.5.
    /// The other member would connect back to that address, and bypass all proxies. Without it, that member uses the
    /// configured address, as before 3.5.
    fn introduction(&mut self) -> io::Result<Piece> {
        self.mode = Mode::Raw;
        let first = self.array()?;
        if i64::from_be_bytes(first) >= 0 {
            return Ok(Piece::Raw(first.to_vec()));
        }
        // The first eight bytes were the version of the protocol. It is negative, which distinguishes it from a
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

/// The fields of a frame from a client.
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
        // In a `multi`, the path of the first operation follows its opcode, a flag and an error. If a directory is
        // created with a node, the directory's path comes first; if both are deleted, the node's path does.
        let path = match op {
            Op::Multi => self::fields(frame, 8 + 9).map(path),
            _ if op.has_path() => Some(path(fields)),
            _ => None,
        };
        Some(Self { id, op, path: path.unwrap_or_default() })
    }
}

/// The fields of a frame from a server.
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
            // The header is followed by the event's type, its state, and its path.
            let path = path(self::fields(frame, 24)?);
            return Some(Self::Event { path });
        }
        Some(Self::To { id, error })
    }
}

/// Returns the session that a server's first frame grants, if it does.
pub(crate) fn granted(frame: &[u8]) -> Option<Grant> {
    Grant::read(frame.get(PREFIX..)?).ok().flatten()
}

/// Returns a reader that starts at this byte after the frame's length.
fn fields(frame: &[u8], at: usize) -> Option<Reader<'_>> {
    frame.get(PREFIX + at..).map(Reader::new)
}

fn path(mut fields: Reader<'_>) -> String {
    String::from_utf8_lossy(fields.buffer().unwrap_or_default()).into_owned()
}
