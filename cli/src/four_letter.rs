//! Queries servers by ZooKeeper's four-letter word `srvr`, the only one that they always answer. This
//! module parses the answers, but does not evaluate them.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use zoolock::Tls;
use zoolock::crossbeam_channel::unbounded;

use crate::exit::{Failed, start_thread};

/// The maximum length of an answer, in bytes. ZooKeeper's answers have ten lines.
const LONGEST: usize = 64 << 10;

/// A server at one address of the list.
#[derive(Debug)]
pub(crate) struct Server {
    /// Its entry in the list.
    pub(crate) host: String,
    /// `None` if its name was not resolved.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) answer: Result<Answer, Failure>,
}

#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The time to connect and to get the answer.
    pub(crate) latency: Duration,
    values: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    NotResolved(String),
    Refused,
    Unreachable(String),
    /// The attempt to connect was not answered.
    NoConnection,
    /// The server accepted the connection, but did not answer.
    Silent,
    HungUp,
    Tls(String),
    NotServing,
    /// The answer is not one of ZooKeeper. Contains its beginning.
    Foreign(String),
}

impl Answer {
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// Takes the lines of an answer, which have the form `name: value`.
    pub(crate) fn take(&mut self, said: &str) {
        let parts = said.lines().filter_map(|line| line.split_once(": "));
        self.values.extend(parts.map(|(name, value)| (name.to_owned(), value.trim().to_owned())));
    }
}

/// Queries each address of each server in a list that a client has accepted, all at the same time.
pub(crate) fn ask_all(
    list: &str,
    tls: Option<&Tls>,
    within: Duration,
) -> Result<Vec<Server>, Failed> {
    let (hosts, _chroot) = list.split_at(list.find('/').unwrap_or(list.len()));
    let hosts: Vec<_> = hosts.split(',').map(|host| host.trim().to_owned()).collect();
    let resolved = each(hosts.clone(), within, |host| resolve(&host))?;
    let mut servers: Vec<Server> = Vec::new();
    for (host, found) in hosts.iter().zip(resolved) {
        let failed = |text| (None, Err(Failure::NotResolved(text)));
        let found = match found {
            Some(Ok(found)) => {
                found.into_iter().map(|address| (Some(address), Err(Failure::Silent))).collect()
            }
            Some(Err(error)) => vec![failed(error.to_string())],
            None => vec![failed(format!("no answer in {within:?}"))],
        };
        for (address, answer) in found {
            if address.is_none() || servers.iter().all(|server| server.address != address) {
                servers.push(Server { host: host.clone(), address, answer });
            }
        }
    }
    let all = servers.iter().map(|server| (server.host.clone(), server.address)).collect();
    let tls = tls.cloned();
    let ask = move |(host, address): (String, Option<SocketAddr>)| {
        Some(ask(name_and_port(&host).0, address?, tls.as_ref(), within))
    };
    // `ask` returns by itself, a little later than `within`.
    let answers = each(all, within * 2, ask)?;
    for (server, answer) in servers.iter_mut().zip(answers) {
        if let Some(answer) = answer.flatten() {
            server.answer = answer;
        }
    }
    Ok(servers)
}

/// Calls `act` for each item, on a thread of its own. The result is `None` if it is late.
fn each<T: Send + 'static, R: Send + 'static>(
    items: Vec<T>,
    within: Duration,
    act: impl Fn(T) -> R + Clone + Send + 'static,
) -> Result<Vec<Option<R>>, Failed> {
    let end = Instant::now() + within;
    let (done, results) = unbounded();
    let mut all: Vec<Option<R>> = items.iter().map(|_| None).collect();
    for (index, item) in items.into_iter().enumerate() {
        let (done, act) = (done.clone(), act.clone());
        // The receiver may have stopped waiting.
        start_thread("zoolock-doctor", move || drop(done.send((index, act(item)))))?;
    }
    drop(done);
    while let Ok((index, result)) = results.recv_deadline(end) {
        all[index] = Some(result);
    }
    Ok(all)
}

fn resolve(host: &str) -> io::Result<Vec<SocketAddr>> {
    let (name, port) = name_and_port(host);
    let port = port.parse().map_err(io::Error::other)?;
    Ok((name, port).to_socket_addrs()?.collect())
}

/// Splits an entry of the list.
fn name_and_port(host: &str) -> (&str, &str) {
    let is_address = host.parse::<Ipv6Addr>().is_ok();
    let with_port = host.rsplit_once(':').filter(|(_, port)| !is_address && !port.ends_with(']'));
    let (name, port) = with_port.unwrap_or((host, "2181"));
    (name.trim_matches(['[', ']']), port)
}

fn ask(
    name: &str,
    address: SocketAddr,
    tls: Option<&Tls>,
    within: Duration,
) -> Result<Answer, Failure> {
    let begun = Instant::now();
    let end = begun + within;
    let stream = connect(address, end)?;
    let said = exchange(&stream, (name, tls), end).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::Silent,
        _ if tls.is_some() => Failure::Tls(error.to_string()),
        _ => Failure::HungUp,
    })?;
    let mut answer = Answer { latency: begun.elapsed(), ..Answer::default() };
    match String::from_utf8_lossy(&said) {
        said if said.is_empty() && tls.is_some() => {
            Err(Failure::Tls("it closes the connection".to_owned()))
        }
        said if said.is_empty() => Err(Failure::HungUp),
        said if said.contains("not currently serving requests") => Err(Failure::NotServing),
        said if !said.contains("Zookeeper version: ") => {
            Err(Failure::Foreign(said.chars().take(40).collect()))
        }
        said => {
            answer.take(&said);
            Ok(answer)
        }
    }
}

fn connect(address: SocketAddr, end: Instant) -> Result<TcpStream, Failure> {
    let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    TcpStream::connect_timeout(&address, left).map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => Failure::Refused,
        ErrorKind::TimedOut => Failure::NoConnection,
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Failure::HungUp,
        _ => Failure::Unreachable(error.to_string()),
    })
}

fn exchange(
    socket: &TcpStream,
    (name, tls): (&str, Option<&Tls>),
    end: Instant,
) -> io::Result<Vec<u8>> {
    let wait = || {
        let left = end.saturating_duration_since(Instant::now());
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))
    };
    wait()?;
    let mut stream: Box<dyn Stream> = match tls {
        Some(tls) => {
            let invalid = |error| io::Error::new(ErrorKind::InvalidInput, error);
            Box::new(tls.over(socket, name).map_err(invalid)?)
        }
        None => Box::new(socket),
    };
    stream.write_all(b"srvr")?;
    stream.flush()?;
    let (mut said, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        wait()?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(said),
            // Many servers end TLS without a close_notify.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(said),
            Ok(_) if said.len() > LONGEST || Instant::now() >= end => {
                return Err(ErrorKind::TimedOut.into());
            }
            Ok(length) => said.extend_from_slice(&piece[..length]),
            Err(error) => return Err(error),
        }
    }
}

/// A connection, with TLS or without.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}
