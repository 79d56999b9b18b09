//! All handles may cross `catch_unwind`. A panic never leaves an inconsistent state, because code that
//! may panic does not run under a mutex, and panics of callbacks are caught.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::builder::Builder;
use crate::client::{LeaseKeeper, ZooKeeper};
use crate::listener::Watcher;
use crate::pending::Pending;

impl UnwindSafe for ZooKeeper {}
impl RefUnwindSafe for ZooKeeper {}
impl UnwindSafe for Builder {}
impl RefUnwindSafe for Builder {}
impl UnwindSafe for LeaseKeeper {}
impl RefUnwindSafe for LeaseKeeper {}
impl UnwindSafe for Watcher {}
impl RefUnwindSafe for Watcher {}
impl<T> UnwindSafe for Pending<T> {}
impl<T> RefUnwindSafe for Pending<T> {}
