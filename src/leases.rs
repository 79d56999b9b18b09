//! The second half of a semaphore: from the turn to permits. A permit is a node in a directory of
//! its own; permits are granted when no more nodes are there than the limit, whoever made them.
//!
//! That alone keeps the limit: whoever lists later sees the nodes of whoever was granted before.
//! The turn is for order, and so that of two who want many permits one gets all of them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_channel::select_biased;

use crate::clock::Moment;
use crate::error::Result;
use crate::place;
use crate::session::{Claim, Connection, Failure, Grant, Seat, Session, Standing, Until, Wire};
use crate::signal::{Broadcast, Ended};
use crate::watch::Listening;

/// The most permits there may be.
#[derive(Debug)]
pub(crate) struct Limit {
    most: AtomicU32,
    changed: Broadcast,
}

impl Limit {
    pub(crate) fn new(most: u32) -> Limit {
        Limit { most: AtomicU32::new(most), changed: Broadcast::new() }
    }

    pub(crate) fn get(&self) -> u32 {
        self.most.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, most: u32) {
        self.most.store(most, Ordering::SeqCst);
        self.changed.send();
    }
}

/// Permits that are wanted together; given up unless they were granted.
pub(crate) struct Wanted<'a> {
    session: &'a Arc<Session>,
    seats: Arc<Vec<Arc<Seat>>>,
    limit: &'a Limit,
    granted: bool,
}

/// How wanting them ended.
pub(crate) enum Outcome {
    Granted(Arc<Vec<Arc<Seat>>>),
    /// Others have too many.
    Busy,
    /// The turn or a node is gone: from the beginning.
    Again,
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        if !self.granted {
            for seat in self.seats.iter() {
                self.session.give_up(seat);
            }
        }
    }
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(
        session: &'a Arc<Session>,
        claim: &Claim,
        count: u32,
        limit: &'a Limit,
    ) -> Result<Wanted<'a>> {
        Ok(Wanted {
            session,
            seats: Arc::new(session.seats(claim, count as usize)?),
            limit,
            granted: false,
        })
    }

    /// Takes them if so many are free now. Waits for answers only, for a third of the session
    /// timeout.
    pub(crate) fn attempt(self, path: &str) -> Result<Outcome> {
        let connection = &self.session.require_live(path)?;
        let until = &Until::within(connection.timeout() / 3);
        let outcome = self.on(connection, until).attempt();
        self.end(path, outcome)
    }

    /// Waits until so many are free, for as long as `turn` is held.
    pub(crate) fn wait(self, turn: &Seat, until: &Until) -> Result<Outcome> {
        let path = turn.path();
        loop {
            let connection = &self.session.await_live(path, until)?;
            match self.on(connection, until).wait(turn) {
                Err(Failure::Dead) => {}
                outcome => return self.end(path, outcome),
            }
        }
    }

    fn end(
        mut self,
        path: &str,
        outcome: std::result::Result<Outcome, Failure>,
    ) -> Result<Outcome> {
        self.granted = matches!(outcome, Ok(Outcome::Granted(_)));
        outcome.map_err(|failure| self.session.error(path, failure))
    }

    fn on<'b>(&'b self, connection: &'b Arc<Connection>, until: &'b Until) -> Attempt<'b> {
        Attempt { session: self.session, seats: &self.seats, limit: self.limit, connection, until }
    }
}

/// Wanting them on one connection.
struct Attempt<'a> {
    session: &'a Arc<Session>,
    seats: &'a Arc<Vec<Arc<Seat>>>,
    limit: &'a Limit,
    connection: &'a Arc<Connection>,
    until: &'a Until,
}

/// What one look at the directory said.
enum Step {
    /// There are no more nodes than the limit.
    Enough,
    /// There are more; the directory is watched for as long as this is kept.
    TooMany(Option<Listening>),
    /// A node that was held is gone.
    Over,
}

/// What a wait ended with.
enum Change {
    /// There may be fewer nodes, or the limit is another.
    Look,
    Deadline,
    TurnOver,
}

impl Attempt<'_> {
    fn attempt(&self) -> std::result::Result<Outcome, Failure> {
        loop {
            let (job, limit) = (self.job(), self.limit.get() as usize);
            let step = self.connection.call(self.until, move |wire| {
                // Whoever would only be in the way writes nothing.
                match job.nodes(wire, false)?.len() + job.seats.len() > limit {
                    true => Ok(Step::TooMany(None)),
                    false => job.look(wire, limit, false),
                }
            })?;
            match step {
                Step::Enough if self.grant(limit)? => {
                    return Ok(Outcome::Granted(Arc::clone(self.seats)));
                }
                Step::Enough => {}
                Step::TooMany(_) => return Ok(Outcome::Busy),
                Step::Over => return Ok(Outcome::Again),
            }
        }
    }

    fn wait(&self, turn: &Seat) -> std::result::Result<Outcome, Failure> {
        if !self.await_turn(turn)? {
            return Ok(Outcome::Again);
        }
        for seat in self.seats.iter() {
            self.session.leave_behind(seat, self.connection);
        }
        let mut seen_too_many = false;
        loop {
            let changed = self.limit.changed.listen();
            self.seats.iter().for_each(|seat| seat.forget_signals());
            let (job, limit) = (self.job(), self.limit.get() as usize);
            let look = move |wire: &Wire<'_>| job.look(wire, limit, true);
            let step = match self.connection.call(self.until, look) {
                Err(Failure::Deadline) if seen_too_many && !self.connection.is_dead() => {
                    return Ok(Outcome::Busy);
                }
                step => step?,
            };
            let listening = match step {
                Step::Enough if self.grant(limit)? => {
                    return Ok(Outcome::Granted(Arc::clone(self.seats)));
                }
                Step::Enough => continue,
                Step::Over => return Ok(Outcome::Again),
                Step::TooMany(listening) => listening,
            };
            if !seen_too_many {
                self.seats.first().inspect(|seat| place::tell_first(seat));
                seen_too_many = true;
            }
            match self.await_change(turn, &changed)? {
                Change::Look => drop(listening),
                Change::Deadline => return Ok(Outcome::Busy),
                Change::TurnOver => return Ok(Outcome::Again),
            }
        }
    }

    /// Waits until the turn has moved to the connection: it moves first. False if it is lost.
    fn await_turn(&self, turn: &Seat) -> std::result::Result<bool, Failure> {
        loop {
            match turn.held_on() {
                Some(on) if Arc::ptr_eq(&on, self.connection) => return Ok(true),
                Some(_) => {}
                None => return Ok(false),
            }
            select_biased! {
                recv(turn.ended()) -> _ => return Ok(false),
                recv(self.connection.died()) -> _ => return Err(Failure::Dead),
                recv(turn.wake().1) -> _ => {}
                recv(self.until.cancelled) -> _ => return Err(Failure::Cancelled),
                recv(self.until.expiry()) -> _ => return Err(Failure::Deadline),
            }
        }
    }

    fn await_change(&self, turn: &Seat, changed: &Ended) -> std::result::Result<Change, Failure> {
        let Some(first) = self.seats.first() else {
            return Ok(Change::TurnOver);
        };
        select_biased! {
            recv(self.connection.died()) -> _ => Err(Failure::Dead),
            recv(turn.ended()) -> _ => Ok(Change::TurnOver),
            recv(first.wake().1) -> _ => Ok(Change::Look),
            recv(changed) -> _ => Ok(Change::Look),
            recv(self.until.cancelled) -> _ => Err(Failure::Cancelled),
            recv(self.until.expiry()) -> _ => Ok(Change::Deadline),
        }
    }

    /// Makes all of them held, which was seen to be within `limit`. False if that was lowered
    /// meanwhile, or one of them deleted by somebody, or lost.
    fn grant(&self, limit: usize) -> std::result::Result<bool, Failure> {
        if (self.limit.get() as usize) < limit {
            return Ok(false);
        }
        for seat in self.seats.iter() {
            match seat.standing(Moment::now()) {
                Standing::Waiting => {}
                Standing::Held | Standing::Suspended => continue,
                Standing::Lost(_) | Standing::Released => return Ok(false),
            }
            let Some((name, _)) = seat.own() else {
                return Ok(false);
            };
            let granted = self.session.grant(seat, self.connection, &name, self.until)?;
            if granted == Grant::NodeGone {
                seat.strike(&name);
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn job(&self) -> Job {
        Job {
            session: Arc::clone(self.session),
            seats: Arc::clone(self.seats),
            on: Arc::clone(self.connection),
        }
    }
}

/// The part that runs on a worker thread.
struct Job {
    session: Arc<Session>,
    seats: Arc<Vec<Arc<Seat>>>,
    on: Arc<Connection>,
}

impl Job {
    /// Makes the nodes that are missing, and counts all there are.
    fn look(
        &self,
        wire: &Wire<'_>,
        limit: usize,
        watch: bool,
    ) -> std::result::Result<Step, Failure> {
        loop {
            for seat in self.seats.iter().filter(|seat| !seat.has_place()) {
                if seat.standing(Moment::now()) != Standing::Waiting {
                    return Ok(Step::Over);
                }
                self.session.enter(seat, wire, &self.on)?;
            }
            let listening = watch.then(|| self.listen(wire)).flatten();
            let nodes = self.nodes(wire, watch)?;
            if self.strike_missing(&nodes) {
                continue;
            }
            return Ok(match nodes.len() > limit {
                true => Step::TooMany(listening),
                false => Step::Enough,
            });
        }
    }

    /// Registered before the list that sets the watch.
    fn listen(&self, wire: &Wire<'_>) -> Option<Listening> {
        let first = self.seats.first()?;
        let full = wire.full(first.claim().directory.as_str());
        let sender = first.wake().0.clone();
        Some(wire.connection().watches().listen(full, sender, 0))
    }

    /// Whoever made them.
    fn nodes(&self, wire: &Wire<'_>, watch: bool) -> std::result::Result<HashSet<String>, Failure> {
        let Some(first) = self.seats.first() else {
            return Ok(HashSet::new());
        };
        let names = wire.children(first.claim().directory.as_str(), watch)?;
        Ok(names.into_iter().collect())
    }

    /// Forgets own nodes that somebody has deleted. True if there were any. One that is granted
    /// already may have moved since the list was made, and is watched over elsewhere. Nor does the
    /// list say anything of one that was made on a later connection.
    fn strike_missing(&self, nodes: &HashSet<String>) -> bool {
        let mut missing = false;
        for seat in self.seats.iter() {
            let own = seat.own().filter(|(_, on)| Arc::ptr_eq(on, &self.on));
            let gone = own.filter(|(name, _)| !nodes.contains(name));
            let waits = seat.standing(Moment::now()) == Standing::Waiting;
            if let Some((name, _)) = gone.filter(|_| waits) {
                missing = true;
                seat.strike(&name);
            }
        }
        missing
    }
}
