//! Breaks the library on purpose, one mistake at a time, and checks whether the simulation or a test detects it.
//!
//! All mutants are in one build, each behind a switch: the body of a function with mutants also contains the body of
//! each mutant.

mod build;
mod mutant;
mod process;
mod seeds;
mod source;
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use build::Tree;
use mutant::{Mutant, SIMULATION, Sources};
use process::map_all;
use tests::Target;

/// Breaks the library on purpose, one mistake at a time, and checks whether the simulation or a test detects it.
///
/// Runs the mutants of `tests/mutants/table.toml`, all or those named, and prints a line for each. Fails if one of them
/// survives. Random mutants are only reported.
#[derive(Parser)]
struct Args {
    /// Names of mutants in the table [default: all of them]
    names: Vec<String>,
    /// Only check that the text of each mutant in the table still exists in its file
    #[arg(long)]
    check: bool,
    /// Run N random mutants of cargo-mutants instead of those in the table
    #[arg(long, value_name = "N", conflicts_with = "names")]
    random: Option<usize>,
    /// The seed that selects the random mutants
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// The number of seeds of the simulation, from 0 on. Each mutant runs with the seeds that reach it
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    seeds: u64,
    /// The number of processes that run seeds in parallel
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether all mutants of the table were killed. Random ones are only reported, because some are harmless.
fn run(args: &Args) -> Result<bool, String> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).canonicalize();
    let root = root.map_err(|error| error.to_string())?;
    let mut sources = Sources::default();
    let mutants = match args.random {
        Some(number) => mutant::of_cargo_mutants(&root, &mut sources, number, args.seed)?,
        None => chosen(mutant::of_table(&root, &mut sources)?, &args.names)?,
    };
    if args.check {
        println!("{} mutants have their places", mutants.len());
        return Ok(true);
    }
    let begun = Instant::now();
    let tree = Tree::new(&root);
    let out = tree.weave(&mut sources, &mutants)?;
    if args.random.is_none() && !out.is_empty() {
        let names: Vec<_> = out.iter().map(|number| &*mutants[*number].name).collect();
        return Err(format!("these do not compile: {}", names.join(", ")));
    }
    let runner = tree.runner()?;
    let (all, bad) = (mutants.len(), out.len());
    println!("{all} mutants, {bad} of them do not compile; built in {:.0?}", begun.elapsed());
    let unseen = by_seeds(args, &runner, &mutants, &out)?;
    let lives = unseen + by_their_tests(&tree, &mutants)?;
    println!("{lives} of {} live, after {:.0?}", all - bad, begun.elapsed());
    Ok(lives == 0 || args.random.is_some())
}

fn chosen(mut mutants: Vec<Mutant>, names: &[String]) -> Result<Vec<Mutant>, String> {
    if let Some(name) = names.iter().find(|name| !mutants.iter().any(|one| one.name == **name)) {
        return Err(format!("tests/mutants/table.toml has no mutant {name}"));
    }
    mutants.retain(|one| names.is_empty() || names.contains(&one.name));
    Ok(mutants)
}

/// Runs each mutant that the simulation has to kill, with the seeds that reach it. Returns how many mutants survive.
fn by_seeds(
    args: &Args,
    runner: &Path,
    mutants: &[Mutant],
    out: &BTreeSet<usize>,
) -> Result<usize, String> {
    let needs_seeds = |one: &Mutant| {
        one.killed_by.is_empty() || one.killed_by.iter().any(|killer| killer == SIMULATION)
    };
    let numbers = (0..mutants.len()).filter(|number| !out.contains(number));
    let numbers: Vec<_> = numbers.filter(|number| needs_seeds(&mutants[*number])).collect();
    if numbers.is_empty() {
        return Ok(0);
    }
    let reaching = seeds::reaching(runner, mutants.len(), args.seeds, args.jobs)?;
    let lives = map_all(args.jobs, &numbers, |&number| {
        let (is_alive, verdict) = seeds::run_until_killed(runner, number, &reaching[number]);
        print_result(is_alive, &format!("{}, {number}: {verdict}", mutants[number].name));
        is_alive
    });
    let simulation = runner.with_file_name("zoolock-simulation");
    println!("a trace: ZOOLOCK_MUTANT=number {} --trace --from seed", simulation.display());
    Ok(lives.into_iter().filter(|is_alive| *is_alive).count())
}

fn print_result(is_alive: bool, what: &str) {
    println!("{} {what}", if is_alive { "LIVES" } else { "     " });
}

/// Runs the tests that have to kill mutants. Returns how many mutants survive.
fn by_their_tests(tree: &Tree, mutants: &[Mutant]) -> Result<usize, String> {
    let mut targets = BTreeMap::new();
    let (mut lives, mut fine) = (0, BTreeSet::new());
    for (number, mutant) in mutants.iter().enumerate() {
        for killer in &mutant.killed_by {
            let Some((name, test)) = killer.split_once(' ') else { continue };
            if !targets.contains_key(name) {
                targets.insert(name, Target::build(tree, name)?);
            }
            let target = &targets[name];
            if fine.insert(killer) && target.fails(None, test)? {
                return Err(format!("without a mutant: {killer} fails"));
            }
            let is_killed = target.fails(Some(number), test)?;
            let how = if is_killed { "killed by" } else { "not noticed by" };
            print_result(!is_killed, &format!("{}, {number}: {how} {killer}", mutant.name));
            lives += usize::from(!is_killed);
        }
    }
    Ok(lives)
}
