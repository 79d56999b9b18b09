//! Random numbers that depend only on a seed.

/// The generator xorshift64*.
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Draws a number below `end`, or 0 if `end` is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        // The low bits are the least random.
        (self.next() >> 16) % end.max(1)
    }

    pub(super) fn is(&mut self, probability: f64) -> bool {
        probability > 0.0 && ((self.next() >> 11) as f64 / (1_u64 << 53) as f64) < probability
    }
}
