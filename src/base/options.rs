//! Options of a lock.

use std::sync::Arc;
use std::time::Duration;

use crate::base::data;
use crate::base::error::{Error, Result};
use crate::base::kind::LockKind;

/// The maximum length of an identity in bytes. A server closes the connection if a request has 1 MB
/// (`jute.maxbuffer`).
const MAX_IDENTITY: usize = 16 * 1024;

/// The kinds of locks that support [`local_handoffs`](LockOptions::local_handoffs). Semaphores do
/// not, because each call creates its own permits, and neither do locks without a queue, reads,
/// which do not exclude each other, and leaderships. All kinds support the other options.
const HANDED_OVER: [LockKind; 3] = [LockKind::Exclusive, LockKind::Reentrant, LockKind::Write];

/// Options of a lock, for the `with_options` of the lock's type. The defaults are the options of
/// `new`.
///
/// | what it saves | option | cost |
/// |---|---|---|
/// | requests among threads of one process | [`local_handoffs(n)`](LockOptions::local_handoffs) | other processes wait for n more acquisitions |
/// | the wait for an unlock | [`background_release(true)`](LockOptions::background_release) | others may find the lock busy for one more round trip |
///
/// [`hold_at_least(time)`](LockOptions::hold_at_least) keeps the lock busy for longer than the work
/// takes, as long as the program runs. It is for jobs that are due on many machines.
/// [`hold_at_most(time)`](LockOptions::hold_at_most) ends the hold of a thread that hangs.
/// [`margin(time)`](LockOptions::margin) separates the loss of a hold from the next holder by a
/// minimum time.
///
/// Two more options are for operators and cost nothing: [`identity`](LockOptions::identity) names
/// the contender, and [`name`](LockOptions::name) groups locks for an observer.
///
/// # Several objects at one path
/// Objects of one client at one path may have different options:
/// - A thread takes over the node of another object only if both objects have the same `identity`,
///   `background_release`, `hold_at_least` and `margin`. Otherwise that node is deleted, and the
///   thread queues with its own node.
/// - `local_handoffs` is taken from the object that unlocks.
/// - `name`, `hold_at_most` and the identity in a new node are taken from the object that locks.
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
#[must_use = "options have no effect until they are passed to a lock"]
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

    /// Sets the identity that the lock's nodes contain, so that operators can find out who created
    /// them. It may have at most 16 KiB. Default: the client's identity, see
    /// [`ClientBuilder::identity`](crate::ClientBuilder::identity).
    pub fn identity(mut self, who: impl Into<String>) -> LockOptions {
        self.identity = Some(Arc::from(who.into()));
        self
    }

    /// Sets the name of this lock for an [`Observer`](crate::observer::Observer), for example
    /// `"invoices"` for all locks of invoices. An observer does not receive the path, because the
    /// number of paths has no limit. The name is not sent to the servers. Default: the empty
    /// string.
    pub fn name(mut self, name: impl Into<String>) -> LockOptions {
        self.name = Arc::from(name.into());
        self
    }

    /// Lets `unlock` hand the lock to the next waiting thread of the client, without a request, up
    /// to this many times in a row. After that the lock is released, and the next thread queues.
    /// The waiting thread may use another lock object at the same path. Other processes wait for
    /// that many more acquisitions. When the node is handed over for the first time, the client
    /// reads it once in the background, in case another client has deleted it. Default: 0.
    ///
    /// Threads that take over a node in this way share one fencing token, and the node names the
    /// thread that created it. The lock is not handed over without a connection, if less than a
    /// third of the session timeout is left of the lease, or after a revocation request
    /// ([`Client::revoke`](crate::Client::revoke)). Of a read-write lock, only writes are handed
    /// over. [`DistributedSemaphore`](crate::DistributedSemaphore) and
    /// [`EphemeralLock`](crate::EphemeralLock) refuse the option with [`Error::InvalidArgument`].
    pub fn local_handoffs(mut self, times: u32) -> LockOptions {
        self.local_handoffs = times;
        self
    }

    /// Lets a release return as soon as the request that deletes the node is sent, without waiting
    /// for the answer. Default: false. The servers carry out a session's requests in order;
    /// therefore, the next lock of the same client still waits for the deletion. Several threads
    /// gain more from this option than a single one.
    ///
    /// Other contenders, and a `try_lock` of this process right after the release, may find the
    /// lock busy for one more round trip. If the deletion is lost, the client repeats it until the
    /// node is gone. If another client has already deleted the node, the release does not return
    /// that error. The client only counts it in [`Stats::holds_lost`](crate::Stats::holds_lost) and
    /// logs it.
    pub fn background_release(mut self, background: bool) -> LockOptions {
        self.background_release = background;
        self
    }

    /// Keeps the lock busy for `time` after it is granted, even if it is unlocked earlier. This is
    /// for short jobs that are due at the same time on many machines whose clocks differ. Default:
    /// zero.
    ///
    /// `unlock` returns without waiting for `time`, and ends the hold. The node stays: it keeps the
    /// lock busy for all contenders, including this process, and is included in lists of
    /// contenders. The client deletes it in the background when the time is over. The lock is
    /// handed over to other threads of this process only after that.
    ///
    /// **A program that ends frees the lock at once.** The node ends with its session: when the
    /// process ends, when the [client](crate::Client) is closed or dropped, or when there is no
    /// connection until the lease runs out. Therefore, keep the client until the time is over. A
    /// program that cron starts [records its runs](crate::guide::services#a-job-from-cron) instead.
    ///
    /// If the job fails, the time is not shortened, and a revocation request has no effect. To free
    /// the lock sooner, close the client or delete the node. If the time is too large for the
    /// clock, it never ends. In a [`MultiLock`](crate::MultiLock) each member keeps its own time,
    /// even if another member could not be acquired.
    pub fn hold_at_least(mut self, time: Duration) -> LockOptions {
        self.hold_at_least = time;
        self
    }

    /// Ends each hold `time` after it is granted. The hold is then lost, with the reason
    /// [`LossReason::HeldTooLong`](crate::LossReason::HeldTooLong). This is for threads that may
    /// hang: their process is alive, and its heartbeats would keep the lock forever. Default: a
    /// hold lasts until it is released, or lost for another reason.
    ///
    /// When the time is over by this process's clock, [`Hold::is_held`](crate::Hold::is_held)
    /// becomes false, and the client deletes the node in the background. Therefore, the next holder
    /// acquires the lock only after that. The thread is not stopped: it has to check its hold, as
    /// with any [loss](crate#loss), and `unlock` returns the loss.
    /// [`Hold::expire_in`](crate::Hold::expire_in) changes the time. If the time is too large for
    /// the clock, it never ends. If it is zero, or less than
    /// [`hold_at_least`](LockOptions::hold_at_least), the lock is not created, and
    /// [`Error::InvalidArgument`] is returned.
    pub fn hold_at_most(mut self, time: Duration) -> LockOptions {
        self.hold_at_most = Some(time);
        self
    }

    /// Ensures that at least `time` passes between the loss of a hold and the next grant, if the
    /// hold ends because its lease or its time runs out. This is for resources that cannot check a
    /// [fencing token](crate::Hold::fencing_token): the requests that the old holder has sent
    /// arrive before the next holder begins. Default: zero.
    ///
    /// A hold counts as lost `time` before its lease ends. If a hold is lost for this reason, or
    /// because it lasted [too long](LockOptions::hold_at_most), the client deletes its node no
    /// sooner than `time` later.
    ///
    /// ```text
    ///                                     is_held() turns false
    ///                                     |
    /// this process   |====== held ========|<-- time -->|
    /// its lease      |---------------------------------|   the session may live on
    /// next holder                                      at this instant, or later
    /// ```
    ///
    /// The margin is reliable even though two clocks are involved: this process's clock ends the
    /// lease, and the servers' clock ends the session later. A process that is paused detects the
    /// loss later; therefore, check [`Hold::is_held`](crate::Hold::is_held) right before each
    /// effect.
    ///
    /// The margin does not apply after a release, after [`Client::close`](crate::Client::close),
    /// after the end of the process, after [`Client::break_lock`](crate::Client::break_lock), or if
    /// another client deletes the node. Other holders of the path need their own margin; contenders
    /// that only wait do not.
    ///
    /// The margin is at most a quarter of the session timeout that the servers have granted. If it
    /// is larger, [`Error::InvalidArgument`] is returned when the lock is created. Each call checks
    /// the margin again and may return this error, because the client may not have been connected
    /// when the lock was created, and the servers may have granted a shorter timeout since. The
    /// lease of a healthy client falls to about half of the session timeout before each heartbeat,
    /// and a hold is granted only if at least `time` plus a fifth of the session timeout is left.
    /// Therefore, with the largest margin a hold tolerates round trips of a sixteenth of the
    /// session timeout, and without a margin an eighth.
    pub fn margin(mut self, time: Duration) -> LockOptions {
        self.margin = time;
        self
    }

    /// Checks the options for this kind of lock.
    pub(crate) fn check(self, kind: LockKind) -> Result<LockOptions> {
        if self.local_handoffs > 0 && !HANDED_OVER.contains(&kind) {
            let reason = format!("locks of the kind `{kind}` do not support it");
            return Err(Error::invalid("local_handoffs", reason));
        }
        self.identity.as_deref().map_or(Ok(()), check_identity)?;
        let (least, most) = (self.hold_at_least, self.hold_at_most.unwrap_or(Duration::MAX));
        if most.is_zero() || most < least {
            let reason = format!("{most:?} is zero, or less than the hold_at_least of {least:?}");
            return Err(Error::invalid("hold_at_most", reason));
        }
        Ok(self)
    }
}

/// Checks that a node can contain this identity.
pub(crate) fn check_identity(identity: &str) -> Result<()> {
    let reason = if identity.len() > MAX_IDENTITY {
        format!("it is longer than {MAX_IDENTITY} bytes")
    } else if data::is_request(identity.as_bytes()) {
        "it has the same text as a revocation request".to_owned()
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
