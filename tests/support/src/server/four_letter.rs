//! ZooKeeper's four-letter words.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) fn four_letter(
    address: SocketAddr,
    word: &str,
    longest: Duration,
) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, longest)?;
    stream.set_read_timeout(Some(longest))?;
    stream.set_write_timeout(Some(longest))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Returns the value of `name` in an answer to `mntr`.
pub(crate) fn metric(answer: &str, name: &str) -> io::Result<u64> {
    let lines = answer.lines().filter_map(|line| line.split_once('\t'));
    let value = lines.filter(|(key, _)| *key == name).map(|(_, v)| v).next();
    let value = value.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("no metric `{name}` in:\n{answer}"))
    })?;
    value.trim().parse().map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("metric `{name}` is `{value}`, no whole number"),
        )
    })
}
