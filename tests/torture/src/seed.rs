//! One seed for the run, and one derived from it for everything that makes choices.

use fastrand::Rng;

/// The generator of one process, thread or phase. The same numbers give the same choices,
/// whatever the others do.
pub(crate) fn rng(seed: u64, parts: &[u64]) -> Rng {
    let mix = |seed: u64, part: &u64| Rng::with_seed(seed.rotate_left(17) ^ part).u64(..);
    Rng::with_seed(parts.iter().fold(seed, mix))
}
