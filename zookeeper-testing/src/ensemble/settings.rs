//! The settings of an ensemble.

use std::time::Duration;

use crate::access::ReadRules;

/// Nanoseconds since the ensemble was created.
pub(super) type Time = u64;

/// Sessions with a shorter timeout would end whenever a machine is busy.
const SHORTEST: Duration = Duration::from_millis(50);

/// The settings of an ensemble.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The number of servers, all of which vote.
    pub servers: usize,
    /// `tickTime`. Session timeouts are from 2 to 20 ticks, and a session ends at the next tick after its timeout.
    pub tick: Duration,
    /// The shortest time that a message takes between two servers.
    pub hop: Duration,
    /// The longest additional time that a message may take.
    pub jitter: Duration,
    /// The longest time until a quorum has accepted a proposal. The shortest time is half of it.
    pub quorum: Duration,
    /// The longest time for which a server continues without its leader, or a leader without a quorum.
    pub sync_limit: Duration,
    /// What clients can find out about nodes that they may not read.
    pub rules: ReadRules,
    /// The longest time between two searches for containers that are empty.
    pub containers: Duration,
    /// The time at the beginning, in milliseconds since 1970.
    pub wall: i64,
    /// Whether pings are answered before requests in flight.
    pub overtaking: bool,
    /// Whether events contain the id of their transaction, as in ZooKeeper from 3.9 on.
    pub numbered_events: bool,
    /// The share of requests that a server refuses because it is overloaded (`THROTTLEDOP`).
    pub throttle: f64,
    /// Whether nothing is left to chance. Session timeouts are then as short as clients request, down to 50 ms. A
    /// session ends exactly at its timeout and not at the next tick, and its connection ends first. Empty containers
    /// are removed exactly on time.
    pub exact: bool,
    /// Whether committed transactions are recorded until they are taken.
    pub recorded: bool,
    /// Whether sessions behave like those of ClickHouse Keeper, which end with their connection, cannot be resumed, and
    /// have no password.
    pub keeper: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            servers: 1,
            tick: Duration::from_millis(500),
            hop: Duration::from_micros(200),
            jitter: Duration::from_micros(100),
            quorum: Duration::from_micros(500),
            sync_limit: Duration::from_millis(2500),
            rules: ReadRules::default(),
            containers: Duration::from_secs(60),
            wall: 1_800_000_000_000,
            overtaking: false,
            numbered_events: true,
            throttle: 0.0,
            exact: false,
            recorded: true,
            keeper: false,
        }
    }
}

pub(super) fn nanos(duration: Duration) -> Time {
    duration.as_nanos() as Time
}

impl Settings {
    pub(super) fn tick(&self) -> Time {
        nanos(self.tick).max(1)
    }

    /// Returns the timeout that is granted to a session, in whole milliseconds.
    pub(super) fn granted(&self, asked: i32) -> Time {
        let asked = Duration::from_millis(u64::try_from(asked).unwrap_or_default());
        let granted = match self.exact {
            true => asked.max(SHORTEST),
            false => asked.clamp(self.tick * 2, self.tick * 20),
        };
        granted.as_millis() as Time * 1_000_000
    }

    /// Returns when a session ends if its last sign of life is now.
    pub(super) fn deadline(&self, now: Time, timeout: Time) -> Time {
        match self.exact {
            true => now + timeout,
            // Like `ExpiryQueue.roundToNextInterval`.
            false => ((now + timeout) / self.tick() + 1) * self.tick(),
        }
    }
}
