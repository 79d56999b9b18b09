//! `DistributedSemaphore`: permits and those who wait for some, whose answers, nodes or sessions are
//! lost.

mod deadlines;
mod faults;
mod losses;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::basics::await_nodes;
use common::semaphore::*;
use common::{
    Arrivals, SOON, Task, assert_cancelled, await_resumed, children, client, client_of, is_lost,
    never_two_inside, shared_proxy,
};
use zoolock::{Client, DistributedSemaphore, Error, Hold, HoldState, LossReason, Permits, Result};
use zoolock_test_support::{FaultProxy, fresh_path, shared_probe, wait_until};
