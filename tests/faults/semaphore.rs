//! `DistributedSemaphore`: permits and those who wait for some, whose answers, nodes or sessions are
//! lost.

mod deadlines;
mod faults;
mod losses;

use common::semaphore::*;
