//! Runs seeds, reports how fast and what they covered, and prints the trace of a failing seed.

mod runs;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use zoolock_simulation::{ENOUGH, Plan, gaps, named, run, shrink};

/// Runs the whole library, locks and client, on simulated machines. The seed determines every schedule and fault.
#[derive(Parser)]
struct Args {
    /// Number of seeds to run
    #[arg(long, value_name = "N", default_value_t = 1000)]
    seeds: u64,
    /// First seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Number of workers that run seeds in parallel
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Continue after a failing seed, and do not explain the first one
    #[arg(long)]
    keep_going: bool,
    /// Fail if an event that has to occur never does [default: true from 10000 seeds on]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    coverage: Option<bool>,
    /// Print the whole trace of the first seed, whether it fails or not
    #[arg(long)]
    trace: bool,
    /// Fail only if a history is not linearizable
    #[arg(long)]
    linearizable: bool,
    /// Print seeds whose plans reach an event that fewer than one in a hundred seeds reach, for `plan/rare.rs`
    #[arg(long)]
    rare: bool,
    /// Print a hash of all runs, which is the same on every machine
    #[arg(long)]
    hash: bool,
    /// Print the totals of the seeds for the process that started this one
    #[arg(long, hide = true)]
    worker: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.worker {
        let printed = runs::be_worker(&args);
        return ExitCode::from(u8::from(printed.is_err()));
    }
    if args.trace {
        return print_trace(&Plan::of(args.from));
    }
    let begun = Instant::now();
    let total = runs::run_all(&args);
    for (seed, violations) in &total.failed {
        println!("seed {seed}: {}", violations.join("\n    "));
    }
    if let (Some((seed, _)), false) = (total.failed.first_key_value(), args.keep_going) {
        let smaller =
            shrink(&Plan::of(*seed), |left, of| eprintln!("  {left} of {of} faults and calls"));
        print_trace(&smaller);
        println!("the whole trace: --trace --from {seed}");
    }
    total.report(begun.elapsed());
    if args.rare {
        println!("{:?}", total.rare());
    }
    for (what, event) in &total.events {
        println!("{:>12}  {}", event.count, named(what));
    }
    let gaps = match args.coverage.unwrap_or(total.done >= ENOUGH) {
        true => gaps(|what| total.events.contains_key(what)),
        false => Vec::new(),
    };
    gaps.iter().for_each(|gap| println!("{gap}"));
    if args.hash {
        println!("hash {:016x}", total.hash);
    }
    ExitCode::from(u8::from(!(total.failed.is_empty() && gaps.is_empty())))
}

/// Prints the trace and the violations of a run.
fn print_trace(plan: &Plan) -> ExitCode {
    let outcome = run(plan, true);
    outcome.trace.iter().for_each(|line| println!("{line}"));
    outcome.violations.iter().for_each(|line| println!("VIOLATED: {line}"));
    ExitCode::from(u8::from(!outcome.violations.is_empty()))
}
