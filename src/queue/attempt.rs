//! The common part of all calls that use the servers. These calls follow the client's session, own
//! their nodes until the nodes are granted, and wait.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::Receiver;
use log::debug;
use zookeeper::{Batch, CreateMode, ErrorKind, Names, Op, OpResult, Pending, Stat, Watcher};

use crate::base::data;
use crate::base::error::Error;
use crate::base::kind::LockKind;
use crate::base::signal::Ended;
use crate::base::sys::{self, never};
use crate::base::wait::{Stopped, Until};
use crate::observer::Report;
use crate::session::{
    Facts, Failure, Grant, Inner, Key, Node, Place, Requests, Unanswered, is_outcome_unknown,
};

/// A create request that is about to be sent.
pub(super) struct Create {
    key: Key,
    /// If the answer is lost, the node is found by this id, which is in the name, or in the data of
    /// a single node.
    pub(super) id: String,
    /// The requested name. The server appends a number if the mode is sequential.
    pub(super) name: String,
    pub(super) mode: CreateMode,
    /// The epoch (see [`Requests`]) before the request is sent. If it is too low, the search for
    /// the node only takes longer.
    epoch: u64,
}

/// One call, and its nodes on the servers. When this is dropped, the nodes that were not granted
/// are given up, even if the thread unwinds.
pub(crate) struct Attempt<'a> {
    pub(super) inner: &'a Arc<Inner>,
    pub(super) facts: &'a Arc<Facts>,
    /// The owner's identity, which the data of its nodes contain.
    pub(super) identity: Arc<str>,
    pub(super) until: &'a Until,
    /// The report to the observer, which includes how many contenders are ahead.
    report: Option<&'a Report>,
    /// The session of its nodes, and their path.
    pub(super) place: Place,
    pub(super) nodes: Vec<Node>,
    /// Create requests without an answer.
    pub(super) unanswered: Vec<Key>,
    /// Nodes may be created without listing the directory first: right after a list, or in a new
    /// session. This does not apply if a create request has remained unanswered since, or if one of
    /// our nodes cannot be deleted.
    pub(super) may_create: bool,
    /// Ready when the servers have refused to delete one of our nodes.
    more_stuck: Ended,
}

/// How one pass of the loop in [`run`] ended.
pub(super) enum Pass {
    /// The call ends: it has acquired the lock, or the lock is busy.
    Done(Option<Arc<Grant>>),
    Again,
}

/// Runs passes until one of them ends the call. `None` means that the lock is busy: now, or until
/// the deadline.
///
/// | failure | a call that waits | a call that only tries |
/// |---|---|---|
/// | the connection or the session ends | continues on the next one, and keeps its nodes if it has the same session | an error: the outcome is unknown |
/// | the server is overloaded | sends the request again after a pause | that error |
/// | the server refuses a request | that error | that error |
/// | an event comes late, or never | lists the directory again after some session timeouts | does not wait for events |
/// | the deadline passes, including while the call waits for an answer | busy if another contender was found ahead, and there is a connection; otherwise an error | the same |
/// | its token is cancelled | `Cancelled` | `Cancelled` |
/// | an outage that lasts longer than the call allows | `Disconnected` | the first row |
/// | the client is closed | `Closed` | `Closed` |
///
/// Whatever ends the call, its nodes are given up, and the client looks for the nodes of its
/// unanswered create requests.
pub(super) fn run<'a, L>(
    mut call: L,
    attempt_of: fn(&mut L) -> &mut Attempt<'a>,
    pass: impl Fn(&mut L) -> Result<Pass, Failure>,
) -> Result<Option<Arc<Grant>>, Error> {
    loop {
        let passed = pass(&mut call);
        let attempt = attempt_of(&mut call);
        let failure = match passed {
            Ok(Pass::Done(grant)) => return Ok(grant),
            Ok(Pass::Again) if attempt.until.is_over() => Stopped::Deadline.into(),
            Ok(Pass::Again) => continue,
            Err(failure) if attempt.until.waits && failure.is_busy() => match attempt.pause() {
                Ok(()) => continue,
                Err(stopped) => stopped.into(),
            },
            Err(failure) => failure,
        };
        match failure {
            Failure::Stopped(Stopped::Deadline) | Failure::NotSent(Stopped::Deadline)
                if attempt.until.has_seen_ahead() && attempt.requests().is_connected() =>
            {
                return Ok(None);
            }
            Failure::Broken | Failure::SessionOver if attempt.until.waits => {
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
        inner.requests.waiting.fetch_add(1, Ordering::Relaxed);
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
        }
    }

    pub(super) fn requests(&self) -> &'a Requests {
        &self.inner.requests
    }

    pub(super) fn path(&self) -> &'a str {
        self.facts.lock.as_str()
    }

    /// Gives an overloaded server time to recover.
    fn pause(&mut self) -> Result<(), Stopped> {
        sys::reached("a waiting call pauses for an overloaded server");
        let lock = self.path();
        debug!(target: "zoolock::queue", lock:%; "{lock}: the server is busy");
        // The server may have carried out create requests although it answered that it was busy.
        self.give_up_old();
        self.requests().pause(self.requests().next_try(), self.until)
    }

    /// Finds a connection at the start of a pass. Returns true if the session is a new one, in
    /// which the call does not have any nodes.
    pub(super) fn find_session(&mut self) -> Result<bool, Failure> {
        match self.until.waits {
            true => self.requests().await_connection(self.path(), self.until)?,
            false => self.requests().require_connection(self.path())?,
        }
        let Attempt { inner, facts, .. } = *self;
        let (now, before) = (self.requests().session_id(), self.place.session);
        if now != before {
            if before != 0 {
                let nodes = self.nodes.drain(..).map(|node| node.key);
                inner.own.gone(nodes.chain(self.unanswered.drain(..)));
            }
            self.place = Place::of(now, facts);
        }
        self.requests().check_margin(facts.options.margin)?;
        // The call starts to listen before it requests the list, so that it cannot miss a node that
        // servers refuse to delete.
        self.more_stuck = inner.own.more_stuck.listen();
        Ok(now != before)
    }

    // ---- nodes

    /// Lets `make` send requests that create `count` nodes, and waits for the answer to the last
    /// one. `name` returns the id, the name and the mode of each node. Before that, waits for the
    /// create requests that other calls gave up, because those are answered first. If the call is
    /// cancelled or the client is closed before the answer arrives, the answers are lost.
    pub(super) fn create_all<R, T: Send + 'static>(
        &mut self,
        count: usize,
        name: impl Fn() -> (String, String, CreateMode),
        make: impl FnOnce(&Self, &mut Batch<'_>, &[Create]) -> (R, Pending<T>),
    ) -> Result<(Vec<Create>, R, zookeeper::Result<T>), Failure> {
        let keys = self.inner.own.enter(&self.place, count, self.until)?;
        let epoch = self.requests().epoch();
        let create = |key| {
            let (id, name, mode) = name();
            Create { key, id, name, mode, epoch }
        };
        let creates: Vec<_> = keys.map(create).collect();
        let session = Some(self.place.session);
        match self.requests().ask(session, self.until, |batch| make(self, batch, &creates)) {
            Ok((others, last)) => Ok((creates, others, last)),
            Err(failure) => {
                creates.into_iter().for_each(|create| self.no_answer(create));
                Err(failure)
            }
        }
    }

    /// Returns the path and the data of a node that is to be created.
    pub(super) fn node(&self, create: &Create) -> (String, Cow<'_, [u8]>) {
        let data = match self.facts.kind.is_single_node() {
            true => data::encode_single(&create.id, &self.identity).into(),
            false => self.identity.as_bytes().into(),
        };
        (self.place.path_of(&create.name), data)
    }

    /// Sends one transaction with the operations `before`, and one that creates a node.
    pub(super) fn send(
        &self,
        batch: &mut Batch<'_>,
        create: &Create,
        before: &[Op<'_>],
        is_shared: bool,
    ) -> Pending<Vec<OpResult>> {
        let (path, data) = self.node(create);
        let node = Op::Create(&path, &data, self.requests().acl(), create.mode);
        let ops = [before, &[node]].concat();
        if is_shared { batch.shared_multi(&ops) } else { batch.multi(&ops) }
    }

    /// [Sends](Attempt::send) a request that creates one node, and waits for the answer like
    /// [`create_all`](Attempt::create_all).
    pub(super) fn create(
        &mut self,
        name: impl Fn() -> (String, String, CreateMode),
        before: &[Op<'_>],
        is_shared: bool,
    ) -> Result<(Create, zookeeper::Result<(String, i64)>), Failure> {
        let make = |attempt: &Self, batch: &mut Batch<'_>, creates: &[Create]| {
            ((), attempt.send(batch, &creates[0], before, is_shared))
        };
        let (mut creates, (), created) = self.create_all(1, name, make)?;
        Ok((creates.remove(0), created.map(last_created)))
    }

    /// Handles the answer to a create request. Fails if the answer does not name the node, which
    /// may exist anyway.
    pub(super) fn created(
        &mut self,
        create: Create,
        created: zookeeper::Result<(String, i64)>,
    ) -> Result<(), Failure> {
        let error = match created {
            Ok((path, czxid)) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                let is_its = match create.mode {
                    CreateMode::EphemeralSequential => name.starts_with(&create.name),
                    _ => name == create.name,
                };
                if is_its {
                    self.add_own(create.key, name, czxid);
                    return Ok(());
                }
                // The answer names another node. Only a list or a read can show whether our node
                // exists.
                sys::reached("the answer to a create names another node");
                ErrorKind::ConnectionLoss.into()
            }
            Err(error) => error,
        };
        match is_outcome_unknown(&error) {
            true => self.no_answer(create),
            false => self.inner.own.gone([create.key]),
        }
        Err(error.into())
    }

    fn add_own(&mut self, key: Key, name: &str, czxid: i64) {
        let (name, token) = (name.to_owned(), czxid.unsigned_abs());
        self.nodes.push(Node { key, name, czxid, token, takes_directory: false });
    }

    /// Handles a create request without an answer. The call searches later lists for the node,
    /// until it gives the request up.
    fn no_answer(&mut self, Create { key, id, epoch, .. }: Create) {
        let until = sys::now() + self.requests().timeout();
        let create = Unanswered { id, epoch: Some(epoch), until };
        self.inner.own.table.lock().no_answer(key, create);
        self.unanswered.push(key);
        self.may_create = false;
    }

    /// Returns the index of the first unanswered create request for whose id `is_its` returns true.
    pub(super) fn find_unanswered(&self, is_its: impl Fn(&str) -> bool) -> Option<usize> {
        if self.unanswered.is_empty() {
            return None;
        }
        let table = self.inner.own.table.lock();
        let is_it = |key: &Key| table.unanswered(*key).is_some_and(|create| is_its(&create.id));
        self.unanswered.iter().position(is_it)
    }

    /// Takes over the node of an unanswered create request, after a list or a read has shown that
    /// node.
    pub(super) fn take_found(&mut self, index: usize, name: &str, czxid: i64) {
        let key = self.unanswered.swap_remove(index);
        self.inner.own.table.lock().found(key);
        self.add_own(key, name, czxid);
    }

    /// Returns the `Stat` of a node in the directory.
    pub(super) fn stat(&self, name: &str) -> Result<Option<Stat>, Failure> {
        let path = self.facts.directory.child(name);
        let look = |batch: &mut Batch<'_>| batch.exists(&path, None);
        self.requests().ask_one(Some(self.place.session), self.until, look)
    }

    /// Lists the directory, which may be missing.
    pub(super) fn list(&self, watcher: Option<&Watcher>) -> Result<Names, Failure> {
        let (directory, directories) = (&self.facts.directory, &self.requests().directories);
        let list = |batch: &mut Batch<'_>| batch.get_children(directory.as_str(), watcher);
        match self.requests().ask_one(Some(self.place.session), self.until, list) {
            Ok(listed) => Ok(directories.listed(directory, listed)),
            Err(failure) if failure.is(ErrorKind::NoNode) => {
                directories.note_missing(directory);
                Ok(Names::default())
            }
            Err(failure) => Err(failure),
        }
    }

    /// Returns the names of the client's nodes at the call's place that cannot be deleted.
    pub(super) fn stuck(&self) -> Vec<String> {
        self.inner.own.table.lock().stuck(&self.place).cloned().collect()
    }

    pub(super) fn keep_own(&mut self, is_there: impl Fn(&Node) -> bool) {
        let gone = self.nodes.extract_if(.., |node| !is_there(node)).map(|node| node.key);
        let gone: Vec<_> = gone.collect();
        if !gone.is_empty() {
            self.inner.own.gone(gone);
            let lock = self.path();
            debug!(target: "zoolock::queue", lock:%; "{lock}: a node was deleted");
        }
    }

    /// Turns the call's nodes, which are first in the queue, into a hold.
    pub(super) fn grant(&mut self) -> Result<Pass, Failure> {
        let Attempt { inner, facts, until, .. } = *self;
        let (nodes, session) = (&mut self.nodes, self.place.session);
        let granted = inner.holds.grant(facts, &self.identity, nodes, session, until)?;
        Ok(granted.map_or(Pass::Again, |grant| Pass::Done(Some(grant))))
    }

    /// Keeps the first `count` of the call's nodes and gives up the others, which are deleted in
    /// the background.
    pub(super) fn give_up_rest(&mut self, count: usize) {
        for node in self.nodes.drain(count.min(self.nodes.len())..) {
            self.inner.own.delete(&node);
        }
    }

    /// Gives up unanswered create requests whose nodes were not in any list for a session timeout.
    pub(super) fn give_up_old(&mut self) {
        self.inner.own.give_up(&self.place, &mut self.unanswered, Some(sys::now()));
    }

    /// Returns the error for a call that finds this node, if the call and the node's contender
    /// would ignore each other.
    pub(super) fn apart_from(&self, name: &str) -> Error {
        sys::reached("a call finds contenders that ignore it");
        let reason = match self.facts.kind {
            LockKind::Latch => "contends for a lock of another kind, and a LeaderLatch ignores it",
            _ => "belongs to a participant in a LeaderLatch, which ignores other contenders",
        };
        let reason =
            format!("{name} {reason}: both would hold the lock at this path. Use different paths");
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
    ) -> Result<bool, Failure> {
        let (until, requests) = (self.until, self.requests());
        let changes = [limit, turn, self.more_stuck.clone()];
        loop {
            // The next list is due at `look`, even without events.
            let look = requests.next_look();
            let by = until.deadline.map_or(look, |deadline| deadline.min(look));
            match until.receive(wake, &changes, requests.closed(), Some(by))? {
                Some(woken) => return Ok(woken.is_ok()),
                // Without a connection, the call waits until another random instant. Otherwise, all
                // calls would list at once after a long outage. The next connection reports missed
                // changes.
                None if !until.is_over() && !requests.is_connected() => {
                    sys::reached("a list is postponed until there is a connection");
                }
                None => return Ok(false),
            }
        }
    }
}

/// Returns the path and the czxid of the node that the last operation of a transaction created. The
/// path is empty if that operation did not create a node.
pub(super) fn last_created(results: Vec<OpResult>) -> (String, i64) {
    match results.into_iter().next_back() {
        Some(OpResult::Created { path, czxid }) => (path, czxid),
        _ => (String::new(), 0),
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.give_up_rest(0);
        self.inner.own.give_up(&self.place, &mut self.unanswered, None);
        self.requests().waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
