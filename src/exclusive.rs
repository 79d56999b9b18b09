//! The methods that every lock with one hold has, and how lock objects are made, written once: the types differ in what a hold is
//! and who owns it, which is for their [`TwoLevel`](crate::level::TwoLevel) or
//! [`Readers`](crate::level::Readers).

/// Implements them, and [`Lock`](crate::Lock), for a type whose `.inner` is an `Arc` of one of
/// these. `$guard` is what its `acquire` returns.
macro_rules! exclusive_methods {
    ($lock:ident, $guard:ty) => {
        impl $lock {
            /// The lock's path.
            #[must_use]
            pub fn path(&self) -> &str {
                self.inner.path()
            }

            /// Locks, waiting for as long as it takes, also for a connection.
            ///
            /// # Errors
            /// [`Cancelled`](crate::Error::Cancelled), [`Closed`](crate::Error::Closed),
            /// [`Denied`](crate::Error::Denied), [`Limit`](crate::Error::Limit), and what the
            /// type's documentation adds.
            pub fn lock(&self) -> $crate::Result<()> {
                self.inner.acquire($crate::level::Patience::Until(None)).map(drop)
            }

            /// Locks if nobody else holds the lock, in this process or another. Waits for the
            /// servers' answers only, for at most a third of the session timeout.
            ///
            /// # Errors
            /// As [`lock`](Self::lock); and [`Disconnected`](crate::Error::Disconnected) if it is
            /// not known whether the lock is free.
            pub fn try_lock(&self) -> $crate::Result<bool> {
                let got = self.inner.acquire($crate::level::Patience::Try)?;
                Ok(got.is_some())
            }

            /// Locks, waiting for `timeout` at most, connection and all. A timeout that the clock
            /// cannot hold is none; zero is [`try_lock`](Self::try_lock).
            ///
            /// # Errors
            /// As [`try_lock_until`](Self::try_lock_until).
            pub fn try_lock_for(&self, timeout: std::time::Duration) -> $crate::Result<bool> {
                $crate::Lock::try_lock_for(self, timeout)
            }

            /// Locks, waiting until `deadline` at most, connection and all. False if somebody
            /// else was ahead until then.
            ///
            /// # Errors
            /// As [`lock`](Self::lock); and [`Disconnected`](crate::Error::Disconnected) if it is
            /// not known by then whether the lock is free.
            pub fn try_lock_until(&self, deadline: std::time::Instant) -> $crate::Result<bool> {
                let got = self.inner.acquire($crate::level::Patience::Until(Some(deadline)))?;
                Ok(got.is_some())
            }

            /// Unlocks once. Waits for the answer for at most a third of the session timeout;
            /// what has no answer by then is done in the background.
            ///
            /// # Errors
            /// [`Lost`](crate::Error::Lost) if the hold was lost: nothing of anybody else's was
            /// touched, and the lock can be used again. [`NotHeld`](crate::Error::NotHeld);
            /// [`Denied`](crate::Error::Denied) if its node must not be deleted, which then goes with
            /// the session; and what the type's documentation adds.
            pub fn unlock(&self) -> $crate::Result<()> {
                self.inner.release(None)
            }

            /// Locks until the returned guard is dropped; waits like [`lock`](Self::lock).
            ///
            /// # Errors
            /// As [`lock`](Self::lock).
            pub fn acquire(&self) -> $crate::Result<$guard> {
                let got = self.inner.acquire($crate::level::Patience::Until(None))?;
                // Without a deadline there is no coming back without the lock.
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

            /// Is the lock held, by the calling thread where a thread owns it? Reads the clocks;
            /// no I/O, never blocks.
            #[must_use]
            pub fn is_held(&self) -> bool {
                self.hold().is_some_and(|hold| hold.is_held())
            }

            /// The hold of the calling thread, or of the object where any thread may unlock: for
            /// token, loss and state after `lock()`. A lost hold is still there, until the
            /// unlock that reports it. No I/O, never blocks.
            #[must_use]
            pub fn hold(&self) -> Option<$crate::Hold> {
                self.inner.hold()
            }

            /// Who holds the lock, and who waits for it, in order; as
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

            /// Wakes the threads that wait on this object or a clone of it: their calls return
            /// [`Cancelled`](crate::Error::Cancelled), and their nodes are deleted. Calls that
            /// come later are not affected. Does not block.
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

/// Implements how a lock object is made, by a function from its [`Site`](crate::level::Site).
macro_rules! constructors {
    ($lock:ident, $make:expr) => {
        impl $lock {
            /// A lock at `path`, an absolute path below the client's chroot. No I/O.
            ///
            /// # Errors
            /// [`Error::InvalidPath`](crate::Error::InvalidPath) with the rule that the path breaks.
            pub fn new(client: &$crate::Client, path: impl Into<String>) -> $crate::Result<$lock> {
                $lock::with(client, path, $crate::LockOptions::new())
            }

            /// [`new`](Self::new), with other settings.
            ///
            /// # Errors
            /// [`Error::InvalidPath`](crate::Error::InvalidPath),
            /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for an identity that is too
            /// long, or would be read as a request to let go.
            pub fn with(
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
