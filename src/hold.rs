//! One hold, seen from any thread. It reads clocks, has its node watched if asked, and releases nothing.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use crate::error::Result;
use crate::session::{Grant, HoldState, Node};
use crate::transaction::Transaction;

/// A view of one hold of a lock, for any number of threads: is it still valid, tell me when it
/// ends, what is its fencing token. It keeps nothing locked and releases nothing.
///
/// A hold is valid while its *certified lease* runs: for as long as the servers cannot have
/// expired the session, by what this client knows. See the [crate documentation](crate#loss) for
/// what that means for code that runs while it holds.
#[derive(Clone)]
pub struct Hold {
    grant: Arc<Grant>,
    /// Which of the nodes that were granted together.
    index: usize,
}

impl Hold {
    pub(crate) fn new(grant: Arc<Grant>, index: usize) -> Hold {
        Hold { grant, index }
    }

    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    fn its_node(&self) -> &Node {
        &self.grant.list()[self.index]
    }

    /// Is the lock held by this hold now? True while [`HoldState::Held`] or
    /// [`HoldState::Suspended`]. Reads the clocks; no I/O, never blocks.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.state(), HoldState::Held | HoldState::Suspended)
    }

    /// How the hold stands. Reads the clocks; no I/O, never blocks.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.grant.state()
    }

    /// A channel that never carries a message and is disconnected when the hold ends, by release
    /// or by loss: clones of it can be used with `select!` in any number of threads. A loss is
    /// announced here within 100 ms of the end of [`valid_for`](Hold::valid_for). There is an example in
    /// the [crate documentation](crate#loss).
    #[must_use]
    pub fn lost(&self) -> &Receiver<Infallible> {
        self.grant.ended()
    }

    /// What is left of the certified lease, by the clock that went further; zero when the hold is
    /// over. It grows again with every heartbeat that is certified. No I/O, never blocks.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.grant.valid_for()
    }

    /// Returns the fencing token, a number by which a resource can refuse writes of earlier holders.
    /// No I/O.
    ///
    /// What it guarantees, for every lock but a semaphore:
    /// - It rises from one exclusive hold of a path to the next, whoever holds, also over crashes and when
    ///   the lock's directory was deleted and made again.
    /// - It does not change while the hold lasts, neither by re-entry nor when the session is resumed on
    ///   another connection.
    /// - Holds that follow on each other share a token in two cases: threads of one process that take over
    ///   by [`local_handoffs`](crate::LockOptions::local_handoffs) or
    ///   [`keep_idle`](crate::LockOptions::keep_idle), and a read that its thread took under its write. A
    ///   write of the first that is still on its way is not refused: wait for its answer before the unlock.
    ///
    /// What it does not guarantee: **a token that is only sent along with writes does not stop a late
    /// write.** The resource refuses a token only if it has seen a higher one. A next holder that has
    /// read, and not written yet, has shown it none: the late write is carried out, and the next
    /// holder's write undoes it. So every holder takes three steps:
    ///
    /// 1. **Claim**: give the resource the token. From now on it refuses every lower one.
    /// 2. **Read**.
    /// 3. **Write**, in one step with a check that the token is still the one that has claimed.
    ///
    /// [Guarded writes](crate::guide::guarded_writes#what-lives-elsewhere) has these steps in SQL, and the
    /// example `fenced_register` as a program.
    ///
    /// Readers that share a lock have tokens in no order among themselves, and so have a semaphore's
    /// permits: do not claim with those. Servers that were set up anew, or from a backup, begin with low
    /// tokens again.
    ///
    /// The token is the `czxid` of the hold's node: the id of the transaction that made it.
    ///
    /// # Errors
    /// None: it is known from the grant on, also when the hold is over.
    pub fn fencing_token(&self) -> Result<u64> {
        Ok(self.token())
    }

    /// A channel that gets a message when somebody has asked for the lock, with
    /// [`Client::revoke`](crate::Client::revoke), Curator's `Revoker`, or by writing `__REVOKE__`
    /// to the hold's node. It is up to the holder to unlock. The channel is disconnected when the
    /// hold ends.
    ///
    /// A message for each request, but no more than one that is not read yet. Each call makes a
    /// channel that is kept until the hold ends: call once, and keep it.
    ///
    /// Does not block: the node is watched from now on, at the cost of one request. Without a connection
    /// it is watched from the next one on.
    ///
    /// ```
    /// use zoolock::crossbeam_channel::select;
    ///
    /// fn hold_until_asked(guard: zoolock::Guard) -> zoolock::Result<()> {
    ///     let asked = guard.revocation()?;
    ///     select! {
    ///         recv(asked) -> _ => {}
    ///         recv(guard.lost()) -> _ => {}
    ///     }
    ///     guard.release()
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Lost`](crate::Error::Lost) or [`Error::NotHeld`](crate::Error::NotHeld) when the hold is
    /// over.
    pub fn revocation(&self) -> Result<Receiver<()>> {
        self.grant.check()?;
        let asked = self.grant.revocation(self.index);
        self.grant.watch_now();
        Ok(asked)
    }

    /// Writes in ZooKeeper that are carried out only while this hold is held, which the servers see to. No
    /// I/O before [`commit`](Transaction::commit).
    ///
    /// ```no_run
    /// # fn f(guard: &zoolock::Guard) -> zoolock::Result<()> {
    /// guard.transaction().set("/leader", "host-7", None).commit()
    /// # }
    /// ```
    pub fn transaction(&self) -> Transaction {
        Transaction::of(self)
    }

    pub(crate) fn token(&self) -> u64 {
        self.its_node().token
    }

    /// Has somebody asked for the lock, as far as its node is watched?
    pub(crate) fn is_asked_for(&self) -> bool {
        self.grant.nodes().is_asked_for(self.index)
    }

    /// Its hold, and which of the nodes that were granted together.
    pub(crate) fn parts(&self) -> (Arc<Grant>, usize) {
        (Arc::clone(&self.grant), self.index)
    }

    /// The lock's path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.grant.path()
    }

    /// The name of the node that stands for the hold.
    #[must_use]
    pub fn node(&self) -> String {
        self.its_node().name.clone()
    }

    /// The path of that node, below the client's root.
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
