//! Requests to the servers: how long calls wait for an answer, and what a failure means to users.
//! This module knows the connection and the session, but no holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use zookeeper::{Batch, ErrorKind, Names, Pending, SessionKey, Stat, State, ZooKeeper};

use super::directories::Directories;
use super::later;
use super::registrar::Registrar;
use crate::base::error::{Error, Result};
use crate::base::path::{self, LockPath};
use crate::base::signal::{Broadcast, Ended, Signal};
use crate::base::sys::{self, at, select_biased};
use crate::base::wait::{Stopped, Until};

/// For this long, a wait for an answer listens to nothing else.
const SOON: Duration = Duration::from_millis(10);

/// Watched nodes are looked at again after this many session timeouts at the least, and twice as
/// many at the most.
const LOOK_AFTER: u32 = 2;

/// The way to the servers. It outlives ZooKeeper's sessions: requests about nodes name the session
/// that they belong to.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(super) zk: ZooKeeper,
    acl: Vec<zookeeper::Acl>,
    pub(super) registrar: Option<Arc<dyn Registrar>>,
    closing: AtomicBool,
    closed: Signal,
    /// Sent when there is a connection again.
    connected: Broadcast,
    epoch: AtomicU64,
    /// The [epoch](Requests::epoch) in which a [read](Requests::read) was last known to be
    /// up to date.
    caught_up: AtomicU64,
    pub(crate) directories: Directories,
    pub(super) waiting: AtomicUsize,
}

/// Why a request has no result.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The connection broke. The request may have been carried out.
    Broken,
    /// The session that the request was meant for is over.
    SessionOver,
    /// This came before the answer. The request may still be carried out.
    Stopped(Stopped),
    /// The server answered, with this error.
    Refused(zookeeper::Error),
    /// It was not sent, because this came first.
    NotSent(Stopped),
    /// It was not sent, because the client may have no more of these.
    Limit { what: &'static str, max: usize },
}

impl From<zookeeper::Error> for Failure {
    fn from(error: zookeeper::Error) -> Failure {
        match error.kind() {
            ErrorKind::ConnectionLoss => Failure::Broken,
            ErrorKind::Timeout => Stopped::Deadline.into(),
            ErrorKind::NoConnection => Failure::NotSent(Stopped::Deadline),
            ErrorKind::SessionExpired => Failure::SessionOver,
            ErrorKind::Closed => Failure::NotSent(Stopped::Closed),
            _ => Failure::Refused(error),
        }
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Failure {
        Failure::Stopped(stopped)
    }
}

impl Failure {
    /// Returns whether the servers may have carried it out, or may do so later. False is certain.
    pub(crate) fn is_outcome_unknown(&self) -> bool {
        match self {
            Failure::SessionOver | Failure::NotSent(_) | Failure::Limit { .. } => false,
            Failure::Refused(error) => is_outcome_unknown(error),
            Failure::Broken | Failure::Stopped(_) => true,
        }
    }

    /// Returns whether the server had too much to do. It may have time later.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Failure::Refused(error) if error.is_busy())
    }

    /// Returns the failure of a request that only reads: whether it was carried out is all the same.
    pub(crate) fn of_a_read(self) -> Failure {
        match self {
            Failure::Broken => Failure::SessionOver,
            Failure::Stopped(stopped) => Failure::NotSent(stopped),
            other => other,
        }
    }

    pub(crate) fn is(&self, kind: ErrorKind) -> bool {
        matches!(self, Failure::Refused(error) if error.kind() == kind)
    }
}

/// Returns whether the servers may have carried out a request with this error, or may do so later.
/// A code that no client knows does not tell what the server has done.
pub(crate) fn is_outcome_unknown(error: &zookeeper::Error) -> bool {
    error.is_maybe_done() || matches!(error.kind(), ErrorKind::Server(_))
}

/// Returns whether the session of a request is over, and so are its nodes.
pub(super) fn is_session_over(error: &zookeeper::Error) -> bool {
    matches!(error.kind(), ErrorKind::SessionExpired | ErrorKind::Closed)
}

/// Counts a waiting call until it is dropped.
pub(crate) struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns an instant after this time at the least, and twice as much at the most.
fn spread(least: Duration) -> Instant {
    let share = sys::random() as f64 / u64::MAX as f64;
    sys::now() + least + least.mul_f64(share)
}

impl Requests {
    /// `acl` is the ACL of all nodes that are created.
    pub(super) fn new(
        zk: ZooKeeper,
        acl: Vec<zookeeper::Acl>,
        registrar: Option<Arc<dyn Registrar>>,
    ) -> Requests {
        Requests {
            zk,
            acl,
            registrar,
            closing: AtomicBool::new(false),
            closed: Signal::new(),
            connected: Broadcast::new(),
            epoch: AtomicU64::new(0),
            caught_up: AtomicU64::new(0),
            directories: Directories::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    // ---- the client's end

    /// Closes the client by `end`, which ends all holds. Does nothing if another thread does that.
    pub(super) fn close(&self, end: impl FnOnce()) {
        if !self.closing.swap(true, Ordering::SeqCst) {
            end();
            self.closed.raise();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Returns a signal that is ready when the client is closed and all holds have ended.
    pub(crate) fn closed(&self) -> &Ended {
        self.closed.ended()
    }

    // ---- the connection

    pub(crate) fn is_connected(&self) -> bool {
        self.zk.state() == State::Connected
    }

    pub(super) fn on_connected(&self) {
        self.connected.send();
    }

    pub(super) fn on_resumed(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the epoch: how often a session was resumed, on another connection each time. This is
    /// counted before the answers and the events of that connection.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Returns the current session; 0 for none.
    pub(crate) fn session_id(&self) -> i64 {
        self.zk.session_id()
    }

    /// Returns what the servers know the session by.
    pub(crate) fn session_key(&self) -> Option<SessionKey> {
        self.zk.session_key()
    }

    /// Returns the session timeout that the servers granted.
    pub(crate) fn timeout(&self) -> Duration {
        self.zk.session_timeout()
    }

    /// Checks a margin of a lock, under the session timeout that the servers granted.
    pub(crate) fn check_margin(&self, margin: Duration) -> Result<()> {
        let most = self.timeout() / 4;
        if margin <= most {
            return Ok(());
        }
        let reason =
            format!("{margin:?}: it is at most {most:?}, a quarter of the session timeout");
        Err(Error::invalid("margin", reason))
    }

    /// Returns a third of the session timeout. Calls that promise not to wait for others wait this
    /// long for answers.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout() / 3
    }

    /// Returns when to look again at something that is watched. A server sends events of a node
    /// only to clients that may read it by then, and an ACL can change at any time. So nothing may
    /// rely on events alone. The instants are spread, so that calls which begin to wait together do
    /// not look together.
    pub(crate) fn next_look(&self) -> Instant {
        spread(self.timeout() * sys::fallback(LOOK_AFTER))
    }

    /// Returns when to ask a server again that was too busy.
    pub(crate) fn next_try(&self) -> Instant {
        spread(self.timeout() / 40)
    }

    /// Returns the servers, and the client's root.
    pub(crate) fn address(&self) -> (String, &str) {
        (self.zk.servers(), self.zk.root())
    }

    pub(crate) fn acl(&self) -> &[zookeeper::Acl] {
        &self.acl
    }

    /// Returns an error without a connection, for calls that do not wait for one.
    pub(crate) fn require_connection(&self, path: &str) -> Result<()> {
        match self.is_connected() {
            _ if self.is_closed() => Err(Error::Closed),
            true => Ok(()),
            false => Err(Error::disconnected(path)),
        }
    }

    /// Waits for a connection. Returns `Disconnected` if there is none by the deadline.
    pub(crate) fn await_connection(&self, path: &str, until: &Until) -> Result<()> {
        loop {
            let connected = self.connected.listen();
            if let known @ (Ok(()) | Err(Error::Closed)) = self.require_connection(path) {
                return known;
            }
            let waited = until.wait_for(&connected, self.closed());
            waited.map_err(|stopped| self.error(path, stopped.into()))?;
        }
    }

    /// Waits until `when`.
    pub(crate) fn pause(&self, when: Instant, until: &Until) -> Result<(), Stopped> {
        until.wait_for(&at(when), self.closed())
    }

    // ---- requests

    /// Sends requests in this session, or in the current one for `None`. Waits for the answer to
    /// the request that `make` returns beside the others. The deadline is that of the requests: the
    /// client answers them then. So a failure here means a cancel or the close.
    pub(crate) fn ask<R, T: Send + 'static>(
        &self,
        session: Option<i64>,
        until: &Until,
        make: impl FnOnce(&mut Batch<'_>) -> (R, Pending<T>),
    ) -> Result<(R, Result<T, zookeeper::Error>), Failure> {
        let zk = self.zk.with_timeout(until.left());
        let (others, last) = match session {
            Some(session) => zk.in_session(session).submit(make),
            None => zk.submit(make),
        };
        // Nearly every answer comes soon. Listening to other channels as well takes several
        // wake-ups.
        let last = match last.wait_for(SOON) {
            Ok(answer) => return Ok((others, answer)),
            Err(last) => last,
        };
        let (sender, answer) = bounded(1);
        // The channel has room. The receiver may be gone.
        last.on_done(move |result| drop(sender.send(result)));
        select_biased! {
            recv(answer) -> answer => Ok((others, answer.map_err(|_| Stopped::Closed)?)),
            recv(until.cancelled) -> _ => {
                sys::reached("a cancel ends the wait for an answer");
                Err(Stopped::Cancelled.into())
            }
            recv(self.closed()) -> _ => {
                sys::reached("the close ends the wait for an answer");
                Err(Stopped::Closed.into())
            }
        }
    }

    /// Like [`ask`](Requests::ask), for one answer.
    pub(crate) fn ask_one<T: Send + 'static>(
        &self,
        session: Option<i64>,
        until: &Until,
        make: impl FnOnce(&mut Batch<'_>) -> Pending<T>,
    ) -> Result<T, Failure> {
        let ((), answer) = self.ask(session, until, |batch| ((), make(batch)))?;
        Ok(answer?)
    }

    /// Makes the same request for each path, in one write.
    pub(crate) fn ask_each<T: Send + 'static>(
        &self,
        session: Option<i64>,
        until: &Until,
        paths: &[String],
        make: impl Fn(&mut Batch<'_>, &str) -> Pending<T>,
    ) -> Result<Vec<zookeeper::Result<T>>, Failure> {
        let Some((last, others)) = paths.split_last() else {
            return Ok(Vec::new());
        };
        let (others, last) = self.ask(session, until, |batch| {
            let others: Vec<_> = others.iter().map(|path| make(batch, path)).collect();
            (others, make(batch, last))
        })?;
        // These were answered before the last one.
        Ok(others.into_iter().map(Pending::wait).chain([last]).collect())
    }

    /// Returns which directories are missing, from this one upwards, the highest first. Creates the
    /// chroot if that is missing.
    pub(crate) fn missing_directories(
        &self,
        directory: &LockPath,
        until: &Until,
    ) -> Result<Vec<LockPath>, Failure> {
        let levels = directory.levels();
        let paths = ["/"].into_iter().chain(levels.iter().map(LockPath::as_str));
        let paths: Vec<_> = paths.map(str::to_owned).collect();
        let found = self.ask_each(None, until, &paths, |batch, path| batch.exists(path, None))?;
        let exists = |found: zookeeper::Result<Option<Stat>>| match found {
            // Servers tell strangers nothing else of a node, from 3.8.3 on.
            Err(error) if error.kind() == ErrorKind::NoAuth => Ok(true),
            found => found.map(|stat| stat.is_some()),
        };
        let exist = found.into_iter().map(exists).collect::<zookeeper::Result<Vec<_>>>()?;
        if !exist[0] {
            self.create_root(until)?;
        }
        let first = exist[1..].iter().position(|exists| !exists).unwrap_or(levels.len());
        Ok(levels.into_iter().skip(first).collect())
    }

    /// Creates the chroot with all levels above it. The client may lack permissions above the first
    /// level that exists.
    fn create_root(&self, until: &Until) -> Result<(), Failure> {
        let levels: Vec<_> = path::levels(self.zk.root()).map(str::to_owned).collect();
        let acl = self.acl();
        let create = |batch: &mut Batch<'_>, path: &str| batch.create_outside(path, acl);
        loop {
            let created = self.ask_each(None, until, &levels, create)?.into_iter();
            let failed = created.fold(None, |failed, created| match created {
                Err(error) if error.kind() != ErrorKind::NodeExists => failed.or(Some(error)),
                _ => None,
            });
            match failed {
                None => return Ok(()),
                // A level was the directory of a lock, and went with it.
                Some(error) if error.kind() == ErrorKind::NoNode => {}
                Some(error) => return Err(error.into()),
            }
        }
    }

    /// Reads a node that users write. The answer is no older than any earlier answer or event of
    /// this client.
    ///
    /// A hold may be granted by an event, which carries no transaction id. So the session does not
    /// know how new that was, and may be resumed on a server that is behind it. The first read on
    /// such a connection follows a write, which that server answers when it has caught up with the
    /// leader.
    pub(crate) fn read(&self, path: &str, until: &Until) -> Result<(Vec<u8>, Stat), Failure> {
        loop {
            let epoch = self.epoch();
            let has_caught_up = self.caught_up.load(Ordering::Relaxed) == epoch;
            sys::reached_if(!has_caught_up, "a read goes behind a write");
            let (written, read) = self.ask(None, until, |batch| {
                let written = (!has_caught_up).then(|| batch.renew_lease());
                (written, batch.get_data(path, None))
            })?;
            // It was answered before the read.
            written.map_or(Ok(()), |written| written.wait())?;
            // Otherwise it is unknown on which connection the read was answered.
            if self.epoch() == epoch {
                self.caught_up.fetch_max(epoch, Ordering::Relaxed);
                return Ok(read?);
            }
        }
    }

    /// Calls `then` with this object at an instant, if it is still there, on a thread that must not
    /// wait.
    pub(crate) fn call_at<T: Send + Sync + 'static>(
        &self,
        when: Instant,
        of: &Arc<T>,
        then: impl FnOnce(&Arc<T>) + Send + 'static,
    ) {
        later::call_at(&self.zk, when, of, then);
    }

    /// Has `write` write a line to the log, on a thread that may wait.
    pub(crate) fn note(&self, level: log::Level, write: impl FnOnce() + Send + 'static) {
        self.zk.note(level, write);
    }

    /// Lists a directory in whatever session there is, without waiting for the answer.
    pub(crate) fn list(&self, directory: &LockPath) -> Pending<(Names, Stat)> {
        let zk = self.zk.with_timeout(self.patience());
        zk.submit(|batch| batch.get_children(directory.as_str(), None))
    }

    // ---- accounts and errors

    pub(crate) fn start_waiting(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(&self.waiting)
    }

    /// Returns what a failed request means to a user.
    pub(crate) fn error(&self, path: &str, failure: Failure) -> Error {
        let path = path.to_owned();
        match failure {
            _ if self.is_closed() => Error::Closed,
            Failure::Stopped(stopped) | Failure::NotSent(stopped) => match stopped {
                Stopped::Closed => Error::Closed,
                Stopped::Cancelled => Error::Cancelled { path },
                Stopped::Deadline => Error::Disconnected { path },
            },
            Failure::Broken | Failure::SessionOver => Error::Disconnected { path },
            Failure::Limit { what, max } => Error::LimitExceeded { what, max },
            Failure::Refused(cause) => match cause.kind() {
                ErrorKind::NoAuth | ErrorKind::AuthFailed => Error::PermissionDenied { path },
                ErrorKind::InvalidAcl => {
                    let reason =
                        "the server refused it; it may name credentials that were not given";
                    Error::invalid("ACL", reason)
                }
                ErrorKind::NoChildrenForEphemerals => Error::InvalidPath {
                    path,
                    reason: "a node above it is ephemeral and cannot have children".to_owned(),
                },
                _ => Error::ZooKeeper { path, cause: Arc::new(cause) },
            },
        }
    }

    /// Like [`error`](Requests::error), for a write of a user, which stays if it was carried out.
    pub(crate) fn error_of_write(&self, path: &str, failure: Failure) -> Error {
        let is_maybe_done = match &failure {
            Failure::Refused(error) if error.is_busy() => error.is_maybe_done(),
            failure => failure.is_outcome_unknown(),
        };
        match is_maybe_done {
            true => Error::MaybeDone { path: path.to_owned() },
            false => self.error(path, failure),
        }
    }
}
