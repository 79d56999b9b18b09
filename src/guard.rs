//! Guards: a hold that is released when it is dropped.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, MutexGuard};

use log::warn;

use crate::error::Result;
use crate::hold::Hold;

/// Marks a [`Guard`] that any thread may release.
#[derive(Debug)]
pub struct AnyThread(());

/// Marks a [`Guard`] that only the thread that got it may release: it is `Sync`, not `Send`.
#[derive(Debug)]
pub struct ThisThread(PhantomData<MutexGuard<'static, ()>>);

/// What a guard gives its hold back to.
pub(crate) trait Releases: Send + Sync {
    /// Releases this hold, and no other that the object may have by now.
    fn release(&self, hold: &Hold) -> Result<()>;
}

/// A held lock, released when this is dropped.
///
/// It is owned (`'static`), so that it can be stored, and derefs to its [`Hold`]. Dropping waits
/// for the server's answer for at most a third of the session timeout; what has no answer by then
/// is deleted in the background. A drop that finds the lock lost writes that to the log; call
/// [`release`](Guard::release) to hear of it.
///
/// A guard releases its own hold only. If that is gone already, because somebody called `unlock`
/// too often, the drop says so in the log and touches nothing.
#[must_use = "if unused the lock is released at once"]
pub struct Guard<O = AnyThread> {
    hold: Hold,
    lock: Option<Arc<dyn Releases>>,
    owner: PhantomData<O>,
}

/// The guard of a lock that is owned by a thread: it stays with that thread.
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

    /// Releases the lock and says how that went. Blocks like the drop.
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

    /// A view of the hold, for other threads. No I/O.
    #[must_use]
    pub fn hold(&self) -> Hold {
        self.hold.clone()
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
        let released = self.lock.take().map(|lock| lock.release(&self.hold));
        if let Some(Err(error)) = released {
            warn!(target: "zoolock", "dropped a guard: {error}");
        }
    }
}

impl<O> fmt::Debug for Guard<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.hold).finish()
    }
}
