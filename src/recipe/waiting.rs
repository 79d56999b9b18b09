//! The loop of a call that queues: it creates nodes, and waits until they are first. A [`Recipe`]
//! decides which nodes are granted, and which to wait for.

mod looking;
mod making;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crossbeam_channel::{Receiver, unbounded};
use zookeeper::{ErrorKind, Names, Pending, WatchedEvent, Watcher};

use super::attempt::{Attempt, Pass, Stop, Want, run};
use super::rule::Recipe;
use crate::error::{Error, Result};
use crate::inner::{Grant, Replaceable};
use crate::names::{self, Ahead, Next, Standing};
use crate::shortcuts::{Expected, Heard, News, Reaction};
use crate::sys::{self, Mutex};

/// Takes what the recipe says. The call replaces the node `replaceable`, which the previous thread
/// has released.
pub(crate) fn acquire<'a>(
    want: Want<'a>,
    recipe: Recipe<'a>,
    replaceable: Option<Replaceable>,
) -> Result<Option<Arc<Grant>>> {
    run(Waiter::new(want, recipe, replaceable), Waiter::pass)
}

/// A call that queues.
struct Waiter<'a> {
    attempt: Attempt<'a>,
    recipe: Recipe<'a>,
    replaceable: Option<Replaceable>,
    /// The nodes may be created without a look.
    may_create: bool,
    watcher: Watcher,
    news: Receiver<News>,
    heard: Arc<Mutex<Heard>>,
    /// The last list that was delivered and is not used yet.
    listed: Option<Names>,
    watched: Watched,
    /// The number of the last expectation.
    expected: u64,
    czxids: HashMap<String, i64>,
}

/// The paths that are watched. Events come in order since the session was resumed this often.
#[derive(Default)]
struct Watched {
    paths: HashSet<String>,
    resumed: u64,
}

impl<'a> AsMut<Attempt<'a>> for Waiter<'a> {
    fn as_mut(&mut self) -> &mut Attempt<'a> {
        &mut self.attempt
    }
}

/// Returns a watcher of nodes, and what it delivers. The thread that delivers an event sends the
/// next list, so the waiter is woken once, with both.
fn listen(
    want: &Want<'_>,
    recipe: &Recipe<'_>,
    heard: &Arc<Mutex<Heard>>,
) -> (Watcher, Receiver<News>) {
    let (tell, news) = unbounded();
    let (heard, requests) = (Arc::clone(heard), Arc::downgrade(&want.inner.requests));
    let (directory, lists) = (want.claim.facts.directory.clone(), !recipe.watches_list());
    let watcher = Watcher::new(move |event: &WatchedEvent| {
        let Some(requests) = requests.upgrade() else {
            return;
        };
        let reaction = heard.lock().event(event, requests.resumed(), lists);
        match reaction {
            // The waiter may have gone.
            Reaction::Tell(news) => drop(tell.send(news)),
            Reaction::Wait => {}
            Reaction::List => {
                let (heard, tell) = (Arc::clone(&heard), tell.clone());
                requests.list(&directory).on_done(move |listed| {
                    let names = listed.ok().map(|(names, _)| names);
                    let news = heard.lock().list(names);
                    news.map(|news| tell.send(news));
                });
            }
        }
    });
    (watcher, news)
}

impl<'a> Waiter<'a> {
    fn new(want: Want<'a>, recipe: Recipe<'a>, replaceable: Option<Replaceable>) -> Waiter<'a> {
        let heard = Arc::<Mutex<Heard>>::default();
        let (watcher, news) = listen(&want, &recipe, &heard);
        Waiter {
            attempt: Attempt::new(want),
            recipe,
            replaceable,
            may_create: false,
            watcher,
            news,
            heard,
            listed: None,
            watched: Watched::default(),
            expected: 0,
            czxids: HashMap::new(),
        }
    }
}

impl Waiter<'_> {
    fn pass(&mut self) -> Result<Pass, Stop> {
        if self.attempt.find_session()? {
            self.watched.paths.clear();
            self.may_create = self.attempt.want.waits && self.stuck().is_empty();
        }
        let list = match self.listed.take() {
            _ if self.is_missing() && self.may_create => self.create_missing()?,
            // A list that shows all our nodes is no older than they are.
            Some(names) if !self.is_missing() && self.attempt.own_are_in(&names) => {
                self.sort_out(names)?
            }
            _ => {
                // The paths of events that a list sent after this must show.
                let stuck = self.stuck();
                let list = self.look()?;
                self.forget_gone(stuck, &list);
                list
            }
        };
        if self.is_missing() {
            if self.attempt.want.waits {
                self.check_room(&list)?;
            }
            self.may_create = true;
            if self.attempt.want.waits || self.recipe.is_free(&list) {
                return Ok(Pass::Again);
            }
            return Ok(self.busy(&list));
        }
        self.attempt.give_up_old();
        self.attempt.record_ahead(|| self.recipe.ahead(&list, &self.attempt.own).len());
        match self.standing(&list)? {
            Standing::Granted => self.grant(self.attempt.own.len() == list.len()),
            Standing::Behind(ahead) => self.wait_behind(Some(ahead), list),
            Standing::Full => self.wait_behind(None, list),
            Standing::Apart(name) => Err(self.attempt.apart_from(&name).into()),
            Standing::Gone | Standing::NeedsCzxid(_) => {
                self.attempt.give_up_own();
                Ok(Pass::Again)
            }
        }
    }

    /// Ends a call that does not wait and would be behind others.
    fn busy(&self, list: &Names) -> Pass {
        let is_rival = |name: &&str| names::mode_of(name).is_some();
        self.attempt.record_ahead(|| list.iter().filter(is_rival).count());
        Pass::Busy
    }

    fn is_missing(&self) -> bool {
        self.attempt.own.len() < self.recipe.count()
    }

    fn grant(&mut self, is_alone: bool) -> Result<Pass, Stop> {
        let Want { inner, claim, .. } = self.attempt.want;
        if let ([node], true) = (&mut self.attempt.own[..], is_alone) {
            node.takes_directory = inner.requests.directories.is_ours(&claim.facts.directory);
        }
        self.attempt.grant()
    }

    // ---- own nodes that cannot be deleted

    /// Returns the names of own nodes in the directory that cannot be deleted. Where there are
    /// some, a call creates nodes only after a look: otherwise each call would leave one more.
    fn stuck(&self) -> Vec<String> {
        let Want { inner, claim, .. } = self.attempt.want;
        inner.deletions.stuck_in(&claim.facts.directory)
    }

    /// Forgets own nodes that could not be deleted and do not exist any more.
    fn forget_gone(&self, stuck: Vec<String>, list: &Names) {
        let Want { inner, claim, .. } = self.attempt.want;
        let gone = stuck.iter().filter(|name| !list.contains(name));
        let gone = gone.inspect(|_| sys::reached("a node that stayed is gone"));
        gone.for_each(|name| inner.deletions.remove_stuck(&claim.facts.directory.child(name)));
    }

    /// Returns `Denied` if there would be no room even when all nodes had gone that can be deleted.
    fn check_room(&self, list: &Names) -> Result<(), Error> {
        let stuck: Names = self.stuck().iter().filter(|name| list.contains(name)).collect();
        match stuck.iter().next() {
            Some(name) if !self.recipe.is_free(&stuck) => {
                sys::reached("nodes that stay leave no room");
                Err(Error::Denied { path: self.attempt.want.claim.facts.directory.child(name) })
            }
            _ => Ok(()),
        }
    }

    // ---- waiting

    fn wait_behind(&mut self, ahead: Option<Ahead>, list: Names) -> Result<Pass, Stop> {
        let Want { inner, claim, .. } = self.attempt.want;
        self.attempt.want.until.note_ahead();
        if !self.attempt.want.waits {
            return Ok(Pass::Busy);
        }
        if inner.holds.registry.holds_here(claim) {
            sys::reached("a call would wait for a hold of its own thread");
            return Err(Error::WouldDeadlock { path: self.attempt.path().to_owned() }.into());
        }
        if let Some(ahead) = ahead {
            let path = claim.facts.directory.child(&ahead.nearest);
            if inner.deletions.is_stuck(&path) {
                sys::reached("the node ahead is ours and cannot be deleted");
                return Err(Error::Denied { path }.into());
            }
            self.watch(ahead)?;
        } else if self.recipe.watches_list() {
            self.check_room(&list)?;
        }
        // The list may be long, and so may the wait.
        drop(list);
        self.await_change()
    }

    /// Watches the nodes ahead and our own nodes, as far as they are not watched, and expects the
    /// grant. If the nearest node has gone meanwhile, its event comes before the answer. The waiter
    /// receives it behind the answer, with the event of our own node if that is gone, too.
    fn watch(&mut self, ahead: Ahead) -> Result<(), Stop> {
        let (claim, resumed) = (self.attempt.want.claim, self.attempt.requests().resumed());
        if resumed != self.watched.resumed {
            // They are still watched, but events may come in any order now.
            sys::reached_if(
                || !self.watched.paths.is_empty(),
                "a waiting call keeps its place over a resume",
            );
            self.watched = Watched { paths: HashSet::new(), resumed };
        }
        let path = |name: &String| claim.facts.directory.child(name);
        let nearest = path(&ahead.nearest);
        let second = match &ahead.next {
            Next::Second(second) => Some(path(second)),
            Next::List | Next::Grant => None,
        };
        // If several are gone, their events come in this order.
        let own = self.attempt.own.iter().map(|node| path(&node.name));
        let mut paths: Vec<_> = own.chain(second).chain([nearest.clone()]).collect();
        paths.retain(|path| !self.watched.paths.contains(path));
        self.expect(ahead);
        match paths.is_empty() {
            true => Ok(()),
            false => self.set_watches(paths, &nearest),
        }
    }

    /// Watches these nodes. If one is gone, its event comes before the answer. Earlier changes of
    /// their data do not matter: a hold reads its own.
    ///
    /// Servers send no event of a node that this client may not read, but set its watch all the
    /// same. So the nearest node is read, too, unless another one of its directory was.
    fn set_watches(&mut self, paths: Vec<String>, nearest: &str) -> Result<(), Stop> {
        let Want { inner, claim, until, .. } = self.attempt.want;
        let reads =
            paths.iter().any(|path| path == nearest) && !inner.readable.has(&claim.facts.directory);
        let asked = self.attempt.requests().ask(Some(self.attempt.session_id), until, |batch| {
            let read = reads.then(|| batch.get_data(nearest, None));
            (read, batch.set_watches(i64::MAX, &paths, &self.watcher))
        });
        let (read, set) = asked?;
        set?;
        self.watched.paths.extend(paths);
        // It was answered before.
        match read.map(Pending::wait) {
            Some(Ok(_)) => inner.readable.add(&claim.facts.directory),
            Some(Err(error)) if error.kind() != ErrorKind::NoNode => {
                sys::reached("a node ahead may not be read");
                return Err(error.into());
            }
            Some(Err(_)) | None => {}
        }
        Ok(())
    }

    /// Expects the grant: it may come without another look.
    fn expect(&mut self, ahead: Ahead) {
        self.expected += 1;
        if let ([node], true) = (&self.attempt.own[..], self.attempt.unanswered.is_empty()) {
            let (number, mode) = (self.expected, self.attempt.want.claim.facts.kind.mode());
            let (own, resumed) = (node.name.clone(), self.watched.resumed);
            self.heard.lock().expect(Expected { number, mode, own, ahead, resumed });
        }
    }

    /// Waits for the grant, or for a reason to look again.
    fn await_change(&mut self) -> Result<Pass, Stop> {
        let Want { inner, claim, until, .. } = self.attempt.want;
        if let Some(news) = self.attempt.wait(&self.news, self.recipe.changes())? {
            self.may_create = self.attempt.unanswered.is_empty() && self.stuck().is_empty();
            if self.receive(&news) {
                sys::reached("an expected event grants");
                return self.grant(false);
            }
            self.listed = news.names;
        } else if !until.is_over() {
            // Perhaps no event came because the node ahead may not be read. The next call asks.
            inner.readable.remove(&claim.facts.directory);
        }
        self.attempt.look_again()
    }

    /// Receives events. Their nodes are not watched any more. Returns whether the only event is the
    /// one that was expected last.
    fn receive(&mut self, news: &News) -> bool {
        let events = self.heard.lock().receive();
        for path in &events {
            self.watched.paths.remove(path);
        }
        let is_alone = events.len() == 1;
        sys::reached_if(
            || !is_alone && news.grants.is_some(),
            "an expected event does not come alone",
        );
        is_alone && news.grants == Some(self.expected)
    }
}
