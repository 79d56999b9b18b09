//! The semaphore.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never};
use log::warn;

use crate::client::Client;
use crate::contenders::Contender;
use crate::data;
use crate::error::{Error, Result};
use crate::hold::{Hold, HoldState};
use crate::leases::{Limit, Outcome, Wanted};
use crate::local::Ownership;
use crate::node::{self, Kind};
use crate::options::LockOptions;
use crate::path::LockPath;
use crate::session::{Seat, Until};
use crate::site::Site;
use crate::two_level::{Patience, TwoLevel};

/// The directories below a semaphore's path: of those who wait, and of the permits.
pub(crate) const LOCKS: &str = "locks";
pub(crate) const LEASES: &str = "leases";

/// A fair counting semaphore: at most so many permits at a time, among all clients.
///
/// Permits are taken any number at once, all or nothing, as [`Permits`], which any thread may
/// release. Clones are the same object.
///
/// # The limit
/// Belongs to the object, not to ZooKeeper: all who use a path should use the same. Where they do
/// not, each sees to it that its own permits are granted only while no more than *its* limit are
/// out. [`set_limit`](DistributedSemaphore::set_limit) changes it for calls that wait and for later
/// ones; permits that are out stay valid.
///
/// # With Curator
/// The nodes are those of `InterProcessSemaphoreV2`. Its `acquire(n)` takes one permit at a time: two
/// such calls, or one and one of these, can wait for each other for ever if each has got a part.
///
/// # Guarantees
/// - While [`Permits::is_held`] is true, these permits and all others of the path that are held are
///   no more than the limit, if all use the same one.
/// - All of a request or nothing: no call has a part of its permits while it waits for the rest.
/// - What a process had that dies comes back one session timeout later, give or take a server tick.
///
/// The tokens of permits are in no order: a semaphore fences nobody.
///
/// # Fairness
/// First come, first served: who waits has a turn in a queue, and takes its permits when its turn
/// has come. So a request for many permits is not starved by requests for few, and two large ones
/// cannot block each other half-way. [`try_acquire`](DistributedSemaphore::try_acquire) has no
/// turn: it takes permits that are free and that whoever has the turn does not wait for.
///
/// # When the session dies
/// Permits are holds like those of
/// [`DistributedLock`](crate::DistributedLock#when-the-session-dies): they outlive their
/// connection while the certified lease runs, and move to the next one. Permits that were taken
/// together are lost together. A call that waits goes on waiting and keeps its turn.
///
/// # Errors
/// That too few are free is none. Calls that take permits: those of
/// [`DistributedLock`](crate::DistributedLock#errors), and
/// [`InvalidArgument`](crate::Error::InvalidArgument) for none, or for more than the limit.
/// [`Permits::release`]: [`Lost`](crate::Error::Lost).
///
/// # Example
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{Client, DistributedSemaphore};
///
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::connect("127.0.0.1:2181", Duration::from_secs(10))?;
/// let licenses = DistributedSemaphore::new(&client, "/licenses/solver", 20)?;
/// match licenses.try_acquire_for(2, Duration::from_secs(5))? {
///     Some(permits) => {
///         println!("working with {}", permits.count());
///         permits.release()?;
///     }
///     None => println!("all are taken"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedSemaphore {
    inner: Arc<Semaphore>,
}

#[derive(Debug)]
struct Semaphore {
    site: Site,
    turn: Arc<TwoLevel>,
    leases: LockPath,
    limit: Limit,
}

impl DistributedSemaphore {
    /// A semaphore at `path`, an absolute path below the client's chroot, for at most `limit`
    /// permits. No I/O.
    ///
    /// # Errors
    /// [`Error::InvalidPath`] with the rule that the path breaks, [`Error::InvalidArgument`] if the
    /// limit is zero.
    pub fn new(
        client: &Client,
        path: impl Into<String>,
        limit: u32,
    ) -> Result<DistributedSemaphore> {
        DistributedSemaphore::with(client, path, limit, LockOptions::new())
    }

    /// [`new`](Self::new), with other settings.
    ///
    /// # Errors
    /// As [`new`](Self::new); and [`Error::InvalidArgument`] for an identity that is too long.
    pub fn with(
        client: &Client,
        path: impl Into<String>,
        limit: u32,
        options: LockOptions,
    ) -> Result<DistributedSemaphore> {
        check_limit(limit)?;
        let site = Site::new(client, &path.into(), options)?;
        let turns = site.path.below(LOCKS);
        let turn = TwoLevel::new(site.clone(), turns, Kind::Exclusive, Ownership::AnyThread);
        let inner = Arc::new(Semaphore {
            leases: site.path.below(LEASES),
            site,
            turn,
            limit: Limit::new(limit),
        });
        Ok(DistributedSemaphore { inner })
    }

    /// The semaphore's path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.inner.site.path.as_str()
    }

    /// Takes `count` permits, waiting for as long as it takes, also for a connection.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for no permits, or more than the limit;
    /// [`Error::Cancelled`], [`Error::Closed`], [`Error::Denied`], [`Error::Limit`].
    pub fn acquire(&self, count: u32) -> Result<Permits> {
        let permits = self.inner.acquire(count, Patience::Until(None))?;
        // Without a deadline there is no coming back without them.
        permits.ok_or_else(|| self.inner.site.not_held())
    }

    /// Takes `count` permits if so many are free. Waits for the servers' answers only, for at most
    /// a third of the session timeout.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); and [`Error::Disconnected`] if it is not known how many are
    /// free.
    pub fn try_acquire(&self, count: u32) -> Result<Option<Permits>> {
        self.inner.acquire(count, Patience::Try)
    }

    /// Takes `count` permits, waiting for `timeout` at most, connection and all. A timeout that
    /// the clock cannot hold is none; zero is [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_for(&self, count: u32, timeout: Duration) -> Result<Option<Permits>> {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.try_acquire_until(count, deadline),
            None => self.acquire(count).map(Some),
        }
    }

    /// Takes `count` permits, waiting until `deadline` at most, connection and all. None if others
    /// were ahead until then, or had too many.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_until(&self, count: u32, deadline: Instant) -> Result<Option<Permits>> {
        self.inner.acquire(count, Patience::Until(Some(deadline)))
    }

    /// The most permits that there may be, for this object.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.inner.limit.get()
    }

    /// Changes the limit of this object and its clones; calls that wait go by the new one. A call
    /// that waits for more than the new limit goes on waiting, and if it has the turn all others
    /// wait behind it: [`cancel_waiters`](Self::cancel_waiters) ends that.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is zero.
    pub fn set_limit(&self, limit: u32) -> Result<()> {
        check_limit(limit)?;
        self.inner.limit.set(limit);
        Ok(())
    }

    /// How many permits are free: the limit less all that are out. Those that somebody is just
    /// about to get, or waits for in its turn, count as out. Blocks for at most a third of the
    /// session timeout.
    ///
    /// # Errors
    /// [`Error::Disconnected`] without a connection or an answer, [`Error::Closed`],
    /// [`Error::Denied`].
    pub fn available(&self) -> Result<u32> {
        let out = u32::try_from(self.inner.count()?).unwrap_or(u32::MAX);
        Ok(self.limit().saturating_sub(out))
    }

    /// Who has permits, one contender a permit, and who waits, in order. Blocks for at most a
    /// session timeout.
    ///
    /// # Errors
    /// [`Error::Disconnected`] without a connection or an answer, [`Error::Closed`],
    /// [`Error::Denied`].
    pub fn contenders(&self) -> Result<Vec<Contender>> {
        self.inner.site.contenders()
    }

    /// Wakes the threads that wait on this object or a clone of it: their calls return
    /// [`Error::Cancelled`], and their nodes are deleted. Calls that come later are not affected. Does not
    /// block.
    pub fn cancel_waiters(&self) {
        self.inner.turn.cancel_waiters();
    }
}

fn check_limit(limit: u32) -> Result<()> {
    if limit > 0 {
        return Ok(());
    }
    Err(Error::InvalidArgument {
        what: "limit",
        reason: "a semaphore without permits would never let anybody in".to_owned(),
    })
}

impl Semaphore {
    fn acquire(self: &Arc<Self>, count: u32, patience: Patience) -> Result<Option<Permits>> {
        self.check_count(count)?;
        let seats = match patience.now() {
            Patience::Try => self.attempt(count)?,
            Patience::Until(deadline) => self.wait(count, deadline)?,
        };
        Ok(seats.map(|seats| Permits::new(Arc::clone(self), &seats)))
    }

    fn check_count(&self, count: u32) -> Result<()> {
        let limit = self.limit.get();
        let reason = match count {
            0 => "none were asked for".to_owned(),
            count if count > limit => format!("{count} were asked for, there are only {limit}"),
            _ => return Ok(()),
        };
        let what = "number of permits";
        Err(Error::InvalidArgument { what, reason })
    }

    fn attempt(&self, count: u32) -> Result<Option<Arc<Vec<Arc<Seat>>>>> {
        loop {
            match self.wanted(count, None)?.attempt(self.site.path.as_str())? {
                Outcome::Granted(seats) => return Ok(Some(seats)),
                Outcome::Busy => return Ok(None),
                Outcome::Again => {}
            }
        }
    }

    fn wait(&self, count: u32, deadline: Option<Instant>) -> Result<Option<Arc<Vec<Arc<Seat>>>>> {
        let until = Until { deadline, cancelled: self.turn.cancelled() };
        let mut again = false;
        loop {
            match self.in_turn(count, &until) {
                Ok(Outcome::Granted(seats)) => return Ok(Some(seats)),
                Ok(Outcome::Busy) => return Ok(None),
                Ok(Outcome::Again) => again = true,
                // It has been in the queue, and there is no time left to see who is.
                Err(Error::Disconnected { .. }) if again && self.is_late(deadline) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the turn, then for the permits, and gives the turn back.
    fn in_turn(&self, count: u32, until: &Until) -> Result<Outcome> {
        let Some(seat) = self.turn.wait(until)? else {
            return Ok(Outcome::Busy);
        };
        let lock = &self.turn;
        let mut turn = Turn { lock, seat, hurried: true };
        let wanted = self.wanted(count, Some(&turn.seat))?;
        let outcome = wanted.wait(&turn.seat, until)?;
        if let Outcome::Granted(_) = outcome {
            let patience = Instant::now() + self.site.session().timeout() / 3;
            turn.hurried = until.deadline.is_some_and(|end| end < patience);
        }
        Ok(outcome)
    }

    /// Is the deadline over, on a connection that is well?
    fn is_late(&self, deadline: Option<Instant>) -> bool {
        let late = deadline.is_some_and(|end| end <= Instant::now());
        late && self.site.session().live().is_some()
    }

    /// Permits that are made in this turn, if in any.
    fn wanted(&self, count: u32, turn: Option<&Seat>) -> Result<Wanted<'_>> {
        let (site, ownership) = (&self.site, Ownership::AnyThread);
        let mut claim = site.claim(&self.leases, Kind::Permit, ownership);
        if let Some(turn) = turn {
            let mark = node::place_mark(&turn.node()).to_owned();
            claim.identity = data::with_turn(&claim.identity, &mark).into();
        }
        Wanted::new(site.session(), &claim, count, &self.limit)
    }

    fn count(&self) -> Result<usize> {
        let (path, session) = (self.site.path.as_str(), self.site.session());
        let connection = session.require_live(path)?;
        let (until, leases) = (Until::within(connection.timeout() / 3), self.leases.clone());
        let counted =
            connection.call(&until, move |wire| Ok(wire.children(leases.as_str(), false)?.len()));
        counted.map_err(|failure| session.error(path, failure))
    }
}

/// The turn, given back when this is dropped. That it was lost does not matter: what it was for is
/// granted, or over.
struct Turn<'a> {
    lock: &'a TwoLevel,
    seat: Arc<Seat>,
    /// Whoever is at the end of its patience must not wait for one more answer.
    hurried: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.hurried {
            self.lock.site().session().give_up(&self.seat);
        }
        let _ = self.lock.release(Some(&self.seat));
    }
}

/// Permits of a semaphore, released when this is dropped.
///
/// Owned (`'static`), and any thread may release them. The drop waits for the server's answer for
/// at most a third of the session timeout; what has no answer by then is deleted in the background.
/// A drop that finds the permits lost writes that to the log; call [`release`](Permits::release)
/// to hear of it.
///
/// Permits that were taken together stand and fall together: if one is lost they are, and the
/// release gives the others back.
#[must_use = "if unused the permits are released at once"]
pub struct Permits {
    holds: Vec<Hold>,
    lost: Receiver<Infallible>,
    semaphore: Arc<Semaphore>,
}

impl Permits {
    fn new(semaphore: Arc<Semaphore>, seats: &[Arc<Seat>]) -> Permits {
        let session = semaphore.site.session();
        let view = |seat: &Arc<Seat>| Hold::new(Arc::clone(seat), Arc::clone(session));
        let holds: Vec<Hold> = seats.iter().map(view).collect();
        // All have the same one, and there is no request for none.
        let lost = seats.first().map(|seat| seat.any_ended().clone());
        Permits { holds, lost: lost.unwrap_or_else(never), semaphore }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.holds.len()
    }

    /// The semaphore's path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.semaphore.site.path.as_str()
    }

    /// Are all of them held now? Reads the clocks; no I/O, never blocks.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.holds.iter().all(Hold::is_held)
    }

    /// How they stand, as the worst of them does. Reads the clocks; no I/O, never blocks.
    #[must_use]
    pub fn state(&self) -> HoldState {
        let states = self.holds.iter().map(Hold::state);
        let rank = |state: &HoldState| match state {
            HoldState::Held => 0,
            HoldState::Suspended => 1,
            HoldState::Released => 2,
            HoldState::Lost(_) => 3,
        };
        states.max_by_key(rank).unwrap_or(HoldState::Released)
    }

    /// What is left of their lease. Reads the clocks; no I/O, never blocks.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        let left = self.holds.iter().map(Hold::valid_for);
        left.min().unwrap_or_default()
    }

    /// A channel that never carries a message and is disconnected when one of them ends, by release
    /// or by loss; see [`Hold::lost`].
    #[must_use]
    pub fn lost(&self) -> &Receiver<Infallible> {
        &self.lost
    }

    /// Each of them, for other threads: token, node, revocation. A hold says how it stands itself;
    /// for all of them ask here. Tokens of permits are in no order.
    #[must_use]
    pub fn holds(&self) -> Vec<Hold> {
        self.holds.clone()
    }

    /// Releases them and says how that went. Blocks like the drop.
    ///
    /// # Errors
    /// [`Error::Lost`] if one was lost; the others are released.
    pub fn release(mut self) -> Result<()> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<()> {
        let holds = std::mem::take(&mut self.holds);
        let seats: Vec<_> = holds.iter().map(|hold| Arc::clone(hold.seat())).collect();
        self.semaphore.site.session().release_all(&seats)
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        if self.holds.is_empty() {
            return;
        }
        if let Err(error) = self.give_back() {
            warn!(target: "zoolock", "dropped permits: {error}");
        }
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permits").field(&self.holds).finish()
    }
}
