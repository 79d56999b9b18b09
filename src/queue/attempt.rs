//! The common part of all calls that use the servers. They follow the client's session, own their
//! nodes until these are granted, and wait.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Receiver;
use log::debug;
use zookeeper::{Batch, CreateMode, ErrorKind, Names, Pending, Stat, Watcher};

use crate::base::error::Error;
use crate::base::kind::LockKind;
use crate::base::signal::Ended;
use crate::base::sys::{self, at, never, select_biased};
use crate::base::wait::{Stopped, Until};
use crate::observer::Report;
use crate::session::{
    Facts, Failure, Grant, Inner, Key, Node, Place, Requests, Unanswered, Waiting,
    is_outcome_unknown,
};

/// A create request that is about to be sent.
pub(super) struct Create {
    key: Key,
    /// If the answer is lost, its node is found by this id. The id is in the name, or in the data
    /// of a single node.
    pub(super) id: String,
    /// The requested name. The server appends a number if the mode is sequential.
    pub(super) name: String,
    pub(super) mode: CreateMode,
    /// The epoch before the request is sent. If this value is too low, the search for its node only
    /// takes longer.
    epoch: u64,
}

/// One call, and its nodes on the servers. When this is dropped, the nodes that were not granted
/// are given up, even if the thread unwinds.
pub(crate) struct Attempt<'a> {
    pub(super) inner: &'a Arc<Inner>,
    pub(super) facts: &'a Arc<Facts>,
    /// The identity of the owner in the data of its nodes.
    pub(super) identity: Arc<str>,
    pub(super) until: &'a Until,
    /// The report to the observer, which includes how many contenders are ahead.
    report: Option<&'a Report>,
    /// The session of its nodes, and their place in it.
    pub(super) place: Place,
    pub(super) nodes: Vec<Node>,
    /// Create requests without an answer.
    pub(super) unanswered: Vec<Key>,
    /// Nodes may be created without a new list: right after a list, or in a new session. This does
    /// not apply if a create request has remained unanswered since, or if an own node cannot be
    /// deleted.
    pub(super) may_create: bool,
    /// Ready when the servers have refused to delete one of our nodes.
    more_stuck: Ended,
    _waiting: Waiting<'a>,
}

/// How one pass of a loop ended.
pub(super) enum Pass {
    Held(Arc<Grant>),
    Busy,
    Again,
}

/// Why a loop ends, or continues in another session.
pub(super) enum Stop {
    Failed(Failure),
    Over(Error),
}

impl<F: Into<Failure>> From<F> for Stop {
    fn from(failure: F) -> Stop {
        Stop::Failed(failure.into())
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Over(error)
    }
}

/// Runs passes until one of them ends the call. `None` means that the lock is busy: now, or until
/// the deadline.
///
/// | failure | a call that waits | a try |
/// |---|---|---|
/// | the connection or the session ends | continues on the next one, and keeps its nodes if it has the same session | an error: the outcome is unknown |
/// | the server is overloaded | sends the request again after a pause | that error |
/// | the server refuses a request | that error | that error |
/// | an event comes late, or never | lists again after some session timeouts | does not wait for events |
/// | the deadline passes, including while it waits for an answer | busy if another contender was found ahead, and there is a connection; otherwise an error | the same |
/// | its token is cancelled | `Cancelled` | `Cancelled` |
/// | an outage that lasts longer than the call allows | `Disconnected` | the first row |
/// | the client is closed | `Closed` | `Closed` |
///
/// Whatever ends the call, its nodes are given up, and the client looks for the nodes of its
/// unanswered create requests.
pub(super) fn run<'a, L: AsMut<Attempt<'a>>>(
    mut call: L,
    pass: impl Fn(&mut L) -> Result<Pass, Stop>,
) -> Result<Option<Arc<Grant>>, Error> {
    loop {
        let failure = match pass(&mut call) {
            Ok(Pass::Held(grant)) => return Ok(Some(grant)),
            Ok(Pass::Busy) => return Ok(None),
            Ok(Pass::Again) => continue,
            Err(Stop::Over(error)) => return Err(error),
            Err(Stop::Failed(failure)) => failure,
        };
        let attempt = call.as_mut();
        let failure = match attempt.until.waits && failure.is_busy() {
            true => {
                sys::reached("a waiting call gives a busy server time");
                let lock = attempt.path();
                debug!(target: "zoolock::queue", lock:%; "{lock}: the server is busy");
                // The server may have carried out create requests that it has refused.
                attempt.give_up_old();
                match attempt.requests().pause(attempt.requests().next_try(), attempt.until) {
                    Ok(()) => continue,
                    Err(stopped) => stopped.into(),
                }
            }
            false => failure,
        };
        match failure {
            Failure::Stopped(Stopped::Deadline) | Failure::NotSent(Stopped::Deadline)
                if attempt.until.has_seen_ahead() && attempt.requests().is_connected() =>
            {
                sys::reached("a deadline comes with somebody ahead");
                return Ok(None);
            }
            Failure::Broken | Failure::SessionOver if attempt.until.waits => {
                sys::reached("a waiting call goes on behind a cut");
                let lock = attempt.path();
                debug!(target: "zoolock::queue", lock:%; "{lock}: connection lost");
            }
            failure => return Err(attempt.requests().error(attempt.path(), failure)),
        }
    }
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(
        inner: &'a Arc<Inner>,
        facts: &'a Arc<Facts>,
        identity: Arc<str>,
        until: &'a Until,
        report: Option<&'a Report>,
    ) -> Attempt<'a> {
        Attempt {
            inner,
            facts,
            identity,
            until,
            report,
            place: Place::of(0, facts),
            nodes: Vec::new(),
            unanswered: Vec::new(),
            may_create: false,
            more_stuck: never(),
            _waiting: inner.requests.start_waiting(),
        }
    }

    pub(super) fn requests(&self) -> &'a Requests {
        &self.inner.requests
    }

    pub(super) fn path(&self) -> &'a str {
        self.facts.lock.as_str()
    }

    /// Finds a connection at the start of a pass. Returns true if its session is a new one, in
    /// which the call does not have any nodes.
    pub(super) fn find_session(&mut self) -> Result<bool, Stop> {
        match self.until.waits {
            true => self.requests().await_connection(self.path(), self.until)?,
            false => self.requests().require_connection(self.path())?,
        }
        let Attempt { inner, facts, .. } = *self;
        let (now, before) = (self.requests().session_id(), self.place.session);
        if now != before {
            if before != 0 {
                sys::reached("a waiting call begins anew in another session");
                let nodes = self.nodes.drain(..).map(|node| node.key);
                inner.own.gone(nodes.chain(self.unanswered.drain(..)));
            }
            self.place = Place::of(now, facts);
        }
        self.requests().check_margin(facts.options.margin)?;
        // This is done before the list, so that such a node is not missed.
        self.more_stuck = inner.own.more_stuck();
        Ok(now != before)
    }

    // ---- nodes

    /// Prepares requests that create nodes with these ids and names. Waits for create requests that
    /// other calls gave up, because their answers arrive first.
    pub(super) fn creates(
        &self,
        count: usize,
        mode: CreateMode,
        name: impl Fn() -> (String, String),
    ) -> Result<Vec<Create>, Stop> {
        let (keys, epoch) = self.enter(count)?;
        let create = |key| {
            let (id, name) = name();
            Create { key, id, name, mode, epoch }
        };
        Ok(keys.map(create).collect())
    }

    /// Prepares one create request, like [`creates`](Attempt::creates).
    pub(super) fn create(
        &self,
        mode: CreateMode,
        name: impl Fn() -> (String, String),
    ) -> Result<Create, Stop> {
        let (keys, epoch) = self.enter(1)?;
        let (id, name) = name();
        Ok(Create { key: keys.start, id, name, mode, epoch })
    }

    fn enter(&self, count: usize) -> Result<(Range<Key>, u64), Stop> {
        let keys = self.inner.own.enter(&self.place, count, self.until)?;
        Ok((keys, self.requests().epoch()))
    }

    /// Sends create requests with `make`, and waits for the answer to its last request. If the call
    /// is cancelled or the client is closed before, the answers are lost.
    pub(super) fn ask_creates<C: IntoIterator<Item = Create>, R, T: Send + 'static>(
        &mut self,
        creates: C,
        make: impl FnOnce(&mut Batch<'_>, &C) -> (R, Pending<T>),
    ) -> Result<(C, R, zookeeper::Result<T>), Stop> {
        let (until, requests) = (self.until, self.requests());
        match requests.ask(Some(self.place.session), until, |batch| make(batch, &creates)) {
            Ok((others, last)) => Ok((creates, others, last)),
            Err(failure) => {
                sys::reached("a call is ended while it creates");
                creates.into_iter().for_each(|create| self.no_answer(create));
                Err(failure.into())
            }
        }
    }

    /// Sends one create request, like [`ask_creates`](Attempt::ask_creates).
    pub(super) fn ask_create<T: Send + 'static>(
        &mut self,
        create: Create,
        make: impl FnOnce(&mut Batch<'_>, &Create) -> Pending<T>,
    ) -> Result<(Create, zookeeper::Result<T>), Stop> {
        let make = |batch: &mut Batch<'_>, [create]: &[Create; 1]| ((), make(batch, create));
        let ([create], (), answer) = self.ask_creates([create], make)?;
        Ok((create, answer))
    }

    /// Handles the answer to a create request. Returns a failure if the answer does not name the
    /// node. The node may exist anyway.
    pub(super) fn created(
        &mut self,
        create: Create,
        created: zookeeper::Result<(String, i64)>,
    ) -> Option<Failure> {
        match created {
            Ok((path, czxid)) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                let is_its = match create.mode {
                    CreateMode::EphemeralSequential => name.starts_with(&create.name),
                    _ => name == create.name,
                };
                if is_its {
                    self.add_own(create.key, name, czxid);
                    return None;
                }
                // The answer names another node. Only a list or a read can show whether our node
                // exists.
                sys::reached("the answer to a create is of another node");
                self.no_answer(create);
                Some(Failure::Broken)
            }
            Err(error) => {
                match is_outcome_unknown(&error) {
                    true => {
                        sys::reached("a create has no answer");
                        self.no_answer(create);
                    }
                    false => self.inner.own.gone([create.key]),
                }
                Some(error.into())
            }
        }
    }

    fn add_own(&mut self, key: Key, name: &str, czxid: i64) {
        let (name, token) = (name.to_owned(), czxid.unsigned_abs());
        self.nodes.push(Node { key, name, czxid, token, takes_directory: false });
    }

    /// Handles a create request without an answer. Later lists are searched for its node, until the
    /// call gives it up.
    fn no_answer(&mut self, Create { key, id, epoch, .. }: Create) {
        let until = sys::now() + self.requests().timeout();
        self.inner.own.no_answer(key, Unanswered { id, epoch: Some(epoch), until });
        self.unanswered.push(key);
        self.may_create = false;
    }

    /// Returns the index of the first unanswered create request with such an id.
    pub(super) fn find_unanswered(&self, is_its: impl Fn(&str) -> bool) -> Option<usize> {
        match self.unanswered.is_empty() {
            true => None,
            false => self.inner.own.find(&self.unanswered, is_its),
        }
    }

    /// Takes over the node of an unanswered create request, which a list or a read has shown.
    pub(super) fn take_found(&mut self, index: usize, name: &str, czxid: i64) {
        let key = self.unanswered.swap_remove(index);
        self.inner.own.found(key);
        self.add_own(key, name, czxid);
    }

    /// Returns the `Stat` of a node in the directory.
    pub(super) fn stat(&self, name: &str) -> Result<Option<Stat>, Stop> {
        let path = self.facts.directory.child(name);
        let look = |batch: &mut Batch<'_>| batch.exists(&path, None);
        Ok(self.requests().ask_one(Some(self.place.session), self.until, look)?)
    }

    /// Lists the directory, which may be missing.
    pub(super) fn list(&self, watcher: Option<&Watcher>) -> Result<Names, Stop> {
        let (directory, directories) = (&self.facts.directory, &self.requests().directories);
        let list = |batch: &mut Batch<'_>| batch.get_children(directory.as_str(), watcher);
        match self.requests().ask_one(Some(self.place.session), self.until, list) {
            Ok(listed) => Ok(directories.listed(directory, listed)),
            Err(failure) if failure.is(ErrorKind::NoNode) => {
                directories.note_missing(directory);
                Ok(Names::default())
            }
            Err(failure) => Err(failure.into()),
        }
    }

    pub(super) fn keep_own(&mut self, is_there: impl Fn(&Node) -> bool) {
        let gone = self.nodes.extract_if(.., |node| !is_there(node)).map(|node| node.key);
        let gone: Vec<_> = gone.collect();
        if !gone.is_empty() {
            self.inner.own.gone(gone);
            sys::reached("the node of a call is gone from a list");
            let lock = self.path();
            debug!(target: "zoolock::queue", lock:%; "{lock}: a node was deleted");
        }
    }

    /// Makes a hold of its nodes, which are first.
    pub(super) fn grant(&mut self) -> Result<Pass, Stop> {
        let Attempt { inner, facts, until, .. } = *self;
        let (nodes, session) = (&mut self.nodes, self.place.session);
        let granted = inner.holds.grant(facts, &self.identity, nodes, session, until)?;
        Ok(granted.map_or(Pass::Again, Pass::Held))
    }

    /// Keeps the first `count` of its nodes and gives up the others, which are deleted in the
    /// background.
    pub(super) fn give_up_rest(&mut self, count: usize) {
        for node in self.nodes.drain(count.min(self.nodes.len())..) {
            self.inner.own.delete(self.facts, self.place.session, &node);
        }
    }

    /// Gives up unanswered create requests whose nodes were not in any list for a session timeout.
    pub(super) fn give_up_old(&mut self) {
        let is_any = self.inner.own.give_up(&self.place, &mut self.unanswered, Some(sys::now()));
        sys::reached_if(is_any, "a create is left to the search while its call goes on");
    }

    /// Returns the error of a call that finds this node, whose contender and the call ignore each
    /// other.
    pub(super) fn apart_from(&self, name: &str) -> Error {
        sys::reached("a call finds contenders that it does not see");
        let reason = match self.facts.kind {
            LockKind::Latch => "a contender of a lock, which a LeaderLatch ignores",
            _ => "a participant of a LeaderLatch, which ignores other contenders",
        };
        let reason = format!("{name} is {reason}: both would hold the lock");
        Error::InvalidPath { path: self.path().to_owned(), reason }
    }

    // ---- waiting

    /// Records how many contenders are ahead, for the observer.
    pub(super) fn record_ahead(&self, count: impl FnOnce() -> usize) {
        self.report.inspect(|report| report.record_ahead(count));
    }

    /// Waits until `wake` receives a message. Returns false for any other reason to list again, for
    /// example if a semaphore's `limit` has changed or its `turn` has ended.
    pub(super) fn wait(
        &self,
        wake: &Receiver<()>,
        [limit, turn]: [Ended; 2],
    ) -> Result<bool, Stop> {
        let until = self.until;
        // When to list again even without an event.
        let mut look = self.requests().next_look();
        loop {
            let (too_long, outage) = until.outage();
            let first = until.deadline.into_iter().chain(too_long).fold(look, Instant::min);
            select_biased! {
                recv(until.cancelled) -> _ => {
                    sys::reached("a cancel ends a wait in the queue");
                    return Err(Stopped::Cancelled.into());
                }
                recv(self.requests().closed()) -> _ => {
                    sys::reached("the close ends a wait in the queue");
                    return Err(Stopped::Closed.into());
                }
                recv(wake) -> _ => return Ok(true),
                recv(limit) -> _ => sys::reached("the limit changes while permits are waited for"),
                recv(turn) -> _ => sys::reached("the turn ends while permits are waited for"),
                recv(self.more_stuck) -> _ => {
                    sys::reached("a waiting call hears of a node that stays");
                }
                recv(outage) -> _ => continue,
                recv(at(first)) -> _ => {
                    until.check_outage()?;
                    if until.is_over() {
                        return Ok(false);
                    }
                    // Without a connection, the list is postponed: otherwise, all calls would list
                    // at the same time after an outage. The next connection reports missed changes.
                    if !self.requests().is_connected() {
                        sys::reached("a look is put off without a connection");
                        look = self.requests().next_look();
                        continue;
                    }
                    sys::reached("a waiting call looks though nothing was told");
                }
            }
            return Ok(false);
        }
    }

    /// Ends a wait: the next pass follows, unless the deadline has passed.
    pub(super) fn look_again(&self) -> Result<Pass, Stop> {
        match self.until.is_over() {
            true => Err(Stopped::Deadline.into()),
            false => Ok(Pass::Again),
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.give_up_rest(0);
        let is_any = self.inner.own.give_up(&self.place, &mut self.unanswered, None);
        sys::reached_if(is_any, "a call ends before its create is found");
    }
}
