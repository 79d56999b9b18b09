//! The one waiting loop: from a claim to a held seat. It knows the protocol of the queue (create,
//! list, decide, watch the one ahead, list again) and nothing of what a lock means.

use std::sync::Arc;

use log::debug;

use crate::error::{Error, Result};
use crate::node::{self, Child, Own, Standing};
use crate::session::{Claim, Connection, Failure, Grant, Seat, Session, Until, Wire};
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

/// Gives the seat up unless it was granted: also when a caller unwinds.
pub(crate) struct Waiter<'a> {
    session: &'a Arc<Session>,
    seat: Arc<Seat>,
    granted: bool,
}

impl<'a> Waiter<'a> {
    pub(crate) fn new(session: &'a Arc<Session>, claim: Claim) -> Result<Waiter<'a>> {
        Ok(Waiter {
            session,
            seat: session.seat(claim)?,
            granted: false,
        })
    }

    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    pub(crate) fn granted(mut self) -> Arc<Seat> {
        self.granted = true;
        Arc::clone(&self.seat)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if !self.granted {
            self.session.give_up(&self.seat);
        }
    }
}

/// Queues and waits. None if the deadline came while another contender was ahead.
pub(crate) fn acquire(
    session: &Arc<Session>,
    claim: Claim,
    until: &Until,
) -> Result<Option<Arc<Seat>>> {
    let waiter = Waiter::new(session, claim)?;
    let path = waiter.seat().path().to_owned();
    loop {
        let queue = Queue {
            session,
            seat: waiter.seat(),
            connection: &session.await_live(&path, until)?,
            until,
        };
        match queue.wait() {
            Ok(Outcome::Held) => return Ok(Some(waiter.granted())),
            Ok(Outcome::Busy) => return Ok(None),
            Ok(Outcome::Deadlock) => return Err(Error::WouldDeadlock { path }),
            Err(Failure::Dead) => debug!(target: "zoolock::queue", "{path}: connection lost"),
            Err(failure) => return Err(session.error(&path, failure)),
        }
    }
}

/// Looks, and queues only if nobody is ahead. Waits for answers only, for a third of the session
/// timeout.
pub(crate) fn try_acquire(session: &Arc<Session>, claim: Claim) -> Result<Option<Arc<Seat>>> {
    let path = claim.lock.as_str().to_owned();
    let connection = session.require_live(&path)?;
    let until = Until::within(connection.timeout() / 3);
    let waiter = Waiter::new(session, claim)?;
    let queue = Queue {
        session,
        seat: waiter.seat(),
        connection: &connection,
        until: &until,
    };
    match queue.attempt() {
        Ok(true) => Ok(Some(waiter.granted())),
        Ok(false) => Ok(None),
        Err(failure) => Err(session.error(&path, failure)),
    }
}

/// How waiting on one connection ended.
enum Outcome {
    Held,
    /// The deadline came, and another contender was ahead.
    Busy,
    /// The one ahead is the calling thread's own.
    Deadlock,
}

/// One seat's queueing on one connection.
struct Queue<'a> {
    session: &'a Arc<Session>,
    seat: &'a Arc<Seat>,
    connection: &'a Arc<Connection>,
    until: &'a Until,
}

impl Queue<'_> {
    /// Queues if nobody is ahead. False if somebody is.
    fn attempt(&self) -> Result<bool, Failure> {
        loop {
            let (job, on) = (self.job(), Arc::clone(self.connection));
            let step =
                self.connection
                    .call(self.until, move |wire| match job.is_vacant(wire)? {
                        true => job.enter(wire, &on, false),
                        false => Ok(Step::Behind(None)),
                    })?;
            match step {
                Step::Behind(_) => return Ok(false),
                Step::Gone(name) => self.seat.strike(&name),
                Step::Granted(name) => match self.grant(&name)? {
                    Grant::Held => return Ok(true),
                    Grant::NodeGone => self.seat.strike(&name),
                },
            }
        }
    }

    /// Queues and waits.
    fn wait(&self) -> Result<Outcome, Failure> {
        let mut seen_ahead = false;
        let mut step = self.enter()?;
        loop {
            let looked = match step {
                Step::Granted(name) => match self.grant(&name)? {
                    Grant::Held => return Ok(Outcome::Held),
                    Grant::NodeGone => self.enter_again(&name),
                },
                Step::Gone(name) => self.enter_again(&name),
                Step::Behind(listening) => {
                    seen_ahead = true;
                    if self.session.holds_here(self.seat.claim()) {
                        return Ok(Outcome::Deadlock);
                    }
                    if !self.seat.await_change(self.connection, self.until)? {
                        return Ok(Outcome::Busy);
                    }
                    drop(listening);
                    self.look()
                }
            };
            step = match looked {
                Err(Failure::Deadline) if seen_ahead && !self.connection.is_dead() => {
                    return Ok(Outcome::Busy);
                }
                looked => looked?,
            };
        }
    }

    /// The node is gone: queue again with a new one.
    fn enter_again(&self, name: &str) -> Result<Step, Failure> {
        let path = self.seat.path();
        debug!(target: "zoolock::queue", "{path}: {name} was deleted, queueing again");
        self.seat.strike(name);
        self.enter_last()
    }

    /// Gets a place: the one on an earlier connection if there is one and it can be moved here,
    /// else a new one at the end.
    fn enter(&self) -> Result<Step, Failure> {
        if !self.seat.has_place() {
            return self.enter_last();
        }
        let (job, on) = (self.job(), Arc::clone(self.connection));
        let settled = self.connection.call(self.until, move |wire| {
            job.session.settle(&job.seat, wire, &on)
        })?;
        match settled {
            true => self.look(),
            false => self.enter_last(),
        }
    }

    fn enter_last(&self) -> Result<Step, Failure> {
        let (job, on) = (self.job(), Arc::clone(self.connection));
        let left_behind = self.seat.start_over(self.session.garbage());
        self.seat.forget_signals();
        self.connection.call(self.until, move |wire| {
            // What is left on an earlier connection would stand before the new node.
            for id in left_behind {
                if let Err(Failure::Dead) = job.session.garbage().delete(wire, &id) {
                    return Err(Failure::Dead);
                }
            }
            job.enter(wire, &on, true)
        })
    }

    fn look(&self) -> Result<Step, Failure> {
        self.seat.forget_signals();
        let job = self.job();
        self.connection
            .call(self.until, move |wire| job.look(wire, true))
    }

    fn grant(&self, name: &str) -> Result<Grant, Failure> {
        let (seat, connection) = (self.seat, self.connection);
        self.session.grant(seat, connection, name, self.until)
    }

    fn job(&self) -> Job {
        Job {
            session: Arc::clone(self.session),
            seat: Arc::clone(self.seat),
        }
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
            let listening = wire
                .connection()
                .watches()
                .listen(wire.full(&path), sender, 0);
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
        let (kind, own) = (
            self.seat.claim().kind,
            Own {
                current: own,
                others: &[],
            },
        );
        let standing = node::decide(kind, &children, &own);
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
        Ok(node::decide(kind, &children, &own))
    }

    fn children(&self, wire: &Wire<'_>) -> Result<Vec<Child>, Failure> {
        let names = wire.children(self.seat.claim().directory.as_str(), false)?;
        let child = |name| Child { name, czxid: None };
        Ok(names.into_iter().map(child).collect())
    }
}

#[cfg(test)]
mod tests;
