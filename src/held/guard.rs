//! Guards: holds that are released when they are dropped.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::panics::log_drop;
use crate::held::hold::Hold;

/// Marks a lock, and its [`Guard`], that any thread may release.
#[derive(Debug)]
pub struct AnyThread(());

/// Marks a lock, and its [`Guard`], that only the thread that acquired it may release. The guard is
/// `Sync`, but not `Send`.
#[derive(Debug)]
pub struct ThisThread(PhantomData<dyn OnlyTheThreadThatAcquiredItMayReleaseIt>);

/// Makes the type that contains it `Sync`, but not `Send`. The compiler's error names this trait if
/// a guard is sent to another thread.
trait OnlyTheThreadThatAcquiredItMayReleaseIt: Sync {}

/// A lock object that can release a hold for its guard.
pub(crate) trait Releases: Send + Sync {
    /// Releases this hold, but not another one that the object may have acquired since.
    fn release(&self, hold: &Hold) -> Result<()>;
}

/// A held lock, or permits of a semaphore, released when this is dropped. For several locks, or a
/// lock of any type, the guard is [`LockGuard`](crate::LockGuard).
///
/// The guard is owned (`'static`) and can therefore be stored. It derefs to its [`Hold`]. Dropping
/// it waits for the server's answer for at most a third of the session timeout. If no answer has
/// come in that time, the node is deleted in the background. If the lock was lost, dropping the
/// guard only logs the loss; [`release`](Guard::release) returns it.
///
/// Permits that were taken together have one guard and end together: if one is lost, all are lost,
/// and releasing the guard deletes the nodes of the others. The guard derefs to the hold of the
/// first permit; [`holds`](Guard::holds) returns all.
///
/// A guard releases only its own hold. If that hold is already gone, because `unlock` was called
/// too often, dropping the guard logs that and has no other effect.
#[must_use = "if unused the lock is released at once"]
pub struct Guard<O = AnyThread> {
    hold: Hold,
    lock: Option<Arc<dyn Releases>>,
    owner: PhantomData<O>,
}

/// The guard of a lock that belongs to a thread. The guard stays with that thread. If it is sent to
/// another one, the compiler reports that `OnlyTheThreadThatAcquiredItMayReleaseIt` cannot be sent
/// between threads.
///
/// ```compile_fail
/// fn to_another_thread(guard: zoolock::ReentrantGuard) {
///     std::thread::spawn(move || drop(guard));
/// }
/// ```
pub type ReentrantGuard = Guard<ThisThread>;

impl<O> Guard<O> {
    pub(crate) fn new(hold: Hold, lock: Arc<dyn Releases>) -> Guard<O> {
        Guard { hold, lock: Some(lock), owner: PhantomData }
    }

    /// Releases the lock and returns the result. Blocks as dropping the guard does.
    ///
    /// # Errors
    /// [`Error::Lost`](crate::Error::Lost) if the hold was lost,
    /// [`Error::NotHeld`](crate::Error::NotHeld) if it was released already.
    pub fn release(mut self) -> Result<()> {
        match self.lock.take() {
            Some(lock) => lock.release(&self.hold),
            None => Ok(()),
        }
    }

    /// Returns a view of the hold, for other threads. Never blocks.
    #[must_use]
    pub fn hold(&self) -> Hold {
        self.hold.clone()
    }

    /// Returns a view of each permit, with its own node, token and revocation. For a lock, returns
    /// only the view of its hold. Never blocks.
    #[must_use]
    pub fn holds(&self) -> Vec<Hold> {
        (0..self.grant().list().len()).map(|index| self.of_node(index)).collect()
    }
}

impl<O> Deref for Guard<O> {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}

impl<O> Drop for Guard<O> {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.take() {
            log_drop("guard", lock.release(&self.hold));
        }
    }
}

impl<O> fmt::Debug for Guard<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.hold).finish()
    }
}
