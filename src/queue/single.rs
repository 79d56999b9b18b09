//! The single node: the client that creates it holds the lock. A call creates the node. If the node
//! already exists, the call reads it, watches it, and waits until it is deleted.
//!
//! All contenders use the same name, which therefore does not identify the owner of the node. The
//! data do identify the owner: they contain an id that is new for each create request, and clients
//! do not write to the node later.

use std::mem;
use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use zookeeper::{CreateMode, ErrorKind, WatchedEvent, Watcher};

use super::attempt::{Attempt, Pass, run};
use crate::base::data;
use crate::base::error::{Error, Result};
use crate::base::names;
use crate::base::sys::{self, never};
use crate::session::{Failure, Grant, creations};

/// Takes the single node.
pub(crate) fn acquire(attempt: Attempt<'_>) -> Result<Option<Arc<Grant>>> {
    let (tell, news) = unbounded();
    // The call may have stopped waiting for the event already.
    let watcher = Watcher::new(move |_: &WatchedEvent| {
        let _ = tell.send(());
    });
    let call = SingleCall { attempt, watcher, news };
    run(call, |call| &mut call.attempt, SingleCall::pass)
}

/// A call for a single node.
struct SingleCall<'a> {
    attempt: Attempt<'a>,
    watcher: Watcher,
    news: Receiver<()>,
}

impl<'a> SingleCall<'a> {
    fn pass(&mut self) -> Result<Pass, Failure> {
        self.attempt.may_create |= self.attempt.find_session()?;
        // The answer to the create request also shows whether the node exists.
        let creates = mem::take(&mut self.attempt.may_create) && self.attempt.nodes.is_empty();
        if !(creates && self.create()? || self.look()?) {
            self.attempt.may_create = true;
            return Ok(Pass::Again);
        }
        let is_ours = !self.attempt.nodes.is_empty();
        self.attempt.record_ahead(|| usize::from(!is_ours));
        if is_ours {
            self.attempt.give_up_old();
            return self.attempt.grant();
        }
        self.attempt.until.note_ahead();
        if !self.attempt.until.waits {
            return Ok(Pass::Done(None));
        }
        let is_woken = self.attempt.wait(&self.news, [never(), never()])?;
        self.attempt.may_create = is_woken && self.attempt.unanswered.is_empty();
        Ok(Pass::Again)
    }

    /// Creates the node, and the directories above it if necessary. Returns false if the node
    /// already exists.
    fn create(&mut self) -> Result<bool, Failure> {
        let Attempt { inner, facts, until, .. } = self.attempt;
        let (acl, name) = (self.attempt.requests().acl(), self.name());
        let mut levels = Vec::new();
        loop {
            let named = || (names::new_id(), name.to_owned(), CreateMode::Ephemeral);
            let before = creations(acl, &levels);
            // A request that may be refused does not share a transaction with other requests.
            let created = self.attempt.create(named, &before, false);
            let (create, made) = created?;
            match self.attempt.created(create, made) {
                Ok(()) => {
                    self.forget_stuck();
                    return Ok(true);
                }
                Err(Failure::Refused(error))
                    if error.kind() == ErrorKind::NodeExists
                        && error.failed_op() == Some(levels.len()) =>
                {
                    return Ok(false);
                }
                Err(failure)
                    if failure.is(ErrorKind::NoNode) || failure.is(ErrorKind::NodeExists) =>
                {
                    levels = inner.requests.missing_directories(&facts.directory, until)?;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Reads the node, and watches it if the call may wait for it. Returns false if the node does
    /// not exist.
    fn look(&mut self) -> Result<bool, Failure> {
        // The result of the read includes all changes that were reported until now.
        while self.news.try_recv().is_ok() {}
        let (path, requests) = (self.attempt.path(), self.attempt.requests());
        let (session, until) = (self.attempt.place.session, self.attempt.until);
        let watcher = self.attempt.until.waits.then_some(&self.watcher);
        let read = requests.ask_one(Some(session), until, |batch| batch.get_data(path, watcher));
        let (data, stat) = match read {
            Ok(read) => read,
            Err(failure) if failure.is(ErrorKind::NoNode) => {
                self.attempt.keep_own(|_| false);
                return Ok(false);
            }
            Err(failure) => return Err(failure),
        };
        if stat.ephemeral_owner == 0 {
            let reason = "there is a persistent node, which does not end with a session".to_owned();
            return Err(Error::InvalidPath { path: path.to_owned(), reason }.into());
        }
        self.attempt.keep_own(|node| node.czxid == stat.czxid);
        let id = data::decode_single(&data).map(|(id, _)| id);
        let is_of_session = stat.ephemeral_owner == session;
        if let Some(index) = self.attempt.find_unanswered(|own| Some(own) == id) {
            sys::reached("an unanswered create of a single node was carried out");
            self.attempt.take_found(index, self.name(), stat.czxid);
            self.forget_stuck();
        } else if self.attempt.until.waits
            && is_of_session
            && self.attempt.stuck().iter().any(|stuck| stuck == self.name())
        {
            return Err(Error::PermissionDenied { path: path.to_owned() }.into());
        }
        Ok(true)
    }

    /// The node is ours. Therefore, an earlier node of ours at this path, which could not be
    /// deleted, no longer exists.
    fn forget_stuck(&self) {
        let mut table = self.attempt.inner.own.table.lock();
        table.no_longer_stays(&self.attempt.place, self.name());
    }

    fn name(&self) -> &'a str {
        self.attempt.facts.lock.split().1
    }
}
