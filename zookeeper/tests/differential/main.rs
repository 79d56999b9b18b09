//! The server of `testing` beside a real one: the same random operations by the same clients must have the same
//! answers and the same events on both. Names, data, errors, versions, transactions and owners are compared;
//! only clocks are not.
//!
//! `ZOOLOCK_SEED` runs one schedule, which a failure names.

mod side;
mod step;

use std::env;

use fastrand::Rng;
use zoolock_test_support::Server;
use zoolock_zookeeper::testing;

use side::Side;
use step::Step;

const SEEDS: u64 = 8;
const STEPS: usize = 150;

#[test]
fn it_answers_and_tells_as_a_real_server_does() {
    let real = Server::start().expect("a server");
    let ours = testing::Server::start().expect("a server");
    let seed = env::var("ZOOLOCK_SEED").ok().map(|seed| seed.parse::<u64>().expect("a number"));
    let seeds = seed.map_or(1..=SEEDS, |seed| seed..=seed);
    let (mut refused, mut told, mut created) = (0, 0, 0);
    for seed in seeds {
        let mut rng = Rng::with_seed(seed);
        let root = format!("/differential-{seed}");
        let mut sides = [Side::new(real.address(), &root), Side::new(ours.address(), &root)];
        let (mut paths, mut log) = (Vec::new(), Vec::new());
        for number in 0..STEPS {
            let step = Step::random(&mut rng, &root, &paths);
            let [expected, seen] = sides.each_mut().map(|side| side.take(&step));
            log.push(format!("{number} {step:?}: {}", expected.text));
            assert_eq!(expected, seen, "seed {seed}: the real server first\n{}", log.join("\n"));
            refused += usize::from(expected.text.starts_with("Err"));
            told += expected.events.len();
            paths.extend(expected.created);
        }
        created += paths.len();
        println!("seed {seed} and before: {refused} refused, {told} events, {created} nodes");
    }
    assert!(refused > STEPS / 10 && told > STEPS / 10 && created > STEPS / 10, "it is no test");
}
