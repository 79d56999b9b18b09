//! A proxied connection: two sockets, and a queue for each direction.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::control::Lane;
use super::op::Op;
use super::rule::Trigger;
use crate::lock;
use crate::probe::Grant;

/// One of the two directions through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// An item of a queue.
#[derive(Debug)]
pub(crate) enum Item {
    Bytes(Vec<u8>),
    /// The connection is closed at this point.
    Cut,
    /// The connection falls silent at this point, in both directions.
    Silence,
}

#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) item: Item,
    pub(crate) due: Instant,
    pub(crate) hold: Option<Arc<Trigger>>,
}

/// The queue of one direction.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    state: Mutex<PipeState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PipeState {
    queue: VecDeque<Parcel>,
    silent: bool,
    closed: bool,
}

impl PipeState {
    /// Returns how long the first item still has to wait, or `None` if it waits for an event.
    fn wait_for(&self, lane: &Lane) -> Option<Duration> {
        let first = self.queue.front()?;
        let held = first.hold.as_ref().is_some_and(|hold| !hold.is_released());
        if self.silent || held || lane.black_hole.load(Ordering::SeqCst) {
            return None;
        }
        Some(first.due.saturating_duration_since(Instant::now()))
    }
}

impl Pipe {
    pub(crate) fn push(&self, parcel: Parcel) {
        self.change(|state| state.queue.push_back(parcel));
    }

    /// Waits for the next item that may pass. Returns `None` when the connection has been closed.
    pub(crate) fn next(&self, lane: &Lane) -> Option<Item> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            let waited = match state.wait_for(lane) {
                Some(Duration::ZERO) => return state.queue.pop_front().map(|parcel| parcel.item),
                Some(time) => self.changed.wait_timeout(state, time).map(|(s, _)| s).ok(),
                None => self.changed.wait(state).ok(),
            };
            state = waited.unwrap_or_else(|| lock(&self.state));
        }
    }

    /// Waits until the direction is not a black hole. Returns false if the connection has been closed.
    pub(crate) fn wait_passable(&self, lane: &Lane) -> bool {
        let barred =
            |state: &mut PipeState| !state.closed && lane.black_hole.load(Ordering::SeqCst);
        let waited = self.changed.wait_while(lock(&self.state), barred);
        !waited.unwrap_or_else(PoisonError::into_inner).closed
    }

    fn change(&self, change: impl FnOnce(&mut PipeState)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }
}

/// A request that has not been answered yet.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) id: i32,
    pub(crate) op: Op,
    pub(crate) path: String,
    pub(crate) trigger: Option<Arc<Trigger>>,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) number: u64,
    client: TcpStream,
    server: OnceLock<TcpStream>,
    /// The session that the server has granted on this connection.
    pub(crate) session: OnceLock<Grant>,
    pipes: [Pipe; 2],
    pub(crate) pending: Mutex<VecDeque<Pending>>,
    closed: AtomicBool,
    // Set before `closed`: the sockets are to end with RST, so no thread may send FIN.
    aborted: AtomicBool,
    silent: AtomicBool,
}

impl Link {
    pub(crate) fn new(number: u64, client: TcpStream) -> Self {
        Self {
            number,
            client,
            server: OnceLock::new(),
            session: OnceLock::new(),
            pipes: Default::default(),
            pending: Mutex::default(),
            closed: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            silent: AtomicBool::new(false),
        }
    }

    /// Adds the connection to the server. Returns false if the link was closed in the meantime.
    pub(crate) fn connected(&self, server: TcpStream) -> bool {
        // `close` sets its flag before it reads `server`, so at least one side detects that both happened.
        self.server.set(server).is_ok() && !self.is_closed()
    }

    pub(crate) fn pipe(&self, way: Way) -> &Pipe {
        &self.pipes[way as usize]
    }

    /// Returns the source and the destination socket of this direction.
    pub(crate) fn sockets(&self, way: Way) -> Option<(&TcpStream, &TcpStream)> {
        let server = self.server.get()?;
        Some(match way {
            Way::ToServer => (&self.client, server),
            Way::ToClient => (server, &self.client),
        })
    }

    /// Returns the request to which this id's answer belongs: the first with the id, because the ids of pings repeat.
    pub(crate) fn answered(&self, id: i32) -> Option<Pending> {
        let mut pending = lock(&self.pending);
        let at = pending.iter().position(|request| request.id == id)?;
        pending.remove(at)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Returns whether the link is silent, or will be when earlier frames have been delivered.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::SeqCst)
    }

    /// Marks the link as silent. Earlier frames are still delivered.
    pub(crate) fn will_be_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    pub(crate) fn silence(&self) {
        for pipe in &self.pipes {
            pipe.change(|state| state.silent = true);
        }
    }

    /// Ends the connection with FIN on both sides, and discards all data in transit.
    pub(crate) fn close(&self) {
        if !self.aborted.load(Ordering::SeqCst) {
            self.end(Shutdown::Both);
        }
    }

    /// Ends the connection with RST on both sides.
    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::SeqCst);
        for socket in [Some(&self.client), self.server.get()].into_iter().flatten() {
            // With a linger time of zero, closing the socket resets the connection.
            let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
        }
        // This only wakes the readers. The sockets are closed when the last thread has ended.
        self.end(Shutdown::Read);
    }

    pub(crate) fn wake(&self) {
        // `change` locks each pipe's mutex, so no writer can miss that it is woken.
        self.pipes.iter().for_each(|pipe| pipe.change(|_| ()));
    }

    fn end(&self, how: Shutdown) {
        self.closed.store(true, Ordering::SeqCst);
        for pipe in &self.pipes {
            pipe.change(|state| state.closed = true);
        }
        for socket in [Some(&self.client), self.server.get()].into_iter().flatten() {
            let _ = socket.shutdown(how);
        }
    }
}
