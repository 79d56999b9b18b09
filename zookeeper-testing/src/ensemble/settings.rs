//! The settings of an ensemble.

use std::time::Duration;

use crate::access::ReadRules;

/// Nanoseconds since the ensemble began.
pub(super) type Time = u64;

/// Shorter sessions would end on any busy machine.
const SHORTEST: Duration = Duration::from_millis(50);

/// The settings of an ensemble.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The number of servers, all of which vote.
    pub servers: usize,
    /// `tickTime`. A session timeout is 2 to 20 ticks, and a session ends at the next tick.
    pub tick: Duration,
    /// The least time that a message takes from one server to another.
    pub hop: Duration,
    /// The longest additional time.
    pub jitter: Duration,
    /// The longest time until a quorum has a proposal. The shortest is half of it.
    pub quorum: Duration,
    /// How long a server continues at most without its leader, or a leader without a quorum.
    pub sync_limit: Duration,
    /// What clients can find out about nodes that they may not read.
    pub rules: ReadRules,
    /// The longest time between two searches for empty containers.
    pub containers: Duration,
    /// The first instant, in milliseconds since 1970.
    pub wall: i64,
    /// Whether pings are answered before requests in flight.
    pub overtaking: bool,
    /// Whether events have the transaction's number, as in servers from 3.9 on.
    pub numbered_events: bool,
    /// How often a server reports that it is overloaded (`THROTTLEDOP`).
    pub throttle: f64,
    /// Whether nothing depends on chance. Sessions are then as short as clients request, from 50 ms
    /// on. They end exactly in time, not at the next tick, and their connections end first. Empty
    /// containers are removed in time.
    pub exact: bool,
    /// Whether committed transactions are kept until they are taken.
    pub recorded: bool,
    /// Whether sessions are like those of ClickHouse Keeper: each ends with its connection, cannot
    /// be resumed, and does not have a password.
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

    /// Returns the timeout that a session gets, in whole milliseconds.
    pub(super) fn granted(&self, asked: i32) -> Time {
        let asked = Duration::from_millis(u64::try_from(asked).unwrap_or_default());
        let granted = match self.exact {
            true => asked.max(SHORTEST),
            false => asked.clamp(self.tick * 2, self.tick * 20),
        };
        granted.as_millis() as Time * 1_000_000
    }

    /// Returns when a session ends whose last sign of life is now.
    pub(super) fn deadline(&self, now: Time, timeout: Time) -> Time {
        match self.exact {
            true => now + timeout,
            // As in `ExpiryQueue.roundToNextInterval`.
            false => ((now + timeout) / self.tick() + 1) * self.tick(),
        }
    }
}
