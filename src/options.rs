//! Settings of one lock.

use std::sync::Arc;
use std::time::Duration;

use crate::data;
use crate::error::{Error, Result};
use crate::recipe::{Place, PlaceObserver};

/// A request of 1 MB makes a server drop the connection (`jute.maxbuffer`).
const MAX_IDENTITY: usize = 16 * 1024;

/// A look costs a list of the whole queue, for each call that waits.
const LEAST_PAUSE: Duration = Duration::from_millis(10);

/// Settings of one lock, for the `with` of its type. The defaults are those of `new`.
///
/// | to spare | option | price |
/// |---|---|---|
/// | requests among threads of one process | [`local_handoffs(n)`](LockOptions::local_handoffs) | others wait for n turns more |
/// | all requests, while nobody else comes | [`keep_idle(time)`](LockOptions::keep_idle) | a `try_lock` of others may find it busy for so long |
/// | the wait for an unlock | [`background_release(true)`](LockOptions::background_release) | others may find it busy for a round trip longer |
///
/// [`hold_at_least(time)`](LockOptions::hold_at_least) keeps it for longer than the work takes, for jobs that
/// are due on many machines.
///
/// The others tell people: [`identity`](LockOptions::identity) who is there, and
/// [`name`](LockOptions::name) what is counted together, at no price;
/// [`observe_queue`](LockOptions::observe_queue) one's place, for a list and a read each time.
///
/// ```no_run
/// # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
/// use zoolock::{DistributedLock, LockOptions};
///
/// let options = LockOptions::new().identity("billing, 7").background_release(true);
/// let lock = DistributedLock::with(client, "/locks/invoice/4711", options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "does nothing until it is given to a lock"]
pub struct LockOptions {
    pub(crate) identity: Option<Arc<str>>,
    pub(crate) local_handoffs: u32,
    pub(crate) keep_idle: Option<Duration>,
    pub(crate) background_release: bool,
    pub(crate) hold_at_least: Duration,
    pub(crate) observer: Option<PlaceObserver>,
    pub(crate) name: Arc<str>,
}

impl LockOptions {
    /// The defaults.
    pub fn new() -> LockOptions {
        LockOptions::default()
    }

    /// What the lock's nodes say of their maker, for people who look; at most 16 KiB. Default:
    /// what the client says, see [`ClientBuilder::identity`](crate::ClientBuilder::identity).
    pub fn identity(mut self, who: impl Into<String>) -> LockOptions {
        self.identity = Some(Arc::from(who.into()));
        self
    }

    /// What an [`Observer`](crate::observer::Observer) is told of this lock as, for example `"invoices"` for
    /// the locks of all of them: of its own accord it is told no path, since of these there may be any
    /// number. Others do not see it. Default: the empty string.
    pub fn name(mut self, name: impl Into<String>) -> LockOptions {
        self.name = Arc::from(name.into());
        self
    }

    /// How many times in a row an unlock may leave the lock to the next thread of this process that
    /// waits for the same object, without a word to the servers. Then it is released, and queued for
    /// again: other processes wait for so many turns more. Default: 0.
    ///
    /// Threads that take it over like this have one fencing token, and their node says who made it.
    /// Nothing is left to another thread while the connection is away, when less than a third of the
    /// session timeout is left of the lease, or when somebody has asked for the lock
    /// ([`Client::revoke`](crate::Client::revoke)). No effect on reads, permits and
    /// [`EphemeralLock`](crate::EphemeralLock).
    pub fn local_handoffs(mut self, times: u32) -> LockOptions {
        self.local_handoffs = times;
        self
    }

    /// Keeps the lock when it is unlocked, until somebody else queues for it, and for `time` after its
    /// grant at most: the next thread of this process that locks the same object gets it without any
    /// request. Default: it is not kept.
    ///
    /// Nobody holds it meanwhile: `is_held()` is false, and nothing tells of its end. Heartbeats keep it
    /// alive. To others it is busy, also to reads of the same read-write lock. Whoever queues has it
    /// two requests later if it is not in use, else with its unlock, or behind the
    /// [hand-offs](LockOptions::local_handoffs) that are allowed; but
    /// [`try_lock`](crate::Lock::try_lock) of others only looks, calls nobody, and may find it busy for
    /// as long as `time`. Turns that are taken like this have one fencing token. It is not kept over a
    /// broken connection, or with less than a third of the session timeout left of its lease.
    ///
    /// When its time is over it is given back in the background, and for a round trip it may be found
    /// busy, also by this process. A time that the clock cannot hold has no end. No effect on reads,
    /// permits and [`EphemeralLock`](crate::EphemeralLock).
    pub fn keep_idle(mut self, time: Duration) -> LockOptions {
        self.keep_idle = Some(time);
        self
    }

    /// A release does not wait for the answer: it returns when the deletion of the node is on its
    /// way. Default: false. The requests of a session are carried out in order, so the next lock of the
    /// same client still waits behind the deletion: several threads win more by it than one.
    ///
    /// Others, and a `try_lock` of this process right behind it, may find the lock busy for a round trip
    /// longer. A deletion that gets lost is repeated until the node is gone. That the node was deleted
    /// by somebody else before is not told by the release, but only counted in
    /// [`Stats::holds_lost`](crate::Stats::holds_lost) and logged.
    pub fn background_release(mut self, background: bool) -> LockOptions {
        self.background_release = background;
        self
    }

    /// Nobody gets the lock for `time` after its grant, however early it is unlocked: for jobs that are due on
    /// many machines at the same time, and shorter than the difference of their clocks. Default: zero.
    ///
    /// The unlock returns as soon as it knows that, and the hold is over with it. What stays is the node, which
    /// makes the lock busy for everybody, this process included, is shown to whoever looks, and is deleted in the background when the
    /// time is over. It goes sooner with its session: when the process ends, when the
    /// [client](crate::Client) is closed or dropped, or when there is no connection for longer than the
    /// lease runs. Keep the client for as long. Hand-offs to other threads of this process begin when the time
    /// is over. It is the same when the work has failed, and nobody can be asked to let go of it; to have it sooner,
    /// close the client or delete the node. A time that the clock cannot hold has no end. In a [`MultiLock`](crate::MultiLock) each member
    /// keeps its own time, also where the others could not be had.
    pub fn hold_at_least(mut self, time: Duration) -> LockOptions {
        self.hold_at_least = time;
        self
    }

    /// Has `observer` told of the place in the queue, by every thread that waits, on that thread: when
    /// it begins to wait, and then as often as `every` says, or sooner when the one right before it has
    /// gone. `every` is 10 ms or more: less is [`Error::InvalidArgument`] when the lock is made. Default: nobody is
    /// told, and nothing is asked.
    ///
    /// ```no_run
    /// # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
    /// use std::time::Duration;
    /// use zoolock::{DistributedLock, LockOptions};
    ///
    /// let options = LockOptions::new().observe_queue(Duration::from_secs(1), |place| {
    ///     let holder = place.first.as_ref().and_then(|first| first.identity.as_deref());
    ///     println!("{} before us, held by {}", place.ahead, holder.unwrap_or("somebody"));
    /// });
    /// let guard = DistributedLock::with(client, "/locks/report", options)?.acquire()?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Each look costs a list of the queue and a read of its first node. It is for people: what it says
    /// may be out of date when it arrives. An observer that blocks keeps its thread from taking the
    /// lock, and one that panics ends the call; its node is deleted. Threads that wait in the process
    /// for another one that uses the same object are not told. No effect on
    /// [`EphemeralLock`](crate::EphemeralLock), which has no queue.
    pub fn observe_queue(
        mut self,
        every: Duration,
        observer: impl Fn(&Place) + Send + Sync + 'static,
    ) -> LockOptions {
        self.observer = Some(PlaceObserver::new(every, observer));
        self
    }

    /// For what no other thread of the process takes over.
    pub(crate) fn without_handoffs(self) -> LockOptions {
        LockOptions { local_handoffs: 0, keep_idle: None, ..self }
    }

    /// For what has no queue of its own: nothing of it is kept, handed on or told.
    pub(crate) fn without_queue(self) -> LockOptions {
        LockOptions { local_handoffs: 0, keep_idle: None, observer: None, ..self }
    }

    pub(crate) fn check(self) -> Result<LockOptions> {
        self.identity.as_deref().map_or(Ok(()), check_identity)?;
        match self.observer.as_ref().map(PlaceObserver::every) {
            Some(every) if every < LEAST_PAUSE => {
                let reason = format!("every {every:?}: it takes {LEAST_PAUSE:?} or more");
                Err(Error::InvalidArgument { what: "observe_queue", reason })
            }
            _ => Ok(self),
        }
    }
}

/// An identity that a node can carry.
pub(crate) fn check_identity(identity: &str) -> Result<()> {
    let reason = if identity.len() > MAX_IDENTITY {
        format!("it is longer than {MAX_IDENTITY} bytes")
    } else if data::is_request(identity.as_bytes()) {
        "it would be read as a request to let go".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::InvalidArgument { what: "identity", reason })
}
