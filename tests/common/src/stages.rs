//! Clients behind proxies.

use std::time::Duration;

use zoolock::{Client, DistributedLock};
use zoolock_test_support::{FaultProxy, fresh_path};

use super::{client_of, lock_of, shared_proxy};

/// A client behind a proxy of its own, and a lock of it.
pub struct Stage {
    pub proxy: FaultProxy,
    pub client: Client,
    pub path: String,
    pub lock: DistributedLock,
}

impl Stage {
    pub fn new(name: &str, session_timeout: Duration) -> Stage {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), session_timeout);
        let path = fresh_path(name);
        let lock = lock_of(&client, &path);
        Stage { proxy, client, path, lock }
    }
}

/// A client that knows two ways to the shared server, and uses the first.
pub struct TwoWays {
    pub first: FaultProxy,
    pub second: FaultProxy,
    pub client: Client,
}

impl TwoWays {
    pub fn start(session_timeout: Duration) -> TwoWays {
        let (first, second) = (shared_proxy(), shared_proxy());
        let hosts = format!("{},{}", first.connect_string(), second.connect_string());
        second.refuse(true);
        let client = client_of(&hosts, session_timeout);
        second.refuse(false);
        TwoWays { first, second, client }
    }

    /// Ends the first way, so that only the second is left.
    pub fn leave_the_first(&self) {
        self.first.refuse(true);
        self.first.cut();
    }

    pub fn log(&self) -> String {
        let (first, second) = (self.first.log(), self.second.log());
        format!("first way:\n{first:#?}\nsecond way:\n{second:#?}")
    }
}
