//! The methods that every lock with one hold shares, and the constructors of lock objects.
//!
//! The types differ in what a hold is and who owns it. Their [`TwoLevel`](crate::level::TwoLevel)
//! or [`Readers`](crate::level::Readers) knows that.

/// Implements these methods, and [`Lock`](crate::Lock), for a type whose `.inner` is an `Arc` of a
/// [`TwoLevel`](crate::level::TwoLevel) or [`Readers`](crate::level::Readers). `$guard` is what its
/// `acquire` returns.
macro_rules! exclusive_methods {
    ($lock:ident, $guard:ty) => {
        impl $lock {
            /// Returns the lock's path.
            #[must_use]
            pub fn path(&self) -> &str {
                self.inner.path()
            }

            /// Acquires the lock. Waits without a limit, also for a connection.
            ///
            /// # Errors
            /// [`Cancelled`](crate::Error::Cancelled), [`Closed`](crate::Error::Closed),
            /// [`Denied`](crate::Error::Denied), [`Limit`](crate::Error::Limit), and the errors
            /// that the type's documentation adds.
            pub fn lock(&self) -> $crate::Result<()> {
                self.inner.acquire($crate::level::Patience::Until(None)).map(drop)
            }

            /// Acquires the lock if nobody else holds it, in this process or another. Waits for the
            /// servers' answers only, for at most a third of the session timeout.
            ///
            /// # Errors
            /// As [`lock`](Self::lock), and [`Disconnected`](crate::Error::Disconnected) if the
            /// client cannot find out whether the lock is free.
            pub fn try_lock(&self) -> $crate::Result<bool> {
                let got = self.inner.acquire($crate::level::Patience::Try)?;
                Ok(got.is_some())
            }

            /// Acquires the lock. Waits for at most `timeout`, which includes the wait for a
            /// connection. A timeout too large for the clock waits forever. A zero timeout is the
            /// same as [`try_lock`](Self::try_lock).
            ///
            /// # Errors
            /// As [`try_lock_until`](Self::try_lock_until).
            pub fn try_lock_for(&self, timeout: std::time::Duration) -> $crate::Result<bool> {
                $crate::Lock::try_lock_for(self, timeout)
            }

            /// Acquires the lock. Waits until `deadline` at most, which includes the wait for a
            /// connection. Returns false if another contender was ahead until then.
            ///
            /// # Errors
            /// As [`lock`](Self::lock), and [`Disconnected`](crate::Error::Disconnected) if the
            /// client has not found out by then whether the lock is free.
            pub fn try_lock_until(&self, deadline: std::time::Instant) -> $crate::Result<bool> {
                let got = self.inner.acquire($crate::level::Patience::Until(Some(deadline)))?;
                Ok(got.is_some())
            }

            /// Unlocks the lock once. Waits for the answer for at most a third of the session
            /// timeout. A deletion without an answer by then is completed in the background.
            ///
            /// # Errors
            /// - [`Lost`](crate::Error::Lost) if the hold was lost. No other holder's node was
            ///   touched, and the lock can be used again.
            /// - [`NotHeld`](crate::Error::NotHeld) if the lock is not locked.
            /// - [`Denied`](crate::Error::Denied) if the server refuses to delete the node, which
            ///   then ends with the session.
            /// - The errors that the type's documentation adds.
            pub fn unlock(&self) -> $crate::Result<()> {
                self.inner.release(None)
            }

            /// Acquires the lock until the returned guard is dropped. Waits like [`lock`](Self::lock).
            ///
            /// # Errors
            /// As [`lock`](Self::lock).
            pub fn acquire(&self) -> $crate::Result<$guard> {
                let got = self.inner.acquire($crate::level::Patience::Until(None))?;
                // A call without a deadline never returns without the lock.
                let path = || self.path().to_owned();
                let grant = got.ok_or_else(|| $crate::Error::NotHeld { path: path() })?;
                Ok(self.inner.guard(grant))
            }

            /// Like [`try_lock`](Self::try_lock), with a guard.
            ///
            /// # Errors
            /// As [`try_lock`](Self::try_lock).
            pub fn try_acquire(&self) -> $crate::Result<Option<$guard>> {
                let got = self.inner.acquire($crate::level::Patience::Try)?;
                Ok(got.map(|grant| self.inner.guard(grant)))
            }

            /// Like [`try_lock_for`](Self::try_lock_for), with a guard.
            ///
            /// # Errors
            /// As [`try_lock_for`](Self::try_lock_for).
            pub fn try_acquire_for(
                &self,
                timeout: std::time::Duration,
            ) -> $crate::Result<Option<$guard>> {
                match $crate::sys::now().checked_add(timeout) {
                    Some(deadline) => self.try_acquire_until(deadline),
                    None => self.acquire().map(Some),
                }
            }

            /// Like [`try_lock_until`](Self::try_lock_until), with a guard.
            ///
            /// # Errors
            /// As [`try_lock_until`](Self::try_lock_until).
            pub fn try_acquire_until(
                &self,
                deadline: std::time::Instant,
            ) -> $crate::Result<Option<$guard>> {
                let got = self.inner.acquire($crate::level::Patience::Until(Some(deadline)))?;
                Ok(got.map(|grant| self.inner.guard(grant)))
            }

            /// Returns whether the lock is held. Where a thread owns the hold, returns whether the
            /// calling thread holds it. Reads the clocks; no I/O, never blocks.
            #[must_use]
            pub fn is_held(&self) -> bool {
                self.hold().is_some_and(|hold| hold.is_held())
            }

            /// Returns the hold, for its token, loss and state after `lock()`. Where a thread owns
            /// the hold, returns that of the calling thread. A lost hold is returned until the
            /// unlock that reports the loss. No I/O, never blocks.
            #[must_use]
            pub fn hold(&self) -> Option<$crate::Hold> {
                self.inner.hold()
            }

            /// Returns the holders and waiters of the lock, in order, like
            /// [`Client::contenders`](crate::Client::contenders). Blocks for at most a session
            /// timeout.
            ///
            /// # Errors
            /// [`Disconnected`](crate::Error::Disconnected) without a connection or an answer
            /// within a session timeout, [`Closed`](crate::Error::Closed),
            /// [`Denied`](crate::Error::Denied).
            pub fn contenders(&self) -> $crate::Result<Vec<$crate::Contender>> {
                self.inner.site().contenders()
            }

            /// Cancels all calls that wait on this object or a clone of it. They return
            /// [`Cancelled`](crate::Error::Cancelled), and their nodes are deleted. Later calls are
            /// not affected. Does not block.
            pub fn cancel_waiters(&self) {
                self.inner.cancel_waiters();
            }
        }

        impl $crate::Lock for $lock {
            fn path(&self) -> &str {
                $lock::path(self)
            }

            fn id(&self) -> $crate::LockId {
                $crate::LockId::of(self.inner.site(), &*self.inner)
            }

            fn lock(&self) -> $crate::Result<()> {
                $lock::lock(self)
            }

            fn try_lock(&self) -> $crate::Result<bool> {
                $lock::try_lock(self)
            }

            fn try_lock_until(&self, deadline: std::time::Instant) -> $crate::Result<bool> {
                $lock::try_lock_until(self, deadline)
            }

            fn unlock(&self) -> $crate::Result<()> {
                $lock::unlock(self)
            }

            fn is_held(&self) -> bool {
                $lock::is_held(self)
            }

            fn holds(&self) -> Vec<$crate::Hold> {
                self.hold().into_iter().collect()
            }
        }

        impl From<$lock> for Box<dyn $crate::Lock> {
            fn from(lock: $lock) -> Box<dyn $crate::Lock> {
                Box::new(lock)
            }
        }
    };
}

/// Implements the constructors of a lock object, from a function that takes its
/// [`Site`](crate::level::Site).
macro_rules! constructors {
    ($lock:ident, $make:expr) => {
        impl $lock {
            /// Creates a lock at `path`, an absolute path below the client's chroot. No I/O.
            ///
            /// # Errors
            /// [`Error::InvalidPath`](crate::Error::InvalidPath), which says which rule the path
            /// breaks.
            pub fn new(client: &$crate::Client, path: impl Into<String>) -> $crate::Result<$lock> {
                $lock::with_options(client, path, $crate::LockOptions::new())
            }

            /// Creates a lock like [`new`](Self::new), with these options.
            ///
            /// # Errors
            /// - [`Error::InvalidPath`](crate::Error::InvalidPath).
            /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument) for an identity that is
            ///   too long or would be read as a revocation request, and for an interval of
            ///   `on_queue_position` below 10 ms.
            pub fn with_options(
                client: &$crate::Client,
                path: impl Into<String>,
                options: $crate::LockOptions,
            ) -> $crate::Result<$lock> {
                let make: fn($crate::level::Site) -> $lock = $make;
                $crate::level::Site::new(client, &path.into(), options).map(make)
            }
        }
    };
}

pub(crate) use constructors;
pub(crate) use exclusive_methods;
