//! The one waiting loop: from a claim to a held seat. It knows the protocol of the queue (create,
//! list, decide, watch the one ahead, list again) and nothing of what a lock means.

use std::sync::Arc;

use log::debug;

use crate::attempt::{Attempt, Outcome};
use crate::error::Error;
use crate::node::{self, Child, Standing};
use crate::place;
use crate::session::{Connection, Failure, Grant, Seat, Session, Wire};
use crate::watch::Listening;

/// How a seat's own node stands in its queue.
enum Step {
    /// First. The name of the node.
    Granted(String),
    /// Behind another one, which is watched for as long as this is kept; without a watch if it
    /// was not asked for.
    Behind(Option<Listening>),
    /// Somebody deleted the node.
    Gone(String),
}

/// Queues, and waits for its turn.
pub(crate) fn wait(at: &Attempt<'_>) -> Result<Outcome, Failure> {
    Queue(at).wait()
}

/// Looks, and queues only if nobody is ahead.
pub(crate) fn attempt(at: &Attempt<'_>) -> Result<Outcome, Failure> {
    Queue(at).attempt()
}

struct Queue<'a>(&'a Attempt<'a>);

impl Queue<'_> {
    fn attempt(&self) -> Result<Outcome, Failure> {
        loop {
            let step = self.call(|job, wire, on| match job.is_vacant(wire)? {
                true => job.enter(wire, on, false),
                false => Ok(Step::Behind(None)),
            })?;
            match step {
                Step::Behind(_) => return Ok(Outcome::Busy),
                Step::Gone(name) => self.0.seat.strike(&name),
                Step::Granted(name) => match self.0.grant(&name)? {
                    Grant::Held => return Ok(Outcome::Held),
                    Grant::NodeGone => self.0.seat.strike(&name),
                },
            }
        }
    }

    fn wait(&self) -> Result<Outcome, Failure> {
        let Attempt { session, seat, connection, .. } = self.0;
        let mut seen_ahead = false;
        let mut step = self.enter()?;
        loop {
            let looked = match step {
                Step::Granted(name) => match self.0.grant(&name) {
                    Ok(Grant::Held) => return Ok(Outcome::Held),
                    Ok(Grant::NodeGone) => self.enter_again(&name),
                    Err(failure) => Err(failure),
                },
                Step::Gone(name) => self.enter_again(&name),
                Step::Behind(listening) => {
                    seen_ahead = true;
                    if session.holds_here(seat.claim()) {
                        let path = seat.path().to_owned();
                        return Ok(Outcome::Refused(Error::WouldDeadlock { path }));
                    }
                    if !place::await_change(self.0)? {
                        return Ok(Outcome::Busy);
                    }
                    drop(listening);
                    self.look()
                }
            };
            step = match looked {
                Err(Failure::Deadline) if seen_ahead && !connection.is_dead() => {
                    return Ok(Outcome::Busy);
                }
                looked => looked?,
            };
        }
    }

    /// The node is gone: queue again with a new one.
    fn enter_again(&self, name: &str) -> Result<Step, Failure> {
        let seat = self.0.seat;
        debug!(target: "zoolock::queue", "{}: {name} was deleted, queueing again", seat.path());
        seat.strike(name);
        self.enter_last()
    }

    /// Gets a place: the one on an earlier connection if there is one and it can be moved here,
    /// else a new one at the end.
    fn enter(&self) -> Result<Step, Failure> {
        if !self.0.seat.has_place() {
            return self.enter_last();
        }
        match self.call(|job, wire, on| job.session.settle(&job.seat, wire, on))? {
            true => self.look(),
            false => self.enter_last(),
        }
    }

    fn enter_last(&self) -> Result<Step, Failure> {
        let left_behind = self.0.seat.start_over(self.0.session.garbage());
        self.0.seat.forget_signals();
        self.call(move |job, wire, on| {
            // What is left on an earlier connection would stand before the new node.
            for id in left_behind {
                if let Err(Failure::Dead) = job.session.garbage().delete(wire, &id) {
                    return Err(Failure::Dead);
                }
            }
            job.enter(wire, on, true)
        })
    }

    fn look(&self) -> Result<Step, Failure> {
        self.0.seat.forget_signals();
        self.call(|job, wire, _| job.look(wire, true))
    }

    /// Has a worker do what takes several requests.
    fn call<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Job, &Wire<'_>, &Arc<Connection>) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Failure> {
        let (job, on) = (self.job(), Arc::clone(self.0.connection));
        let connection = self.0.connection;
        connection.call(self.0.until, move |wire| work(&job, wire, &on))
    }

    fn job(&self) -> Job {
        Job { session: Arc::clone(self.0.session), seat: Arc::clone(self.0.seat) }
    }
}

/// The part of the loop that runs on a worker thread.
struct Job {
    session: Arc<Session>,
    seat: Arc<Seat>,
}

impl Job {
    fn is_vacant(&self, wire: &Wire<'_>) -> Result<bool, Failure> {
        Ok(node::vacant(self.seat.claim().kind, &self.children(wire)?))
    }

    /// Creates a node, making the directory if need be, and looks how it stands.
    fn enter(&self, wire: &Wire<'_>, on: &Arc<Connection>, watch: bool) -> Result<Step, Failure> {
        self.session.enter(&self.seat, wire, on)?;
        self.look(wire, watch)
    }

    /// Lists and decides; watches the one ahead. Lists again if that is gone by then.
    fn look(&self, wire: &Wire<'_>, watch: bool) -> Result<Step, Failure> {
        loop {
            let (own, _) = self.seat.own().ok_or(Failure::Cancelled)?;
            let ahead = match self.standing(wire, &own)? {
                Standing::Granted => return Ok(Step::Granted(own)),
                Standing::Gone => return Ok(Step::Gone(own)),
                Standing::Behind(_) if !watch => return Ok(Step::Behind(None)),
                Standing::Behind(ahead) => ahead,
                Standing::NeedsCzxid(_) => continue,
            };
            let path = self.seat.claim().directory.child(&ahead);
            let sender = self.seat.wake().0.clone();
            let listening = wire.connection().watches().listen(wire.full(&path), sender, 0);
            match wire.data(&path, true) {
                Ok(_) => return Ok(Step::Behind(Some(listening))),
                Err(failure) if failure.is_no_node() => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// `NeedsCzxid` if a node vanished while its czxid was wanted.
    fn standing(&self, wire: &Wire<'_>, own: &str) -> Result<Standing, Failure> {
        let mut children = self.children(wire)?;
        let kind = self.seat.claim().kind;
        let standing = node::decide(kind, &children, own);
        let Standing::NeedsCzxid(names) = &standing else {
            return Ok(standing);
        };
        for child in children.iter_mut().filter(|c| names.contains(&c.name)) {
            let path = self.seat.claim().directory.child(&child.name);
            child.czxid = match wire.data(&path, false) {
                Ok((_, stat)) => Some(stat.czxid),
                Err(failure) if failure.is_no_node() => return Ok(standing),
                Err(failure) => return Err(failure),
            };
        }
        Ok(node::decide(kind, &children, own))
    }

    fn children(&self, wire: &Wire<'_>) -> Result<Vec<Child>, Failure> {
        let names = wire.children(self.seat.claim().directory.as_str(), false)?;
        let child = |name| Child { name, czxid: None };
        Ok(names.into_iter().map(child).collect())
    }
}

#[cfg(test)]
mod tests;
