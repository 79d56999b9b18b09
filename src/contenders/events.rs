//! A stream of what happens to the locks below a path. A watch of the whole tree names the locks to
//! look at. After a disconnection, and from time to time, everything is looked at.

mod seen;
mod told;
mod walk;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use zookeeper::{WatchedEvent, Watcher};

use self::seen::Seen;
use self::told::Told;
use self::walk::Walk;
use super::below::{Lock, locks_at};
use super::{AT_ONCE, LEASES, LOCKS};
use crate::contender::{Contender, LockEvent};
use crate::error::{Error, Result};
use crate::inner::{Failure, Inner, Requests, after};
use crate::path::LockPath;
use crate::sys::{self, at, never, select_biased};
use crate::wait::Until;

/// The time between two looks where servers have no recursive watches.
const INTERVAL: Duration = Duration::from_secs(1);

/// A stream of what happens to the locks at and below a path, from
/// [`Client::events_below`](crate::Client::events_below). As an iterator it waits for each event,
/// until the client is closed.
///
/// # What it tells
/// The first events are the present state: one for each contender. Then each event is a change that
/// was seen. For each lock they are in order, and applying them gives the state at the last look.
///
/// It reads the contenders of a lock after something has happened there. Changes that follow each
/// other quickly may be seen together: a lock that is taken and released in between is not told.
/// After a disconnection the stream looks at everything again and tells the differences. So the
/// last state of each lock is never missed.
///
/// # What it cannot tell
/// - Whether a holder that is [`Gone`](crate::LockChange::Gone) has released the lock or lost it.
///   In both cases the servers delete its node.
/// - Threads that wait in a process behind another thread of their client, and waiters of an
///   [`EphemeralLock`](crate::EphemeralLock). They have no nodes.
/// - What happens at nodes that this client may not read. See Errors.
///
/// A call that waits for permits of a semaphore has two kinds of nodes. The first one waits for the
/// call's turn. Then each permit has a node, and the first one goes. Before the semaphore's first
/// permit exists, the node at `<path>/locks` looks like that of an exclusive lock.
///
/// # What it costs
/// One watch at the servers, and for each change one list and one read for each contender of the
/// lock. Everything is looked at after a disconnection, and otherwise every two to four session
/// timeouts, because a server sends no event of a node that the client may not read.
///
/// Servers before 3.6 have no such watch. There it looks at everything once per second, or at
/// another [interval](LockEvents::interval). Each connection is tried anew.
///
/// # When the session dies
/// The stream continues in the next session, after its server has caught up. It keeps the client
/// open as long as it lives, and ends when the client is [closed](crate::Client::close). Dropping it
/// ends the watch.
///
/// # Errors
/// [`Error::Denied`] for each path that can no longer be read; what was seen there before stays.
/// [`Error::ZooKeeper`] for other answers of servers. After any error the stream can continue.
/// A disconnection is not an error: the stream waits for the next connection.
///
/// # Example
/// ```no_run
/// use zoolock::LockChange;
///
/// # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
/// for event in client.events_below("/locks")? {
///     let event = event?;
///     let who = event.contender.identity.as_deref().unwrap_or("somebody");
///     match event.change {
///         LockChange::Holds => println!("{who} holds {}", event.contender.path),
///         LockChange::Gone => println!("{who} has left {}", event.contender.path),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "it looks at nothing until it is asked for the next event"]
pub struct LockEvents {
    inner: Arc<Inner>,
    root: LockPath,
    interval: Duration,
    told: Arc<Told>,
    rung: Receiver<()>,
    watcher: Watcher,
    is_watched: bool,
    seen: Seen,
    walk: Option<Walk>,
    /// The session in which the last look at everything began.
    session: i64,
    /// When everything is looked at again.
    next_walk: Instant,
    /// Locks to look at.
    pending: BTreeSet<LockPath>,
}

impl LockEvents {
    pub(crate) fn new(inner: Arc<Inner>, root: LockPath) -> LockEvents {
        let (told, rung) = Told::below(root.clone());
        let told = Arc::new(told);
        let noting = Arc::clone(&told);
        let watcher = Watcher::new(move |event: &WatchedEvent| noting.note(event));
        LockEvents {
            inner,
            root,
            interval: INTERVAL,
            told,
            rung,
            watcher,
            is_watched: false,
            seen: Seen::default(),
            walk: None,
            session: 0,
            next_walk: sys::now(),
            pending: BTreeSet::new(),
        }
    }

    /// Sets the time between two looks at servers before 3.6. The default is one second.
    pub fn interval(self, interval: Duration) -> LockEvents {
        LockEvents { interval, ..self }
    }

    /// Returns the next event, or `None` if there is none within `limit`. A look at the servers may
    /// make it block for up to a session timeout longer.
    ///
    /// # Errors
    /// As [the stream](LockEvents#errors), and [`Error::Closed`] at the end.
    pub fn next_within(&mut self, limit: Duration) -> Result<Option<LockEvent>> {
        self.next_until(&Until::new(sys::now().checked_add(limit), never()))
    }

    fn next_until(&mut self, until: &Until) -> Result<Option<LockEvent>> {
        loop {
            if let Some(event) = self.seen.event() {
                return event.map(Some);
            }
            let done = match self.go_on(until) {
                Err(Error::Disconnected { .. }) => self.start_anew(until),
                Err(error) => {
                    self.forget_walk();
                    Err(error)
                }
                done => done,
            };
            if !done? && !self.seen.has_event() {
                return Ok(None);
            }
        }
    }

    /// Does the next thing that is to be done, or waits for it. Returns false at the deadline.
    fn go_on(&mut self, until: &Until) -> Result<bool> {
        let changed = self.told.take();
        if changed.is_unknown {
            sys::reached("a stream of events has to look at everything");
            self.forget_walk();
        }
        self.pending.extend(changed.locks);
        let is_due = self.next_walk <= sys::now();
        if self.walk.is_none() && !is_due && self.pending.is_empty() {
            return self.wait(until);
        }
        // A look would wait for a connection, for longer than the caller.
        self.inner.requests.require_connection(self.root.or_slash())?;
        match self.walk {
            Some(_) => self.walk_on()?,
            None if is_due => self.walk_again()?,
            None => self.look()?,
        }
        Ok(!until.is_over())
    }

    fn wait(&self, until: &Until) -> Result<bool> {
        select_biased! {
            recv(self.inner.requests.closed()) -> _ => Err(Error::Closed),
            recv(self.rung) -> _ => Ok(true),
            recv(at(self.next_walk)) -> _ => Ok(true),
            recv(until.expiry()) -> _ => Ok(false),
        }
    }

    /// Waits for the next connection, and looks at everything then. Returns false at the deadline.
    fn start_anew(&mut self, until: &Until) -> Result<bool> {
        sys::reached("a stream of events waits for a connection");
        self.forget_walk();
        match self.inner.requests.await_connection(self.root.or_slash(), until) {
            Err(Error::Disconnected { .. }) => Ok(false),
            connected => connected.map(|()| true),
        }
    }

    /// Has everything looked at from the beginning.
    fn forget_walk(&mut self) {
        (self.walk, self.next_walk) = (None, sys::now());
    }

    // ---- everything

    /// Sets the watch, so that no later change is missed, and begins to look at everything. The
    /// server of a new session may be behind, so it catches up first.
    fn walk_again(&mut self) -> Result<()> {
        let (requests, root) = (&self.inner.requests, self.root.or_slash());
        let until = Until::within(requests.timeout());
        self.session = requests.session_id();
        let watched = requests.ask_one(None, &until, |batch| {
            drop(batch.sync(root));
            batch.watch_below(root, &self.watcher)
        });
        self.is_watched = match watched {
            Ok(()) => true,
            Err(Failure::Refused(_)) => {
                sys::reached("a stream of events gets no watch");
                false
            }
            Err(failure) => return Err(requests.error(root, failure)),
        };
        self.pending.clear();
        self.walk = Some(Walk::new(Arc::clone(&self.inner), self.root.clone()));
        Ok(())
    }

    /// Takes the next lock of a look at everything.
    fn walk_on(&mut self) -> Result<()> {
        let Some(walk) = &mut self.walk else { return Ok(()) };
        let (requests, root) = (&self.inner.requests, self.root.or_slash());
        let check = || in_session(requests, root, self.session);
        if !walk.step(&mut self.seen, check)? {
            self.walk = None;
            self.next_walk = match self.is_watched {
                true => self.inner.requests.next_look(),
                false => after(sys::now(), self.interval),
            };
        }
        Ok(())
    }

    // ---- some locks

    /// Looks at the next locks of those that may have changed, many at once. A directory that has
    /// the name of a semaphore's part is looked at only if no semaphore is above it.
    fn look(&mut self) -> Result<()> {
        let chunk: Vec<_> = self.pending.iter().take(AT_ONCE).cloned().collect();
        let whole = chunk.iter().map(|path| self.semaphore_of(path).unwrap_or(path.clone()));
        let mut others = BTreeSet::new();
        for (path, lock) in self.locks_at(whole.collect())? {
            let is_semaphore = matches!(&lock, Some(Ok(contenders)) if has_parts(contenders));
            let was_one = self.seen.contenders(&path).is_some_and(has_parts);
            self.seen.look(&path, lock);
            self.pending.remove(&path);
            let parts = [LOCKS, LEASES].map(|part| path.below(part));
            match is_semaphore {
                true => parts.iter().for_each(|part| {
                    self.seen.look(part, None);
                    self.pending.remove(part);
                }),
                false if was_one => {
                    sys::reached("a semaphore's parts become locks of their own");
                    self.pending.extend(parts);
                    others.insert(path);
                }
                false => drop(others.insert(path)),
            }
        }
        let is_free =
            |path: &LockPath| self.semaphore_of(path).is_some_and(|it| others.contains(&it));
        let parts: BTreeSet<_> = chunk.into_iter().filter(is_free).collect();
        for (path, lock) in self.locks_at(parts)? {
            self.seen.look(&path, lock);
            self.pending.remove(&path);
        }
        Ok(())
    }

    /// Looks at these paths, or at some of them if there is much to read.
    fn locks_at(&self, paths: BTreeSet<LockPath>) -> Result<Vec<(LockPath, Lock)>> {
        let (requests, root) = (&self.inner.requests, self.root.or_slash());
        let until = Until::within(requests.timeout());
        let paths: Vec<_> = paths.into_iter().collect();
        let locks = locks_at(requests, &paths, &until);
        let locks = locks.map_err(|failure| requests.error(root, failure))?;
        in_session(requests, root, self.session)?;
        Ok(paths.into_iter().zip(locks).collect())
    }

    /// Returns the semaphore that the directory at this path may be a part of.
    fn semaphore_of(&self, path: &LockPath) -> Option<LockPath> {
        let (directory, name) = path.split();
        let is_part = [LOCKS, LEASES].contains(&name) && *path != self.root;
        (is_part && !directory.is_root()).then_some(directory)
    }
}

/// Refuses what may have been seen in another session than this one, whose server may be behind.
fn in_session(requests: &Requests, root: &str, session: i64) -> Result<()> {
    match requests.session_id() == session {
        true => Ok(()),
        false => {
            sys::reached("a stream of events sees another session");
            Err(Error::Disconnected { path: root.to_owned() })
        }
    }
}

/// Returns whether these contenders are those of a semaphore.
fn has_parts(contenders: &[Contender]) -> bool {
    contenders.iter().any(|contender| contender.node.contains('/'))
}

impl Iterator for LockEvents {
    type Item = Result<LockEvent>;

    fn next(&mut self) -> Option<Result<LockEvent>> {
        match self.next_until(&Until::new(None, never())) {
            Err(Error::Closed) => None,
            next => next.transpose(),
        }
    }
}

impl fmt::Debug for LockEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockEvents").field("root", &self.root).finish_non_exhaustive()
    }
}
