//! `EphemeralLock`: a single node, whose answers, connection or session are lost.

mod losing;

use std::time::{Duration, Instant};

use common::basics::hold_of;
use common::single::*;
use common::{SOON, assert_lost, client, client_of, exists, shared_proxy};
use zoolock::{Error, HoldState, LossReason};
use zoolock_test_support::{Direction, connect_string, fresh_path, shared_probe, wait_until};
