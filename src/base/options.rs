//! Options of a lock.

use std::sync::Arc;
use std::time::Duration;

use crate::base::data;
use crate::base::error::{Error, Result};
use crate::base::kind::LockKind;

/// The longest identity. A server drops the connection on a request of 1 MB (`jute.maxbuffer`).
const MAX_IDENTITY: usize = 16 * 1024;

/// Each option that some kinds of locks have no use for, whether it is set, and the kinds that take
/// it. All kinds take the others.
type Limited = (&'static str, fn(&LockOptions) -> bool, &'static [LockKind]);
const LIMITED: [Limited; 1] = [(
    "local_handoffs",
    |options| options.local_handoffs > 0,
    // Not permits, of which each call takes its own, and no lock without a queue. A leader's turn
    // ends in one thread.
    &[LockKind::Exclusive, LockKind::Reentrant, LockKind::Write],
)];

/// Options of a lock, for `with_options` of its type. The defaults are those of `new`.
///
/// | saving | option | price |
/// |---|---|---|
/// | requests among threads of one process | [`local_handoffs(n)`](LockOptions::local_handoffs) | others wait for n more turns |
/// | the wait for an unlock | [`background_release(true)`](LockOptions::background_release) | others may find the lock busy for a round trip longer |
///
/// [`hold_at_least(time)`](LockOptions::hold_at_least) keeps the lock longer than the work takes,
/// for jobs that are due on many machines. [`hold_at_most(time)`](LockOptions::hold_at_most) takes
/// the lock from a thread that hangs. [`margin(time)`](LockOptions::margin) keeps a time between the
/// loss of a hold and the next holder.
///
/// The other options inform people: [`identity`](LockOptions::identity) says who contends, and
/// [`name`](LockOptions::name) groups locks for an observer, both at no cost.
///
/// # Several objects at one path
/// Objects of one client at one path may have different options:
/// - A thread takes over the node of another object only if both objects have the same `identity`,
///   `background_release`, `hold_at_least` and `margin`. Otherwise that node is deleted, and the thread queues
///   with one of its own.
/// - `local_handoffs` is that of the object that unlocks.
/// - `name`, `hold_at_most` and the identity in a new node are those of the object that locks.
///
/// ```no_run
/// # fn f(client: &zoolock::Client) -> zoolock::Result<()> {
/// use zoolock::{DistributedLock, LockOptions};
///
/// let options = LockOptions::new().identity("billing, 7").background_release(true);
/// let lock = DistributedLock::with_options(client, "/locks/invoice/4711", options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "does nothing until it is given to a lock"]
pub struct LockOptions {
    pub(crate) identity: Option<Arc<str>>,
    pub(crate) local_handoffs: u32,
    pub(crate) background_release: bool,
    pub(crate) hold_at_least: Duration,
    pub(crate) hold_at_most: Option<Duration>,
    pub(crate) margin: Duration,
    pub(crate) name: Arc<str>,
}

impl LockOptions {
    /// Returns the defaults.
    pub fn new() -> LockOptions {
        LockOptions::default()
    }

    /// Sets the identity in the lock's nodes, which tells people who created them; at most 16 KiB.
    /// Default: the client's identity, see
    /// [`ClientBuilder::identity`](crate::ClientBuilder::identity).
    pub fn identity(mut self, who: impl Into<String>) -> LockOptions {
        self.identity = Some(Arc::from(who.into()));
        self
    }

    /// Sets the name of this lock for an [`Observer`](crate::observer::Observer), for example
    /// `"invoices"` for all locks of invoices. An observer does not receive the path, because the
    /// number of paths has no limit. Other clients do not see the name. Default: the empty string.
    pub fn name(mut self, name: impl Into<String>) -> LockOptions {
        self.name = Arc::from(name.into());
        self
    }

    /// Lets an unlock hand the lock to the next waiting thread of the client, without a request, up
    /// to this many times in a row. After that the lock is released, and the next thread queues.
    /// The thread may wait on another object of the path. Other processes wait for that many more
    /// turns. The node is read once, beside the first thread that gets it: somebody may have deleted
    /// it. Default: 0.
    ///
    /// Threads that take over in this way share one fencing token, and their node names the thread
    /// that created it. No hand-off takes place without a connection, with less than a third of the
    /// session timeout left of the lease, or after a revocation request
    /// ([`Client::revoke`](crate::Client::revoke)). Of a read-write lock, only writes are handed on.
    /// [`DistributedSemaphore`](crate::DistributedSemaphore),
    /// [`EphemeralLock`](crate::EphemeralLock) and [`Leadership`](crate::Leadership) refuse the
    /// option with [`Error::InvalidArgument`].
    pub fn local_handoffs(mut self, times: u32) -> LockOptions {
        self.local_handoffs = times;
        self
    }

    /// Has a release return as soon as the deletion of the node is on its way, without waiting for
    /// the answer. Default: false. A session's requests are carried out in order, so the next lock
    /// of the same client still waits behind the deletion. Several threads gain more from this than
    /// one.
    ///
    /// Other contenders, and a `try_lock` of this process right after it, may find the lock busy
    /// for a round trip longer. A lost deletion is repeated until the node is gone. If another
    /// client had already deleted the node, the release does not report that. It is only counted in
    /// [`Stats::holds_lost`](crate::Stats::holds_lost) and logged.
    pub fn background_release(mut self, background: bool) -> LockOptions {
        self.background_release = background;
        self
    }

    /// Keeps the lock busy for `time` after its grant, however early it is unlocked. This is for
    /// short jobs that are due on many machines at the same time, while their clocks differ.
    /// Default: zero.
    ///
    /// The unlock returns without waiting for `time`, and ends the hold. The node stays: it makes
    /// the lock busy for everybody, including this process, and shows in lists of contenders. It is
    /// deleted in the background when the time is over. It ends sooner with its session: when the
    /// process ends, when the [client](crate::Client) is closed or dropped, or when there is no
    /// connection for longer than the lease runs. Keep the client for that long. Hand-offs to other
    /// threads of this process begin when the time is over.
    ///
    /// A failed job does not shorten this time, and a revocation request has no effect. To free the
    /// lock sooner, close the client or delete the node. A time too large for the clock never ends.
    /// In a [`MultiLock`](crate::MultiLock) each member keeps its own time, even if another member
    /// could not be taken.
    pub fn hold_at_least(mut self, time: Duration) -> LockOptions {
        self.hold_at_least = time;
        self
    }

    /// Loses each hold `time` after its grant, with
    /// [`LossReason::HeldTooLong`](crate::LossReason::HeldTooLong). This is for threads that may hang:
    /// their process lives, and its heartbeats would keep the lock for ever. Default: a hold lasts
    /// until it is released, or lost for another reason.
    ///
    /// At the end, [`Hold::is_held`](crate::Hold::is_held) turns false by this process's clock, and
    /// the node is deleted in the background. So the next holder comes after the end. The thread is
    /// not stopped: it has to look at its hold, as for any [loss](crate#loss), and its unlock
    /// reports the loss. [`Hold::prolong`](crate::Hold::prolong) moves the end. A time too large for
    /// the clock never ends. Zero, or less than [`hold_at_least`](LockOptions::hold_at_least), is
    /// refused with [`Error::InvalidArgument`] when the lock is created.
    pub fn hold_at_most(mut self, time: Duration) -> LockOptions {
        self.hold_at_most = Some(time);
        self
    }

    /// Keeps at least `time` between the loss of a hold and the next holder, if the clocks end the
    /// hold. This is for resources that cannot check a [fencing token](crate::Hold::fencing_token):
    /// what the lost holder has sent arrives before the next holder begins. Default: zero.
    ///
    /// A hold counts as lost `time` before its lease ends. When it was lost with its lease, or had
    /// lasted [too long](LockOptions::hold_at_most), its node is deleted no sooner than `time`
    /// later.
    ///
    /// ```text
    ///                                     is_held() turns false
    ///                                     |
    /// this process   |====== held ========|<-- time -->|
    /// its lease      |---------------------------------|   the session may live on
    /// next holder                                      at this instant, or later
    /// ```
    ///
    /// Both ends are true times, although two clocks measure them: the servers' clock ends the
    /// session, and this process's clock ends the lease before that. A process that is paused learns
    /// of its loss later, so check [`Hold::is_held`](crate::Hold::is_held) right before each effect.
    ///
    /// There is no such time after a release, after [`Client::close`](crate::Client::close) or the
    /// end of the process, after [`Client::break_lock`](crate::Client::break_lock), and where somebody
    /// deletes the node. Other holders of the path need their own margin; contenders need none.
    ///
    /// At most a quarter of the session timeout that the servers have granted. With more,
    /// [`Error::InvalidArgument`] is returned: when the lock is created, and by each call if the client
    /// was not connected then, or if the servers have granted less since. The lease of a healthy
    /// client falls to about half of the session timeout before each heartbeat, and a hold is granted
    /// with `time` and a fifth of the session timeout left. So with the largest margin a hold
    /// tolerates round trips of a sixteenth of the session timeout, and without any an eighth.
    pub fn margin(mut self, time: Duration) -> LockOptions {
        self.margin = time;
        self
    }

    /// Checks the options for this kind of lock.
    pub(crate) fn check(self, kind: LockKind) -> Result<LockOptions> {
        for (what, is_set, takers) in LIMITED {
            if is_set(&self) && !takers.contains(&kind) {
                return Err(Error::invalid(
                    what,
                    format!("a lock of the kind `{kind}` has no use for it"),
                ));
            }
        }
        self.identity.as_deref().map_or(Ok(()), check_identity)?;
        if let Some(most) =
            self.hold_at_most.filter(|most| most.is_zero() || *most < self.hold_at_least)
        {
            let least = self.hold_at_least;
            let reason = format!(
                "{most:?}: it is more than zero, and no less than the hold_at_least of {least:?}"
            );
            return Err(Error::invalid("hold_at_most", reason));
        }
        Ok(self)
    }
}

/// Checks that a node can carry this identity.
pub(crate) fn check_identity(identity: &str) -> Result<()> {
    let reason = if identity.len() > MAX_IDENTITY {
        format!("it is longer than {MAX_IDENTITY} bytes")
    } else if data::is_request(identity.as_bytes()) {
        "it would be read as a request to let go".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::invalid("identity", reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_queue_of_exclusive_holders_takes_handoffs() {
        for (kind, takes_it) in [
            (LockKind::Exclusive, true),
            (LockKind::Reentrant, true),
            (LockKind::Write, true),
            (LockKind::Semaphore, false),
            (LockKind::Ephemeral, false),
            (LockKind::Latch, false),
        ] {
            let checked = LockOptions::new().local_handoffs(1).check(kind);
            assert_eq!(checked.is_ok(), takes_it, "{kind}: {checked:?}");
            assert!(LockOptions::new().hold_at_most(Duration::MAX).check(kind).is_ok());
        }
    }
}
