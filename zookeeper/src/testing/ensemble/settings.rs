//! What an ensemble is like.

use std::time::Duration;

use super::super::access::ReadRules;

/// Nanoseconds since the ensemble began.
pub(super) type Time = u64;

/// Shorter sessions would end on any busy machine.
const SHORTEST: Duration = Duration::from_millis(50);

/// What an ensemble is like.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many servers there are; all of them vote.
    pub servers: usize,
    /// As `tickTime`: a session timeout has 2 to 20 of them, and ends at the next one.
    pub tick: Duration,
    /// The least time that a message takes from one server to another.
    pub hop: Duration,
    /// How much longer it may take.
    pub jitter: Duration,
    /// The most time that a quorum takes until it has a proposal; half of it is the least.
    pub quorum: Duration,
    /// How long a server goes on without its leader at the most, and a leader without a quorum.
    pub sync_limit: Duration,
    /// What clients learn of nodes that they may not read.
    pub rules: ReadRules,
    /// Empty containers are looked for after this time at the most.
    pub containers: Duration,
    /// What the first instant is in milliseconds since 1970.
    pub wall: i64,
    /// Whether pings are answered before what is under way.
    pub overtaking: bool,
    /// Whether events bear the transaction's number, as those of servers from 3.9 on.
    pub numbered_events: bool,
    /// How often a server has too much to do and answers so (-127).
    pub throttle: f64,
    /// Whether nothing depends on chance: sessions are as short as clients ask for, from 50 ms on, and end when their
    /// time is over and not at the next tick, their connections first; containers are looked for in time.
    pub exact: bool,
    /// Whether what is committed is kept until it is taken.
    pub recorded: bool,
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

    /// The timeout that a session gets: whole milliseconds.
    pub(super) fn granted(&self, asked: i32) -> Time {
        let asked = Duration::from_millis(u64::try_from(asked).unwrap_or_default());
        let granted = match self.exact {
            true => asked.max(SHORTEST),
            false => asked.clamp(self.tick * 2, self.tick * 20),
        };
        granted.as_millis() as Time * 1_000_000
    }

    /// When a session ends that was heard of now.
    pub(super) fn deadline(&self, now: Time, timeout: Time) -> Time {
        match self.exact {
            true => now + timeout,
            // As `ExpiryQueue.roundToNextInterval` has it.
            false => ((now + timeout) / self.tick() + 1) * self.tick(),
        }
    }
}
