//! Requests to the servers: how long calls wait for an answer, and the errors that users receive
//! for failures. This module handles the connection and the session, but not holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use zookeeper::{Batch, ErrorKind, Names, Pending, SessionKey, Stat, State, ZooKeeper};

use super::directories::Directories;
use super::registrar::Registrar;
use crate::base::error::{Error, Result};
use crate::base::path::{self, LockPath};
use crate::base::signal::{Broadcast, Ended, Signal};
use crate::base::sys::{self, at, never};
use crate::base::wait::{Stopped, Until};

/// How long a call that waits for an answer ignores all other signals at first.
const SOON: Duration = Duration::from_millis(10);

/// Watched nodes are checked again after at least this many session timeouts, and at most twice as
/// many.
const LOOK_AFTER: u32 = 2;

/// Sends requests to the servers. It outlives ZooKeeper's sessions: each request about a node names
/// the session of the node.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(super) zk: ZooKeeper,
    acl: Vec<zookeeper::Acl>,
    pub(super) registrar: Option<Arc<dyn Registrar>>,
    closing: AtomicBool,
    closed: Signal,
    /// Sent when there is a connection again.
    pub(super) connected: Broadcast,
    pub(super) epoch: AtomicU64,
    /// The last [epoch](Requests::epoch) in which a [read](Requests::read) was certainly up to
    /// date.
    caught_up: AtomicU64,
    pub(crate) directories: Directories,
    /// How many calls wait for a lock on the servers, or are about to acquire it.
    pub(crate) waiting: AtomicUsize,
}

/// Why a request did not return a result.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The connection broke. The request may have been carried out.
    Broken,
    /// The session of the request is over.
    SessionOver,
    /// The wait was stopped before the answer arrived. The request may still be carried out.
    Stopped(Stopped),
    /// The server answered with this error.
    Refused(zookeeper::Error),
    /// The request was not sent, because the wait was stopped before that.
    NotSent(Stopped),
    /// The call ends with this error. It has not sent any requests, or only requests that read.
    Ended(Error),
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

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Ended(error)
    }
}

impl Failure {
    /// Returns whether the servers may have carried out the request, or may still do so. If this
    /// returns false, it is certain that they have not done so and will not.
    pub(crate) fn is_outcome_unknown(&self) -> bool {
        match self {
            Failure::SessionOver | Failure::NotSent(_) | Failure::Ended(_) => false,
            Failure::Refused(error) => is_outcome_unknown(error),
            Failure::Broken | Failure::Stopped(_) => true,
        }
    }

    /// Returns whether the server was overloaded and refused the request. A later attempt may
    /// succeed.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Failure::Refused(error) if error.is_busy())
    }

    /// Returns the failure of a request that only reads. For such a request, it does not matter
    /// whether it was carried out.
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

/// Returns whether the servers may have carried out a request that failed with this error, or may
/// still do so. If the client does not recognize the error code, the outcome is unknown.
pub(crate) fn is_outcome_unknown(error: &zookeeper::Error) -> bool {
    error.is_maybe_done() || matches!(error.kind(), ErrorKind::Server(_))
}

/// Returns whether the session of a request is over, and therefore its nodes as well.
pub(super) fn is_session_over(error: &zookeeper::Error) -> bool {
    matches!(error.kind(), ErrorKind::SessionExpired | ErrorKind::Closed)
}

/// Returns a random instant after at least this time, and at most twice this time.
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
            closed: Signal::default(),
            connected: Broadcast::default(),
            epoch: AtomicU64::new(0),
            caught_up: AtomicU64::new(0),
            directories: Directories::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    // ---- the client's end

    /// Closes the client with `end`, which ends all holds. Does nothing if another thread has
    /// already begun to close it.
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

    /// Returns the epoch: how often a session was resumed, each time on another connection. It is
    /// incremented before the answers and the events of that connection are delivered.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Returns the id of the current session, or 0 if there is none.
    pub(crate) fn session_id(&self) -> i64 {
        self.zk.session_id()
    }

    /// Returns the credentials that identify the session to the servers.
    pub(crate) fn session_key(&self) -> Option<SessionKey> {
        self.zk.session_key()
    }

    /// Returns the session timeout that the servers granted.
    pub(crate) fn timeout(&self) -> Duration {
        self.zk.session_timeout()
    }

    /// Checks the margin of a lock against the session timeout that the servers granted.
    pub(crate) fn check_margin(&self, margin: Duration) -> Result<()> {
        let most = self.timeout() / 4;
        if margin <= most {
            return Ok(());
        }
        let reason =
            format!("{margin:?} must be at most {most:?}, a quarter of the session timeout");
        Err(Error::invalid("margin", reason))
    }

    /// Returns a third of the session timeout. Calls that do not wait for other contenders wait
    /// this long for answers.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout() / 3
    }

    /// Returns when to check a watched node or list again. A server sends events of a node only to
    /// clients that may read the node at that time, and an ACL can change at any time. Therefore,
    /// callers must not rely on events alone. The instants are random, so that calls which begin to
    /// wait at the same time do not check at the same time.
    pub(crate) fn next_look(&self) -> Instant {
        spread(self.timeout() * sys::fallback(LOOK_AFTER))
    }

    /// Returns when to send a request again to a server that was overloaded.
    pub(crate) fn next_try(&self) -> Instant {
        spread(self.timeout() / 40)
    }

    /// Returns the servers, and the client's chroot.
    pub(crate) fn address(&self) -> (String, &str) {
        (self.zk.servers(), self.zk.root())
    }

    pub(crate) fn acl(&self) -> &[zookeeper::Acl] {
        &self.acl
    }

    /// For calls that do not wait for a connection: returns an error if there is none.
    pub(crate) fn require_connection(&self, path: &str) -> Result<()> {
        match self.is_connected() {
            _ if self.is_closed() => Err(Error::Closed),
            true => Ok(()),
            false => Err(Error::disconnected(path)),
        }
    }

    /// Waits for a connection. Returns `Disconnected` if the client has not connected at the
    /// deadline.
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

    /// Sends requests in this session; `None` means the current one. Waits for the answer to the
    /// last request, which `make` returns separately from the others. The requests have the
    /// deadline of the call, and the client itself ends them with an error at that time. Therefore,
    /// this function fails only if the call is cancelled, an outage takes too long, or the client
    /// is closed.
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
        // Nearly every answer arrives soon, so the thread first waits only for the answer. Waiting
        // for several channels would wake the thread more often.
        let last = match last.wait_for(SOON) {
            Ok(answer) => return Ok((others, answer)),
            Err(last) => last,
        };
        let (sender, answer) = bounded(1);
        // The channel has room. The receiver may already be dropped.
        last.on_done(move |result| drop(sender.send(result)));
        match until.receive(&answer, &[never(), never(), never()], self.closed(), None)? {
            Some(Ok(answer)) => Ok((others, answer)),
            _ => Err(Stopped::Closed.into()),
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

    /// Sends the same request for each path, in one write.
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
        // These requests were answered before the last one.
        Ok(others.into_iter().map(Pending::wait).chain([last]).collect())
    }

    /// Returns which directories are missing, from the highest one down to `directory`. If the
    /// chroot is missing, creates it.
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
            // Since the fix of CVE-2024-23944, servers return this error to clients without
            // permissions on an existing node.
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

    /// Creates the chroot with all directories above it. The client may lack permissions on
    /// directories that already exist.
    fn create_root(&self, until: &Until) -> Result<(), Failure> {
        let levels: Vec<_> = path::levels(self.zk.root()).map(str::to_owned).collect();
        let acl = self.acl();
        let create = |batch: &mut Batch<'_>, path: &str| batch.create_outside(path, acl);
        loop {
            let created = self.ask_each(None, until, &levels, create)?;
            // If a lower directory exists, so do those above it, whatever the servers answered.
            let failed = created.into_iter().fold(None, |failed, created| match created {
                Err(error) if error.kind() != ErrorKind::NodeExists => failed.or(Some(error)),
                _ => None,
            });
            match failed {
                None => return Ok(()),
                // One of the directories was that of a lock, and was deleted together with the
                // lock's last node.
                Some(error) if error.kind() == ErrorKind::NoNode => {}
                Some(error) => return Err(error.into()),
            }
        }
    }

    /// Reads a node that users write. The result is at least as new as any earlier answer or event
    /// of this client.
    ///
    /// A hold may be granted because of an event, which does not contain a transaction id.
    /// Therefore, the client cannot ensure that the session is resumed only on servers that have
    /// already processed that change. The first read on a new connection follows a write, which the
    /// server answers only when it has caught up with the leader.
    pub(crate) fn read(&self, path: &str, until: &Until) -> Result<(Vec<u8>, Stat), Failure> {
        loop {
            let epoch = self.epoch();
            let has_caught_up = self.caught_up.load(Ordering::Relaxed) == epoch;
            let (written, read) = self.ask(None, until, |batch| {
                let written = (!has_caught_up).then(|| batch.renew_lease());
                (written, batch.get_data(path, None))
            })?;
            // The write was answered before the read.
            written.map_or(Ok(()), |written| written.wait())?;
            // If the epoch has changed, it is unknown which connection delivered the answer to the
            // read.
            if self.epoch() == epoch {
                self.caught_up.fetch_max(epoch, Ordering::Relaxed);
                return Ok(read?);
            }
        }
    }

    /// Calls `then` with this object at an instant, if the object still exists. The call runs on a
    /// thread that must not wait.
    pub(crate) fn call_at<T: Send + Sync + 'static>(
        &self,
        when: Instant,
        of: &Arc<T>,
        then: impl FnOnce(&Arc<T>) + Send + 'static,
    ) {
        let of = Arc::downgrade(of);
        self.zk.call_at(when, move || drop(of.upgrade().inspect(then)));
    }

    /// Lets `write` write a line to the log, on a thread that may wait.
    pub(crate) fn note(&self, level: log::Level, write: impl FnOnce() + Send + 'static) {
        self.zk.note(level, write);
    }

    /// Lists a directory in the current session, without waiting for the answer. Calls `then` with
    /// the names, if the list succeeds.
    pub(crate) fn list(
        self: &Arc<Self>,
        directory: &LockPath,
        then: impl FnOnce(Option<Names>) + Send + 'static,
    ) {
        let zk = self.zk.with_timeout(self.patience());
        let listed = zk.submit(|batch| batch.get_children(directory.as_str(), None));
        let (requests, directory) = (Arc::downgrade(self), directory.clone());
        listed.on_done(move |listed| {
            let listed = listed.ok().zip(requests.upgrade());
            then(listed.map(|(listed, requests)| requests.directories.listed(&directory, listed)));
        });
    }

    // ---- errors

    /// Returns the error that a user receives for a failed request.
    pub(crate) fn error(&self, path: &str, failure: Failure) -> Error {
        let path = path.to_owned();
        match failure {
            Failure::Ended(error) => error,
            _ if self.is_closed() => Error::Closed,
            Failure::Stopped(stopped) | Failure::NotSent(stopped) => match stopped {
                Stopped::Closed => Error::Closed,
                Stopped::Cancelled => Error::cancelled(path),
                Stopped::Deadline | Stopped::Outage => Error::disconnected(path),
            },
            Failure::Broken | Failure::SessionOver => Error::disconnected(path),
            Failure::Refused(cause) => match cause.kind() {
                ErrorKind::NoAuth | ErrorKind::AuthFailed => Error::PermissionDenied { path },
                ErrorKind::InvalidAcl => {
                    let reason = "the server refused it; it may name credentials that the client did not provide";
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

    /// Like [`error`](Requests::error), for a write of a user. If such a write was carried out, it
    /// is permanent.
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
