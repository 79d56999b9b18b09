//! The first use of a path: a queueing call creates the directory together with its node, where that
//! may be missing.

use std::iter;

use zookeeper::{Batch, ErrorKind, Names, OpResult};

use super::Waiter;
use crate::error::Error;
use crate::inner::{create_with_node, make_directories};
use crate::recipe::attempt::{Create, Stop, Want};
use crate::shortcuts::Known;
use crate::sys;

/// What became of a create in the directory, and of the transaction that creates the directory.
type Answers = (Create, zookeeper::Result<(String, i64)>, Create, zookeeper::Result<Vec<OpResult>>);

impl Waiter<'_> {
    /// Returns whether the directory may be missing, so that the next node may make it.
    pub(super) fn may_be_new(&self) -> bool {
        let Want { inner, claim, .. } = self.attempt.want;
        // Semaphores have directories below their path. A read under a write has its directory.
        let is_queue = claim.directory == claim.lock && self.recipe.no_directory().is_none();
        is_queue
            && self.attempt.own.is_empty()
            && self.attempt.unanswered.is_empty()
            && self.attempt.requests().has_containers()
            && inner.holds.fresh.known(&claim.directory) != Known::Exists
    }

    /// Creates a node in the directory, and also the directory with a node in it. Only one of these
    /// can succeed. Returns a list that shows the node, or `None` if neither succeeds although the
    /// node above the directory exists.
    pub(super) fn create_new(&mut self) -> Result<Option<Names>, Stop> {
        let Want { inner, claim, until, .. } = self.attempt.want;
        loop {
            if inner.holds.fresh.is_likely_new()
                && let Some(list) = self.make_directory()?
            {
                return Ok(Some(list));
            }
            let inside = self.attempt.create(self.recipe.node())?;
            let with = match self.attempt.create(self.recipe.node()) {
                // One node may still be within the quota.
                Err(Stop::Over(Error::Limit { .. })) => return Ok(None),
                create => create?,
            };
            let (inside, created, with, made) = self.ask_both(inside, with)?;
            let failure = self.created(inside, created);
            let refused = match made {
                Ok(results) => return self.take_made(with, &results).map(Some),
                Err(error) => self.attempt.take_error(with, error),
            };
            match failure {
                None => {
                    sys::reached("a directory that may be new exists");
                    inner.holds.fresh.note_new(false);
                    return self.list().map(Some);
                }
                Some(failure) if !failure.is(ErrorKind::NoNode) => return Err(failure.into()),
                Some(_) if refused.is_outcome_unknown() => return Err(refused.into()),
                Some(_) if refused.is(ErrorKind::NoNode) => {
                    sys::reached("the node above a new directory is missing");
                    let (above, _) = claim.directory.split();
                    make_directories(self.attempt.requests(), &above, until)?;
                }
                Some(_) => {
                    sys::reached("a directory cannot be made with its node");
                    return Ok(None);
                }
            }
        }
    }

    /// Creates the directory with a node in it. Returns `None` if the servers refuse that.
    fn make_directory(&mut self) -> Result<Option<Names>, Stop> {
        let Want { inner, claim, .. } = self.attempt.want;
        let with = self.attempt.create(self.recipe.node())?;
        let ask = |batch: &mut Batch<'_>, [with]: &[Create; 1]| {
            ((), create_with_node(&inner.requests, batch, claim, (&with.new.name, with.new.mode)))
        };
        let ([with], (), made) = self.attempt.ask_creates([with], ask)?;
        let error = match made {
            Ok(results) => return self.take_made(with, &results).map(Some),
            Err(error) => error,
        };
        inner.holds.fresh.note_new(false);
        let refused = self.attempt.take_error(with, error);
        if refused.is_outcome_unknown() {
            return Err(refused.into());
        }
        sys::reached("a directory that was likely to be new is not");
        Ok(None)
    }

    /// Sends both creates, whose nodes have different ids: each is looked for if it has no answer.
    fn ask_both(&mut self, inside: Create, with: Create) -> Result<Answers, Stop> {
        let Want { inner, claim, .. } = self.attempt.want;
        let requests = &inner.requests;
        let ask = |batch: &mut Batch<'_>, [inside, with]: &[Create; 2]| {
            // It may be refused, so it shares no transaction.
            let (path, data) = (claim.directory.child(&inside.new.name), claim.identity.as_bytes());
            let created = batch.create(&path, data, requests.acl(), inside.new.mode);
            let node = (&*with.new.name, with.new.mode);
            (created, create_with_node(requests, batch, claim, node))
        };
        let ([inside, with], created, made) = self.attempt.ask_creates([inside, with], ask)?;
        // It was answered before the last one.
        let created = created.wait().map(|(path, stat)| (path, stat.czxid));
        Ok((inside, created, with, made))
    }

    /// Takes the node that was created with its directory. It is alone: a node that was created
    /// before is gone with an earlier directory.
    fn take_made(&mut self, create: Create, results: &[OpResult]) -> Result<Names, Stop> {
        let Want { inner, claim, .. } = self.attempt.want;
        let fresh = &inner.holds.fresh;
        let takes_directory = fresh.known(&claim.directory) == Known::Nothing;
        fresh.note_made(&claim.directory);
        let Some(node) = self.take_created(create, results) else {
            return self.list();
        };
        sys::reached_if(|| takes_directory, "a directory is made for one node");
        sys::reached_if(|| !takes_directory, "a directory is made to stay");
        node.takes_directory = takes_directory;
        Ok(iter::once(&node.name).collect())
    }
}
