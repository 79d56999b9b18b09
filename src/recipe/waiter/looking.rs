//! What a call makes on the servers, and what it finds there: its nodes, those of others, and those of its
//! own whose answers were lost.

use std::iter;

use log::debug;
use zookeeper::{Batch, CreateMode, ErrorKind, Names, Op, Pending, Stat};

use super::{Lost, Stop, Waiter, Want};
use crate::data;
use crate::error::Error;
use crate::names::{self, Number};
use crate::recipe::rule::{New, Step};
use crate::session::{Charge, Departure, Failure, Node, may_be_done};
use crate::sys;

/// A create that is about to be sent.
struct Create {
    new: New,
    charge: Charge,
    /// How often the session had been resumed before.
    sent_on: u64,
}

impl Waiter<'_> {
    // ---- entering

    /// Prepares as many creates. Waits for those that others gave up, whose answers come first.
    fn creates(&mut self, count: usize) -> Result<impl Iterator<Item = Create>, Stop> {
        let Want { session, claim, recipe, .. } = self.want;
        session.await_given_up(self.until)?;
        self.busy = self.busy.take().or_else(|| session.busy_making(claim));
        let (charges, sent_on) = (session.charge(claim, count)?.split(count), session.resumed());
        Ok(charges.map(move |charge| Create { new: recipe.node(), charge, sent_on }))
    }

    /// Makes the nodes that are missing, and the directory if need be, and lists behind that, unless there
    /// is no need to.
    pub(super) fn enter(&mut self) -> Result<Names, Stop> {
        if let Some(departure) = self.want.departure.take()
            && let Some(list) = self.replace(departure)?
        {
            return self.sort_out(list);
        }
        loop {
            let missing = self.want.recipe.count() - self.own.len();
            let creates: Vec<_> = self.creates(missing)?.collect();
            let (failure, list) = match self.may_be_alone(&creates) {
                true => self.create_alone(creates)?,
                false => self.create_and_list(creates)?,
            };
            match failure {
                None => return self.sort_out(list),
                Some(failure) if failure.is(ErrorKind::NoNode) => {
                    if let Some(error) = self.want.recipe.no_directory() {
                        sys::reached("a read under a write finds no directory");
                        return Err(error.into());
                    }
                    let directory = &self.want.claim.directory;
                    self.want.session.make_directories(directory, self.until)?;
                }
                Some(failure) => return Err(failure.into()),
            }
        }
    }

    /// Makes our node and deletes that of the thread before, which was alone, in one transaction: both or
    /// neither. With the very next number ours is alone now: that the old node was there to be deleted, whose name
    /// nobody else has, proves that the directory is the same. None if there was nothing to be replaced.
    fn replace(&mut self, departure: Departure) -> Result<Option<Names>, Stop> {
        let (session, claim) = (self.want.session, self.want.claim);
        let (its_session, old, next) = departure.node();
        if its_session != self.session_id {
            sys::reached("what a thread has left is of another session");
            return Ok(None);
        }
        let Some(create) = self.creates(1)?.next() else { return Ok(None) };
        let new = &create.new;
        let (path, data) = (claim.directory.child(&new.name), claim.identity.as_bytes());
        let ops = [Op::Delete(&old, None), Op::Create(&path, data, session.acl(), new.mode)];
        let expected = format!("{path}{next}");
        let asked = session.ask(Some(self.session_id), self.until, |batch| {
            (batch.multi(&ops), batch.exists(&expected, None))
        });
        let (replaced, found) = match asked {
            Ok((replaced, found)) => (replaced.wait(), found),
            Err(failure) => {
                sys::reached("a call is ended while it replaces a node");
                self.lose(create);
                departure.ends(Err(ErrorKind::ConnectionLoss.into()));
                return Err(failure.into());
            }
        };
        match replaced {
            Ok(_) => departure.ends(Ok(())),
            Err(error) if may_be_done(&error) => {
                sys::reached("a transaction that replaces a node has no answer");
                self.lose(create);
                departure.ends(Err(error.clone()));
                return Err(error.into());
            }
            Err(_) => {
                sys::reached("a transaction that replaces a node is refused");
                return Ok(None);
            }
        }
        match found {
            Ok(Some(stat)) => {
                sys::reached("a node takes the place of another in one transaction");
                let name = format!("{}{next}", new.name);
                self.has_node(&name, create.charge, &stat, Some(next));
                Ok(Some(iter::once(name).collect()))
            }
            // Somebody has come in between: only a list can tell.
            _ => {
                sys::reached("somebody has come while a node was replaced");
                self.lose(create);
                Ok(Some(self.list()?))
            }
        }
    }

    /// Is nobody there but this one node, if it can be made, or if it has the next number?
    fn may_be_alone(&self, creates: &[Create]) -> bool {
        let is_numbered =
            matches!(creates, [one] if one.new.mode == CreateMode::EphemeralSequential);
        let directory = &self.want.claim.directory;
        let is_vacant = || self.want.session.is_vacant(directory);
        self.want.claim.is_single() || (is_numbered && self.lost.is_empty() && is_vacant())
    }

    fn create_and_list(&mut self, news: Vec<Create>) -> Result<(Option<Failure>, Names), Stop> {
        let (session, claim) = (self.want.session, self.want.claim);
        let watcher = self.want.recipe.watches_list().then_some(&self.watcher);
        let asked = session.ask(Some(self.session_id), self.until, |batch| {
            let creates: Vec<_> = news.iter().map(|new| self.create(batch, &new.new)).collect();
            (creates, batch.get_children(claim.directory.as_str(), watcher))
        });
        let (creates, listed) = match asked {
            Ok(asked) => asked,
            Err(failure) => {
                sys::reached("a call is ended while it creates");
                news.into_iter().for_each(|new| self.lose(new));
                return Err(failure.into());
            }
        };
        let mut failure = None;
        for (new, create) in news.into_iter().zip(creates) {
            // They were answered before the list.
            failure = self.created(new, create.wait()).or(failure);
        }
        match listed {
            Ok((names, _)) => Ok((failure, names)),
            Err(error) => Ok((failure.or(Some(error.into())), Names::default())),
        }
    }

    /// Without a list: a single node that could be made is the only one, and so is one with the next number.
    fn create_alone(&mut self, news: Vec<Create>) -> Result<(Option<Failure>, Names), Stop> {
        let (session, claim) = (self.want.session, self.want.claim);
        for new in news {
            let made = session
                .ask(Some(self.session_id), self.until, |batch| ((), self.create(batch, &new.new)));
            let failure = match made {
                Ok(((), made)) => self.created(new, made),
                Err(failure) => {
                    self.lose(new);
                    return Err(failure.into());
                }
            };
            let Some(failure) = failure else { continue };
            self.may_create &= !claim.is_single();
            return match claim.is_single() && failure.is(ErrorKind::NodeExists) {
                true => {
                    sys::reached("a single node is there already");
                    Ok((None, self.list()?))
                }
                false => Ok((Some(failure), Names::default())),
            };
        }
        let is_alone = |node: &Node| {
            let is_next = |number| session.is_alone(&claim.directory, number);
            claim.is_single() || node.number.is_some_and(is_next)
        };
        match self.own.iter().all(is_alone) {
            true => Ok((None, self.own.iter().map(|node| &node.name).collect())),
            false => Ok((None, self.list()?)),
        }
    }

    fn create(&self, batch: &mut Batch<'_>, new: &New) -> Pending<(String, Stat)> {
        let (claim, acl) = (self.want.claim, self.want.session.acl());
        let path = claim.directory.child(&new.name);
        match claim.is_single() {
            true => {
                let data = data::encode_single(&new.id, &claim.identity);
                batch.create(&path, &data, acl, new.mode)
            }
            false => batch.create(&path, claim.identity.as_bytes(), acl, new.mode),
        }
    }

    /// The answer to a create; a failure if there is no node that is known.
    fn created(
        &mut self,
        create: Create,
        created: zookeeper::Result<(String, Stat)>,
    ) -> Option<Failure> {
        match created {
            Ok((path, stat)) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                let is_ours = self.want.claim.is_single() || names::carries(name, &create.new.id);
                match is_ours {
                    true => {
                        let number = Number::given(&create.new.name, name);
                        self.has_node(name, create.charge, &stat, number);
                    }
                    // It is said of another node: only a list can tell.
                    false => {
                        sys::reached("the answer to a create is of another node");
                        self.lose(create);
                    }
                }
                (!is_ours).then_some(Failure::Broken)
            }
            Err(error) => {
                if may_be_done(&error) {
                    sys::reached("a create has no answer");
                    self.lose(create);
                }
                Some(error.into())
            }
        }
    }

    fn has_node(&mut self, name: &str, charge: Charge, stat: &Stat, number: Option<Number>) {
        if self.want.claim.is_single() {
            self.want.session.is_gone(self.path());
        }
        let token = self.want.recipe.token(stat);
        self.czxids.insert(name.to_owned(), stat.czxid);
        self.own.push(Node { name: name.to_owned(), number, czxid: stat.czxid, token, charge });
    }

    /// The answer to a create is lost. It is looked for in every list from now on.
    fn lose(&mut self, Create { new, charge, sent_on }: Create) {
        self.lost.push(Lost { id: new.id, charge, sent_on, since: sys::now() });
        self.may_create = false;
    }

    // ---- looking

    pub(super) fn look(&mut self) -> Result<Names, Stop> {
        // What was told until now the list will show.
        while let Ok(news) = self.news.try_recv() {
            self.hears(&news);
        }
        let list = self.list()?;
        self.sort_out(list)
    }

    fn list(&mut self) -> Result<Names, Stop> {
        if self.want.claim.is_single() {
            return self.list_single();
        }
        let watcher = self.want.recipe.watches_list().then_some(&self.watcher);
        let directory = self.want.claim.directory.as_str();
        let listed = self.want.session.ask_one(Some(self.session_id), self.until, |batch| {
            batch.get_children(directory, watcher)
        });
        match listed {
            Ok((names, _)) => Ok(names),
            Err(failure) if failure.is(ErrorKind::NoNode) => Ok(Names::default()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// The single node, if it is there, which is watched if this is to wait for it.
    fn list_single(&mut self) -> Result<Names, Stop> {
        if self.own.is_empty() && self.lost.is_empty() {
            self.busy = None;
        }
        let path = self.want.claim.lock.as_str();
        let watcher = self.waits.then_some(&self.watcher);
        let read = self
            .want
            .session
            .ask_one(Some(self.session_id), self.until, |batch| batch.get_data(path, watcher));
        let (data, stat) = match read {
            Ok(read) => read,
            Err(failure) if failure.is(ErrorKind::NoNode) => return Ok(Names::default()),
            Err(failure) => return Err(failure.into()),
        };
        if stat.ephemeral_owner == 0 {
            sys::reached("a persistent node is in the place of a single one");
            let reason = "there is a persistent node, which nobody will release".to_owned();
            return Err(Error::InvalidPath { path: path.to_owned(), reason }.into());
        }
        let (_, name) = self.want.claim.lock.split();
        self.keep_own(|node| node.czxid == stat.czxid);
        let said = data::decode_single(&data, stat.czxid.unsigned_abs()).map(|(id, _)| id);
        if let Some(at) = self.lost.iter().position(|lost| Some(&*lost.id) == said) {
            sys::reached("a single node without an answer is ours");
            let lost = self.lost.swap_remove(at);
            self.has_node(name, lost.charge, &stat, None);
        } else if self.waits
            && stat.ephemeral_owner == self.session_id
            && self.want.session.is_stuck(path)
        {
            sys::reached("a single node of ours stays and is in the way");
            return Err(Error::Denied { path: path.to_owned() }.into());
        }
        if said.is_none() && stat.ephemeral_owner == self.session_id && self.own.is_empty() {
            // It may be ours, or another thread's: that is known where all of them are.
            self.busy = None;
            self.leave_to_search(|_| true);
        }
        Ok(iter::once(name).collect())
    }

    /// Which of our nodes are in the list: those that are not there have been deleted by somebody, and
    /// those whose answers were lost may be there. Of more than are needed the lowest stay.
    pub(super) fn sort_out(&mut self, list: Names) -> Result<Names, Stop> {
        self.keep_own(|node| list.contains(&node.name));
        if self.want.claim.is_single() {
            return Ok(list);
        }
        for name in &list {
            let carried = |lost: &Lost| names::carries(name, &lost.id);
            let Some(at) = self.lost.iter().position(carried) else {
                continue;
            };
            if let Some(stat) = self.stat(name)? {
                sys::reached("a create without an answer is found in a list");
                let lost = self.lost.swap_remove(at);
                self.has_node(name, lost.charge, &stat, None);
            }
        }
        self.own.sort_by_key(|node| (names::number(&node.name), node.czxid));
        for node in self.own.split_off(self.own.len().min(self.want.recipe.count())) {
            sys::reached("a call has one node too many");
            let path = self.want.claim.directory.child(&node.name);
            self.want.session.delete_eventually(self.session_id, path, node.charge);
        }
        Ok(list)
    }

    fn keep_own(&mut self, is_there: impl Fn(&Node) -> bool) {
        let before = self.own.len();
        self.own.retain(is_there);
        if self.own.len() < before {
            sys::reached("the node of a call is gone from a list");
            let lock = self.path();
            debug!(target: "zoolock::queue", lock:%; "{lock}: a node was deleted");
        }
    }

    fn stat(&self, name: &str) -> Result<Option<Stat>, Stop> {
        let (session, path) = (self.want.session, self.want.claim.directory.child(name));
        let exists = session
            .ask_one(Some(self.session_id), self.until, |batch| batch.exists(&path, None))?;
        Ok(exists)
    }

    /// Asks the recipe, and the server when nodes were made, if that is what it hangs on.
    pub(super) fn step(&mut self, list: &Names) -> Result<Step, Stop> {
        let mut children = names::children(list);
        loop {
            let step = self.want.recipe.step(&children, &self.own);
            let Step::NeedsCzxid(names) = &step else {
                return Ok(step);
            };
            let unknown = names.iter().find(|name| !self.czxids.contains_key(*name));
            if let Some(name) = unknown {
                sys::reached("a number tells nothing and the server is asked");
                match self.stat(name)? {
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
