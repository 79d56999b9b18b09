//! How a session's connections come and go.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;
use log::{error, info};
use zookeeper::ZkError;

use super::call::{Failure, Until};
use super::connection::Connection;
use super::death::Cause;
use super::{Session, pulse, reaper, workers};
use crate::clock::Moment;
use crate::error::{Error, Result};

/// From so many handles on that could not be closed, at most one more a session timeout.
const MANY: usize = 8;
/// The pause before a thread that could not be started is tried again.
const NO_THREAD: Duration = Duration::from_millis(100);

/// The crate's handles that are not closed yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handles {
    open: usize,
    last_opened: Option<Instant>,
}

impl Session {
    /// A new connection takes its place.
    pub(super) fn adopt(self: &Arc<Self>, connection: &Arc<Connection>) {
        info!(
            target: "zoolock::session",
            "connected to {} with a session timeout of {:?}",
            connection.address(), connection.timeout()
        );
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        let (session, pulsed) = (Arc::clone(self), Arc::clone(connection));
        if workers::spawn("pulse", move || pulse::run(&session, &pulsed)).is_err() {
            connection.kill(Cause::NoThread);
        }
        *self.timeout.lock() = connection.timeout();
        self.move_holds(connection);
        *self.current.lock() = Some(Arc::clone(connection));
        self.link.connected();
        self.connected.send();
        self.timer.ring();
    }

    /// A dead connection leaves.
    pub(super) fn retire(self: &Arc<Self>, connection: Arc<Connection>) {
        if let Some(cause) = connection.cause() {
            info!(target: "zoolock::session", "{} is gone: {cause:?}", connection.address());
        }
        *self.current.lock() = None;
        self.end_kept_on(&connection);
        if !self.is_closed() {
            self.link.suspended(connection.timeout());
        }
        self.bury(connection);
        self.left.send();
        self.timer.ring();
    }

    /// Has the handle of a dead connection closed in the background.
    pub(super) fn bury(self: &Arc<Self>, connection: Arc<Connection>) {
        connection.dismiss();
        let counters = &self.counters;
        counters.requests.fetch_add(connection.requests(), Ordering::Relaxed);
        let events = connection.watches().events();
        counters.events.fetch_add(events, Ordering::Relaxed);
        // Without a thread nothing could be opened either, and dropping a handle here may block.
        while let Err(cause) = self.start_reaper(&connection) {
            error!(target: "zoolock::session", "failed to close a handle: {cause}");
            thread::sleep(NO_THREAD);
        }
    }

    fn start_reaper(self: &Arc<Self>, connection: &Arc<Connection>) -> io::Result<()> {
        let (session, connection) = (Arc::clone(self), Arc::clone(connection));
        workers::spawn("reaper", move || reaper::run(&session, &connection))
    }

    pub(super) fn handle_opened(&self) {
        let mut handles = self.handles.lock();
        handles.open += 1;
        handles.last_opened = Some(Instant::now());
    }

    pub(super) fn handle_reaped(&self) {
        self.handles.lock().open -= 1;
        self.left.send();
        self.garbage.nudge();
    }

    pub(super) fn open_handles(&self) -> usize {
        self.handles.lock().open
    }

    /// When the next handle may be opened: they must not pile up where old ones cannot be closed.
    /// A hold that has to move does not wait for that.
    pub(super) fn next_handle(&self) -> Option<Instant> {
        let handles = *self.handles.lock();
        let many = handles.open >= MANY && self.pressed(Moment::now()).is_none();
        let last = handles.last_opened.filter(|_| many)?;
        Some(last + self.timeout())
    }

    /// The connection, if there is a live one.
    pub(crate) fn live(&self) -> Option<Arc<Connection>> {
        let current = self.current.lock().clone();
        current.filter(|connection| !connection.is_dead())
    }

    /// The connection if there is a live one, for calls that do not wait for one.
    pub(crate) fn require_live(&self, path: &str) -> Result<Arc<Connection>> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let path = || path.to_owned();
        self.live().ok_or_else(|| Error::Disconnected { path: path() })
    }

    /// Waits for a live connection. Without one at the deadline, or at once if it is over:
    /// Disconnected.
    pub(crate) fn await_live(&self, path: &str, until: &Until) -> Result<Arc<Connection>> {
        loop {
            let connected = self.connected.listen();
            if self.is_closed() {
                return Err(Error::Closed);
            }
            if let Some(connection) = self.live() {
                return Ok(connection);
            }
            let path = || path.to_owned();
            select_biased! {
                recv(connected) -> _ => {}
                recv(self.closed()) -> _ => return Err(Error::Closed),
                recv(until.cancelled) -> _ => return Err(Error::Cancelled { path: path() }),
                recv(until.expiry()) -> _ => return Err(Error::Disconnected { path: path() }),
            }
        }
    }

    /// What a failed request means to a user.
    pub(crate) fn error(&self, path: &str, failure: Failure) -> Error {
        let path = path.to_owned();
        match failure {
            // A seat that the close ended looks like one that was given up.
            Failure::Dead | Failure::Cancelled if self.is_closed() => Error::Closed,
            Failure::Dead | Failure::Deadline => Error::Disconnected { path },
            Failure::Cancelled => Error::Cancelled { path },
            Failure::Refused(ZkError::NoAuth | ZkError::AuthFailed) => Error::Denied { path },
            Failure::Refused(ZkError::InvalidACL) => Error::InvalidArgument {
                what: "ACL",
                reason: "the server refused it; it may name credentials that were not given"
                    .to_owned(),
            },
            Failure::Refused(ZkError::NoChildrenForEphemerals) => Error::InvalidPath {
                path,
                reason: "a node above it is ephemeral and cannot have children".to_owned(),
            },
            Failure::Refused(cause) => Error::ZooKeeper { path, cause: Arc::new(cause) },
        }
    }
}
