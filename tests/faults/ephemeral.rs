//! `EphemeralLock`: a single node, whose answers, connection or session are lost.

mod answers;
mod unlocking;

use std::thread;
use std::time::{Duration, Instant};

use common::basics::{self, hold_of};
use common::single::*;
use common::{
    BRIEFLY, PROBES, SESSION, SOON, Task, assert_cancelled, assert_lost, client, client_of, exists,
    last_transaction, packets, shared_proxy,
};
use zoolock::{Client, EphemeralLock, Error, Guard, HoldState, LockOptions, LossReason, Result};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Server, Stat, Then, connect_string, fresh_path, shared_probe,
    wait_until,
};
