//! A server that says anything: seeded nonsense through frames, core and decoders, by the hundred
//! thousand.
//!
//! Feeds mutated bytes to the core. Whatever comes, the core does not panic, keeps nothing larger
//! than the bytes that came, answers every request once, and ends the connection with a reason.
//! This module knows the wire and the core, but no sockets and no threads.
//!
//! `ZOOLOCK_FUZZ_INPUTS` (200000, of a debug build 50000) or `ZOOLOCK_FUZZ_SECONDS` say for how
//! long, `ZOOLOCK_FUZZ_SEED` (1) where to begin: each input has a seed of its own, one more than
//! that of the input before. A failure prints its seed; with that and `ZOOLOCK_FUZZ_INPUTS=1` it
//! comes again.

mod corpus;
mod mutate;
mod texts;
mod world;

use std::env;
use std::time::{Duration, Instant};

use super::frames::Frames;
pub(super) use corpus::frame;
use texts::Tally;
use world::Asked;

/// From so many inputs on every text has to have been seen.
const ENOUGH: u64 = 50_000;

/// Numbers that look random and are the same for the same seed (xorshift64*).
#[derive(Debug)]
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Rng {
        // Seeds that follow one another shall not begin alike (splitmix64).
        let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Rng((state ^ (state >> 31)) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Less than `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 33) as usize) % end
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

fn setting(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    let number = text.trim().parse();
    Some(number.unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

#[test]
fn client_survives_any_bytes_and_answers_every_call_once() {
    let seconds = setting("ZOOLOCK_FUZZ_SECONDS");
    let inputs = setting("ZOOLOCK_FUZZ_INPUTS").unwrap_or(if cfg!(debug_assertions) {
        50_000
    } else {
        200_000
    });
    let first = setting("ZOOLOCK_FUZZ_SEED").unwrap_or(1);
    let asked = Asked::new();
    let (mut tally, mut spare) = (Tally::default(), Frames::new(world::LONGEST));
    let begun = Instant::now();
    let end = seconds.map(|seconds| begun + Duration::from_secs(seconds));
    let mut done = 0;
    while match end {
        Some(end) => Instant::now() < end,
        None => done < inputs,
    } {
        world::run(&asked, first.wrapping_add(done), &mut tally, &mut spare);
        done += 1;
    }
    let took = begun.elapsed();
    let speed = done as f64 / took.as_secs_f64();
    println!("{done} inputs from seed {first} on in {took:.1?}, {speed:.0} a second");
    println!("{tally}");
    if done >= ENOUGH {
        let missed = tally.missed();
        assert!(missed.is_empty(), "no input led to {missed:?}");
    }
}
