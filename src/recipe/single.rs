//! The single node: the client that creates it has the lock. A call creates the node; if the node
//! exists, the call reads it, watches it, and waits for its end.
//!
//! All contenders use the same name, so it does not say whose the node is. The data do: they have
//! an id that is new for each create. A revocation request that names no hold may overwrite the
//! data.

use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use zookeeper::{Batch, CreateMode, ErrorKind, WatchedEvent, Watcher};

use super::attempt::{Attempt, Pass, Stop, Want, run};
use super::rule::New;
use crate::data;
use crate::error::{Error, Result};
use crate::inner::{
    Charge, Failure, Grant, Making, Node, Orphans, create_with_levels, last_created,
};
use crate::names;
use crate::sys::{self, never};

/// Takes the single node of a claim.
pub(crate) fn acquire_single(want: Want<'_>) -> Result<Option<Arc<Grant>>> {
    let (tell, news) = unbounded();
    // The call may not wait for it any more.
    let watcher = Watcher::new(move |_: &WatchedEvent| {
        let _ = tell.send(());
    });
    let (attempt, making) = (Attempt::new(want), None);
    run(SingleCall { attempt, making, may_create: true, watcher, news }, SingleCall::pass)
}

/// What a look shows at the path.
enum Sight {
    Nothing,
    Ours,
    Others,
}

/// A call for a single node.
struct SingleCall<'a> {
    attempt: Attempt<'a>,
    /// While a node may exist that the call has made and does not hold. Dropped after the attempt.
    making: Option<Making<'a>>,
    /// The node may be created without a look.
    may_create: bool,
    watcher: Watcher,
    news: Receiver<()>,
}

impl<'a> AsMut<Attempt<'a>> for SingleCall<'a> {
    fn as_mut(&mut self) -> &mut Attempt<'a> {
        &mut self.attempt
    }
}

impl<'a> SingleCall<'a> {
    fn pass(&mut self) -> Result<Pass, Stop> {
        // The create is itself a look.
        self.may_create |= self.attempt.find_session()?;
        let seen = match self.may_create && self.attempt.own.is_empty() {
            true => self.create()?,
            false => self.look()?,
        };
        match seen {
            Sight::Ours => {
                self.attempt.give_up_old();
                self.attempt.record_ahead(|| 0);
                self.attempt.grant()
            }
            Sight::Nothing => {
                self.may_create = true;
                Ok(Pass::Again)
            }
            Sight::Others => {
                self.attempt.record_ahead(|| 1);
                self.attempt.seen_ahead = true;
                if !self.attempt.want.waits {
                    return Ok(Pass::Busy);
                }
                let news = self.attempt.wait(&self.news, [never(), never()])?;
                self.may_create = news.is_some() && self.attempt.unanswered.is_empty();
                self.attempt.look_again()
            }
        }
    }

    /// Creates the node, and the directories above it if need be. If it exists already, looks at it.
    fn create(&mut self) -> Result<Sight, Stop> {
        let Want { inner, claim, until, .. } = self.attempt.want;
        let orphans: &'a Orphans = &inner.orphans;
        self.may_create = false;
        let mut levels = Vec::new();
        loop {
            let (id, mode) = (names::new_id(), CreateMode::Ephemeral);
            let create = self.attempt.create(New { id, name: self.name().to_owned(), mode })?;
            self.making.get_or_insert_with(|| orphans.making(&claim.lock));
            let data = data::encode_single(&create.new.id, &claim.identity);
            let (path, acl) = (self.attempt.path(), self.attempt.requests().acl());
            let ([create], created) = match levels.is_empty() {
                true => {
                    let make =
                        |batch: &mut Batch<'_>, _: &_| ((), batch.create(path, &data, acl, mode));
                    let (create, (), created) = self.attempt.ask_creates([create], make)?;
                    (create, created.map(|(path, stat)| (path, stat.czxid)))
                }
                false => {
                    let node = (path, &*data, mode);
                    let make = |batch: &mut Batch<'_>, _: &_| {
                        ((), create_with_levels(batch, acl, &levels, node))
                    };
                    let (create, (), made) = self.attempt.ask_creates([create], make)?;
                    (create, made.map(last_created))
                }
            };
            let error = match created {
                Ok((created, czxid)) if created == path => {
                    self.add_own(create.charge, czxid);
                    return Ok(Sight::Ours);
                }
                Ok(_) => {
                    self.attempt.add_unanswered(create);
                    return Err(Failure::Broken.into());
                }
                Err(error) => error,
            };
            let is_at_node = error.failed_op().unwrap_or(0) == levels.len();
            match error.kind() {
                ErrorKind::NodeExists if is_at_node => {
                    sys::reached("a single node is there already");
                    return self.look();
                }
                ErrorKind::NoNode | ErrorKind::NodeExists => {
                    levels = inner.requests.missing_levels(&claim.directory, until)?;
                }
                _ => return Err(self.attempt.take_error(create, error).into()),
            }
        }
    }

    /// Reads the node, and watches it if the call may wait for it.
    fn look(&mut self) -> Result<Sight, Stop> {
        // The look shows everything that was reported until now.
        while self.news.try_recv().is_ok() {}
        if self.attempt.own.is_empty() && self.attempt.unanswered.is_empty() {
            self.making = None;
        }
        let (path, requests) = (self.attempt.path(), self.attempt.requests());
        let (session, until) = (self.attempt.session_id, self.attempt.want.until);
        let watcher = self.attempt.want.waits.then_some(&self.watcher);
        let read = requests.ask_one(Some(session), until, |batch| batch.get_data(path, watcher));
        let (data, stat) = match read {
            Ok(read) => read,
            Err(failure) if failure.is(ErrorKind::NoNode) => {
                self.attempt.keep_own(|_| false);
                return Ok(Sight::Nothing);
            }
            Err(failure) => return Err(failure.into()),
        };
        if stat.ephemeral_owner == 0 {
            sys::reached("a persistent node is in the place of a single one");
            let reason = "there is a persistent node, which nobody will release".to_owned();
            return Err(Error::InvalidPath { path: path.to_owned(), reason }.into());
        }
        self.attempt.keep_own(|node| node.czxid == stat.czxid);
        let id = data::decode_single(&data, stat.czxid.unsigned_abs()).map(|(id, _)| id);
        let is_of_session = stat.ephemeral_owner == session;
        let deletions = &self.attempt.want.inner.deletions;
        if let Some(at) = self.attempt.unanswered.iter().position(|create| Some(&*create.id) == id)
        {
            sys::reached("a single node without an answer is ours");
            let found = self.attempt.unanswered.swap_remove(at);
            self.add_own(found.charge, stat.czxid);
        } else if self.attempt.want.waits && is_of_session && deletions.is_stuck(path) {
            sys::reached("a single node of ours stays and is in the way");
            return Err(Error::Denied { path: path.to_owned() }.into());
        }
        if self.attempt.own.is_empty() {
            if id.is_none() && is_of_session {
                // The node may be ours, or another thread's. The registry of all nodes knows that.
                self.making = None;
                self.attempt.give_up_unanswered(|_| true);
            }
            return Ok(Sight::Others);
        }
        Ok(Sight::Ours)
    }

    /// Takes the node, which is ours. An earlier one of this path that could not be deleted is gone.
    fn add_own(&mut self, charge: Charge, czxid: i64) {
        self.attempt.want.inner.deletions.remove_stuck(self.attempt.path());
        let name = self.name().to_owned();
        let token = czxid.unsigned_abs();
        self.attempt.own.push(Node { name, czxid, token, takes_directory: false, charge });
    }

    fn name(&self) -> &'a str {
        self.attempt.want.claim.lock.split().1
    }
}
