//! Measures how long the two judges take, for long histories of each lock and for many short ones.
//!
//! `cargo bench -p zoolock-judge [-- OPERATIONS]`

#[path = "../tests/made_up/mod.rs"]
mod made_up;

use std::env;
use std::time::{Duration, Instant};

use fastrand::Rng;
use zoolock_judge::{History, Judge, Linear, Linearized, Lock, Margins, Outage, Rules, Use};

const USES: [(&str, Use); 4] = [
    ("exclusive", Use::Exclusive),
    ("read-write", Use::ReadWrite),
    ("semaphore", Use::Semaphore(3)),
    ("ephemeral", Use::Ephemeral),
];
/// Holds of a history, which is about as much as a phase of the torture run has.
const HOLDS: usize = 20_000;
/// Of a short one.
const FEW_HOLDS: usize = 50;
const RULES: Rules = Rules { outage: Outage::Long, ..Rules::STRICT };

fn main() {
    let wanted = env::args().find_map(|argument| argument.parse().ok());
    long(wanted.unwrap_or(1_000_000));
    short(2_000);
}

fn long(wanted: usize) {
    println!(
        "lock          threads  operations     open     pieces      quiet  divided  first s  second s"
    );
    let mut sum = (Linearized::default(), Duration::ZERO);
    for threads in [4, 12, 32] {
        for (name, what) in USES {
            let locks = [Lock::new(name, what)];
            let (mut judge, mut linear) =
                (Judge::new(locks.to_vec(), Margins::EXACT), Linear::new(&locks));
            let (mut rng, mut lock) = (Rng::with_seed(7), made_up::Lock::new(0, what, threads));
            let (mut first, mut second) = (Duration::ZERO, Duration::ZERO);
            let mut found = Linearized::default();
            while found.operations < wanted / 12 {
                let mut history = History::new(0);
                lock.run(&mut history, &mut rng, HOLDS);
                let begun = Instant::now();
                let violations = judge.judge(&RULES, &history).violations;
                first += begun.elapsed();
                assert_eq!(violations, Vec::<String>::new());
                let begun = Instant::now();
                found.add(linear.check(&history));
                second += begun.elapsed();
            }
            assert_eq!(found.violations, Vec::<String>::new());
            println!(
                "{name:<12} {threads:>8} {:>11} {:>8} {:>10} {:>10} {:>8} {:>8.2} {:>9.2}",
                found.operations,
                found.open,
                found.pieces,
                found.quiet,
                found.divided,
                first.as_secs_f64(),
                second.as_secs_f64(),
            );
            sum.0.add(found);
            sum.1 += second;
        }
    }
    let (found, took) = sum;
    println!("{} operations in {:.1} s by the second judge", found.operations, took.as_secs_f64());
}

/// Each with a judge of its own.
fn short(histories: u32) {
    let locks = USES.map(|(name, what)| Lock::new(name, what));
    let mut rng = Rng::with_seed(7);
    let made: Vec<History> = (0..histories)
        .map(|_| {
            let mut history = History::new(0);
            for (path, (_, what)) in USES.into_iter().enumerate() {
                let mut lock = made_up::Lock::new(path, what, 6);
                lock.run(&mut history, &mut rng, FEW_HOLDS / USES.len());
            }
            history
        })
        .collect();
    let begun = Instant::now();
    for history in &made {
        let found = Judge::new(locks.to_vec(), Margins::EXACT).judge(&RULES, history);
        assert_eq!(found.violations, Vec::<String>::new());
    }
    let first = begun.elapsed();
    let begun = Instant::now();
    for history in &made {
        assert_eq!(Linear::new(&locks).check(history).violations, Vec::<String>::new());
    }
    println!(
        "a history of {FEW_HOLDS} holds at {} locks: {:?} by the first judge, {:?} by the second",
        locks.len(),
        first / histories,
        begun.elapsed() / histories,
    );
}
