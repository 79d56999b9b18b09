//! All handles may cross `catch_unwind`: a panic leaves nothing half done, since nothing that may panic runs under a
//! mutex (rule 10 of CONTRIBUTING.md). A hold whose guard unwinds is given back.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::{
    Client, ClientBuilder, DistributedLock, DistributedReentrantLock, DistributedRwLock,
    DistributedSemaphore, EphemeralLock, Error, Guard, Hold, Leadership, Lock, LockOptions, Locker,
    MultiLock, Permits, ReadLock, ReentrantGuard, Subscription, Term, Transaction, WriteLock,
};

macro_rules! unwind_safe {
    ($($handle:ty),+ $(,)?) => {
        $(
            impl UnwindSafe for $handle {}
            impl RefUnwindSafe for $handle {}
        )+
    };
}

unwind_safe! {
    Client, ClientBuilder, LockOptions, Subscription, Error,
    DistributedLock, DistributedReentrantLock, DistributedRwLock, ReadLock, WriteLock,
    DistributedSemaphore, MultiLock, EphemeralLock, Leadership,
    Guard, ReentrantGuard, Permits, Hold, Term, Transaction,
}

impl<L: Lock + ?Sized> UnwindSafe for Locker<'_, L> {}
impl<L: Lock + ?Sized> RefUnwindSafe for Locker<'_, L> {}
