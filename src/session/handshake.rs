//! Is a server there, and which session timeout does it give? A session is opened and closed
//! again by hand, about fifty bytes each way, before the crate is sent to a server:
//!
//! - A server clamps what is asked for between its own bounds, and the crate does not say to
//!   what. A timeout remembered from an earlier connection may be wrong after a restart.
//! - Where nobody listens the crate tries again and again without a pause, and where nobody
//!   answers it waits for ever: its first connect has no timeout, and its handle then cannot be
//!   closed. A server that is just starting may accept a connection and never answer on it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How a try ends that may end otherwise the next time.
pub(super) const NO_ANSWER: &str = "no answer in time";
/// `closeSession` in ZooKeeper's `ZooDefs.OpCode`.
const CLOSE_SESSION: i32 = -11;
/// A ConnectResponse has 36 or 37 bytes, by the age of the server.
const RESPONSE: std::ops::RangeInclusive<usize> = 36..=64;

/// Asks the server at `address` for a session of `wanted` and returns what it gives.
pub(super) fn negotiate(
    address: SocketAddr,
    wanted: Duration,
    deadline: Instant,
) -> Result<Duration, String> {
    let given = try_negotiate(address, wanted, deadline).map_err(|error| say(&error))?;
    match u64::try_from(given) {
        Ok(0) | Err(_) => Err("the server refused the session".to_owned()),
        Ok(millis) => Ok(Duration::from_millis(millis)),
    }
}

fn try_negotiate(address: SocketAddr, wanted: Duration, deadline: Instant) -> io::Result<i32> {
    let mut stream = TcpStream::connect_timeout(&address, left(deadline)?)?;
    stream.set_nodelay(true)?;
    let given = exchange(&mut stream, wanted, deadline)?;
    // Without waiting for the answer: a session that is not closed expires by itself.
    let _ = stream.write_all(&close_request());
    Ok(given)
}

fn exchange(stream: &mut TcpStream, wanted: Duration, deadline: Instant) -> io::Result<i32> {
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream.write_all(&connect_request(wanted))?;
    let mut length = [0; 4];
    read(stream, &mut length, deadline)?;
    let length = u32::from_be_bytes(length) as usize;
    if !RESPONSE.contains(&length) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is not ZooKeeper's"));
    }
    let mut response = [0; *RESPONSE.end()];
    read(stream, &mut response[..length], deadline)?;
    let [_, _, _, _, a, b, c, d, ..] = response;
    Ok(i32::from_be_bytes([a, b, c, d]))
}

/// Protocol version, last zxid, timeout, session id, 16 bytes of password, read-only flag.
fn connect_request(wanted: Duration) -> Vec<u8> {
    let millis = i32::try_from(wanted.as_millis()).unwrap_or(i32::MAX);
    let mut body = Vec::with_capacity(45);
    body.extend(0_i32.to_be_bytes());
    body.extend(0_i64.to_be_bytes());
    body.extend(millis.to_be_bytes());
    body.extend(0_i64.to_be_bytes());
    body.extend(16_i32.to_be_bytes());
    body.extend([0; 16]);
    body.push(0);
    framed(&body)
}

/// A request number, then the operation.
fn close_request() -> Vec<u8> {
    let mut body = Vec::with_capacity(8);
    body.extend(1_i32.to_be_bytes());
    body.extend(CLOSE_SESSION.to_be_bytes());
    framed(&body)
}

fn framed(body: &[u8]) -> Vec<u8> {
    // Bodies here have at most 45 bytes.
    let mut frame = Vec::from((body.len() as u32).to_be_bytes());
    frame.extend(body);
    frame
}

fn read(stream: &mut TcpStream, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => buffer = &mut buffer[count..],
        }
    }
    Ok(())
}

fn left(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

fn say(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => NO_ANSWER.to_owned(),
        io::ErrorKind::UnexpectedEof => "the server hung up".to_owned(),
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    }
}
