//! `DistributedRwLock`: readers together, a writer alone, in the order of their arrival.

mod abnormal;
mod downgrade;
mod order;
mod sides;
mod waking;

use common::Visitor;
use common::rwlock::{Stage, assert_not_held, rw_of, would_deadlock};
