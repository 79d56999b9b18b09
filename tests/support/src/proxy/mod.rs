//! A TCP proxy in front of one server, which causes network faults on demand.

mod control;
mod door;
mod frame;
mod link;
mod op;
mod relay;
mod rule;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::port::ReservedPort;
use crate::probe::Session;
use crate::wait::poll;
use control::{Control, Known};
use door::Door;
pub(crate) use frame::Protocol;
use link::{Link, Way};
pub use op::Op;
pub use rule::{Hold, Rule, RuleBuilder, Then};

/// The longest time for the threads of closed connections to end.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// A direction through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the clients to the server.
    ToServer,
    /// From the server to the clients.
    ToClient,
    /// Both ways.
    Both,
}

impl Direction {
    fn ways(self) -> &'static [Way] {
        match self {
            Self::ToServer => &[Way::ToServer],
            Self::ToClient => &[Way::ToClient],
            Self::Both => &[Way::ToServer, Way::ToClient],
        }
    }
}

/// A proxy on a loopback port in front of one ZooKeeper server.
///
/// It opens a connection to the server for each connection that it accepts, so it outlives restarts
/// of the server. If the server refuses, the client's connection is closed. Faults act at once,
/// also on existing connections. Dropping the proxy closes everything and ends its threads.
///
/// # Counting
///
/// [`requests`](Self::requests) and [`events`](Self::events) count the frames that reach the proxy,
/// including those that it drops or holds back.
///
/// # TLS
///
/// TLS passes, too. The proxy can cut, silence, delay and refuse such connections, but sees no
/// requests in them, and so no sessions. No rule applies, and only connections are counted.
#[derive(Debug)]
pub struct FaultProxy {
    port: ReservedPort,
    target: SocketAddr,
    control: Arc<Control>,
    door: Mutex<Option<Door>>,
}

impl FaultProxy {
    /// Starts a proxy in front of `target`, which need not listen yet.
    ///
    /// # Errors
    ///
    /// When no port can be listened on.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        Self::speaking(Protocol::Client, target)
    }

    /// Starts a proxy in front of a port other than a server's port for clients.
    pub(crate) fn speaking(protocol: Protocol, target: SocketAddr) -> io::Result<Self> {
        let proxy = Self {
            port: ReservedPort::any()?,
            target,
            control: Arc::new(Control::new(protocol)),
            door: Mutex::new(None),
        };
        proxy.open_door()?;
        Ok(proxy)
    }

    /// Returns the address for clients, which never changes.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns the address in the form of a connect string, `127.0.0.1:<port>`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.address().to_string()
    }

    /// Closes all current connections on both sides with FIN, and accepts new ones. Frames that
    /// were on their way or held back are lost. Returns when the connections are closed.
    pub fn cut(&self) {
        self.control.note("cut");
        end(&self.control.links(), Link::close);
    }

    /// As [`cut`](Self::cut), with RST instead of FIN.
    pub fn reset(&self) {
        self.control.note("reset");
        end(&self.control.links(), Link::abort);
    }

    /// Closes all current connections and refuses new ones, until [`restore`](Self::restore) or
    /// [`refuse(false)`](Self::refuse).
    pub fn cut_off(&self) {
        self.refuse(true);
        self.cut();
    }

    /// With true, closes the listener, so that connections are refused. With false, listens again
    /// on the same port. Current connections stay.
    ///
    /// # Panics
    ///
    /// When the port, which stays reserved, cannot be listened on again.
    pub fn refuse(&self, on: bool) {
        self.control.note(&format!("refuse {on}"));
        if on {
            self.close_door();
        } else if let Err(error) = self.open_door() {
            panic!("failed to listen on {} again: {error}", self.address());
        }
    }

    /// With true, closes new connections right after accepting them. Current connections stay.
    pub fn accept_and_close(&self, on: bool) {
        self.control.note(&format!("accept_and_close {on}"));
        self.control.accept_and_close.store(on, Ordering::SeqCst);
    }

    /// Lets nothing pass in a direction, not even the end of a connection. Closes nothing.
    ///
    /// Frames that are held back are delivered in order after [`restore`](Self::restore), as a
    /// network retransmits when it is back. That includes frames of a client that has closed its
    /// side meanwhile. New connections can still be opened, because the kernel accepts them, but
    /// get no answer.
    pub fn black_hole(&self, direction: Direction) {
        self.control.note(&format!("black_hole {direction:?}"));
        for way in direction.ways() {
            self.control.lane(*way).set_black_hole(true);
        }
    }

    /// Delays each frame in a direction, and the end of a connection, by `delay`. Their order is
    /// kept, so a later frame with a shorter delay does not overtake. Zero ends the delay.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.control.note(&format!("delay {direction:?} {delay:?}"));
        for way in direction.ways() {
            self.control.lane(*way).set_delay(delay);
        }
    }

    /// Ends all faults: black holes, delays, [`refuse`](Self::refuse),
    /// [`accept_and_close`](Self::accept_and_close) and rules. Releases frames that are held. Cuts
    /// the connections that [`Then::Hold`] has silenced, because a frame is missing there.
    ///
    /// # Panics
    ///
    /// As [`refuse`](Self::refuse).
    pub fn restore(&self) {
        self.control.note("restore");
        self.control.disarm_all();
        for way in Direction::Both.ways() {
            self.control.lane(*way).set_black_hole(false);
            self.control.lane(*way).set_delay(Duration::ZERO);
        }
        let mut silent = self.control.links();
        silent.retain(|known| known.link().is_some_and(|link| link.is_silent()));
        end(&silent, Link::close);
        self.control.wake_all();
        self.accept_and_close(false);
        self.refuse(false);
    }

    /// Ends, on the server, every session that was opened through this proxy and may still live.
    /// Returns how many were alive.
    ///
    /// It connects to the server past this proxy, with the id and the password of the session, and
    /// closes the session. So faults of this proxy do not interfere, and the ephemeral nodes are
    /// gone on that server when this returns. The server closes the client's connection when
    /// another one uses the session. When the client connects again, the server reports that the
    /// session has expired. The proxy does not know sessions whose handshake was never answered
    /// through it.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached, or does not answer within 10 s. A further call tries the
    /// remaining sessions again.
    pub fn expire_sessions(&self) -> io::Result<usize> {
        self.control.note("expire_sessions");
        let mut alive = 0;
        for grant in self.control.sessions() {
            alive += usize::from(Session::end(self.target, &grant)?);
            self.control.forget_session(grant.id);
        }
        Ok(alive)
    }

    /// Begins a rule about requests of one kind, or about their answers:
    /// `proxy.on(Op::Create).nth(2).path_contains("lock").drop_answer(Then::Cut)`.
    ///
    /// Requests on all connections are counted together, from the creation of the rule on. A rule
    /// acts once. A rule about an answer applies to the answer to the n-th request. It never acts
    /// if that connection ends first.
    pub fn on(&self, op: Op) -> RuleBuilder<'_> {
        RuleBuilder { proxy: self, op, nth: 1, path: String::new() }
    }

    /// Drops the n-th such request from now on, 1 for the next.
    pub fn drop_request(&self, op: Op, nth: u64, then: Then) -> Rule {
        self.on(op).nth(nth).drop_request(then)
    }

    /// Lets the n-th such request from now on reach the server, and drops its answer.
    pub fn drop_answer(&self, op: Op, nth: u64, then: Then) -> Rule {
        self.on(op).nth(nth).drop_answer(then)
    }

    /// Holds the n-th such request from now on, and everything after it in that direction.
    pub fn hold_request(&self, op: Op, nth: u64) -> Hold {
        self.on(op).nth(nth).hold_request()
    }

    /// Holds the answer to the n-th such request from now on, and everything after it in that
    /// direction.
    pub fn hold_answer(&self, op: Op, nth: u64) -> Hold {
        self.on(op).nth(nth).hold_answer()
    }

    /// Returns how many requests of a kind clients have sent.
    #[must_use]
    pub fn requests(&self, op: Op) -> u64 {
        self.control.requests(op)
    }

    /// Returns how many watch events the server has sent.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.control.events()
    }

    /// Returns how many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.control.accepted.load(Ordering::SeqCst)
    }

    /// Returns how many connections are open now.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.control.links().iter().filter(|known| !known.is_gone()).count()
    }

    /// Returns the latest frames and faults, for the messages of failed tests. Each line has the
    /// time since the start, the connection, `>` to the server or `<` to the client, and the frame
    /// or fault.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.control.log()
    }

    fn open_door(&self) -> io::Result<()> {
        let mut door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        if door.is_none() {
            let control = Arc::clone(&self.control);
            *door = Some(Door::open(self.port.listen()?, control, self.target)?);
        }
        Ok(())
    }

    fn close_door(&self) {
        let mut door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        door.take();
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.close_door();
        end(&self.control.links(), Link::close);
    }
}

/// Ends links, and waits until they are gone.
fn end(links: &[Known], how: impl Fn(&Link)) {
    for link in links.iter().filter_map(Known::link) {
        how(&link);
    }
    let gone = || links.iter().all(Known::is_gone);
    poll(CLOSED_WITHIN, || gone().then_some(()));
}
