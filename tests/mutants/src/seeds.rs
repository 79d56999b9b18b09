//! Runs seeds of the simulation: to find which mutants they reach, and to find out whether they detect a mutant.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process::{Process, Silence, map_all};

/// The number of seeds that one process runs. When it ends, memory that killed clients have leaked is freed.
const CHUNK: usize = 1_000;

/// The time limit for a seed, which normally takes a hundredth of a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns for each mutant the seeds that reach it, in order. No mutant is active in these runs, so no seed may fail.
pub(crate) fn reaching(
    runner: &Path,
    mutants: usize,
    seeds: u64,
    jobs: usize,
) -> Result<Vec<Vec<u64>>, String> {
    let seeds: Vec<u64> = (0..seeds).collect();
    let chunks: Vec<_> = seeds.chunks(CHUNK).collect();
    let answers = map_all(jobs, &chunks, |chunk| {
        let mut answers = Vec::new();
        let failed =
            run(runner, None, chunk, |seed, reached| answers.push((seed, reached.to_vec())));
        failed.map_or(Ok(answers), |(seed, what)| Err(format!("seed {seed}: {what}")))
    });
    let mut found = vec![Vec::new(); mutants];
    for answers in answers {
        for (seed, reached) in answers.map_err(|what| format!("without a mutant, {what}"))? {
            reached.into_iter().for_each(|number| found[number].push(seed));
        }
    }
    Ok(found)
}

/// Runs these seeds with a mutant until one of them detects it. Returns whether the mutant survives, and a description.
pub(crate) fn run_until_killed(runner: &Path, number: usize, seeds: &[u64]) -> (bool, String) {
    let mut runs = 0;
    let failing = |chunk| run(runner, Some(number), chunk, |_, _| runs += 1);
    let killed = seeds.chunks(CHUNK).find_map(failing);
    let verdict = match &killed {
        Some((seed, what)) => {
            format!("killed by seed {seed}, the {}. that reaches it: {what:.110}", runs + 1)
        }
        None if runs == 0 => "not reached by any seed".to_owned(),
        None => format!("reached by {runs} seeds and not noticed"),
    };
    (killed.is_none(), verdict)
}

/// Runs seeds in another process, and passes on each seed that succeeds, with the mutants that it reached. Returns the
/// first seed that fails, because of a violation or a crash, or because it hangs.
fn run(
    runner: &Path,
    number: Option<usize>,
    seeds: &[u64],
    mut passed: impl FnMut(u64, &[usize]),
) -> Option<(u64, String)> {
    let mut command = Command::new("sh");
    // Limits the memory, because a mutant may allocate without end.
    command.args(["-c", "ulimit -v 16000000 && exec \"$0\""]).arg(runner);
    if let Some(number) = number {
        command.env("ZOOLOCK_MUTANT", number.to_string());
    }
    let asked = seeds.iter().map(|seed| format!("{seed}\n")).collect();
    let mut process = Process::start(&mut command, asked);
    for seed in seeds {
        let line = match process.line(PATIENCE) {
            Ok(line) => line,
            Err(Silence::Stuck) => return Some((*seed, "it does not end".to_owned())),
            Err(Silence::Ended { .. }) => return Some((*seed, "it crashes".to_owned())),
        };
        let mut parts = line.splitn(2, '|');
        let numbers = parts.next().unwrap_or_default().split(' ').skip(1);
        if let Some(what) = parts.next() {
            return Some((*seed, what.to_owned()));
        }
        let reached: Vec<usize> = numbers.filter_map(|number| number.parse().ok()).collect();
        passed(*seed, &reached);
    }
    None
}
