//! One hold, seen from any thread. It reads clocks and, for the token, asks the server; it
//! releases nothing.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use crate::clock::Moment;
use crate::data::Origin;
use crate::error::{Error, LossReason, Result};
use crate::session::{Seat, Session, Standing, Until};

/// How a hold stands.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldState {
    /// Held, on a live connection.
    Held,
    /// The connection is dead, but the lease runs: still held, by nobody else. The hold moves to
    /// the next connection if that comes in time.
    Suspended,
    /// Lost: somebody else may hold the lock. It stays lost.
    Lost(LossReason),
    /// Released by its owner.
    Released,
}

/// A view of one hold of a lock, for any number of threads: is it still valid, tell me when it
/// ends, what is its fencing token. It keeps nothing locked and releases nothing.
///
/// A hold is valid while its *certified lease* runs: for as long as the servers cannot have
/// expired the session, by what this client knows. See the [crate documentation](crate#loss) for
/// what that means for code that runs while it holds.
#[derive(Clone)]
pub struct Hold {
    seat: Arc<Seat>,
    session: Arc<Session>,
}

impl Hold {
    pub(crate) fn new(seat: Arc<Seat>, session: Arc<Session>) -> Hold {
        Hold { seat, session }
    }

    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat
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
        match self.seat.standing(Moment::now()) {
            Standing::Held => HoldState::Held,
            Standing::Suspended => HoldState::Suspended,
            Standing::Lost(reason) => HoldState::Lost(reason),
            // A hold begins with the grant.
            Standing::Waiting | Standing::Released => HoldState::Released,
        }
    }

    /// A channel that never carries a message and is disconnected when the hold ends, by release
    /// or by loss: clones of it can be used with `select!` in any number of threads. A loss is
    /// announced here within 100 ms of the end of [`valid_for`](Hold::valid_for).
    ///
    /// ```
    /// use std::time::Duration;
    /// use zoolock::crossbeam_channel::{after, select};
    ///
    /// fn work_until_lost(hold: &zoolock::Hold) {
    ///     loop {
    ///         select! {
    ///             recv(hold.lost()) -> _ => return,
    ///             recv(after(Duration::from_secs(1))) -> _ => println!("one more step"),
    ///         }
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn lost(&self) -> &Receiver<Infallible> {
        self.seat.ended()
    }

    /// What is left of the certified lease, by the clock that went further; zero when the hold is
    /// over. It grows again with every sign of life from the servers. No I/O, never blocks.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.seat.valid_for(Moment::now())
    }

    /// The fencing token: it rises from one exclusive hold of the lock to the next, whoever
    /// holds, also over crashes and when the lock's directory was deleted and made again. A
    /// resource that refuses tokens lower than the highest it has seen is safe from a holder that
    /// was paused past the end of its lease.
    ///
    /// It is the `czxid`, the id of the transaction that made the hold's first node; it stays the
    /// same when the hold moves to another session. The first call asks the server and blocks for
    /// at most a third of the session timeout; later ones do not.
    ///
    /// # Errors
    /// [`Error::Lost`] or [`Error::NotHeld`] when the hold is over before the token was known,
    /// [`Error::Disconnected`] without an answer.
    pub fn fencing_token(&self) -> Result<u64> {
        loop {
            if let Some(origin) = self.seat.origin() {
                return Ok(origin.token);
            }
            self.check()?;
            let Some((name, connection)) = self.seat.own() else {
                let path = self.path().to_owned();
                return Err(Error::NotHeld { path });
            };
            let node = self.seat.claim().directory.child(&name);
            let until = Until::within(connection.timeout() / 3);
            match connection.call(&until, move |wire| wire.data(&node, false)) {
                Ok((data, stat)) => {
                    if self.session.is_own(&self.seat, &name, &data, &stat) {
                        return Ok(self.seat.learn_origin(&name, Origin::from(&stat)).token);
                    }
                }
                // Moved meanwhile, and knows it by now.
                Err(failure) if failure.is_no_node() && self.seat.origin().is_some() => {}
                Err(failure) if failure.is_no_node() => {
                    self.session.node_gone(&self.seat, &name);
                    let (path, reason) = (self.path().to_owned(), LossReason::NodeDeleted);
                    return Err(Error::Lost { path, reason });
                }
                Err(failure) => return Err(self.session.error(self.path(), failure)),
            }
        }
    }

    /// A channel that gets a message when somebody has asked for the lock, with
    /// [`Client::revoke`](crate::Client::revoke), Curator's `Revoker`, or by writing `__REVOKE__`
    /// to the hold's node. It is up to the holder to unlock. The channel is disconnected when the
    /// hold ends.
    ///
    /// A message for each request, but no more than one that is not read yet. Each call makes a
    /// channel that is kept until the hold ends: call once, and keep it.
    ///
    /// Does not block: the node is watched from now on, at the cost of one request, and over moves
    /// to other sessions. Without a connection it is watched from the next one on.
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
    /// [`Error::Lost`] or [`Error::NotHeld`] when the hold is over.
    pub fn revocation(&self) -> Result<Receiver<()>> {
        self.check()?;
        let asked = self.seat.revocation();
        self.session.watch_now(&self.seat);
        Ok(asked)
    }

    /// An error if the hold is over.
    fn check(&self) -> Result<()> {
        let path = || self.path().to_owned();
        match self.state() {
            HoldState::Held | HoldState::Suspended => Ok(()),
            HoldState::Lost(reason) => Err(Error::Lost { path: path(), reason }),
            HoldState::Released => Err(Error::NotHeld { path: path() }),
        }
    }

    /// The lock's path.
    #[must_use]
    pub fn path(&self) -> &str {
        self.seat.path()
    }

    /// The name of the node that stands for the hold, in the lock's directory. It changes when the
    /// hold moves to the next session; its sequence, the last ten digits, does not.
    #[must_use]
    pub fn node(&self) -> String {
        self.seat.node()
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
