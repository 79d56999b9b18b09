//! The semaphore.

use std::sync::Arc;
use std::time::Duration;

use crate::base::contender::Contender;
use crate::base::error::{Error, Result};
use crate::base::kind::LockKind;
use crate::base::names;
use crate::base::options::LockOptions;
use crate::base::wait::{Until, Wait, surely};
use crate::client::Client;
use crate::contenders::{LEASES, LOCKS, list};
use crate::held::guard::{Guard, Releases};
use crate::held::hold::Hold;
use crate::observer::Report;
use crate::process::{RawLock, Site, TwoLevel};
use crate::queue::{Limit, PermitRequest, Recipe};
use crate::session::{Grant, release};

/// A fair counting semaphore: all clients together hold at most a limit of permits.
///
/// A call takes any number of permits at once, all or none, as one [`Guard`], which any thread may
/// release. Clones are the same object. Within one client, the calls at one path queue in the
/// process, whichever objects they use; each object has its own limit.
///
/// # The limit
/// The limit belongs to the object. All users of a path should therefore use the same limit. If
/// limits differ, each object grants its own permits only as long as all taken permits together do
/// not exceed *its* limit. The nodes of permits contain [their limit](Contender::limit), and a call
/// that finds a different one logs a warning. [`set_limit`](DistributedSemaphore::set_limit)
/// changes the limit for waiting and later calls. Permits that are held stay valid.
///
/// A lock of another type at the same path does not wait for permits, and permits do not wait for
/// it.
///
/// # With Curator
/// The nodes are those of Curator's `InterProcessSemaphoreV2`, but some uses are [not
/// safe](crate::guide::other_clients#what-is-not-safe).
///
/// # Guarantees
/// - While [`is_held`](Hold::is_held) is true, the held permits of the path together do not exceed
///   the limit, if all objects use the same limit.
/// - While a call waits for its permits, it has none of them.
/// - The permits of a process that dies are free one session timeout later, give or take a server
///   tick.
///
/// The [fencing tokens](crate::Hold::fencing_token) of permits are in no particular order and
/// therefore cannot be used for fencing.
///
/// # Fairness
/// First come, first served. Waiting calls form a queue. The call at the front takes its permits
/// when enough are free. Therefore requests for few permits do not starve a request for many, and
/// two large requests cannot block each other half-way.
/// [`try_acquire`](DistributedSemaphore::try_acquire) does not queue: it takes free permits, unless
/// the call at the front is waiting for them. If two calls that only try request several permits at
/// the same moment, both may find too few free, each because of the other.
///
/// # When the session dies
/// Permits are holds like those of
/// [`DistributedLock`](crate::DistributedLock#when-the-session-dies): they outlive their connection
/// while the certified lease runs. Permits that were taken together are lost together. A waiting
/// call continues to wait and keeps its queue position.
///
/// # Errors
/// Finding too few permits free is not an error. Calls that take permits return the errors of
/// [`DistributedLock`](crate::DistributedLock#errors), and
/// [`InvalidArgument`](crate::Error::InvalidArgument) for a count of zero or above the limit.
/// [`Guard::release`] returns [`Lost`](crate::Error::Lost).
///
/// # Example
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{Client, DistributedSemaphore};
///
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::connect("127.0.0.1:2181", Duration::from_secs(10))?;
/// let licenses = DistributedSemaphore::new(&client, "/licenses/solver", 20)?;
/// match licenses.acquire_within(2, Duration::from_secs(5))? {
///     Some(permits) => {
///         println!("working with {}", permits.holds().len());
///         permits.release()?;
///     }
///     None => println!("all are taken"),
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias("InterProcessSemaphoreV2", "RSemaphore", "Semaphore"))]
#[derive(Debug, Clone)]
pub struct DistributedSemaphore {
    inner: Arc<Semaphore>,
}

#[derive(Debug)]
struct Semaphore {
    site: Site,
    turn: Arc<TwoLevel>,
    limit: Limit,
}

impl DistributedSemaphore {
    /// Creates a semaphore for at most `limit` permits at `path`, an absolute path below the
    /// client's chroot. Sends no request.
    ///
    /// # Errors
    /// [`Error::InvalidPath`], which contains the rule that the path breaks.
    /// [`Error::InvalidArgument`] if the limit is zero.
    pub fn new(client: &Client, path: impl AsRef<str>, limit: u32) -> Result<DistributedSemaphore> {
        DistributedSemaphore::with_options(client, path, limit, LockOptions::new())
    }

    /// Creates a semaphore like [`new`](Self::new), with these options. Sends no request.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::InvalidArgument`] for an identity that is too long or
    /// would be read as a revocation request.
    pub fn with_options(
        client: &Client,
        path: impl AsRef<str>,
        limit: u32,
        options: LockOptions,
    ) -> Result<DistributedSemaphore> {
        check_limit(limit)?;
        let lock = Site::new(client, path.as_ref(), LockKind::Semaphore, options)?;
        let (path, options) = (&lock.facts.lock, lock.facts.options.clone());
        // A call that has its permits, or has run out of time, deletes its queue node in the
        // background.
        let of_turns = LockOptions {
            background_release: true,
            hold_at_least: Duration::ZERO,
            hold_at_most: None,
            ..options.clone()
        };
        let turn = TwoLevel::new(lock.part(path.below(LOCKS), LockKind::Exclusive, of_turns));
        let limit = Limit::new(limit, Arc::clone(lock.inner()), path.clone());
        let site = lock.part(path.below(LEASES), LockKind::Semaphore, options);
        let inner = Arc::new(Semaphore { site, limit, turn });
        Ok(DistributedSemaphore { inner })
    }

    /// Returns the semaphore's path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.inner.site.path()
    }

    /// Takes `count` permits. Waits without a limit, including for a connection.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a count of zero or above the limit; [`Error::Closed`],
    /// [`Error::PermissionDenied`], [`Error::LimitExceeded`].
    pub fn acquire(&self, count: u32) -> Result<Guard> {
        surely(self.acquire_within(count, Wait::FOREVER)?, self.path())
    }

    /// Takes `count` permits if that many are free. Waits only for the servers' answers, for at
    /// most a third of the session timeout.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::Disconnected`] if the client cannot find out how
    /// many are free.
    pub fn try_acquire(&self, count: u32) -> Result<Option<Guard>> {
        self.acquire_within(count, Wait::TRY)
    }

    /// Takes `count` permits, and waits as long as `wait` allows: a [`Wait`], a `Duration`, or an
    /// `Instant`. Returns `None` if other calls were ahead, or too few permits were free, until the
    /// wait was over.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire), and [`Error::Cancelled`] if the
    /// [token](crate::CancelToken) of `wait` is cancelled.
    pub fn acquire_within(&self, count: u32, wait: impl Into<Wait>) -> Result<Option<Guard>> {
        self.inner.acquire(count, &wait.into())
    }

    /// Returns this object's limit of permits.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.inner.limit.get()
    }

    /// Changes the limit of this object and its clones, including for waiting calls. A call for
    /// more permits than the new limit continues to wait. If that call is at the front of the
    /// queue, all other calls wait behind it until a [token](crate::CancelToken) cancels it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `limit` is zero.
    pub fn set_limit(&self, limit: u32) -> Result<()> {
        check_limit(limit)?;
        self.inner.limit.set(limit);
        Ok(())
    }

    /// Returns how many permits are free: the limit minus all that are taken. Permits count as
    /// taken even while they are being granted, or while the call at the front of the queue waits
    /// for the rest of its request. Blocks for at most a third of the session timeout.
    ///
    /// # Errors
    /// [`Error::Disconnected`] without a connection or an answer, [`Error::Closed`],
    /// [`Error::PermissionDenied`].
    pub fn available(&self) -> Result<u32> {
        let out = u32::try_from(self.inner.count()?).unwrap_or(u32::MAX);
        Ok(self.limit().saturating_sub(out))
    }

    /// Returns the holders, one contender for each permit, and the waiters, one for each call, in
    /// order. Blocks for at most a session timeout.
    ///
    /// # Errors
    /// [`Error::Disconnected`] without a connection or an answer, [`Error::Closed`],
    /// [`Error::PermissionDenied`].
    pub fn contenders(&self) -> Result<Vec<Contender>> {
        self.inner.site.contenders()
    }
}

fn check_limit(limit: u32) -> Result<()> {
    match limit {
        0 => Err(Error::invalid("limit", "a semaphore needs at least one permit")),
        _ => Ok(()),
    }
}

impl Semaphore {
    fn acquire(self: &Arc<Self>, count: u32, wait: &Wait) -> Result<Option<Guard>> {
        let grant = self.site.observe(wait, |until, report| {
            self.check_count(count)?;
            match until.waits {
                true => self.wait(count, until, report),
                false => self.take(count, None, until),
            }
        })?;
        let hold = |grant| Hold::new(self.site.inner(), grant, 0);
        Ok(grant.map(|grant| Guard::new(hold(grant), Arc::clone(self) as _)))
    }

    fn check_count(&self, count: u32) -> Result<()> {
        let limit = self.limit.get();
        let reason = match count {
            0 => "at least one must be requested".to_owned(),
            count if count > limit => format!("{count} were requested, but the limit is {limit}"),
            _ => return Ok(()),
        };
        Err(Error::invalid("number of permits", reason))
    }

    /// Takes free permits, or queues and waits for them.
    fn take(
        &self,
        count: u32,
        turn: Option<&Arc<Grant>>,
        until: &Until,
    ) -> Result<Option<Arc<Grant>>> {
        let permits = Recipe::Permits(PermitRequest::new(count, &self.limit, turn));
        self.site.take(permits, None, until, None)
    }

    /// Waits until the call is at the front of the queue, then for the permits, and leaves the
    /// queue. If its queue position was lost meanwhile, the call queues again.
    fn wait(
        &self,
        count: u32,
        until: &Until,
        report: Option<&Report>,
    ) -> Result<Option<Arc<Grant>>> {
        loop {
            let grant = match self.turn.enter(until, report) {
                Ok(Some(grant)) => grant,
                other => return other,
            };
            // Dropping `turn` leaves the queue. It does not matter if that fails: the permits are
            // granted, the call is over, or the call queues again.
            let turn = HeldTurn(&self.turn, grant);
            match self.take(count, Some(&turn.1), until) {
                Err(Error::Lost { .. }) => until.note_ahead(),
                taken => return taken,
            }
        }
    }

    fn count(&self) -> Result<usize> {
        let (path, requests) = (self.site.path(), self.site.requests());
        requests.require_connection(path)?;
        let until = Until::within(requests.patience());
        let listed = list(requests, &self.site.facts.directory, &until);
        let (names, _) = listed.map_err(|failure| requests.error(path, failure))?;
        Ok(names::count_permits(&names))
    }
}

impl Releases for Semaphore {
    fn release(&self, hold: &Hold) -> Result<()> {
        release(&self.site.inner().holds, hold.grant())
    }
}

struct HeldTurn<'a>(&'a TwoLevel, Arc<Grant>);

impl Drop for HeldTurn<'_> {
    fn drop(&mut self) {
        let _ = self.0.release_once(Some(&self.1));
    }
}
