//! The end of a connection: a flag that is set once, by whoever sees the first sign of trouble.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use zookeeper::{ZkError, ZkState};

use super::handshake;
use crate::signal::{Ended, Signal};

/// So long after a session timeout without a ping of its own, counted in whole seconds, the crate
/// ends its I/O thread instead of connecting again.
const CRATE_GIVES_UP: Duration = Duration::from_millis(1100);
/// How long a thread that was started may take to be at work.
const START: Duration = Duration::from_millis(100);
/// The first pause between two looks for the server, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// What ended a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cause {
    /// The crate left the state Connected.
    Cut,
    /// A request failed as requests do on a broken connection.
    Failed(ZkError),
    /// A request was without an answer for too long.
    Silent(Duration),
    /// A malformed answer or event made the crate panic.
    Malformed,
    /// No thread could be started.
    NoThread,
    /// Its request numbers are used up.
    WornOut,
    /// What ends with its session alone was lost on it.
    HoldLost,
    /// Another connection was there first, or the client was closed.
    NotWanted,
}

/// The flag that makes a connection dead for ever. Apart from the connection, because the crate's
/// I/O thread holds it and must never be the last owner of the handle: dropping that blocks.
///
/// Its mutexes are never held across anything, since that thread takes them.
#[derive(Debug)]
pub(super) struct Death {
    dead: AtomicBool,
    cause: Mutex<Option<Cause>>,
    died: Signal,
    /// The crate's I/O thread is at work.
    started: Signal,
    /// The crate's I/O thread may go on; see [`Death::on_state`].
    released: Signal,
    address: SocketAddr,
    timeout: Duration,
}

impl Death {
    pub(super) fn new(address: SocketAddr, timeout: Duration) -> Death {
        Death {
            dead: AtomicBool::new(false),
            cause: Mutex::new(None),
            died: Signal::new(),
            started: Signal::new(),
            released: Signal::new(),
            address,
            timeout,
        }
    }

    pub(super) fn kill(&self, cause: Cause) {
        if !self.dead.swap(true, Ordering::SeqCst) {
            *self.cause.lock() = Some(cause);
            self.died.raise();
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    pub(super) fn cause(&self) -> Option<Cause> {
        *self.cause.lock()
    }

    pub(super) fn died(&self) -> &Ended {
        self.died.ended()
    }

    /// Waits until the crate's I/O thread is at work, for a moment at most: that it has connected
    /// may have been missed. A request sent while that thread registers its channel is never seen,
    /// and no later one either, not even the one that closes the session (`mio-extras` 2.0.6 looks
    /// for waiting messages before it can be told of new ones).
    pub(super) fn await_start(&self) {
        let _ = self.started.ended().recv_timeout(START);
    }

    /// Lets the crate reconnect, for closing.
    pub(super) fn let_go(&self) {
        self.released.raise();
    }

    /// Called on the crate's I/O thread, under a mutex of the crate: no request, no panic.
    ///
    /// A thread that has been cut off would now connect again and again without a pause (thousands
    /// of times a second while nobody answers) until a session timeout has passed. Nobody wants
    /// its answers any more, so it is held up here, until the reaper wants to close the session
    /// and the server is there to be told.
    pub(super) fn on_state(&self, state: ZkState) {
        match state {
            ZkState::Connected => {
                self.started.raise();
            }
            ZkState::Closed => self.kill(Cause::Cut),
            _ => {
                self.kill(Cause::Cut);
                let end = Instant::now() + self.timeout + CRATE_GIVES_UP;
                let _ = self.released.ended().recv_deadline(end);
                self.await_server(end);
            }
        }
    }

    /// Waits until the server answers, until `end` at most.
    fn await_server(&self, end: Instant) {
        let mut pause = PAUSES.0;
        while Instant::now() < end {
            let deadline = end.min(Instant::now() + self.timeout / 3);
            if handshake::negotiate(self.address, self.timeout, deadline).is_ok() {
                return;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}
