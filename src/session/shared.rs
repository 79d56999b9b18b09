//! What all users of one client share: opening and closing, its state, and its requests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use zookeeper::{
    Batch, CreateMode, ErrorKind, Lease, Listener, Names, Pending, SessionEvent, SessionEventKind,
    Stat, State, Watcher, ZooKeeper,
};

use super::events::{ClientState, Stats, Subscribers, Subscription};
use super::failure::Failure;
use super::guarded::Write;
use super::nodes::{Claim, Grant, Leases, Nodes};
use super::orphans::Orphans;
use super::quota::{Charge, Quota};
use super::registry::{Counters, Registry};
use super::vacancies::Vacancies;
use crate::error::{Error, Result};
use crate::path::LockPath;
use crate::signal::{Broadcast, Ended, Signal, Until};
use crate::sys::{self, Mutex, at, select_biased};

/// What a server says of a node: its data and its stat.
type Read = zookeeper::Result<(Vec<u8>, Stat)>;

/// For so long nothing but its answer ends the wait for a request.
const SOON: Duration = Duration::from_millis(10);

/// What an event should tell is looked at again after this many session timeouts at the least, and twice as many
/// at the most.
const LOOK_AFTER: u32 = 2;

/// What all users of one client share. Its end closes the client.
///
/// It outlives ZooKeeper's sessions: what belongs to one has its id.
pub(crate) struct Session {
    pub(super) me: Weak<Session>,
    pub(super) zk: ZooKeeper,
    acl: Vec<zookeeper::Acl>,
    pub(super) registry: Mutex<Registry>,
    /// Nodes that may appear although nobody wants them any more.
    pub(super) orphans: Orphans,
    quota: Quota,
    pub(super) vacancies: Mutex<Vacancies>,
    /// Own nodes that the servers refuse to delete, by their paths.
    pub(super) stuck: Mutex<BTreeMap<String, Charge>>,
    /// Sent when there is one more.
    pub(super) has_stuck: Broadcast,
    /// How often the session had been resumed when a [read](Self::read) was last known to be up to date.
    pub(super) caught_up: AtomicU64,
    /// Sent when there is a connection again.
    connected: Broadcast,
    closing: AtomicBool,
    closed: Signal,
    subscribers: Subscribers,
    listener: Listener<SessionEvent>,
    pub(super) counters: Counters,
}

/// One more call that waits, until this is dropped.
pub(crate) struct Waiting<'a>(&'a Session);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.counters.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (servers, state) = (&self.zk, self.state());
        f.debug_struct("Session").field("servers", servers).field("state", &state).finish()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shut_down();
    }
}

// ---- opening and closing

impl Session {
    /// Over a client that has just connected. What it makes gets this ACL.
    pub(crate) fn new(zk: ZooKeeper, acl: Vec<zookeeper::Acl>) -> Arc<Session> {
        let session = Arc::new_cyclic(|me: &Weak<Session>| {
            let told = Weak::clone(me);
            let listener = Listener::new(move |event: &SessionEvent| {
                if let Some(session) = told.upgrade() {
                    session.on_event(event);
                }
            });
            Session {
                me: Weak::clone(me),
                zk,
                acl,
                registry: Mutex::default(),
                orphans: Orphans::new(),
                quota: Quota::default(),
                vacancies: Mutex::default(),
                stuck: Mutex::default(),
                has_stuck: Broadcast::new(),
                caught_up: AtomicU64::new(0),
                connected: Broadcast::new(),
                closing: AtomicBool::new(false),
                closed: Signal::new(),
                subscribers: Subscribers::default(),
                listener,
                counters: Counters {
                    sessions: AtomicU64::new(1),
                    resumed: AtomicU64::new(0),
                    holds_lost: AtomicU64::new(0),
                    waiting: AtomicUsize::new(0),
                    deleting: AtomicUsize::new(0),
                },
            }
        });
        session.zk.subscribe(&session.listener);
        session
    }

    /// Ends every hold and every wait. Never blocks; the session's end takes a while longer.
    pub(crate) fn shut_down(&self) {
        if !self.closing.swap(true, Ordering::SeqCst) {
            self.lose_all();
            self.orphans.forget(None);
            self.closed.raise();
            self.subscribers.close();
        }
    }

    /// Ends the session, and waits for that, for `limit` at most.
    pub(crate) fn close(&self, limit: Duration) -> zookeeper::Result<()> {
        self.shut_down();
        // Another thread may be about to end the holds. The session must not end before they have.
        let _ = sys::recv(self.closed());
        self.zk.with_timeout(limit).close()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub(crate) fn closed(&self) -> &Ended {
        self.closed.ended()
    }

    /// Ready when there is one more node of ours that cannot be deleted.
    pub(crate) fn has_stuck(&self) -> Ended {
        self.has_stuck.listen()
    }
}

// ---- state, events, counts

impl Session {
    /// What happens to the session. On a thread of the client's, which must not wait.
    fn on_event(&self, event: &SessionEvent) {
        match event.kind {
            SessionEventKind::Suspended => {
                self.end_all_kept();
                self.subscribers.suspended();
                let (me, after) = (Weak::clone(&self.me), self.timeout());
                self.zk.call_at(sys::now() + after, move || {
                    me.upgrade().inspect(|session| session.subscribers.lost(after));
                });
            }
            SessionEventKind::Resumed => {
                self.counters.resumed.fetch_add(1, Ordering::Relaxed);
                self.has_connected();
                self.orphans.resumed();
                self.look_for_all_orphans();
            }
            SessionEventKind::Connected => {
                self.counters.sessions.fetch_add(1, Ordering::Relaxed);
                self.has_connected();
                // Those that were adopted since the end of the last session are found to be over.
                self.look_for_all_orphans();
            }
            SessionEventKind::LeaseEnded => self.lapse(),
            SessionEventKind::Expired => {
                self.lapse();
                self.orphans.forget(Some(event.session_id));
                self.stuck.lock().clear();
                self.subscribers.lost(Duration::ZERO);
            }
            _ => {}
        }
    }

    fn has_connected(&self) {
        self.subscribers.reconnected();
        self.connected.send();
    }

    pub(crate) fn state(&self) -> ClientState {
        match self.zk.state() {
            _ if self.is_closed() => ClientState::Closed,
            State::Connected => ClientState::Connected,
            State::Closed => ClientState::Closed,
            _ if self.subscribers.is_lost() => ClientState::Lost,
            _ => ClientState::Suspended,
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.zk.state() == State::Connected
    }

    /// Is the connection one that has lasted for so long, or the first?
    pub(crate) fn has_been_connected_for(&self, time: Duration) -> bool {
        self.subscribers.has_lasted(time)
    }

    pub(crate) fn subscribe(&self) -> Subscription {
        self.subscribers.subscribe()
    }

    pub(crate) fn stats(&self) -> Stats {
        let (counts, counters) = (self.zk.counts(), &self.counters);
        Stats {
            requests: counts.requests,
            events: counts.events,
            connections: counts.connections,
            sessions: counters.sessions.load(Ordering::Relaxed),
            resumed: self.resumed(),
            holds_lost: counters.holds_lost.load(Ordering::Relaxed),
            held: self.held(),
            waiting: counters.waiting.load(Ordering::Relaxed),
            deleting: counters.deleting.load(Ordering::Relaxed) + self.orphans.count(),
        }
    }

    /// The session timeout as the servers gave it.
    pub(crate) fn timeout(&self) -> Duration {
        self.zk.session_timeout()
    }

    /// A third of the session timeout: so long a call waits that promises not to wait.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout() / 3
    }

    /// Returns when to look again at something that is watched. A server tells no event of a node to a client that
    /// may not read it by then, and an ACL can be changed at any time: so nobody may wait for an event alone. The
    /// instants are spread, so that those who begin to wait together do not look together.
    pub(crate) fn next_look(&self) -> Instant {
        let least = self.timeout() * sys::fallback(LOOK_AFTER);
        let share = sys::random() as f64 / u64::MAX as f64;
        sys::now() + least + least.mul_f64(share)
    }

    /// Where it is connected: the servers and the path that all others are below.
    pub(crate) fn address(&self) -> (String, &str) {
        (self.zk.servers(), self.zk.root())
    }

    pub(crate) fn acl(&self) -> &[zookeeper::Acl] {
        &self.acl
    }
}

// ---- requests

impl Session {
    /// The session that there is now; 0 for none.
    pub(crate) fn id(&self) -> i64 {
        self.zk.session_id()
    }

    /// Sends requests in this session, or in whatever session if it is none, and waits for the answer to
    /// the one that `make` returns beside the others.
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
        // Nearly every answer comes soon. To listen for more than that takes several wake-ups.
        let last = match last.wait_for(SOON) {
            Ok(answer) => return Ok((others, answer)),
            Err(last) => last,
        };
        let (sender, answer) = bounded(1);
        // There is room for it, and if nobody wants it any more, that is well.
        last.on_done(move |result| drop(sender.send(result)));
        select_biased! {
            recv(answer) -> answer => Ok((others, answer.map_err(|_| Failure::Closed)?)),
            recv(until.cancelled) -> _ => {
                sys::reached("a cancel ends the wait for an answer");
                Err(Failure::Cancelled)
            }
            recv(self.closed()) -> _ => {
                sys::reached("the close ends the wait for an answer");
                Err(Failure::Closed)
            }
        }
    }

    /// [`ask`](Self::ask) for one answer.
    pub(crate) fn ask_one<T: Send + 'static>(
        &self,
        session: Option<i64>,
        until: &Until,
        make: impl FnOnce(&mut Batch<'_>) -> Pending<T>,
    ) -> Result<T, Failure> {
        let ((), answer) = self.ask(session, until, |batch| ((), make(batch)))?;
        Ok(answer?)
    }

    /// Reads nodes, in one write: what the server says of each.
    pub(crate) fn read_each(
        &self,
        session: Option<i64>,
        until: &Until,
        paths: &[String],
        watcher: Option<&Watcher>,
    ) -> Result<Vec<Read>, Failure> {
        self.ask_each(session, until, paths, |batch, path| batch.get_data(path, watcher))
    }

    /// Asks the same of each, in one write.
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
        // They were answered before the last.
        Ok(others.into_iter().map(Pending::wait).chain([last]).collect())
    }

    /// How often the session was resumed. Told, and counted, before the events of the connection it was resumed on.
    pub(crate) fn resumed(&self) -> u64 {
        self.counters.resumed.load(Ordering::Relaxed)
    }

    /// Lists a directory, for those who cannot wait for it.
    pub(crate) fn list(&self, directory: &LockPath) -> Pending<(Names, Stat)> {
        let zk = self.zk.with_timeout(self.patience());
        zk.submit(|batch| batch.get_children(directory.as_str(), None))
    }

    /// A connection, for calls that do not wait for one.
    pub(crate) fn require_connection(&self, path: &str) -> Result<()> {
        match self.is_connected() {
            _ if self.is_closed() => Err(Error::Closed),
            true => Ok(()),
            false => Err(Error::Disconnected { path: path.to_owned() }),
        }
    }

    /// Waits for a connection. Without one at the deadline: Disconnected.
    pub(crate) fn await_connection(&self, path: &str, until: &Until) -> Result<()> {
        loop {
            let connected = self.connected.listen();
            if let known @ (Ok(()) | Err(Error::Closed)) = self.require_connection(path) {
                return known;
            }
            let path = || path.to_owned();
            select_biased! {
                recv(connected) -> _ => {}
                recv(self.closed()) -> _ => {
                    sys::reached("the close ends the wait for a connection");
                    return Err(Error::Closed);
                }
                recv(until.cancelled) -> _ => {
                    sys::reached("a cancel ends the wait for a connection");
                    return Err(Error::Cancelled { path: path() });
                }
                recv(until.expiry()) -> _ => {
                    sys::reached("a deadline ends the wait for a connection");
                    return Err(Error::Disconnected { path: path() });
                }
            }
        }
    }

    /// Waits until then.
    pub(super) fn pause(&self, when: Instant, until: &Until) -> Result<(), Failure> {
        select_biased! {
            recv(self.closed()) -> _ => Err(Failure::Closed),
            recv(until.cancelled) -> _ => Err(Failure::Cancelled),
            recv(until.expiry()) -> _ => {
                sys::reached("a deadline ends the wait for a lease");
                Err(Failure::Deadline)
            }
            recv(at(when)) -> _ => Ok(()),
        }
    }

    /// Makes a directory and what is missing above it, the chroot included: containers, which the server
    /// removes some time after they are empty, where it can. Others may make and delete the same ones
    /// meanwhile: afterwards it may still be missing.
    pub(crate) fn make_directories(&self, path: &LockPath, until: &Until) -> Result<(), Failure> {
        let mut missing = Vec::new();
        let mut next = path.as_str();
        // Up until something is there, so that no permission is needed where nothing is made ..
        while !next.is_empty() && !self.make_directory(next, until)? {
            missing.push(next);
            next = next.rsplit_once('/').map_or("", |(above, _)| above);
        }
        if next.is_empty() {
            let zk = self.zk.with_timeout(until.left().min(self.patience()));
            zk.create_all("/", &self.acl, CreateMode::Persistent)?;
        }
        // .. and down again.
        for path in missing.into_iter().rev() {
            self.make_directory(path, until)?;
        }
        Ok(())
    }

    /// False if there is nothing above it.
    fn make_directory(&self, path: &str, until: &Until) -> Result<bool, Failure> {
        let make = |mode| {
            self.ask_one(None, until, |batch| batch.create(path, b"", &self.acl, mode)).map(drop)
        };
        let made = match make(CreateMode::Container) {
            // Servers before 3.5.3 have no containers.
            Err(failure) if failure.is(ErrorKind::Unimplemented) => make(CreateMode::Persistent),
            made => made,
        };
        match made {
            Err(failure) if failure.is(ErrorKind::NoNode) => Ok(false),
            Err(failure) if failure.is(ErrorKind::NodeExists) => Ok(true),
            made => made.map(|()| true),
        }
    }

    /// Takes a charge for `count` nodes of this claim, which are about to be made.
    pub(crate) fn charge(&self, claim: &Claim, count: usize) -> Result<Charge> {
        let length = |path: &LockPath| self.zk.root().len() + path.as_str().len();
        self.quota.take((length(&claim.directory), length(&claim.lock)), count)
    }

    pub(crate) fn start_waiting(&self) -> Waiting<'_> {
        self.counters.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }

    /// What a failed request means to a user.
    pub(crate) fn error(&self, path: &str, failure: Failure) -> Error {
        let path = path.to_owned();
        match failure {
            _ if self.is_closed() => Error::Closed,
            Failure::Closed => Error::Closed,
            Failure::Broken | Failure::Deadline | Failure::SessionOver => {
                Error::Disconnected { path }
            }
            Failure::Cancelled => Error::Cancelled { path },
            Failure::Refused(cause) => match cause.kind() {
                ErrorKind::NoAuth | ErrorKind::AuthFailed => Error::Denied { path },
                ErrorKind::InvalidAcl => Error::InvalidArgument {
                    what: "ACL",
                    reason: "the server refused it; it may name credentials that were not given"
                        .to_owned(),
                },
                ErrorKind::NoChildrenForEphemerals => Error::InvalidPath {
                    path,
                    reason: "a node above it is ephemeral and cannot have children".to_owned(),
                },
                _ => Error::ZooKeeper { path, cause: Arc::new(cause) },
            },
        }
    }
}

impl Leases for Session {
    fn left_of(&self, lease: &Lease) -> Duration {
        self.zk.left_of(lease)
    }

    fn is_connected(&self) -> bool {
        Session::is_connected(self)
    }

    fn patience(&self) -> Duration {
        Session::patience(self)
    }

    fn watch(&self, nodes: &Arc<Nodes>) {
        self.watch_nodes(nodes);
    }

    fn commit(&self, holds: &[(Arc<Grant>, usize)], writes: &[Write]) -> Result<()> {
        Session::commit(self, holds, writes)
    }
}
