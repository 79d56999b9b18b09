//! A TCP proxy in front of one server that causes network faults on request.

mod acceptor;
mod control;
mod frame;
mod link;
mod op;
mod relay;
mod rule;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::lock;
use crate::port::ReservedPort;
use crate::probe::Session;
use crate::wait::poll;
use acceptor::Acceptor;
use control::{Control, Known};
pub(crate) use frame::Protocol;
use link::Link;
pub use op::Op;
pub use rule::{Hold, Rule, RuleBuilder, Then};

/// The limit for the threads of closed connections to end.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// A direction through the proxy, or both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the clients to the server.
    ToServer,
    /// From the server to the clients.
    ToClient,
    /// Both directions.
    Both,
}

/// A proxy on a loopback port in front of one ZooKeeper server.
///
/// The proxy opens a connection to the server for each connection that it accepts, and therefore survives restarts of
/// the server. If the server refuses, the proxy closes the client's connection. Faults take effect at once, also on
/// existing connections. Dropping the proxy closes all connections and ends its threads.
///
/// # Counting
///
/// [`requests`](Self::requests) and [`events`](Self::events) count all frames that reach the proxy, including frames
/// that it drops or holds.
///
/// # TLS
///
/// The proxy also passes on TLS connections. It can cut, silence, delay and refuse them, but it cannot read their
/// requests and sessions: rules have no effect, and only connections are counted.
#[derive(Debug)]
pub struct FaultProxy {
    port: ReservedPort,
    target: SocketAddr,
    control: Arc<Control>,
    acceptor: Mutex<Option<Acceptor>>,
}

impl FaultProxy {
    /// Starts a proxy in front of `target`, where nothing needs to listen yet.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        Self::speaking(Protocol::Client, target)
    }

    /// Starts a proxy in front of a port at which `protocol` is spoken.
    pub(crate) fn speaking(protocol: Protocol, target: SocketAddr) -> io::Result<Self> {
        let proxy = Self {
            port: ReservedPort::any()?,
            target,
            control: Arc::new(Control::new(protocol)),
            acceptor: Mutex::new(None),
        };
        proxy.open_door()?;
        Ok(proxy)
    }

    /// Returns the address for clients, which never changes.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns the address in the format of ZooKeeper clients, `127.0.0.1:<port>`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.address().to_string()
    }

    /// Closes all current connections on both sides with FIN, but continues to accept new ones. Data that are in
    /// transit or held are lost. Returns when the connections have been closed.
    pub fn cut(&self) {
        self.control.note("cut");
        end(&self.control.links(), Link::close);
    }

    /// Like [`cut`](Self::cut), but with RST instead of FIN.
    pub fn reset(&self) {
        self.control.note("reset");
        end(&self.control.links(), Link::abort);
    }

    /// Closes all current connections, and refuses new ones until [`restore`](Self::restore) or
    /// [`refuse(false)`](Self::refuse) is called.
    pub fn cut_off(&self) {
        self.refuse(true);
        self.cut();
    }

    /// If `on` is true, closes the listener, so that new connections are refused. If it is false, listens again on the
    /// same port. Current connections are not affected.
    pub fn refuse(&self, on: bool) {
        self.control.note(&format!("refuse {on}"));
        if on {
            lock(&self.acceptor).take();
        } else if let Err(error) = self.open_door() {
            panic!("failed to listen on {} again: {error}", self.address());
        }
    }

    /// If `on` is true, closes new connections right after accepting them. Current connections are not affected.
    pub fn accept_and_close(&self, on: bool) {
        self.control.note(&format!("accept_and_close {on}"));
        self.control.accept_and_close.store(on, Ordering::SeqCst);
    }

    /// Blocks everything in a direction, including the end of a connection, but closes nothing.
    ///
    /// After [`restore`](Self::restore), blocked data are delivered in order, like retransmissions when a network
    /// recovers, even if the client has closed its side by then. In the meantime, new connections can be opened,
    /// because the kernel accepts them, but they receive no answer.
    pub fn black_hole(&self, direction: Direction) {
        self.control.note(&format!("black_hole {direction:?}"));
        for lane in self.control.lanes(direction) {
            lane.black_hole.store(true, Ordering::SeqCst);
        }
    }

    /// Delays each frame in a direction, and the end of a connection, by `delay`. Frames stay in order, even if the
    /// delay is shortened. A delay of zero ends this.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.control.note(&format!("delay {direction:?} {delay:?}"));
        for lane in self.control.lanes(direction) {
            *lock(&lane.delay) = delay;
        }
    }

    /// Ends all faults: black holes, delays, [`refuse`](Self::refuse) and [`accept_and_close`](Self::accept_and_close).
    /// Removes all rules, and releases held frames. Cuts connections that [`Then::Hold`] has silenced, because they
    /// lack a frame.
    pub fn restore(&self) {
        self.control.note("restore");
        self.control.disarm_all();
        for lane in self.control.lanes(Direction::Both) {
            lane.black_hole.store(false, Ordering::SeqCst);
            *lock(&lane.delay) = Duration::ZERO;
        }
        let mut silent = self.control.links();
        silent.retain(|known| known.link.upgrade().is_some_and(|link| link.is_silent()));
        end(&silent, Link::close);
        self.control.wake_all();
        self.accept_and_close(false);
        self.refuse(false);
    }

    /// Ends every session that was opened through this proxy and may still be alive. Returns how many of them the
    /// server reports to have been alive.
    ///
    /// It connects to the server directly, with the session's id and password, and closes the session. Therefore, when
    /// this method returns, that server has deleted the ephemeral nodes, whatever faults this proxy causes. The server
    /// closes a client's connection when another connection uses the session, and a client that reconnects receives the
    /// answer that its session has expired. If the answer to a handshake did not reach this proxy, its session is
    /// unknown here. Fails if the server cannot be reached or does not answer within 10 s; another call tries the
    /// remaining sessions.
    pub fn expire_sessions(&self) -> io::Result<usize> {
        self.control.note("expire_sessions");
        let mut alive = 0;
        let sessions = lock(&self.control.books).sessions.clone();
        for (id, grant) in sessions {
            alive += usize::from(Session::end(self.target, &grant)?);
            lock(&self.control.books).sessions.remove(&id);
        }
        Ok(alive)
    }

    /// Begins a rule about requests of one kind, or about the answers to them:
    /// `proxy.on(Op::Create).nth(2).path_contains("lock").drop_answer(Then::Cut)`.
    ///
    /// Requests are counted from the creation of the rule, on all connections together. A rule acts only once. A rule
    /// about answers applies to the answer to the n-th request, and does not act if the connection of that request ends
    /// before.
    pub fn on(&self, op: Op) -> RuleBuilder<'_> {
        RuleBuilder { proxy: self, op, nth: 1, path: String::new() }
    }

    /// Lets the n-th such request from now on reach the server, but drops the answer.
    pub fn drop_answer(&self, op: Op, nth: u64, then: Then) -> Rule {
        self.on(op).nth(nth).drop_answer(then)
    }

    /// Holds the n-th such request from now on, and everything that follows it.
    pub fn hold_request(&self, op: Op, nth: u64) -> Hold {
        self.on(op).nth(nth).hold_request()
    }

    /// Holds the answer to the n-th such request from now on, and everything that follows it.
    pub fn hold_answer(&self, op: Op, nth: u64) -> Hold {
        self.on(op).nth(nth).hold_answer()
    }

    /// Returns the number of requests of this kind that clients have sent.
    #[must_use]
    pub fn requests(&self, op: Op) -> u64 {
        lock(&self.control.books).requests.get(&op).copied().unwrap_or_default()
    }

    /// Returns the number of watch events that the server has sent.
    #[must_use]
    pub fn events(&self) -> u64 {
        lock(&self.control.books).events
    }

    /// Returns the number of connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.control.accepted.load(Ordering::SeqCst)
    }

    /// Returns the latest frames and faults, one per line, to be printed when a test fails: the time since the start,
    /// the connection, `>` (to the server) or `<` (to the client), and the content.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        lock(&self.control.books).log.iter().cloned().collect()
    }

    fn open_door(&self) -> io::Result<()> {
        let mut acceptor = lock(&self.acceptor);
        if acceptor.is_none() {
            let control = Arc::clone(&self.control);
            *acceptor = Some(Acceptor::open(self.port.listen()?, control, self.target)?);
        }
        Ok(())
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        lock(&self.acceptor).take();
        end(&self.control.links(), Link::close);
    }
}

/// Ends links in this way, and waits until they have ended.
fn end(links: &[Known], how: impl Fn(&Link)) {
    for link in links.iter().filter_map(|known| known.link.upgrade()) {
        how(&link);
    }
    let gone = || links.iter().all(Known::is_gone);
    poll(CLOSED_WITHIN, || gone().then_some(()));
}
