//! The part that all calls at the servers have in common: they follow the client's session, own
//! their nodes until the grant, and wait.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Receiver;
use log::debug;
use zookeeper::{Names, Stat};

use super::rule::New;
use crate::error::Error;
use crate::inner::{
    Charge, Claim, Failure, Grant, Granted, Inner, Node, Orphan, Requests, Waiting, may_be_done,
};
use crate::names::Number;
use crate::observer::Call;
use crate::signal::{Ended, Until};
use crate::sys::{self, at, select_biased};

/// The claim of a call, and how long it may wait.
pub(crate) struct Want<'a> {
    pub(crate) inner: &'a Arc<Inner>,
    pub(crate) claim: &'a Claim,
    pub(crate) until: &'a Until,
    /// The call waits for others. Otherwise it waits only for answers.
    pub(crate) waits: bool,
    /// The observed call, to record how many are ahead.
    pub(crate) call: Option<&'a Call>,
}

/// A create that is about to be sent.
pub(super) struct Create {
    pub(super) new: New,
    pub(super) charge: Charge,
    /// How often the session had been resumed before.
    sent_on: u64,
}

/// A create without an answer. Its node may exist, or appear late.
pub(super) struct Lost {
    pub(super) id: String,
    pub(super) charge: Charge,
    /// How often the session had been resumed before it was sent.
    sent_on: u64,
    since: Instant,
}

/// One call, and its nodes on the servers. Nodes that are not granted are given up at its end, also
/// when its thread unwinds.
pub(super) struct Attempt<'a> {
    pub(super) want: Want<'a>,
    /// The session of its nodes.
    pub(super) session_id: i64,
    pub(super) own: Vec<Node>,
    pub(super) lost: Vec<Lost>,
    /// Whether another contender was seen ahead.
    seen_ahead: bool,
    /// Ready when a node of ours was found that cannot be deleted.
    has_stuck: Ended,
    _waiting: Waiting<'a>,
}

/// How a pass of a loop ended.
pub(super) enum Pass {
    Held(Arc<Grant>),
    Busy,
    Again,
}

/// Why a loop ends, or goes on in another session.
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

/// Runs passes until one ends the call. `None` means busy: now, or until the deadline.
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
        match failure {
            Failure::Deadline if attempt.seen_ahead && attempt.requests().is_connected() => {
                sys::reached("a deadline comes with somebody ahead");
                return Ok(None);
            }
            Failure::Broken | Failure::SessionOver if attempt.want.waits => {
                sys::reached("a waiting call goes on behind a cut");
                let lock = attempt.path();
                debug!(target: "zoolock::queue", lock:%; "{lock}: connection lost");
            }
            failure => return Err(attempt.requests().error(attempt.path(), failure)),
        }
    }
}

impl<'a> Attempt<'a> {
    pub(super) fn new(want: Want<'a>) -> Attempt<'a> {
        let inner: &'a Inner = want.inner;
        Attempt {
            want,
            session_id: 0,
            own: Vec::new(),
            lost: Vec::new(),
            seen_ahead: false,
            has_stuck: inner.deletions.has_stuck(),
            _waiting: inner.requests.start_waiting(),
        }
    }

    pub(super) fn requests(&self) -> &'a Requests {
        let inner: &'a Inner = self.want.inner;
        &inner.requests
    }

    pub(super) fn path(&self) -> &'a str {
        self.want.claim.lock.as_str()
    }

    /// Finds a connection at the start of a pass. Returns true if its session is a new one, in
    /// which the call has nothing.
    pub(super) fn find_session(&mut self) -> Result<bool, Stop> {
        match self.want.waits {
            true => self.requests().await_connection(self.path(), self.want.until)?,
            false => self.requests().require_connection(self.path())?,
        }
        let (now, before) = (self.requests().id(), self.session_id);
        if now != before {
            sys::reached_if(|| before != 0, "a waiting call begins anew in another session");
            self.session_id = now;
            self.own.clear();
            self.lost.clear();
        }
        // Taken before the look, so that no event is missed.
        self.has_stuck = self.want.inner.deletions.has_stuck();
        Ok(now != before)
    }

    // ---- nodes

    /// Prepares creates. Waits for creates that other calls gave up, because their answers come
    /// first.
    pub(super) fn creates(
        &self,
        count: usize,
        node: impl Fn() -> New,
    ) -> Result<impl Iterator<Item = Create>, Stop> {
        self.want.inner.orphans.await_given_up(self.want.until)?;
        let charge = self.requests().charge(self.want.claim, count)?;
        let sent_on = self.requests().resumed();
        Ok(charge.split(count).map(move |charge| Create { new: node(), charge, sent_on }))
    }

    /// Takes a node that the answer to its create, or a look, has shown.
    pub(super) fn has_node(
        &mut self,
        name: &str,
        charge: Charge,
        (stat, token): (&Stat, u64),
        number: Option<Number>,
    ) {
        let name = name.to_owned();
        self.own.push(Node { name, number, czxid: stat.czxid, token, charge });
    }

    /// Notes that the answer to a create is lost. Every later look looks for its node.
    pub(super) fn lose(&mut self, Create { new, charge, sent_on }: Create) {
        self.lost.push(Lost { id: new.id, charge, sent_on, since: sys::now() });
    }

    /// Takes the error that answers a create.
    pub(super) fn has_failed(&mut self, create: Create, error: zookeeper::Error) -> Failure {
        if may_be_done(&error) {
            sys::reached("a create has no answer");
            self.lose(create);
        }
        error.into()
    }

    /// Returns whether these names show all its nodes.
    pub(super) fn are_in(&self, names: &Names) -> bool {
        self.own.iter().all(|node| names.contains(&node.name))
    }

    pub(super) fn keep_own(&mut self, is_there: impl Fn(&Node) -> bool) {
        let before = self.own.len();
        self.own.retain(is_there);
        if self.own.len() < before {
            sys::reached("the node of a call is gone from a list");
            let lock = self.path();
            debug!(target: "zoolock::queue", lock:%; "{lock}: a node was deleted");
        }
    }

    /// Takes its nodes, which are first. `number` is that of the only node, if it is alone.
    pub(super) fn grant(&mut self, number: Option<Number>) -> Result<Pass, Stop> {
        let Want { inner, claim, until, .. } = self.want;
        let granted = inner.holds.grant(claim, (&mut self.own, number), self.session_id, until)?;
        match granted {
            Granted::Held(grant) => Ok(Pass::Held(grant)),
            Granted::NotYet | Granted::Over => Ok(Pass::Again),
        }
    }

    pub(super) fn give_up_own(&mut self) {
        let Want { inner, claim, .. } = self.want;
        self.own.drain(..).for_each(|node| inner.deletions.delete(claim, self.session_id, &node));
    }

    /// Leaves creates that no list has shown for a session timeout to the search for orphans.
    pub(super) fn give_up_lost(&mut self) {
        let (now, timeout) = (sys::now(), self.requests().timeout());
        let is_left = self.leave_to_search(|lost| lost.since + timeout <= now);
        sys::reached_if(|| is_left, "a create is left to the search while its call goes on");
    }

    /// Leaves such lost creates to the search for orphans. Returns false if there are none.
    pub(super) fn leave_to_search(&mut self, is_left: impl Fn(&Lost) -> bool) -> bool {
        let Want { inner, claim, .. } = self.want;
        let timeout = self.requests().timeout();
        let orphan = |lost: Lost| {
            let Lost { id, charge, sent_on, since } = lost;
            Orphan { id, charge, sent_on: Some(sent_on), until: since + timeout }
        };
        let left = self.lost.extract_if(.., |lost| is_left(lost));
        let orphans: Vec<_> = left.map(orphan).collect();
        let is_any = !orphans.is_empty();
        inner.orphans.adopt(self.session_id, claim, orphans);
        is_any
    }

    // ---- waiting

    /// Records how many are ahead.
    pub(super) fn tell_ahead(&self, count: impl FnOnce() -> usize) {
        self.want.call.inspect(|call| call.has_ahead(count));
    }

    /// Notes that another contender is ahead. Returns whether the call waits for it.
    pub(super) fn may_wait(&mut self) -> bool {
        self.seen_ahead = true;
        self.want.waits
    }

    /// Waits for news. Returns `None` for any other reason to look again.
    pub(super) fn wait<T>(
        &self,
        news: &Receiver<T>,
        [one, other]: [Ended; 2],
        next: Option<Instant>,
    ) -> Result<Option<T>, Stop> {
        let until = self.want.until;
        loop {
            let expiry = at(self.next_expiry(next));
            select_biased! {
                recv(until.cancelled) -> _ => {
                    sys::reached("a cancel ends a wait in the queue");
                    return Err(Failure::Cancelled.into());
                }
                recv(self.requests().closed()) -> _ => {
                    sys::reached("the close ends a wait in the queue");
                    return Err(Failure::Closed.into());
                }
                recv(news) -> news => return Ok(news.ok()),
                recv(one) -> _ => sys::reached("the limit changes while permits are waited for"),
                recv(other) -> _ => sys::reached("the turn ends while permits are waited for"),
                recv(self.has_stuck) -> _ => {
                    sys::reached("a waiting call hears of a node that stays");
                }
                recv(expiry) -> _ => {
                    // Without a connection, a look is put off: otherwise all calls would look at
                    // the same time after an outage. The next connection reports missed changes.
                    let is_over =
                        until.is_over() || next.is_some_and(|next| next <= sys::now());
                    if !is_over && !self.requests().is_connected() {
                        sys::reached("a look is put off without a connection");
                        continue;
                    }
                    sys::reached_if(|| !is_over, "a waiting call looks though nothing was told");
                }
            }
            return Ok(None);
        }
    }

    /// Returns when a wait ends at the latest: for a look, to report the position, or at the
    /// deadline.
    fn next_expiry(&self, next: Option<Instant>) -> Instant {
        let others = [next, self.want.until.deadline].into_iter().flatten();
        others.fold(self.requests().next_look(), Instant::min)
    }

    /// Ends a wait: the next pass follows, unless the deadline has come.
    pub(super) fn look_again(&self) -> Result<Pass, Stop> {
        match self.want.until.is_over() {
            true => Err(Failure::Deadline.into()),
            false => Ok(Pass::Again),
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.give_up_own();
        let is_left = self.leave_to_search(|_| true);
        sys::reached_if(|| is_left, "a call ends before its create is found");
    }
}
