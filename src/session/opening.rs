//! Finding a server and opening a connection to it: names resolved anew, hosts tried one shortly
//! after the other, and the first that proves itself wins.

use std::collections::VecDeque;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, at, bounded, select_biased, unbounded};
use log::{debug, info};

use super::Session;
use super::call::{Failure, Until};
use super::connection::Connection;
use super::death::Cause;
use super::handshake::{self, NO_ANSWER};
use super::workers::spawn;
use crate::clock::Moment;
use crate::hosts::Host;

/// The bounds of the pause between rounds; it is drawn from the whole range below ("full
/// jitter"), so that the clients of a restarted server do not come back in step. Never longer than
/// a tenth of the session timeout: leases run out meanwhile.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How long a refusal of credentials may come behind the news that the connection is dead.
const REFUSAL: Duration = Duration::from_millis(100);

/// Opens connections, one after the other.
#[derive(Debug)]
pub(super) struct Opener {
    /// Where to begin in the list of hosts: behind the last one used.
    next_host: usize,
    /// Rounds since a connection last lasted.
    failures: u32,
    last_opened: Instant,
}

/// What the threads of one round report.
enum Report {
    Resolved(usize, Vec<SocketAddr>),
    Unresolved(String),
    Failed(String),
    Opened(usize, Candidate),
}

/// A connection that nobody has taken yet. Dropped, it is closed in the background.
struct Candidate {
    session: Arc<Session>,
    connection: Option<Arc<Connection>>,
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.kill(Cause::NotWanted);
            self.session.bury(connection);
        }
    }
}

impl Opener {
    pub(super) fn new() -> Opener {
        Opener {
            next_host: random_below(usize::MAX as u128) as usize,
            failures: 0,
            last_opened: Instant::now(),
        }
    }

    /// Tries until a connection is open, or the client is closed. With `once` it gives up after
    /// one round and says why, unless it was for want of an answer and there is time left.
    pub(super) fn open(
        &mut self,
        session: &Arc<Session>,
        once: bool,
    ) -> Result<Option<Arc<Connection>>, String> {
        if self.last_opened.elapsed() > PAUSE.1 {
            self.failures = 0;
        }
        let end = Instant::now() + session.config.connect_timeout / 20 * 19;
        loop {
            self.pause(session);
            if session.is_closed() {
                return Ok(None);
            }
            let round = self.round(session);
            // A success counts, too, until it has lasted: a server may accept and hang up.
            self.failures = self.failures.saturating_add(1).min(16);
            self.last_opened = Instant::now();
            match round {
                Ok(connection) => return Ok(Some(connection)),
                // A server that is just starting may accept a connection and forget it.
                Err(causes) if once && (!causes.ends_with(NO_ANSWER) || Instant::now() >= end) => {
                    return Err(causes);
                }
                Err(causes) => info!(target: "zoolock::session", "no connection yet: {causes}"),
            }
        }
    }

    /// The first try comes at once.
    fn pause(&self, session: &Session) {
        let mut pause = Duration::ZERO;
        if self.failures > 0 {
            let most = PAUSE.0 * 2_u32.saturating_pow(self.failures);
            let most = most.min(PAUSE.1).min(session.timeout() / 10);
            let jittered = random_below(most.as_nanos()) as u64;
            pause = PAUSE.0 + Duration::from_nanos(jittered);
        }
        let end = Instant::now() + pause;
        loop {
            let left = session.left.listen();
            let end = session.next_handle().map_or(end, |next| next.max(end));
            if end <= Instant::now() {
                return;
            }
            select_biased! {
                recv(session.closed()) -> _ => return,
                recv(left) -> _ => {}
                recv(at(end)) -> _ => {}
            }
        }
    }

    /// Tries every address of every host once.
    fn round(&mut self, session: &Arc<Session>) -> Result<Arc<Connection>, String> {
        let hosts = &session.config.hosts.hosts;
        let (sender, reports) = unbounded();
        let limit = session.timeout().min(session.config.connect_timeout) / 3;
        // If one fails, a hold that has to move wants time for another.
        let pressed = session.pressed(Moment::now());
        let limit = pressed.map_or(limit, |left| (left / 2).max(session.timeout() / 20).min(limit));
        let mut round = Round {
            session,
            limit,
            sender,
            targets: VecDeque::new(),
            unresolved: 0,
            under_way: 0,
            causes: Vec::new(),
            addresses: Vec::new(),
        };
        for turn in 0..hosts.len() {
            let index = self.next_host.wrapping_add(turn) % hosts.len();
            round.resolve(index, &hosts[index]);
        }
        let (index, mut winner) = round.run(&reports)?;
        self.next_host = index + 1;
        winner.connection.take().ok_or("nothing opened".to_owned())
    }
}

struct Round<'a> {
    session: &'a Arc<Session>,
    /// How long one try may take.
    limit: Duration,
    sender: Sender<Report>,
    /// What can be tried next, with the index of its host.
    targets: VecDeque<(usize, SocketAddr)>,
    unresolved: usize,
    under_way: usize,
    causes: Vec<String>,
    addresses: Vec<SocketAddr>,
}

impl Round<'_> {
    fn resolve(&mut self, index: usize, host: &Host) {
        if let Some(address) = host.literal() {
            self.add(index, vec![address]);
            return;
        }
        let (sender, host) = (self.sender.clone(), host.clone());
        let resolving = spawn("resolver", move || {
            let report = match (host.name.as_str(), host.port).to_socket_addrs() {
                Ok(addresses) => Report::Resolved(index, addresses.collect()),
                Err(error) => Report::Unresolved(format!("{host}: {error}")),
            };
            let _ = sender.send(report);
        });
        match resolving {
            Ok(()) => self.unresolved += 1,
            Err(error) => self.causes.push(error.to_string()),
        }
    }

    fn add(&mut self, index: usize, addresses: Vec<SocketAddr>) {
        for address in addresses {
            if !self.addresses.contains(&address) {
                self.addresses.push(address);
                self.targets.push_back((index, address));
            }
        }
    }

    /// Starts the next try when the last one has failed or been silent for a while.
    fn run(&mut self, reports: &Receiver<Report>) -> Result<(usize, Candidate), String> {
        let config = &self.session.config;
        let stagger = (self.session.timeout() / 10).min(Duration::from_millis(250));
        let over = after(config.connect_timeout / 20 * 19);
        loop {
            self.try_next();
            if self.under_way == 0 && self.unresolved == 0 && self.targets.is_empty() {
                return Err(self.causes.join("; "));
            }
            select_biased! {
                recv(self.session.closed()) -> _ => return Err("the client was closed".to_owned()),
                recv(reports) -> report => match report {
                    Ok(Report::Opened(index, candidate)) => return Ok((index, candidate)),
                    Ok(Report::Resolved(index, addresses)) => {
                        self.unresolved -= 1;
                        self.add(index, addresses);
                    }
                    Ok(Report::Unresolved(cause)) => {
                        self.unresolved -= 1;
                        self.failed(cause);
                    }
                    Ok(Report::Failed(cause)) => {
                        self.under_way -= 1;
                        self.failed(cause);
                    }
                    Err(_) => return Err(self.causes.join("; ")),
                },
                recv(over) -> _ => {
                    self.causes.push(format!("no answer within {:?}", config.connect_timeout));
                    return Err(self.causes.join("; "));
                }
                recv(after(stagger)) -> _ => {}
            }
        }
    }

    fn failed(&mut self, cause: String) {
        debug!(target: "zoolock::session", "{cause}");
        self.causes.push(cause);
    }

    fn try_next(&mut self) {
        let Some((index, address)) = self.targets.pop_front() else {
            return;
        };
        let (session, sender) = (Arc::clone(self.session), self.sender.clone());
        let deadline = Instant::now() + self.limit;
        let trying = spawn("connect", move || {
            let report = match attempt(&session, address, deadline) {
                Ok(candidate) => Report::Opened(index, candidate),
                Err(cause) => Report::Failed(format!("{address}: {cause}")),
            };
            let _ = sender.send(report);
        });
        match trying {
            Ok(()) => self.under_way += 1,
            Err(error) => self.causes.push(error.to_string()),
        }
    }
}

/// Opens a connection to one address, authenticates, and proves it with a request.
fn attempt(
    session: &Arc<Session>,
    address: SocketAddr,
    deadline: Instant,
) -> Result<Candidate, String> {
    let config = &session.config;
    let timeout = handshake::negotiate(address, config.timeout, deadline)?;
    if session.is_closed() {
        return Err("the client was closed".to_owned());
    }
    let connection = Connection::open(address, timeout, config)?;
    session.handle_opened();
    let candidate =
        Candidate { session: Arc::clone(session), connection: Some(Arc::clone(&connection)) };
    let (auth, (refuse, refused)) = (config.auth.clone(), bounded(1));
    let proved = connection.call(&Until::deadline(deadline), move |wire| {
        for (scheme, secret) in &auth {
            if let Err(Failure::Refused(error)) = wire.authenticate(scheme, &secret.0) {
                let _ = refuse.send(format!("authentication with {scheme:?} failed: {error}"));
            }
        }
        wire.probe()
    });
    // A server that refuses hangs up as well; the refusal says more. Disconnected at the step's end.
    if let Ok(refused) = refused.recv_timeout(REFUSAL) {
        return Err(refused);
    }
    match proved {
        Ok(()) => {
            connection.proved();
            Ok(candidate)
        }
        Err(Failure::Deadline | Failure::Cancelled) => Err(NO_ANSWER.to_owned()),
        Err(Failure::Refused(error)) => Err(error.to_string()),
        Err(Failure::Dead) => Err("the connection broke".to_owned()),
    }
}

/// A random number below `end`, from the source of the node ids.
fn random_below(end: u128) -> u128 {
    uuid::Uuid::new_v4().as_u128() % end.max(1)
}
