//! Runs seeds, says how fast and what occurred, and tells the story of one that fails.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use zoolock_simulation::{Plan, run, shrink};

/// Runs the library, locks and client, under simulated schedules and faults.
#[derive(Parser)]
struct Args {
    /// How many seeds.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Ends after so many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Prints the hash of all runs.
    #[arg(long)]
    hash: bool,
    /// Goes on behind a failure.
    #[arg(long)]
    keep_going: bool,
    /// Tells the story of the first seed, whatever comes of it.
    #[arg(long)]
    story: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.story {
        let outcome = run(&Plan::of(args.from), true);
        outcome.story.iter().for_each(|line| println!("{line}"));
        outcome.violations.iter().for_each(|line| println!("VIOLATED: {line}"));
        return ExitCode::from(u8::from(!outcome.violations.is_empty()));
    }
    let begun = Instant::now();
    let (mut all, mut calls, mut time, mut done, mut failed) =
        (BTreeMap::new(), 0, Duration::ZERO, 0_u64, 0_u64);
    let mut hash = 0_u64;
    for seed in args.from..args.from + args.seeds {
        if args.seconds.is_some_and(|most| begun.elapsed().as_secs() >= most) {
            break;
        }
        let plan = Plan::of(seed);
        let outcome = run(&plan, false);
        done += 1;
        calls += outcome.calls;
        time += outcome.time;
        hash = hash.rotate_left(7) ^ outcome.hash;
        for (what, count) in &outcome.counts {
            *all.entry(*what).or_insert(0) += count;
        }
        if !outcome.violations.is_empty() {
            failed += 1;
            println!("seed {seed}: {}", outcome.violations.join("\n    "));
            if !args.keep_going {
                explain(&plan);
                break;
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{done} schedules in {seconds:.1} s: {:.0} a second, {:.0} calls and {:.2} simulated hours a second; {failed} failed",
        done as f64 / seconds,
        calls as f64 / seconds,
        time.as_secs_f64() / 3600.0 / seconds,
    );
    if args.hash {
        println!("hash {hash:016x}");
    }
    for (what, count) in &all {
        println!("{count:>10}  {what}");
    }
    ExitCode::from(u8::from(failed > 0))
}

/// Makes it smaller, and tells what happens.
fn explain(plan: &Plan) {
    println!("made smaller:");
    let (smaller, _) = shrink(plan, |left, of| eprintln!("  {left} of {of} faults and calls"));
    let outcome = run(&smaller, true);
    outcome.story.iter().for_each(|line| println!("{line}"));
    outcome.violations.iter().for_each(|line| println!("VIOLATED: {line}"));
    println!(
        "to see the whole: cargo run --release -p zoolock-simulation -- --story --from {}",
        plan.seed
    );
}
