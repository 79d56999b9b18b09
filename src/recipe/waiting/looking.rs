//! What a queueing call creates and finds on the servers: its own nodes, those of others, and those
//! of its creates without an answer.

use std::iter;

use zookeeper::{Acl, Batch, CreateMode, ErrorKind, Names, Op, OpResult, Pending};

use super::Waiter;
use crate::inner::{Charge, Claim, Failure, Node, Replaceable, is_outcome_unknown};
use crate::names::{self, Number, Standing};
use crate::recipe::attempt::{Create, Stop, Unanswered, Want};
use crate::recipe::rule::New;
use crate::sys;

impl Waiter<'_> {
    // ---- creating

    /// Creates the missing nodes, and the directory if need be. Returns a list that is no older,
    /// which is sent only if nothing else shows the directory.
    pub(super) fn create_missing(&mut self) -> Result<Names, Stop> {
        if let Some(replaceable) = self.replaceable.take()
            && let Some(list) = self.replace(replaceable)?
        {
            return self.sort_out(list);
        }
        loop {
            if self.may_be_new()
                && let Some(list) = self.create_new()?
            {
                return self.sort_out(list);
            }
            let missing = self.recipe.count() - self.attempt.own.len();
            let mut creates: Vec<_> =
                self.attempt.creates(missing, || self.recipe.node())?.collect();
            let alone = creates.pop_if(|create| missing == 1 && self.may_be_alone(create));
            let (failure, list) = match alone {
                Some(create) => self.create_alone(create)?,
                None => self.create_and_list(creates)?,
            };
            match failure {
                None => return self.sort_out(list),
                Some(failure) if failure.is(ErrorKind::NoNode) => {
                    if let Some(error) = self.recipe.no_directory() {
                        sys::reached("a read under a write finds no directory");
                        return Err(error.into());
                    }
                    let Want { inner, claim, .. } = self.attempt.want;
                    let is_news = inner.holds.fresh.note_missing(&claim.directory);
                    if !(is_news && self.may_be_new()) && self.attempt.make_directory()? {
                        self.note_exists();
                    }
                }
                Some(failure) => return Err(failure.into()),
            }
        }
    }

    /// Creates our node and deletes that of the thread before in one transaction. Returns `None` if
    /// there was nothing to replace.
    fn replace(&mut self, replaceable: Replaceable) -> Result<Option<Names>, Stop> {
        if replaceable.node.session != self.attempt.session_id {
            sys::reached("what a thread has left is of another session");
            return Ok(None);
        }
        let create = self.attempt.create(self.recipe.node())?;
        let claim = self.attempt.want.claim;
        let (path, data) = (claim.directory.child(&create.new.name), claim.identity.as_bytes());
        let ops = [
            Op::Delete(&replaceable.node.path, None),
            Op::Create(&path, data, self.attempt.requests().acl(), create.new.mode),
        ];
        let replace = |batch: &mut Batch<'_>, _: &[Create; 1]| ((), batch.shared_multi(&ops));
        let ([create], results) = match self.attempt.ask_creates([create], replace) {
            Ok((create, (), Ok(results))) => (create, results),
            Ok(([create], (), Err(error))) if is_outcome_unknown(&error) => {
                sys::reached("a transaction that replaces a node has no answer");
                self.add_unanswered(create);
                replaceable.settle(Err(error.clone()));
                return Err(error.into());
            }
            Ok((_, (), Err(_))) => {
                sys::reached("a transaction that replaces a node is refused");
                return Ok(None);
            }
            Err(stop) => {
                sys::reached("a call is ended while it replaces a node");
                replaceable.settle(Err(ErrorKind::ConnectionLoss.into()));
                return Err(stop);
            }
        };
        let next = replaceable.node.next();
        replaceable.settle(Ok(()));
        let Some(node) = self.take_created(create, &results) else {
            return Ok(Some(self.list()?));
        };
        if node.number == Some(next) {
            sys::reached("a node takes the place of another in one transaction");
            return Ok(Some(iter::once(&node.name).collect()));
        }
        // Another node has come in between. Only a list can tell.
        sys::reached("somebody has come while a node was replaced");
        Ok(Some(self.list()?))
    }

    /// Returns whether creating this node can prove that the directory holds nothing else, so that
    /// no list is needed.
    fn may_be_alone(&self, create: &Create) -> bool {
        let Want { inner, claim, .. } = self.attempt.want;
        let is_numbered = create.new.mode == CreateMode::EphemeralSequential;
        let is_likely = || inner.holds.following.is_likely(&claim.directory);
        is_numbered && self.attempt.unanswered.is_empty() && is_likely()
    }

    fn create_and_list(&mut self, creates: Vec<Create>) -> Result<(Option<Failure>, Names), Stop> {
        let Want { inner, claim, .. } = self.attempt.want;
        let acl = inner.requests.acl();
        let watcher = self.recipe.watches_list().then_some(&self.watcher);
        let ask = |batch: &mut Batch<'_>, creates: &Vec<Create>| {
            let send = |create: &Create| send_create(claim, acl, batch, &create.new);
            let created: Vec<_> = creates.iter().map(send).collect();
            (created, batch.get_children(claim.directory.as_str(), watcher))
        };
        let (creates, created, listed) = self.attempt.ask_creates(creates, ask)?;
        let mut failure = None;
        for (create, created) in creates.into_iter().zip(created) {
            // They were answered before the list.
            failure = self.created(create, created.wait()).or(failure);
        }
        match listed {
            Ok((names, _)) => {
                self.note_exists();
                Ok((failure, names))
            }
            Err(error) => Ok((failure.or(Some(error.into())), Names::default())),
        }
    }

    /// Creates a node without a list, which follows only if the number does not prove that the node
    /// is alone.
    fn create_alone(&mut self, create: Create) -> Result<(Option<Failure>, Names), Stop> {
        let Want { inner, claim, .. } = self.attempt.want;
        let acl = inner.requests.acl();
        let make = |batch: &mut Batch<'_>, [create]: &[Create; 1]| {
            ((), send_create(claim, acl, batch, &create.new))
        };
        let ([create], (), created) = self.attempt.ask_creates([create], make)?;
        let failure = self.created(create, created);
        if failure.is_some() {
            return Ok((failure, Names::default()));
        }
        let is_alone = |node: &Node| {
            let proves = |number| inner.holds.following.proves_alone(&claim.directory, number);
            node.number.is_some_and(proves)
        };
        match self.attempt.own.iter().all(is_alone) {
            true => Ok((None, self.attempt.own.iter().map(|node| &node.name).collect())),
            false => Ok((None, self.list()?)),
        }
    }

    /// Takes the answer to a create. Returns a failure if no node is known from it.
    pub(super) fn created(
        &mut self,
        create: Create,
        created: zookeeper::Result<(String, i64)>,
    ) -> Option<Failure> {
        match created {
            Ok((path, czxid)) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                if names::carries(name, &create.new.id) {
                    let number = Number::given(&create.new.name, name);
                    self.add_own(name, create.charge, czxid, number);
                    return None;
                }
                // The answer names another node. Only a list can tell.
                sys::reached("the answer to a create is of another node");
                self.add_unanswered(create);
                Some(Failure::Broken)
            }
            Err(error) => {
                self.may_create &= !is_outcome_unknown(&error);
                Some(self.attempt.take_error(create, error))
            }
        }
    }

    /// Takes the node that the last operation of a transaction has created. Returns `None` if the
    /// answer names another node. Then only a list can tell.
    pub(super) fn take_created(
        &mut self,
        create: Create,
        results: &[OpResult],
    ) -> Option<&mut Node> {
        let created = results.last().and_then(|result| match result {
            OpResult::Created { path, czxid } => Some((path.rsplit('/').next()?, *czxid)),
            _ => None,
        });
        let Some((name, czxid)) = created.filter(|(name, _)| names::carries(name, &create.new.id))
        else {
            self.add_unanswered(create);
            return None;
        };
        let number = Number::given(&create.new.name, name);
        self.add_own(name, create.charge, czxid, number);
        self.attempt.own.last_mut()
    }

    /// Takes a node that the answer to its create, or a look, has shown.
    fn add_own(&mut self, name: &str, charge: Charge, czxid: i64, number: Option<Number>) {
        let (name, token) = (name.to_owned(), self.recipe.token(czxid));
        self.czxids.insert(name.clone(), czxid);
        self.attempt.own.push(Node { name, number, czxid, token, takes_directory: false, charge });
    }

    pub(super) fn add_unanswered(&mut self, create: Create) {
        self.attempt.add_unanswered(create);
        self.may_create = false;
    }

    // ---- looking

    pub(super) fn look(&mut self) -> Result<Names, Stop> {
        // The list shows everything that was reported until now.
        while let Ok(news) = self.news.try_recv() {
            self.receive(&news);
        }
        let list = self.list()?;
        self.sort_out(list)
    }

    pub(super) fn list(&self) -> Result<Names, Stop> {
        let Want { claim, until, .. } = self.attempt.want;
        let watcher = self.recipe.watches_list().then_some(&self.watcher);
        let (session, directory) = (Some(self.attempt.session_id), claim.directory.as_str());
        let listed = self
            .attempt
            .requests()
            .ask_one(session, until, |batch| batch.get_children(directory, watcher));
        match listed {
            Ok((names, _)) => {
                self.note_exists();
                Ok(names)
            }
            Err(failure) if failure.is(ErrorKind::NoNode) => {
                self.attempt.want.inner.holds.fresh.note_missing(&claim.directory);
                Ok(Names::default())
            }
            Err(failure) => Err(failure.into()),
        }
    }

    pub(super) fn note_exists(&self) {
        let Want { inner, claim, .. } = self.attempt.want;
        inner.holds.fresh.note_exists(&claim.directory);
    }

    /// Compares our nodes with a list. Nodes that are missing were deleted by somebody. Nodes of
    /// unanswered creates may be there. Of more nodes than are needed the lowest stay.
    pub(super) fn sort_out(&mut self, list: Names) -> Result<Names, Stop> {
        self.attempt.keep_own(|node| list.contains(&node.name));
        for name in &list {
            let carried = |create: &Unanswered| names::carries(name, &create.id);
            let Some(at) = self.attempt.unanswered.iter().position(carried) else {
                continue;
            };
            if let Some(stat) = self.attempt.stat(name)? {
                sys::reached("a create without an answer is found in a list");
                let found = self.attempt.unanswered.swap_remove(at);
                self.add_own(name, found.charge, stat.czxid, None);
            }
        }
        let own = &mut self.attempt.own;
        own.sort_by_key(|node| (names::number(&node.name), node.czxid));
        let Want { inner, claim, .. } = self.attempt.want;
        for node in own.split_off(own.len().min(self.recipe.count())) {
            sys::reached("a call has one node too many");
            inner.deletions.delete(claim, self.attempt.session_id, &node);
        }
        Ok(list)
    }

    /// Asks the recipe where our nodes stand, and the server when nodes were created if that
    /// matters.
    pub(super) fn standing(&mut self, list: &Names) -> Result<Standing, Stop> {
        let mut children = names::children(list);
        loop {
            let standing = self.recipe.standing(&children, &self.attempt.own)?;
            let Standing::NeedsCzxid(names) = &standing else {
                return Ok(standing);
            };
            let unknown = names.iter().find(|name| !self.czxids.contains_key(*name));
            if let Some(name) = unknown {
                sys::reached("a number tells nothing and the server is asked");
                match self.attempt.stat(name)? {
                    Some(stat) => drop(self.czxids.insert(name.clone(), stat.czxid)),
                    None => children.retain(|child| child.name != *name),
                }
            }
            for child in &mut children {
                child.czxid = self.czxids.get(child.name).copied();
            }
        }
    }
}

/// Creates a node of the claim in its directory, which is likely to exist.
pub(super) fn send_create(
    claim: &Claim,
    acl: &[Acl],
    batch: &mut Batch<'_>,
    new: &New,
) -> Pending<(String, i64)> {
    let path = claim.directory.child(&new.name);
    batch.shared_create(&path, claim.identity.as_bytes(), acl, new.mode)
}
