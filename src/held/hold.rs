//! A view of one hold, for any thread. It reads clocks, watches the hold's node on request, and
//! releases nothing.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::Receiver;

use crate::base::error::{Error, Result};
use crate::base::sys;
use crate::session::{Grant, HoldState, Holds, Inner, Node, Write, commit};

/// A view of one hold of a lock, for any number of threads: the hold's state, the rest of its
/// lease, its end, and its fencing token. Keeping a `Hold` does not keep the lock, and dropping it
/// does not release the lock.
///
/// A hold is valid while its *certified lease* runs, that is, as long as it is certain that the
/// servers have not expired the session of this client. The [crate documentation](crate#loss)
/// explains what this means for code that runs while it holds the lock.
///
/// Methods that return a state, a time or the token read only memory and the clocks. They send no
/// request and never block.
#[derive(Clone)]
pub struct Hold {
    holds: Weak<Holds>,
    grant: Arc<Grant>,
    /// The index of the hold's node among those that were granted together.
    index: usize,
}

impl Hold {
    pub(crate) fn new(inner: &Inner, grant: Arc<Grant>, index: usize) -> Hold {
        Hold { holds: Arc::downgrade(&inner.holds), grant, index }
    }

    /// Returns the hold of another one of the nodes that were granted together.
    pub(crate) fn of_node(&self, index: usize) -> Hold {
        Hold { index, ..self.clone() }
    }

    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    fn its_node(&self) -> &Node {
        &self.grant.list()[self.index]
    }

    /// Returns whether this hold has the lock now: true for [`HoldState::Held`] and
    /// [`HoldState::Suspended`].
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.state(), HoldState::Held | HoldState::Suspended)
    }

    /// Returns the state of the hold.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.grant.state()
    }

    /// Returns a channel that never carries a message, and is disconnected when the hold ends,
    /// either by release or by loss. Any number of threads can use clones of it with `select!`. A
    /// loss is visible within 100 ms after [`valid_for`](Hold::valid_for) has reached zero. The
    /// [crate documentation](crate#loss) has an example.
    #[must_use]
    pub fn ended(&self) -> &Receiver<Infallible> {
        self.grant.ended()
    }

    /// Blocks until the hold ends, either by release or by loss.
    pub fn wait(&self) {
        if self.is_held() {
            // The channel does not carry messages.
            let _ = sys::recv(self.ended());
        }
    }

    /// Blocks until the hold ends, either by release or by loss, or for at most `timeout`. Returns
    /// whether it has ended.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        if self.is_held() {
            let _ = sys::recv_timeout(self.ended(), timeout);
        }
        !self.is_held()
    }

    /// Calls `call` once when the hold ends, either by release or by loss; at once if it has
    /// already ended. [`state`](Hold::state) then returns which of the two it was. A loss is
    /// detected as by [`ended`](Hold::ended), and the next holder may begin a moment before `call`
    /// runs: use [`margin`](crate::LockOptions::margin) or a [fencing token](Hold::fencing_token).
    /// Does not block.
    ///
    /// `call` runs on a thread of the client, never on the thread that calls this method. It may
    /// block, but then functions of other holds, and the client's [observer](crate::observer), wait
    /// for it. Up to ten thousand such functions can wait to be called; further ones are dropped.
    /// If `call` panics, the panic is printed, and has no other effect.
    ///
    /// Closing the client ends the hold, and therefore calls `call`. If the client no longer exists
    /// when this method is called, because its last handle was dropped, `call` is dropped without
    /// being called. A process that exits does not wait for `call`.
    ///
    /// ```no_run
    /// # fn f(lock: &zoolock::DistributedLock) -> zoolock::Result<()> {
    /// use zoolock::{HoldState, LossReason};
    ///
    /// let guard = lock.acquire()?;
    /// let hold = guard.hold();
    /// guard.on_end(move || {
    ///     if let HoldState::Lost(reason) = hold.state()
    ///         && reason != LossReason::ClientClosed // by the program itself
    ///     {
    ///         eprintln!("aborting: {reason}");
    ///         std::process::abort(); // `exit` could wait for the work
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_end(&self, call: impl FnOnce() + Send + 'static) {
        self.grant.on_end(call);
    }

    /// Returns how much of the certified lease is left, according to whichever clock advanced
    /// further. If [`hold_at_most`](crate::LockOptions::hold_at_most) ends the hold sooner, returns
    /// the time until then. The result is zero when the hold is over, and grows again with every
    /// certified heartbeat.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.grant.valid_for()
    }

    /// Ends the hold `time` from now, as [`hold_at_most`](crate::LockOptions::hold_at_most) does
    /// from the moment it is granted. This replaces an end that was set before, whether that end is
    /// sooner or later. The hold still lasts for
    /// [`hold_at_least`](crate::LockOptions::hold_at_least), and it is lost earlier if its lease is
    /// not renewed. A time that is too large for the clock sets no end. Sends no request and never
    /// blocks.
    ///
    /// # Errors
    /// [`Error::Lost`](crate::Error::Lost) or [`Error::NotHeld`](crate::Error::NotHeld) if the hold
    /// is over.
    pub fn expire_in(&self, time: Duration) -> Result<()> {
        self.grant.check()?;
        self.holds.upgrade().ok_or(Error::Closed)?.expire_in(&self.grant, time)
    }

    /// Returns the fencing token, a number with which a resource can refuse writes of earlier
    /// holders.
    ///
    /// What it guarantees, for every lock except a semaphore:
    /// - It increases from one exclusive hold of a path to the next, for all clients. This is true
    ///   even after crashes, and after the lock directory was deleted and created again.
    /// - It does not change while the hold lasts, neither by re-entry nor when the session is
    ///   resumed on another connection.
    /// - Consecutive holds share a token in two cases. In the first, the lock passes between
    ///   threads of one process because of [`local_handoffs`](crate::LockOptions::local_handoffs).
    ///   In the second, a thread takes the read lock while it holds the write lock. In both cases
    ///   the resource accepts a late write of the first hold. Wait for the answers to all writes
    ///   before you unlock.
    ///
    /// What it does not guarantee: **a token that is only sent along with writes does not stop a
    /// late write.** The resource refuses a token only if it has received a higher one. A next
    /// holder that has only read so far has not sent its token. The late write is then carried out,
    /// and the next holder's write undoes it. Therefore every holder takes three steps:
    ///
    /// 1. **Register** the token with the resource. From then on, it refuses every lower token.
    /// 2. **Read**.
    /// 3. **Write**, in one step with a check that the token is still the last one registered.
    ///
    /// [Guarded writes](crate::guide::guarded_writes#what-lives-elsewhere) shows these steps in
    /// SQL, and the example `fenced_register` shows them in a program.
    ///
    /// The tokens of readers that share a lock, and of a semaphore's permits, are in no particular
    /// order: do not register such tokens. Servers that were set up anew, or restored from a
    /// backup, start with low tokens again.
    ///
    /// The token is the `czxid` of the hold's node: the id of the transaction that created it. One
    /// transaction may create nodes of several locks. Holds of different locks may therefore have
    /// equal tokens. A token is positive and fits into an `i64`, such as a `BIGINT` of a database.
    ///
    /// The token is available from the grant on, and remains available after the hold is over.
    #[must_use]
    pub fn fencing_token(&self) -> u64 {
        self.its_node().token
    }

    /// Returns the channel that receives a message when another client requests the lock with
    /// [`Client::revoke`](crate::Client::revoke), with Curator's `Revoker`, or by writing
    /// `__REVOKE__` to the hold's node. The holder decides whether to unlock. The channel is
    /// disconnected when the hold ends.
    ///
    /// Each request sends a message, unless one is still unread. A hold has only one such channel:
    /// if several threads receive from it, each message reaches one of them.
    ///
    /// Does not block. The first call starts to watch the node, which costs one request. Without a
    /// connection, the watch begins on the next connection.
    ///
    /// ```
    /// use zoolock::crossbeam_channel::select;
    ///
    /// fn hold_until_requested(guard: zoolock::Guard) -> zoolock::Result<()> {
    ///     let requests = guard.revocation()?;
    ///     select! {
    ///         recv(requests) -> _ => {}
    ///         recv(guard.ended()) -> _ => {}
    ///     }
    ///     guard.release()
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Lost`](crate::Error::Lost) or [`Error::NotHeld`](crate::Error::NotHeld) if the hold
    /// is over.
    pub fn revocation(&self) -> Result<&Receiver<()>> {
        self.grant.check()?;
        let asked = self.grant.revocation(self.index);
        self.watch_now();
        Ok(asked)
    }

    /// Watches the node from now on.
    pub(crate) fn watch_now(&self) {
        self.holds.upgrade().inspect(|holds| holds.watch(self.grant.nodes()));
    }

    /// Puts the message of a revocation request back, so that other threads can receive it.
    pub(crate) fn leave_request(&self) {
        self.grant.tell_request(self.index);
    }

    /// Returns whether another client has requested the lock, as far as the node is watched.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.grant.nodes().is_requested(self.index)
    }

    /// Carries out these writes while the nodes of `all` these holds exist, including this one.
    pub(crate) fn commit(&self, all: &[Hold], writes: &[Write]) -> Result<()> {
        let holds: Vec<_> = all.iter().map(|hold| (Arc::clone(&hold.grant), hold.index)).collect();
        commit(&*self.holds.upgrade().ok_or(Error::Closed)?, &holds, writes)
    }

    /// Returns the lock's path, without the client's chroot. If programs with different chroots
    /// store fencing tokens in one database, the key of a token needs the chroot as well.
    #[must_use]
    pub fn path(&self) -> &str {
        self.grant.path()
    }

    /// Returns the name of the hold's node.
    #[must_use]
    pub fn node(&self) -> String {
        self.its_node().name.clone()
    }

    /// Returns the path of the hold's node, below the client's root.
    #[cfg(feature = "testing")]
    pub(crate) fn znode(&self) -> String {
        self.grant.znode(self.index)
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("path", &self.path())
            .field("node", &self.node())
            .field("state", &self.state())
            .finish()
    }
}
