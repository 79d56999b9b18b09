//! The client's clocks, which are not the real time.

use std::time::{Duration, Instant};

use super::super::clock::Moment;
use super::stage::Time;

/// Both clocks, as far as real time has come.
pub(super) struct Clocks {
    base: Moment,
    at: Time,
    /// Nanoseconds since the base.
    monotonic: u64,
    system: i64,
    /// How far they run slow, in millionths.
    slow: u64,
}

impl Clocks {
    pub(super) fn new(slow: u64) -> Clocks {
        Clocks { base: Moment::now(), at: 0, monotonic: 0, system: 0, slow }
    }

    fn passes(&mut self, to: Time) -> u64 {
        let real = to.saturating_sub(self.at) * 1000;
        self.at = self.at.max(to);
        real - real / 1_000_000 * self.slow
    }

    pub(super) fn advance(&mut self, to: Time) {
        let passed = self.passes(to);
        self.monotonic += passed;
        self.system += passed as i64;
    }

    /// The machine is suspended until then.
    pub(super) fn sleep(&mut self, until: Time) {
        self.system += self.passes(until) as i64;
    }

    /// The system clock is set.
    pub(super) fn set(&mut self, by: i64) {
        self.system += by * 1000;
    }

    pub(super) fn moment(&self) -> Moment {
        let ahead = Duration::from_nanos(self.system.unsigned_abs());
        let system = match self.system >= 0 {
            true => self.base.system + ahead,
            false => self.base.system - ahead,
        };
        Moment { monotonic: self.base.monotonic + Duration::from_nanos(self.monotonic), system }
    }

    /// How long `passed` by these clocks takes, rounded up.
    pub(super) fn real(&self, passed: Duration) -> Time {
        let nanos = passed.as_nanos() as f64 / (1.0 - self.slow as f64 / 1e6);
        (nanos / 1000.0).ceil() as Time + 1
    }

    /// When the monotonic clock shows this, if it never stands still.
    pub(super) fn when(&self, instant: Instant) -> Time {
        self.at + self.real(instant.saturating_duration_since(self.moment().monotonic))
    }

    /// Since the run began, for people.
    pub(super) fn shown(&self, instant: Instant) -> f64 {
        instant.saturating_duration_since(self.base.monotonic).as_secs_f64()
    }
}
