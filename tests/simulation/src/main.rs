//! Runs seeds, says how fast and what occurred, and tells the story of one that fails.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write, stderr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use zoolock_judge::Linearized;
use zoolock_simulation::{ENOUGH, Outcome, Plan, gaps, named, run, shrink};

/// Runs the whole library, locks and client, on simulated machines: every schedule and every fault from a seed.
#[derive(Parser)]
struct Args {
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 1000)]
    seeds: u64,
    /// The first one
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Ends after so many seconds, whatever is left
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// So many seeds at a time, each on a processor
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Goes on behind a seed that fails
    #[arg(long)]
    keep_going: bool,
    /// Makes no failing seed smaller, and tells no story
    #[arg(long)]
    brief: bool,
    /// Fails if something that has to occur never does; by itself with 10000 seeds and more
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    coverage: Option<bool>,
    /// Tells the story of the first seed, whole, whatever comes of it
    #[arg(long)]
    story: bool,
    /// Writes the history of the first seed for Knossos
    #[arg(long, value_name = "FILE")]
    edn: Option<PathBuf>,
    /// Fails only for histories that are not linearizable
    #[arg(long)]
    linearizable: bool,
    /// Prints what stands for all runs: two machines that print the same have run the same
    #[arg(long)]
    hash: bool,
    /// Runs with a bug made on purpose: the name of a patch of tests/teeth
    #[arg(long, value_name = "NAME")]
    bug: Option<String>,
}

/// What all runs have come to.
#[derive(Default)]
struct Total {
    done: u64,
    calls: u64,
    faults: u64,
    time: Duration,
    hash: u64,
    counts: BTreeMap<&'static str, u64>,
    linearized: Linearized,
    failed: BTreeMap<u64, Vec<String>>,
}

impl Total {
    fn add(&mut self, seed: u64, outcome: Outcome, violations: Vec<String>) {
        self.done += 1;
        self.calls += outcome.calls;
        self.time += outcome.time;
        // In any order.
        self.hash = self.hash.wrapping_add(outcome.hash ^ seed);
        for (what, count) in outcome.counts {
            if what.starts_with("fault: ") {
                self.faults += count;
            }
            *self.counts.entry(what).or_default() += count;
        }
        self.linearized.add(outcome.linearized);
        if !violations.is_empty() {
            self.failed.insert(seed, violations);
        }
    }

    fn report(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let rate = |count: f64| count / seconds;
        println!(
            "{} schedules in {seconds:.1} s, each second {:.0} with {:.0} calls, {:.0} faults and {:.2} simulated hours; {} failed",
            self.done,
            rate(self.done as f64),
            rate(self.calls as f64),
            rate(self.faults as f64),
            rate(self.time.as_secs_f64() / 3600.0),
            self.failed.len(),
        );
        let Linearized { operations, open, undecided, .. } = self.linearized;
        println!(
            "{operations} operations judged for linearizability, {open} of them without a known outcome; {undecided} pieces undecided"
        );
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(bug) = &args.bug {
        return with_bug(bug, &args);
    }
    if let Some(file) = &args.edn {
        return write_history(&Plan::of(args.from), file);
    }
    if args.story {
        return tell(&Plan::of(args.from));
    }
    let begun = Instant::now();
    let total = run_all(&args, begun);
    for (seed, violations) in &total.failed {
        println!("seed {seed}: {}", violations.join("\n    "));
    }
    let is_brief = args.keep_going || args.brief;
    if let (Some((seed, _)), false) = (total.failed.first_key_value(), is_brief) {
        let smaller =
            shrink(&Plan::of(*seed), |left, of| eprintln!("  {left} of {of} faults and calls"));
        tell(&smaller);
        println!("the whole story: --story --from {seed}");
    }
    total.report(begun.elapsed());
    for (what, count) in &total.counts {
        println!("{count:>12}  {}", named(what));
    }
    let gaps = match args.coverage.unwrap_or(total.done >= ENOUGH) {
        true => gaps(&total.counts),
        false => Vec::new(),
    };
    gaps.iter().for_each(|gap| println!("{gap}"));
    if args.hash {
        println!("hash {:016x}", total.hash);
    }
    ExitCode::from(u8::from(!(total.failed.is_empty() && gaps.is_empty())))
}

fn run_all(args: &Args, begun: Instant) -> Total {
    let total = Mutex::new(Total::default());
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = || {
        while !is_over.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let is_late = args.seconds.is_some_and(|most| begun.elapsed().as_secs() >= most);
            if number >= args.seeds || is_late {
                return;
            }
            let seed = args.from + number;
            let outcome = run(&Plan::of(seed), false);
            let violations = match args.linearizable {
                true => &outcome.linearized.violations,
                false => &outcome.violations,
            };
            let violations = violations.clone();
            if !violations.is_empty() && !args.keep_going {
                is_over.store(true, Ordering::Relaxed);
            }
            let mut total = total.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            total.add(seed, outcome, violations);
            if stderr().is_terminal() && total.done.is_multiple_of(100) {
                eprint!("\r{} of {} ", total.done, args.seeds);
                let _ = stderr().flush();
            }
        }
    };
    thread::scope(|scope| {
        (0..args.jobs.max(1)).for_each(|_| drop(scope.spawn(work)));
    });
    total.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Tells what happens in a run.
fn tell(plan: &Plan) -> ExitCode {
    let outcome = run(plan, true);
    outcome.story.iter().for_each(|line| println!("{line}"));
    outcome.violations.iter().for_each(|line| println!("VIOLATED: {line}"));
    ExitCode::from(u8::from(!outcome.violations.is_empty()))
}

fn write_history(plan: &Plan, file: &Path) -> ExitCode {
    let written = File::create(file).map(BufWriter::new);
    match written.and_then(|to| run(plan, false).write_history(to)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed to write {}: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}

/// Builds it with the bug, and runs that.
fn with_bug(bug: &str, args: &Args) -> ExitCode {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("bug");
    let mut command = Command::new(&script);
    command.args([bug, "--seeds", &args.seeds.to_string(), "--from", &args.from.to_string()]);
    // What a bug keeps from occurring is not what is looked for.
    command.arg("--coverage=false");
    let flags = [
        ("--story", args.story),
        ("--keep-going", args.keep_going),
        ("--brief", args.brief),
        ("--hash", args.hash),
        ("--linearizable", args.linearizable),
    ];
    command.args(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag));
    let error = command.exec();
    eprintln!("{}: {error}", script.display());
    ExitCode::FAILURE
}
