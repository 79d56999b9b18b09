//! Runs many seeds in worker processes. When a worker ends, memory that killed clients have leaked is freed. If a
//! worker crashes, its seeds are reported.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zoolock_checker::Linearized;
use zoolock_simulation::{Outcome, Plan, run};

use crate::Args;

/// The number of seeds that one worker process runs.
const CHUNK: u64 = 2_000;
/// For each rare event, how many plans that reach it are run again.
const AGAIN: usize = 2;

/// How often an event occurred, and which seeds reached it.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) count: u64,
    seeds: u64,
    /// The first seeds that reach the event, not counting seeds that use another seed's plan.
    first: Vec<u64>,
}

impl Event {
    fn add(&mut self, other: Event) {
        self.count += other.count;
        self.seeds += other.seeds;
        self.first.extend(other.first);
        self.first.sort_unstable();
        self.first.truncate(AGAIN);
    }
}

/// The totals of many runs.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Total {
    pub(crate) done: u64,
    pub(crate) hash: u64,
    pub(crate) events: BTreeMap<String, Event>,
    linearized: Linearized,
    pub(crate) failed: BTreeMap<u64, Vec<String>>,
}

impl Total {
    fn of(seed: u64, outcome: Outcome, violations: Vec<String>) -> Total {
        let Outcome { hash, counts, linearized, .. } = outcome;
        let first = if Plan::is_again(seed) { Vec::new() } else { vec![seed] };
        let event = |count| Event { count, seeds: 1, first: first.clone() };
        let events = counts.into_iter().map(|(what, count)| (what.to_owned(), event(count)));
        let failed = (!violations.is_empty()).then_some((seed, violations));
        let (events, failed) = (events.collect(), failed.into_iter().collect());
        Total { done: 1, hash: hash ^ seed, events, linearized, failed }
    }

    /// Adds another total. The result does not depend on the order in which totals are added.
    fn merge(&mut self, other: Total) {
        self.done += other.done;
        self.hash = self.hash.wrapping_add(other.hash);
        for (what, event) in other.events {
            self.events.entry(what).or_default().add(event);
        }
        self.linearized.add(other.linearized);
        self.failed.extend(other.failed);
    }

    /// Returns the seeds whose plans reach an event that fewer than one in a hundred seeds reach.
    pub(crate) fn rare(&self) -> BTreeSet<u64> {
        let rare = self.events.values().filter(|event| event.seeds < self.done / 100);
        rare.flat_map(|event| &event.first).copied().collect()
    }

    pub(crate) fn report(&self, took: Duration) {
        println!("{} schedules in {took:.1?}; {} failed", self.done, self.failed.len());
        let Linearized { operations, open, undecided, .. } = self.linearized;
        println!(
            "linearizable: {operations} operations, {open} open; {undecided} pieces undecided"
        );
    }
}

/// Runs all seeds, with `args.jobs` workers at a time.
pub(crate) fn run_all(args: &Args) -> Total {
    let total = Mutex::new(Total::default());
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = || {
        loop {
            let number = next.fetch_add(CHUNK, Ordering::Relaxed);
            if number >= args.seeds || is_over.load(Ordering::Relaxed) {
                return;
            }
            let (from, seeds) = (args.from + number, CHUNK.min(args.seeds - number));
            let done = in_worker(args, from, seeds).unwrap_or_else(|problem| Total {
                failed: BTreeMap::from([(from, vec![problem])]),
                ..Total::default()
            });
            if !done.failed.is_empty() && !args.keep_going {
                is_over.store(true, Ordering::Relaxed);
            }
            total.lock().unwrap_or_else(PoisonError::into_inner).merge(done);
        }
    };
    thread::scope(|scope| {
        (0..args.jobs.max(1)).for_each(|_| drop(scope.spawn(work)));
    });
    total.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Runs some seeds in a worker process.
fn in_worker(args: &Args, from: u64, seeds: u64) -> Result<Total, String> {
    let worker = || -> io::Result<Total> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--worker", "--from", &from.to_string(), "--seeds", &seeds.to_string()]);
        command.args(args.keep_going.then_some("--keep-going"));
        command.args(args.linearizable.then_some("--linearizable"));
        let output = command.stderr(Stdio::inherit()).output()?;
        match output.status.success() {
            true => Ok(serde_json::from_slice(&output.stdout)?),
            false => Err(io::Error::other(output.status.to_string())),
        }
    };
    worker().map_err(|error| format!("the worker of {seeds} seeds from {from} on failed: {error}"))
}

/// Runs a worker's seeds, and prints their total for [`in_worker`].
pub(crate) fn be_worker(args: &Args) -> io::Result<()> {
    let mut total = Total::default();
    for seed in args.from..args.from + args.seeds {
        let outcome = run(&Plan::of(seed), false);
        let violations = match args.linearizable {
            true => outcome.linearized.violations.clone(),
            false => outcome.violations.clone(),
        };
        let has_failed = !violations.is_empty();
        total.merge(Total::of(seed, outcome, violations));
        if has_failed && !args.keep_going {
            break;
        }
    }
    serde_json::to_writer(io::stdout(), &total)?;
    Ok(())
}
