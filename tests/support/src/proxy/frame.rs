//! Cuts a TCP stream into ZooKeeper frames and reads the little that rules need of them.

use std::io::{self, BufRead, BufReader, Read};

use super::op::Op;

const PREFIX: usize = 4;
/// Far above what ZooKeeper accepts, far below what four letters read as a length.
const LONGEST: i32 = 64 << 20;
const EVENT_ID: i32 = -1;

/// What comes out of a [`Source`].
#[derive(Debug)]
pub(crate) enum Piece {
    /// A frame with its length in front.
    Frame(Vec<u8>),
    /// Bytes of a stream without frames: a four-letter word or its answer.
    Raw(Vec<u8>),
}

/// Takes frames from one direction of a connection.
#[derive(Debug)]
pub(crate) struct Source<R> {
    stream: BufReader<R>,
    raw: bool,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream: BufReader::new(stream),
            raw: false,
        }
    }

    /// The next piece; an error at the end of the stream, also in the middle of a frame.
    pub(crate) fn next(&mut self) -> io::Result<Piece> {
        if self.raw {
            return self.next_raw();
        }
        let mut frame = vec![0; PREFIX];
        self.stream.read_exact(&mut frame)?;
        let length = int(&frame, 0).unwrap_or_default();
        if !(0..=LONGEST).contains(&length) {
            self.raw = true;
            return Ok(Piece::Raw(frame));
        }
        frame.resize(PREFIX + length as usize, 0);
        self.stream.read_exact(&mut frame[PREFIX..])?;
        Ok(Piece::Frame(frame))
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

/// What a frame from a client asks for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: i32,
    pub(crate) op: Op,
    pub(crate) path: String,
}

impl Request {
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let op = Op::from_code(int(frame, PREFIX + 4)?);
        let path = if op.has_path() {
            string(frame, PREFIX + 8)
        } else {
            String::new()
        };
        let id = int(frame, PREFIX)?;
        Some(Self { id, op, path })
    }
}

/// What a frame from a server is about.
#[derive(Debug)]
pub(crate) enum Answer {
    To { id: i32, error: i32 },
    Event { path: String },
}

impl Answer {
    pub(crate) fn parse(frame: &[u8]) -> Option<Self> {
        let id = int(frame, PREFIX)?;
        let error = int(frame, PREFIX + 12)?;
        if id == EVENT_ID {
            // The header is followed by the type and the state, then the path.
            let path = string(frame, PREFIX + 24);
            return Some(Self::Event { path });
        }
        Some(Self::To { id, error })
    }
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    let bytes = bytes.get(at..at + 4)?;
    bytes.try_into().ok().map(i32::from_be_bytes)
}

fn string(bytes: &[u8], at: usize) -> String {
    let length = int(bytes, at).unwrap_or_default().max(0) as usize;
    let text = bytes.get(at + 4..at + 4 + length).unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
