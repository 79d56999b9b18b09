//! `DistributedRwLock`: readers together, a writer alone, in the order of their arrival.

mod abnormal;
mod downgrade;
mod ending;
mod nesting;
mod order;
mod read;
mod waking;
mod write;

use common::Visitor;
use common::rwlock::{Stage, assert_not_held, rw_of, would_deadlock};
