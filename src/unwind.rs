//! All handles may cross `catch_unwind`. A panic leaves nothing half done, because nothing that may
//! panic runs under a mutex (rule 10 of CONTRIBUTING.md). A guard that unwinds releases its hold.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::base::error::Error;
use crate::base::options::LockOptions;
use crate::base::wait::CancelToken;
use crate::client::{Client, ClientBuilder};
use crate::held::guard::{Guard, ReentrantGuard};
use crate::held::hold::Hold;
use crate::held::transaction::Transaction;
use crate::locks::any::{Lock, LockGuard};
use crate::locks::handle::LockHandle;
use crate::locks::leadership::{Leadership, Term};
use crate::locks::multi::MultiLock;
use crate::locks::rwlock::DistributedRwLock;
use crate::locks::semaphore::{DistributedSemaphore, Permits};
use crate::session::Subscription;

macro_rules! unwind_safe {
    ($($handle:ty),+ $(,)?) => {
        $(
            impl UnwindSafe for $handle {}
            impl RefUnwindSafe for $handle {}
        )+
    };
}

unwind_safe! {
    CancelToken, Client, ClientBuilder, LockOptions, Subscription, Error,
    DistributedRwLock, DistributedSemaphore, MultiLock, Leadership,
    Guard, ReentrantGuard, Permits, Hold, Term, Transaction,
}

impl<L: Lock> UnwindSafe for LockGuard<L> {}
impl<L: Lock> RefUnwindSafe for LockGuard<L> {}
impl<K, O> UnwindSafe for LockHandle<K, O> {}
impl<K, O> RefUnwindSafe for LockHandle<K, O> {}
