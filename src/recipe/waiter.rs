//! The loop: one call, what it has on the servers, and how it waits.

mod listening;
mod looking;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use log::debug;
use zookeeper::{ErrorKind, Names, Watcher};

use listening::{Expected, Line, News, listen};

use super::place::OnPosition;
use super::rule::{Recipe, Step};
use crate::error::{Error, Result};
use crate::names::{self, Ahead, Next};
use crate::observer::Call;
use crate::session::{
    Busy, Charge, Claim, Departure, Failure, Grant, Granted, Node, Orphan, Session, Waiting,
};
use crate::signal::{Ended, Until};
use crate::sys::{self, Mutex, at, select_biased};

/// What is wanted, and how.
pub(crate) struct Want<'a> {
    pub(crate) session: &'a Arc<Session>,
    pub(crate) claim: &'a Claim,
    pub(crate) recipe: &'a dyn Recipe,
    /// What the thread before has left, to be replaced.
    pub(crate) departure: Option<Departure>,
    pub(crate) on_position: Option<&'a OnPosition>,
    /// Who wants to know how many were ahead.
    pub(crate) call: Option<&'a Call>,
}

impl Want<'_> {
    /// Takes it if nobody is ahead. Waits for answers only, for a third of the session timeout.
    pub(crate) fn try_acquire(self) -> Result<Option<Arc<Grant>>> {
        self.session.require_connection(self.claim.lock.as_str())?;
        let until = Until::within(self.session.patience());
        Waiter::new(self, &until, false)?.run()
    }

    /// Waits for its turn. None if the deadline came while somebody was ahead.
    pub(crate) fn acquire(self, until: &Until) -> Result<Option<Arc<Grant>>> {
        Waiter::new(self, until, true)?.run()
    }
}

/// A create without an answer. Its node may be there, or appear late.
struct Lost {
    id: String,
    charge: Charge,
    /// How often the session had been resumed before it was sent.
    sent_on: u64,
    since: Instant,
}

impl Lost {
    fn into_orphan(self, timeout: Duration) -> Orphan {
        let Lost { id, charge, sent_on, since } = self;
        Orphan { id, charge, sent_on: Some(sent_on), until: since + timeout }
    }
}

/// One call, and what it has on the servers. What is not granted is given up with it, also when its
/// thread unwinds.
struct Waiter<'a> {
    want: Want<'a>,
    until: &'a Until,
    /// Else it only tries.
    waits: bool,
    /// The session that its nodes are of.
    session_id: i64,
    own: Vec<Node>,
    lost: Vec<Lost>,
    /// While a single node of its own may be there.
    busy: Option<Busy<'a>>,
    /// Nodes may be made without a look before.
    may_create: bool,
    watcher: Watcher,
    news: Receiver<News>,
    line: Arc<Mutex<Line>>,
    /// What was in the directory when it was heard of last, and not looked at yet.
    listed: Option<Names>,
    /// The nodes that are watched, by their paths, since the session was resumed so often.
    watched: (HashSet<String>, u64),
    /// The number of the last expectation.
    expected: u64,
    /// Ready when an own node was found that cannot be deleted.
    has_stuck: Ended,
    czxids: HashMap<String, i64>,
    /// Somebody was seen ahead.
    seen_ahead: bool,
    _waiting: Waiting<'a>,
}

/// How a pass of the loop ended.
enum Pass {
    Held(Arc<Grant>),
    Busy,
    Again,
}

/// Why the loop ends, or goes on elsewhere.
enum Stop {
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

impl<'a> Waiter<'a> {
    fn new(want: Want<'a>, until: &'a Until, waits: bool) -> Result<Waiter<'a>> {
        let (watcher, news, line) = listen(&want);
        let session: &'a Session = want.session;
        Ok(Waiter {
            _waiting: session.start_waiting(),
            want,
            until,
            waits,
            session_id: 0,
            own: Vec::new(),
            lost: Vec::new(),
            busy: None,
            may_create: false,
            watcher,
            news,
            line,
            listed: None,
            watched: Default::default(),
            expected: 0,
            has_stuck: session.has_stuck(),
            czxids: HashMap::new(),
            seen_ahead: false,
        })
    }

    fn path(&self) -> &'a str {
        self.want.claim.lock.as_str()
    }

    fn run(mut self) -> Result<Option<Arc<Grant>>> {
        loop {
            let failure = match self.pass() {
                Ok(Pass::Held(grant)) => return Ok(Some(grant)),
                Ok(Pass::Busy) => return Ok(None),
                Ok(Pass::Again) => continue,
                Err(Stop::Over(error)) => return Err(error),
                Err(Stop::Failed(failure)) => failure,
            };
            match failure {
                Failure::Deadline if self.seen_ahead && self.want.session.is_connected() => {
                    sys::reached("a deadline comes with somebody ahead");
                    return Ok(None);
                }
                Failure::Broken | Failure::SessionOver if self.waits => {
                    sys::reached("a waiting call goes on behind a cut");
                    let lock = self.path();
                    debug!(target: "zoolock::queue", lock:%; "{lock}: connection lost");
                }
                failure => return Err(self.want.session.error(self.path(), failure)),
            }
        }
    }

    fn pass(&mut self) -> Result<Pass, Stop> {
        self.find_session()?;
        // Before the look, so that none is missed.
        self.has_stuck = self.want.session.has_stuck();
        let list = match self.listed.take() {
            _ if self.is_missing() && self.may_create => self.enter()?,
            // One that shows our nodes is no older than they are.
            Some(names) if self.are_in(&names) => self.sort_out(names)?,
            _ => {
                // Those of which a list that is asked for behind this must tell.
                let stuck = self.want.session.stuck_in(&self.want.claim.directory);
                let list = self.look()?;
                self.forget_gone(stuck, &list);
                list
            }
        };
        if self.is_missing() {
            if self.waits && !self.want.claim.is_single() {
                self.leaves_room(&list)?;
            }
            let is_free = self.want.recipe.is_free(&list);
            self.may_create = is_free || !self.want.claim.is_single();
            return match is_free || (self.waits && self.may_create) {
                true => Ok(Pass::Again),
                false => {
                    self.tell_ahead(|| list.iter().filter(|name| self.is_rival(name)).count());
                    self.wait_behind(None, list)
                }
            };
        }
        self.give_up_lost();
        self.tell_ahead(|| self.want.recipe.ahead(&list, &self.own).len());
        match self.step(&list)? {
            Step::Granted => self.grant(self.own.len() == list.len()),
            Step::Behind(ahead) => self.wait_behind(ahead, list),
            Step::Refused(error) => Err(error.into()),
            Step::Gone | Step::NeedsCzxid(_) => {
                self.give_up();
                Ok(Pass::Again)
            }
        }
    }

    /// Do these names show all that it needs?
    fn are_in(&self, names: &Names) -> bool {
        !self.is_missing() && self.own.iter().all(|node| names.contains(&node.name))
    }

    /// Is it somebody's who holds or waits?
    fn is_rival(&self, name: &str) -> bool {
        self.want.claim.is_single() || names::mode_of(name).is_some()
    }

    fn tell_ahead(&self, count: impl FnOnce() -> usize) {
        self.want.call.inspect(|call| call.has_ahead(count));
    }

    fn is_missing(&self) -> bool {
        self.own.len() < self.want.recipe.count()
    }

    /// A connection; if its session is another one, it begins anew there.
    fn find_session(&mut self) -> Result<()> {
        let session = self.want.session;
        match self.waits {
            true => session.await_connection(self.path(), self.until)?,
            false => session.require_connection(self.path())?,
        }
        let now = session.id();
        if now != self.session_id {
            sys::reached_if(
                || self.session_id != 0,
                "a waiting call begins anew in another session",
            );
            self.session_id = now;
            self.own.clear();
            self.lost.clear();
            self.watched.0.clear();
            // The create of a single node is itself the look whether there is one.
            self.may_create =
                (self.waits || self.want.claim.is_single()) && self.may_create_unseen();
        }
        Ok(())
    }

    // ---- waiting

    fn grant(&mut self, alone: bool) -> Result<Pass, Stop> {
        let Want { session, claim, .. } = self.want;
        let number = match &self.own[..] {
            [node] if alone => node.number,
            _ => None,
        };
        match session.grant(claim, (&mut self.own, number), self.session_id, self.until)? {
            Granted::Held(grant) => Ok(Pass::Held(grant)),
            Granted::NotYet | Granted::Over => Ok(Pass::Again),
        }
    }

    fn wait_behind(&mut self, ahead: Option<Ahead>, list: Names) -> Result<Pass, Stop> {
        let Want { session, claim, on_position, .. } = self.want;
        self.seen_ahead = true;
        if !self.waits {
            return Ok(Pass::Busy);
        }
        if session.holds_here(claim) {
            sys::reached("a call would wait for a hold of its own thread");
            return Err(Error::WouldDeadlock { path: self.path().to_owned() }.into());
        }
        if let Some(ahead) = ahead {
            let path = claim.directory.child(&ahead.nearest);
            if session.is_stuck(&path) {
                sys::reached("the node ahead is ours and cannot be deleted");
                return Err(Error::Denied { path }.into());
            }
            if !self.watch(&ahead)? {
                return Ok(Pass::Again);
            }
            self.expect(ahead);
        } else if self.want.recipe.watches_list() {
            self.leaves_room(&list)?;
        }
        let next = match on_position {
            Some(on_position) => {
                let before = self.want.recipe.ahead(&list, &self.own);
                on_position.tell(session, claim, &before, self.until)?
            }
            None => None,
        };
        // It may be long, and the wait, too.
        drop(list);
        self.await_change(next)
    }

    /// Forgets own nodes that could not be deleted and are not there any more.
    fn forget_gone(&self, stuck: Vec<String>, list: &Names) {
        let Want { session, claim, .. } = self.want;
        let gone = stuck.iter().filter(|name| !claim.is_single() && !list.contains(name));
        let gone = gone.inspect(|_| sys::reached("a node that stayed is gone"));
        gone.for_each(|name| session.is_gone(&claim.directory.child(name)));
    }

    /// Returns `Denied` if there would be no room even when all had gone that can.
    fn leaves_room(&self, list: &Names) -> Result<(), Error> {
        let Want { session, claim, recipe, .. } = self.want;
        let path = |name: &str| claim.directory.child(name);
        let stuck: Names =
            session.stuck_in(&claim.directory).iter().filter(|name| list.contains(name)).collect();
        match stuck.iter().next() {
            Some(name) if !recipe.is_free(&stuck) => {
                sys::reached("nodes that stay leave no room");
                Err(Error::Denied { path: path(name) })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether nodes may be made without a look before. Where an own node could not be deleted, each call would
    /// leave one more.
    fn may_create_unseen(&self) -> bool {
        let Want { session, claim, .. } = self.want;
        claim.is_single() || session.stuck_in(&claim.directory).is_empty()
    }

    /// Has those ahead watched, and our own nodes, as far as they are not. False if one is gone. By reads of
    /// their data: one that looks whether a node is there would leave a watch behind where it is not.
    fn watch(&mut self, ahead: &Ahead) -> Result<bool, Stop> {
        let Want { session, claim, .. } = self.want;
        let resumed = session.resumed();
        if resumed != self.watched.1 {
            // They still are, but what is told of them now comes in any order.
            sys::reached_if(
                || !self.watched.0.is_empty(),
                "a waiting call keeps its place over a resume",
            );
            self.watched = (HashSet::new(), resumed);
        }
        let path = |name: &String| claim.directory.child(name);
        let second = match &ahead.next {
            Next::Second(second) => Some(path(second)),
            Next::List | Next::Grant => None,
        };
        let own = self.own.iter().map(|node| path(&node.name));
        let mut paths: Vec<_> = own.chain(second.clone()).chain([path(&ahead.nearest)]).collect();
        paths.retain(|path| !self.watched.0.contains(path));
        let (id, watcher) = (Some(self.session_id), Some(&self.watcher));
        let reads = session.read_each(id, self.until, &paths, watcher)?;
        let mut are_there = true;
        for (path, read) in paths.iter().zip(reads) {
            match read {
                Ok(_) => drop(self.watched.0.insert(path.clone())),
                Err(error) if error.kind() == ErrorKind::NoNode => {
                    sys::reached("a node is gone before it is watched");
                    are_there = false;
                }
                // That may not be read, which is not waited for.
                Err(error) if second.as_ref() == Some(path) && !error.is_maybe_done() => {
                    sys::reached("the second ahead may not be read");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(are_there)
    }

    /// The grant may come without another look, now that all is watched.
    fn expect(&mut self, ahead: Ahead) {
        self.expected += 1;
        if let (Some(mode), [node], true) =
            (self.want.claim.mode, &self.own[..], self.lost.is_empty())
        {
            let (number, own, resumed) = (self.expected, node.name.clone(), self.watched.1);
            self.line.lock().expect(Expected { number, mode, own, ahead, resumed });
        }
    }

    /// Waits for its turn, or for a reason to look again.
    fn await_change(&mut self, next: Option<Instant>) -> Result<Pass, Stop> {
        loop {
            let [one, other] = self.want.recipe.changes();
            let expiry = at(self.next_expiry(next));
            select_biased! {
                recv(self.until.cancelled) -> _ => {
                    sys::reached("a cancel ends a wait in the queue");
                    return Err(Failure::Cancelled.into());
                }
                recv(self.want.session.closed()) -> _ => {
                    sys::reached("the close ends a wait in the queue");
                    return Err(Failure::Closed.into());
                }
                recv(self.news) -> news => {
                    self.may_create = self.lost.is_empty() && self.may_create_unseen();
                    if let Ok(news) = news {
                        if self.hears(&news) {
                            sys::reached("an expected event grants");
                            return self.grant(false);
                        }
                        self.listed = news.names;
                    }
                }
                recv(one) -> _ => sys::reached("the limit changes while permits are waited for"),
                recv(other) -> _ => sys::reached("the turn ends while permits are waited for"),
                recv(self.has_stuck) -> _ => sys::reached("a waiting call hears of a node that stays"),
                recv(expiry) -> _ => {
                    // Without a connection a look is put off: all would look together behind an outage. The next
                    // connection tells what was missed.
                    let is_over = self.is_over(next);
                    if !is_over && !self.want.session.is_connected() {
                        sys::reached("a look is put off without a connection");
                        continue;
                    }
                    sys::reached_if(|| !is_over, "a waiting call looks though nothing was told");
                }
            }
            break;
        }
        match self.until.is_over() {
            true => Err(Failure::Deadline.into()),
            false => Ok(Pass::Again),
        }
    }

    /// Returns whether more than the time for a look has come.
    fn is_over(&self, next: Option<Instant>) -> bool {
        self.until.is_over() || next.is_some_and(|next| next <= sys::now())
    }

    /// Returns when a wait ends at the latest: for a look, to tell the place, or at the deadline.
    fn next_expiry(&self, next: Option<Instant>) -> Instant {
        let others = [next, self.until.deadline].into_iter().flatten();
        others.fold(self.want.session.next_look(), Instant::min)
    }

    /// What was watched is not any more. Is it the end that was expected last, and nothing else?
    fn hears(&mut self, news: &News) -> bool {
        let events = self.line.lock().hear();
        for path in &events {
            self.watched.0.remove(path);
        }
        let is_alone = events.len() == 1;
        sys::reached_if(
            || !is_alone && news.grants.is_some(),
            "an expected event does not come alone",
        );
        is_alone && news.grants == Some(self.expected)
    }

    /// Leaves creates that were lost, and found in no list for a session timeout, to the search for orphans.
    fn give_up_lost(&mut self) {
        let (now, timeout) = (sys::now(), self.want.session.timeout());
        let is_left = self.leave_to_search(|lost| lost.since + timeout <= now);
        sys::reached_if(|| is_left, "a create is left to the search while its call goes on");
    }

    /// Leaves such lost creates to the search for orphans. False if there are none.
    fn leave_to_search(&mut self, is_left: impl Fn(&Lost) -> bool) -> bool {
        let Want { session, claim, .. } = self.want;
        let timeout = session.timeout();
        let left = self.lost.extract_if(.., |lost| is_left(lost));
        let orphans: Vec<_> = left.map(|lost| lost.into_orphan(timeout)).collect();
        let is_any = !orphans.is_empty();
        session.adopt_orphans(self.session_id, claim, orphans);
        is_any
    }

    fn give_up(&mut self) {
        for node in self.own.drain(..) {
            self.want.session.give_up(self.want.claim, self.session_id, &node);
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.give_up();
        self.busy = None;
        let is_left = self.leave_to_search(|_| true);
        sys::reached_if(|| is_left, "a call ends before its create is found");
    }
}
