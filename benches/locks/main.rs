//! Compares the speed of the locks with that of other libraries, in rounds in which all take part in turn.
//!
//! `cargo bench -p zoolock-interop --features classic --bench locks -- [--only many,queue]
//! [--peers raw,curator] [--ensemble] [--rounds N] [--quick] [--report DIR] [--from FILE]`
//!
//! Each contestant is a separate process, driven by the lines of `program.rs`. The bench reads the
//! server's counters, and the memory and threads of the process, from outside. The output has a
//! line of JSON for each round, then a table of medians for each case, with ratios to the floor
//! (`raw`) and to Curator. A contestant that is not installed is skipped with a message.
//! `tests/setup.sh --bench` installs all of them; the floor needs the feature `classic`.

mod alone;
mod chart;
mod contestant;
#[path = "../cut.rs"]
mod cut;
mod etcd;
mod figures;
mod machine;
mod own;
mod pool;
mod program;
#[cfg(feature = "classic")]
mod raw;
mod redis;
mod report;
mod running;
mod servers;
mod session;
#[path = "../sleepers.rs"]
mod sleepers;
#[path = "../status.rs"]
mod status;
mod table;
mod workload;
mod zookeeper_client;

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use contestant::Contestant;
use figures::Figures;
use report::Results;
use running::Running;
use serde_json::json;
use servers::Servers;
use session::Outcome;
use workload::{Case, Workload};

/// Measures the locks of this library and of others.
#[derive(Parser)]
struct Options {
    /// The workloads, all by default.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Workload>,
    /// The contestants, all by default.
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Use three ZooKeeper servers, and connect all contestants to one follower.
    #[arg(long)]
    ensemble: bool,
    /// The number of rounds; the tables show medians. 5 by default, 2 with --quick.
    #[arg(long)]
    rounds: Option<usize>,
    /// The length of a round in seconds, except of a queue. 1 by default, 0.2 with --quick.
    #[arg(long)]
    seconds: Option<f64>,
    /// How long each contestant runs before it is measured, in seconds. 5 by default, 1 with
    /// --quick.
    #[arg(long)]
    warm_up: Option<f64>,
    /// Fewer sizes and shorter rounds, to check that the bench works.
    #[arg(long)]
    quick: bool,
    /// Write the tables as Markdown, and the charts, to this directory; a relative one is below
    /// tests/interop, where cargo runs the bench.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Also report the rounds that earlier runs have printed to this file. Give the other workloads with
    /// --only.
    #[arg(long)]
    from: Option<PathBuf>,
    /// Run as a contestant; the bench starts itself in this way.
    #[arg(long, hide = true, requires = "server")]
    contestant: Option<String>,
    #[arg(long, hide = true)]
    server: Option<String>,
    /// The argument that `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Outcome<()> {
    let options = Options::parse();
    if let (Some(name), Some(server)) = (&options.contestant, &options.server) {
        program::serve(contestant::connector(name, server.clone())?);
        return Ok(());
    }
    let mut results = Results::new(options.ensemble)?;
    if let Some(file) = &options.from {
        results.read(&fs::read_to_string(file)?)?;
    }
    measure(&options, &mut results)?;
    print!("\n{}", table::all(&results));
    if let Some(folder) = &options.report {
        fs::create_dir_all(folder)?;
        report::write(folder, &results)?;
        eprintln!("written: {}", folder.canonicalize()?.display());
    }
    Ok(())
}

fn measure(options: &Options, results: &mut Results) -> Outcome<()> {
    let quick = options.quick;
    let seconds = options.seconds.unwrap_or(if quick { 0.2 } else { 1.0 });
    let warm_up = options.warm_up.unwrap_or(if quick { 1.0 } else { 5.0 });
    results.rounds = options.rounds.unwrap_or(if quick { 2 } else { 5 });
    let workloads = match options.only.is_empty() {
        true => Workload::ALL.to_vec(),
        false => options.only.clone(),
    };
    let servers = Servers::new(options.ensemble);
    let mut running = start(&options.peers, &servers)?;
    results.versions = servers.versions()?;
    results.versions.extend(running.iter().map(|one| one.version.clone()));
    for one in &mut running {
        eprintln!("{}: warming up", one.contestant.name);
        one.warm_up(warm_up)?;
    }
    for case in workloads.into_iter().flat_map(|workload| workload.cases(quick)) {
        match case.workload {
            Workload::Recover => alone::measure(case, &servers, results)?,
            _ => compare(case, &mut running, seconds, warm_up, results)?,
        }
    }
    Ok(())
}

/// Starts the requested contestants that are installed.
fn start<'a>(wanted: &[String], servers: &'a Servers) -> Outcome<Vec<Running<'a>>> {
    let all = contestant::all();
    let names: Vec<_> = all.iter().map(|contestant| contestant.name).collect();
    if let Some(unknown) = wanted.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(format!("there is no contestant {unknown}, only {}", names.join(", ")).into());
    }
    let is_wanted =
        |it: &Contestant| wanted.is_empty() || wanted.iter().any(|name| name == it.name);
    let mut running = Vec::new();
    for contestant in all.into_iter().filter(is_wanted) {
        running.extend(Running::start(contestant, servers)?);
    }
    Ok(running)
}

/// Prints the metrics of a round, or why it failed.
fn line(case: Case, name: &str, round: usize, measured: &Result<Figures, String>) {
    let (workload, size) = (case.workload.name(), case.size);
    let mut line = json!({
        "bench": "locks", "workload": workload, "size": size, "contestant": name, "round": round,
    });
    match measured {
        Ok(figures) => line["figures"] = json!(figures),
        Err(reason) => line["failed"] = json!(reason),
    }
    println!("{line}");
}

/// Runs all rounds of a case. Each contestant runs once per round, and the first one changes from round to round.
fn compare(
    case: Case,
    running: &mut [Running],
    seconds: f64,
    warm_up: f64,
    results: &mut Results,
) -> Outcome<()> {
    let can = |one: &&mut Running| one.contestant.lacks(case).is_none();
    for one in running.iter() {
        if let Some(reason) = one.contestant.lacks(case) {
            eprintln!("{}: skipped: {} {reason}", case.name(), one.contestant.name);
        }
    }
    let mut able: Vec<_> = running.iter_mut().filter(can).collect();
    let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); able.len()];
    for round in 0..results.rounds {
        for turn in 0..able.len() {
            let at = (round + turn) % able.len();
            let name = able[at].contestant.name;
            eprintln!("{}: round {}: {name}", case.name(), round + 1);
            let measured = able[at].measure(case, seconds).map_err(|error| error.to_string());
            line(case, name, round, &measured);
            match measured {
                Ok(figures) => rounds[at].push(figures),
                Err(reason) => {
                    results.failures.push((case, name, reason));
                    able[at].restart(warm_up)?;
                }
            }
        }
    }
    let measured = able.iter().map(|one| one.contestant.name).zip(rounds);
    let medians = measured
        .filter(|(_, rounds)| !rounds.is_empty())
        .map(|(name, rounds)| (name, Figures::medians(&rounds)));
    results.cases.push((case, medians.collect()));
    Ok(())
}
