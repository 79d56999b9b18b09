//! `DistributedRwLock`: a downgrade, and queues of both sides, whose connection is lost.

mod interrupted;
mod resuming;

use common::Visitor;
use common::rwlock::rw_of;
