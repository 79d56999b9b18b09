//! All handles may cross `catch_unwind`: a panic leaves nothing half done, since nothing that may
//! panic runs under a mutex (rule 10 of CONTRIBUTING.md). A hold whose guard unwinds is given back.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::{
    Client, ClientBuilder, DistributedRwLock, DistributedSemaphore, Error, Guard, Hold, Leadership,
    LockHandle, LockOptions, Locker, MultiLock, Permits, ReentrantGuard, Subscription, Term,
    Transaction,
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
    DistributedRwLock, DistributedSemaphore, MultiLock, Leadership,
    Guard, ReentrantGuard, Locker<'_>, Permits, Hold, Term, Transaction,
}

impl<K, O> UnwindSafe for LockHandle<K, O> {}
impl<K, O> RefUnwindSafe for LockHandle<K, O> {}
