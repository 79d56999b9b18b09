//! Finding a server that accepts a connection: names resolved anew, addresses tried one shortly after
//! the other, and the first that answers is taken. It says nothing to the server.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use socket2::{Domain, Socket, Type};

use crate::core::clock::Moment;
use crate::core::hosts::Host;
use crate::shared::Shared;

/// The pauses between rounds: drawn from the whole range ("full jitter"), so that the clients of a
/// restarted server do not come back in step, and never longer than a tenth of the session timeout.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// The next address gets its chance so long after the last one, if that has not answered.
const STAGGER: Duration = Duration::from_millis(250);
/// How often connections under way are looked at.
const LOOK: Duration = Duration::from_millis(1);

/// An address to try, and the name that it was found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)
    }
}

/// What the thread that resolves names says: a name, and its addresses or why there are none.
type Resolved = (String, io::Result<Vec<SocketAddr>>);

/// Tries servers, round after round.
#[derive(Debug)]
pub(crate) struct Dialer {
    /// In random order.
    hosts: Vec<Host>,
    /// Where the next round begins.
    next: usize,
    /// What names were last resolved to.
    known: Vec<Target>,
    resolver: Option<Receiver<Resolved>>,
    failures: u32,
    /// Since when all that was heard of servers is that they take connections, or do not take the client
    /// for its user.
    in_vain_since: Option<Instant>,
}

/// One try of each address.
#[derive(Debug, Default)]
pub(crate) struct Round {
    queue: VecDeque<Target>,
    tried: Vec<SocketAddr>,
    under_way: Vec<(Socket, Target, Instant)>,
    /// When the next address may be tried beside those under way.
    next_start: Option<Instant>,
    begun: Option<Instant>,
    pub(crate) causes: Vec<String>,
    /// Did somebody not answer at all?
    pub(crate) is_silent: bool,
    /// Did somebody not take the client for its user?
    pub(crate) is_refused: bool,
}

impl Dialer {
    pub(crate) fn new(hosts: &[Host]) -> Dialer {
        let mut hosts = hosts.to_vec();
        hosts.sort_by_cached_key(|_| random());
        Dialer {
            hosts,
            next: 0,
            known: Vec::new(),
            resolver: None,
            failures: 0,
            in_vain_since: None,
        }
    }

    /// Waits, after failures, and begins the next round.
    pub(crate) fn round(&mut self, shared: &Shared) -> Round {
        if self.failures > 0 {
            let most = PAUSE.0 * 2_u32.saturating_pow(self.failures);
            let most = most.min(PAUSE.1).min(shared.look(|core| core.timeout()) / 10);
            if self.is_in_vain(shared) {
                self.in_vain_since = None;
                let timeout = shared.look(|core| core.timeout());
                self.pause(shared, Instant::now() + timeout + timeout / 2);
            }
            let jitter = random() % u64::try_from(most.as_nanos()).unwrap_or(u64::MAX).max(1);
            self.pause(shared, Instant::now() + PAUSE.0 + Duration::from_nanos(jitter));
        }
        // What is left of an earlier round is better than nothing, and no reason not to ask again.
        self.take_resolved(&mut Round::default());
        self.resolve();
        let mut round = Round::default();
        for index in 0..self.hosts.len() {
            let host = &self.hosts[(self.next + index) % self.hosts.len()];
            let literal = host.literal().map(|address| Target { address, name: host.name.clone() });
            let known = self.known.iter().filter(|known| known.name == host.name);
            round.queue.extend(literal.into_iter().chain(known.cloned()));
        }
        self.next = (self.next + 1) % self.hosts.len();
        self.failures = self.failures.saturating_add(1).min(16);
        round
    }

    fn pause(&self, shared: &Shared, until: Instant) {
        while Instant::now() < until && !shared.look(|core| core.is_over()) {
            shared.dialing.sleep(until);
        }
    }

    /// Have servers taken connections and not said a word, or refused the client, for as long as a session
    /// lives? It may be that they hear us and we do not hear them: then each try keeps the session, and
    /// what it has from everybody, for a client that has lost its lease. A pause lets them end it.
    fn is_in_vain(&self, shared: &Shared) -> bool {
        let is_long = |since: Instant| since.elapsed() > shared.look(|core| core.timeout());
        self.in_vain_since.is_some_and(is_long)
            && shared.look(|core| core.look_at_lease(Moment::now()).1.is_zero())
    }

    /// Nobody in this round had the session.
    pub(crate) fn failed(&mut self, is_in_vain: bool) {
        self.in_vain_since = is_in_vain.then(|| self.in_vain_since.unwrap_or_else(Instant::now));
    }

    /// The connection of this round has been good for something.
    pub(crate) fn succeeded(&mut self, lasted: Duration) {
        self.in_vain_since = None;
        self.failures = if lasted > PAUSE.1 { 0 } else { self.failures.min(3) };
    }

    /// Has names resolved by a thread of its own, since that may block for long. If there can be no
    /// thread, the addresses from before have to do.
    fn resolve(&mut self) {
        let mut names: Vec<Host> = self.hosts.clone();
        names.retain(|host| host.literal().is_none());
        if names.is_empty() || self.resolver.is_some() {
            return;
        }
        let (sender, receiver): (Sender<Resolved>, _) = unbounded();
        let resolve = move || {
            for host in names {
                let addresses = (host.name.as_str(), host.port).to_socket_addrs();
                let resolved = (host.name, addresses.map(Iterator::collect));
                if sender.send(resolved).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("zookeeper-names".into());
        self.resolver = thread.spawn(resolve).is_ok().then_some(receiver);
    }

    /// Takes what has been resolved by now.
    fn take_resolved(&mut self, round: &mut Round) {
        while let Some(resolver) = &self.resolver {
            match resolver.try_recv() {
                Ok((name, Ok(addresses))) => {
                    let target = |address| Target { address, name: name.clone() };
                    self.known.retain(|known| known.name != name);
                    self.known.extend(addresses.into_iter().map(target));
                    let fresh = self.known.iter().filter(|known| known.name == name);
                    round.queue.extend(fresh.cloned());
                }
                Ok((name, Err(error))) => round.causes.push(format!("{name}: {error}")),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => self.resolver = None,
            }
        }
    }

    /// The next connection of the round, or none when it is over.
    pub(crate) fn next(&mut self, round: &mut Round, shared: &Shared) -> Option<(Socket, Target)> {
        let limit = shared.look(|core| core.patience(Moment::now()));
        let stagger = STAGGER.min(limit / 3);
        let begun = *round.begun.get_or_insert_with(Instant::now);
        while !shared.look(|core| core.is_over()) {
            self.take_resolved(round);
            let now = Instant::now();
            let may_start =
                round.under_way.is_empty() || round.next_start.is_none_or(|start| now >= start);
            if may_start && let Some(target) = round.queue.pop_front() {
                round.next_start = Some(now + stagger);
                round.start(target, now);
            }
            if let Some(found) = round.check(now, limit) {
                return Some(found);
            }
            if round.under_way.is_empty() && round.queue.is_empty() {
                self.resolver.as_ref()?;
                // The addresses from before have had their turn; names may take for ever.
                if !round.tried.is_empty() || now > begun + limit {
                    round.causes.push("names are still being resolved".into());
                    round.is_silent = true;
                    return None;
                }
            }
            if !round.under_way.is_empty() || round.queue.is_empty() {
                shared.dialing.sleep(now + LOOK);
            }
        }
        None
    }
}

impl Round {
    fn start(&mut self, target: Target, now: Instant) {
        if self.tried.contains(&target.address) {
            return;
        }
        self.tried.push(target.address);
        match connect(target.address) {
            Ok(socket) => self.under_way.push((socket, target, now)),
            Err(error) => self.causes.push(format!("{target}: {error}")),
        }
    }

    /// The first connection that stands. Those that were begun beside it can be tried again.
    fn check(&mut self, now: Instant, limit: Duration) -> Option<(Socket, Target)> {
        let mut found = None;
        for (socket, target, begun) in std::mem::take(&mut self.under_way) {
            let failed = socket.take_error().unwrap_or_else(Some);
            if let Some(error) = failed {
                self.causes.push(format!("{target}: {error}"));
            } else if found.is_none() && socket.peer_addr().is_ok() {
                match ready(&socket) {
                    Ok(()) => found = Some((socket, target)),
                    Err(error) => self.causes.push(format!("{target}: {error}")),
                }
            } else if now >= begun + limit {
                self.causes.push(format!("{target}: no answer in {limit:.1?}"));
                self.is_silent = true;
            } else {
                self.under_way.push((socket, target, begun));
            }
        }
        if found.is_some() {
            for (_, target, _) in self.under_way.drain(..) {
                self.tried.retain(|tried| *tried != target.address);
                self.queue.push_front(target);
            }
        }
        found
    }
}

/// Begins to connect, and does not wait.
fn connect(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

fn ready(socket: &Socket) -> io::Result<()> {
    // A port that nobody listens at, in the range that clients' ports are taken from, can be connected
    // to itself.
    if socket.local_addr()?.as_socket() == socket.peer_addr()?.as_socket() {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    socket.set_nonblocking(false)?;
    socket.set_tcp_nodelay(true)
}

pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0)
}
