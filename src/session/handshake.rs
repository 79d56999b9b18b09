//! Which session timeout a server really gives. A server clamps what is asked for between its
//! own bounds, and the crate does not say to what, so a session is opened and closed again by
//! hand: about fifty bytes each way.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

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
    let mut stream = connect(address, deadline)?;
    let given = exchange(&mut stream, wanted, deadline).map_err(|error| say(&error))?;
    // Best effort: a session that is not closed expires by itself.
    let _ = close(&mut stream);
    match u64::try_from(given) {
        Ok(0) | Err(_) => Err("the server refused the session".to_owned()),
        Ok(millis) => Ok(Duration::from_millis(millis)),
    }
}

/// Is anybody listening? The crate below answers a refused connect by trying again and again
/// without a pause, so it must not be sent where nobody is.
pub(super) fn connect(address: SocketAddr, deadline: Instant) -> Result<TcpStream, String> {
    let stream = left(deadline)
        .and_then(|left| TcpStream::connect_timeout(&address, left))
        .map_err(|error| say(&error))?;
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

fn exchange(stream: &mut TcpStream, wanted: Duration, deadline: Instant) -> io::Result<i32> {
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream.write_all(&connect_request(wanted))?;
    let mut length = [0; 4];
    read(stream, &mut length, deadline)?;
    let length = u32::from_be_bytes(length) as usize;
    if !RESPONSE.contains(&length) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the answer is not ZooKeeper's",
        ));
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

fn close(stream: &mut TcpStream) -> io::Result<()> {
    let mut body = Vec::with_capacity(8);
    body.extend(1_i32.to_be_bytes());
    body.extend(CLOSE_SESSION.to_be_bytes());
    stream.write_all(&framed(&body))?;
    // The answer's first byte is enough: to hang up before it could overtake the request.
    stream.read_exact(&mut [0])
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
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        io::ErrorKind::UnexpectedEof => "the server hung up".to_owned(),
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    }
}
