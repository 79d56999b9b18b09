//! A connection to a real server that sends and receives whole frames, including their lengths.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The time within which every answer must arrive.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Socket {
    stream: TcpStream,
    /// Frames that have arrived but have not been read by a caller yet.
    pub(crate) come: VecDeque<Vec<u8>>,
}

impl Socket {
    pub(crate) fn connect(server: SocketAddr) -> io::Result<Socket> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Socket { stream, come: VecDeque::new() })
    }

    /// Sends a request, and returns its answer: the frame with this xid, or, for a handshake, the next frame. Frames
    /// that arrive before it are kept.
    pub(crate) fn ask(&mut self, request: &[u8], number: Option<i32>) -> io::Result<Vec<u8>> {
        self.stream.write_all(request)?;
        loop {
            let frame = self.read()?;
            if number.is_none_or(|number| int(&frame, 4) == number) {
                return Ok(frame);
            }
            self.come.push_back(frame);
        }
    }

    /// Returns the next frame.
    pub(crate) fn next(&mut self) -> io::Result<Vec<u8>> {
        match self.come.pop_front() {
            Some(frame) => Ok(frame),
            None => self.read(),
        }
    }

    /// Waits until the server closes the connection. Returns a frame if one arrives instead.
    pub(crate) fn end(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.next() {
            Ok(frame) => Ok(Some(frame)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(error)
            }
            Err(_) => Ok(None),
        }
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut frame = vec![0; 4];
        self.stream.read_exact(&mut frame)?;
        frame.resize(4 + int(&frame, 0) as usize, 0);
        self.stream.read_exact(&mut frame[4..])?;
        Ok(frame)
    }
}

/// Returns the frame with this body.
pub(crate) fn framed(body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    [&(body.len() as u32).to_be_bytes(), &*body].concat()
}

/// Returns a handshake for a session, new or existing, whose timeout is as long as possible.
pub(crate) fn handshake(session: i64, password: &[u8]) -> Vec<u8> {
    let (longest, session) = (i32::MAX.to_be_bytes(), session.to_be_bytes());
    framed(&[&[0; 12], &longest, &session, &framed(&[password]), &[0]])
}

/// Returns the four-byte number at this offset, or 0 if the frame is too short.
pub(crate) fn int(frame: &[u8], at: usize) -> i32 {
    let bytes = frame.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| i32::from_be_bytes(*bytes))
}

/// Returns the eight-byte number at this offset, or 0 if the frame is too short.
pub(crate) fn long(frame: &[u8], at: usize) -> i64 {
    let bytes = frame.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| i64::from_be_bytes(*bytes))
}
