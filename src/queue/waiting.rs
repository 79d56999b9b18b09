//! The loop of a call that queues: it lists the directory, creates its nodes, and waits until they
//! are first. A [`Recipe`] decides which nodes are granted, and which nodes to wait for.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::{Receiver, bounded};
use zookeeper::{ErrorKind, EventType, Names, Pending, WatchedEvent, Watcher};

use super::attempt::{Attempt, Pass, run};
use super::making::create_missing;
use super::rule::Recipe;
use crate::base::error::{Error, Result};
use crate::base::names::{self, Standing};
use crate::base::stay::{Ahead, Next, Reaction, Stay, Woken};
use crate::base::sys::{self, Mutex};
use crate::session::{Failure, Grant, Replaceable};

/// Acquires the nodes of the recipe. The call replaces the node `replaceable`, which the previous
/// thread has released.
pub(crate) fn acquire<'a>(
    attempt: Attempt<'a>,
    recipe: Recipe<'a>,
    replaceable: Option<Replaceable>,
) -> Result<Option<Arc<Grant>>> {
    let (ears, listed, czxids) = (None, None, HashMap::new());
    let call = Waiter { attempt, recipe, replaceable, ears, listed, czxids };
    run(call, |call| &mut call.attempt, Waiter::pass)
}

/// A call that queues.
struct Waiter<'a> {
    attempt: Attempt<'a>,
    recipe: Recipe<'a>,
    replaceable: Option<Replaceable>,
    /// Receives the events of the call's queue. `None` until the call watches a node or a list in
    /// this session.
    ears: Option<Ears>,
    /// The last list that was received and is not used yet.
    listed: Option<Names>,
    czxids: HashMap<String, i64>,
}

/// Receives the events of a call's queue.
struct Ears {
    /// Shared with the thread that delivers events.
    stay: Arc<Mutex<Stay<String, Names>>>,
    watcher: Watcher,
    /// Has a capacity of one: the thread that is woken checks `stay`.
    wake: Receiver<()>,
}

impl Ears {
    /// If an event is not the grant, the thread that delivers it requests the next list, so that
    /// the waiter is woken only once, after both the event and the list. A waiter that watches the
    /// list is woken at once.
    fn open(attempt: &Attempt<'_>, recipe: &Recipe<'_>) -> Ears {
        let (waker, wake) = bounded(1);
        let stay = Arc::<Mutex<Stay<String, Names>>>::default();
        let (its, requests) = (Arc::clone(&stay), Arc::downgrade(&attempt.inner.requests));
        let (facts, lists) = (Arc::clone(attempt.facts), !recipe.watches_list());
        let watcher = Watcher::new(move |event: &WatchedEvent| {
            let Some(requests) = requests.upgrade() else {
                return;
            };
            let name = event.path.rsplit('/').next().unwrap_or_default().to_owned();
            let is_end = event.event_type == EventType::NodeDeleted;
            // If the session has ended, the waiter starts again.
            let may_list = lists && event.event_type != EventType::WatchEnded;
            let reaction = its.lock().event(&name, is_end, requests.epoch(), may_list);
            match reaction {
                // The waiter may already be awake, or may have returned.
                Reaction::Wake => drop(waker.try_send(())),
                Reaction::Wait => {}
                Reaction::List => {
                    let (its, waker, facts) = (Arc::clone(&its), waker.clone(), Arc::clone(&facts));
                    requests.list(&facts.directory.clone(), move |names| {
                        let is_last = |own: &String, nearest: &String, names: &Names| {
                            let ahead = Ahead { nearest: nearest.clone(), next: Next::Grant };
                            let children = names::children(names);
                            names::decide(facts.kind, &children, own) == Standing::Behind(ahead)
                        };
                        let wakes = its.lock().listed(names, is_last);
                        wakes.then(|| waker.try_send(()));
                    });
                }
            }
        });
        Ears { stay, watcher, wake }
    }
}

impl Waiter<'_> {
    fn ears(&mut self) -> &Ears {
        self.ears.get_or_insert_with(|| Ears::open(&self.attempt, &self.recipe))
    }

    fn pass(&mut self) -> Result<Pass, Failure> {
        if self.attempt.find_session()? {
            // Late events of the old session go to the old watcher.
            self.ears = None;
            // If some of our nodes cannot be deleted, the call creates nodes only after a list:
            // otherwise, each call would leave one more such node.
            self.attempt.may_create = self.attempt.until.waits && self.attempt.stuck().is_empty();
        }
        let (listed, is_missing) = (self.listed.take(), self.is_missing());
        let list = if is_missing && self.attempt.may_create {
            let (watcher, replaceable) = (self.list_watcher(), self.replaceable.take());
            let Waiter { attempt, recipe, .. } = self;
            let list = create_missing(attempt, recipe, watcher.as_ref(), replaceable)?;
            self.sort_out(list)?
        } else if let Some(names) = listed.filter(|_| !is_missing) {
            // Our nodes existed when the list was requested.
            self.sort_out(names)?
        } else {
            // `stuck` is read before the list is requested; therefore, nodes in `stuck` that are
            // missing from the list no longer exist.
            let stuck = self.attempt.stuck();
            let list = self.look()?;
            self.forget_gone(stuck, &list);
            list
        };
        if self.is_missing() {
            if self.attempt.until.waits {
                self.check_room(&list)?;
            }
            self.attempt.may_create = true;
            if self.attempt.until.waits || self.recipe.is_free(&list) {
                return Ok(Pass::Again);
            }
            let is_rival = |name: &&str| names::kind_of(name).is_some();
            self.attempt.record_ahead(|| list.iter().filter(is_rival).count());
            return Ok(Pass::Done(None));
        }
        self.attempt.give_up_old();
        self.attempt.record_ahead(|| self.recipe.count_ahead(&list, &self.attempt.nodes));
        match self.standing(&list)? {
            Standing::Granted => self.grant(self.attempt.nodes.len() == list.len()),
            Standing::Behind(ahead) => self.wait_behind(Some(ahead), list),
            Standing::Full => self.wait_behind(None, list),
            Standing::Apart(name) => Err(self.attempt.apart_from(&name).into()),
            Standing::Gone | Standing::NeedsCzxid(_) => {
                self.attempt.give_up_rest(0);
                Ok(Pass::Again)
            }
        }
    }

    fn is_missing(&self) -> bool {
        self.attempt.nodes.len() < self.recipe.count()
    }

    fn grant(&mut self, is_alone: bool) -> Result<Pass, Failure> {
        let Attempt { inner, facts, .. } = self.attempt;
        if let ([node], true) = (&mut self.attempt.nodes[..], is_alone) {
            let directory = inner.requests.directories.get(&facts.directory);
            node.takes_directory = directory.is_some_and(|directory| directory.is_ours());
        }
        if let Some(write) = self.recipe.under() {
            let token = write.list()[0].token;
            self.attempt.nodes.iter_mut().for_each(|node| node.token = token);
        }
        self.attempt.grant()
    }

    // ---- listing

    fn look(&mut self) -> Result<Names, Failure> {
        // The list includes all changes that were reported until now.
        if let Some(ears) = &self.ears {
            let _ = ears.wake.try_recv();
        }
        let watcher = self.list_watcher();
        let list = self.attempt.list(watcher.as_ref())?;
        self.sort_out(list)
    }

    /// Returns the watcher of the list, if the call watches the list.
    fn list_watcher(&mut self) -> Option<Watcher> {
        self.recipe.watches_list().then(|| self.ears().watcher.clone())
    }

    /// Compares our nodes with a list. If one of them is missing, another client has deleted it.
    /// The list may contain the nodes of unanswered create requests. If there are more nodes than
    /// necessary, the lowest are kept.
    fn sort_out(&mut self, list: Names) -> Result<Names, Failure> {
        self.attempt.keep_own(|node| list.contains(&node.name));
        for name in &list {
            let Some(index) = self.attempt.find_unanswered(|id| names::carries(name, id)) else {
                continue;
            };
            if let Some(stat) = self.attempt.stat(name)? {
                self.attempt.take_found(index, name, stat.czxid);
            }
        }
        self.attempt.nodes.sort_by_key(|node| (names::number(&node.name), node.czxid));
        let count = self.recipe.count();
        sys::reached_if(self.attempt.nodes.len() > count, "a call has one node too many");
        self.attempt.give_up_rest(count);
        Ok(list)
    }

    /// Returns the standing of our nodes according to the recipe. If the standing depends on when
    /// nodes were created, requests their `Stat`s from the server.
    fn standing(&mut self, list: &Names) -> Result<Standing, Failure> {
        let mut children = names::children(list);
        loop {
            let standing = self.recipe.standing(&children, &self.attempt.nodes)?;
            let Standing::NeedsCzxid(names) = &standing else {
                return Ok(standing);
            };
            for node in &self.attempt.nodes {
                self.czxids.entry(node.name.clone()).or_insert(node.czxid);
            }
            let unknown = names.iter().find(|name| !self.czxids.contains_key(*name));
            if let Some(name) = unknown {
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

    // ---- nodes of ours that cannot be deleted

    /// Forgets nodes of ours that could not be deleted before and no longer exist.
    fn forget_gone(&self, stuck: Vec<String>, list: &Names) {
        let gone = stuck.iter().filter(|name| !list.contains(name));
        let table = &self.attempt.inner.own.table;
        gone.for_each(|name| table.lock().no_longer_stays(&self.attempt.place, name));
    }

    /// Returns `PermissionDenied` if the call could not be granted even if all nodes that can be
    /// deleted were gone.
    fn check_room(&self, list: &Names) -> Result<(), Error> {
        let stuck: Names = self.attempt.stuck().iter().filter(|name| list.contains(name)).collect();
        match stuck.iter().next() {
            Some(name) if !self.recipe.is_free(&stuck) => {
                Err(Error::PermissionDenied { path: self.attempt.facts.directory.child(name) })
            }
            _ => Ok(()),
        }
    }

    // ---- waiting

    fn wait_behind(&mut self, ahead: Option<Ahead<String>>, list: Names) -> Result<Pass, Failure> {
        let Attempt { inner, facts, .. } = self.attempt;
        self.attempt.until.note_ahead();
        if !self.attempt.until.waits {
            return Ok(Pass::Done(None));
        }
        if inner.holds.registry.holds_here(facts) {
            return Err(Error::WouldDeadlock { path: self.attempt.path().to_owned() }.into());
        }
        if let Some(ahead) = ahead {
            if self.attempt.stuck().contains(&ahead.nearest) {
                let path = facts.directory.child(&ahead.nearest);
                sys::reached("the node ahead is ours and cannot be deleted");
                return Err(Error::PermissionDenied { path }.into());
            }
            self.watch(ahead)?;
        } else {
            self.check_room(&list)?;
        }
        // A long list should not stay in memory during a long wait.
        drop(list);
        self.await_change()
    }

    /// Watches the nodes ahead and our own nodes, unless they are already watched. If the nearest
    /// node has been deleted meanwhile, its event arrives before the answer. If our own node has
    /// been deleted as well, its event arrives first.
    fn watch(&mut self, ahead: Ahead<String>) -> Result<(), Failure> {
        let (epoch, nearest) = (self.attempt.requests().epoch(), ahead.nearest.clone());
        let own = self.attempt.nodes[0].name.clone();
        let expects = self.attempt.unanswered.is_empty() && sys::shortcuts();
        let new = self.ears().stay.lock().stand(epoch, own, ahead, expects);
        match new.is_empty() {
            true => Ok(()),
            false => self.set_watches(&new, &nearest),
        }
    }

    /// Watches these nodes. If one of them no longer exists, its event arrives before the answer.
    /// Earlier changes of their data do not matter, because a hold reads the data of its own node.
    ///
    /// If this client may not read a node, servers do not send its events, but set its watch
    /// without an error. Therefore, the nearest node is read as well, unless another node of its
    /// directory was already read.
    fn set_watches(&mut self, new: &[String], nearest: &String) -> Result<(), Failure> {
        let Attempt { inner, facts, until, .. } = self.attempt;
        let directory = &facts.directory;
        let paths: Vec<_> = new.iter().map(|name| directory.child(name)).collect();
        let known = inner.requests.directories.get(directory).filter(|_| sys::shortcuts());
        let is_readable = known.is_some_and(|directory| directory.is_readable);
        let read = (new.contains(nearest) && !is_readable).then(|| directory.child(nearest));
        let (session, ears) = (Some(self.attempt.place.session), self.ears());
        let asked = inner.requests.ask(session, until, |batch| {
            let read = read.as_ref().map(|path| batch.get_data(path, None));
            (read, batch.set_watches(i64::MAX, &paths, &ears.watcher))
        });
        // The read was answered before the other request.
        let set = asked.and_then(|(read, set)| {
            set?;
            match read.map(Pending::wait) {
                Some(Ok(_)) => {
                    let directories = &inner.requests.directories;
                    directories.change(directory, |known| known.is_readable = true);
                }
                Some(Err(error)) if error.kind() != ErrorKind::NoNode => {
                    sys::reached("a node ahead may not be read");
                    return Err(error.into());
                }
                Some(Err(_)) | None => {}
            }
            Ok(())
        });
        set.inspect_err(|_| ears.stay.lock().unwatch(new))
    }

    /// Waits for the grant, or for a reason to list again.
    fn await_change(&mut self) -> Result<Pass, Failure> {
        let Attempt { inner, facts, until, .. } = self.attempt;
        loop {
            let wake = self.ears().wake.clone();
            if !self.attempt.wait(&wake, self.recipe.changes())? {
                if !until.is_over() {
                    // If this client may not read the node ahead, no event arrives. Therefore, the
                    // next call that watches a node of this directory reads that node before it
                    // sets the watch.
                    let directories = &inner.requests.directories;
                    directories.change(&facts.directory, |known| known.is_readable = false);
                }
                return Ok(Pass::Again);
            }
            let woken = self.ears().stay.lock().woken();
            match woken {
                None => continue,
                Some(Woken::Granted) => return self.grant(false),
                Some(Woken::Listed(names)) => self.listed = Some(names),
                Some(Woken::Look) => {}
            }
            return Ok(Pass::Again);
        }
    }
}
