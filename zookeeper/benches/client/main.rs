//! How fast requests are by this client, beside others: one server, and rounds in which all take
//! turns.
//!
//! `cargo bench -p zoolock-interop --features classic --bench client -- [--only cycle,read]
//! [--client NAME,NAME] [--threads 1,8,64] [--rounds N] [--seconds S | --cycles N]
//! [--server ADDRESS] [--json FILE]`
//!
//! Each client has one session, which all threads use at once. A bench of tests/interop, where the
//! other clients are; the crate `zookeeper` takes the feature `classic`, and is skipped with a line
//! without it. A table for each workload on standard output.

mod clients;
mod table;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use clients::{Client, Contestant};
use serde_json::json;
use table::Case;
use zoolock_test_support::{Probe, Server, fresh_path};

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const SMALL: usize = 100;
const LARGE: usize = 1_000_000;
/// The part of a round that comes before it and is not counted.
const WARM_UP: f64 = 0.25;

/// Measures requests of this client and of others.
#[derive(Parser)]
struct Options {
    /// The workloads, all by default.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Workload>,
    /// The clients, all by default.
    #[arg(long, value_delimiter = ',')]
    client: Vec<Contestant>,
    /// How many threads use the session.
    #[arg(long, value_delimiter = ',', default_value = "1,8,64", value_parser = at_least_one)]
    threads: Vec<usize>,
    /// How many rounds; the medians are shown.
    #[arg(long, default_value = "9", value_parser = at_least_one)]
    rounds: usize,
    /// How long each client's turn is, after a quarter of it that is not counted.
    #[arg(long, default_value = "0.5", value_parser = seconds)]
    seconds: f64,
    /// So many operations by each thread in a turn instead, and nothing before they are counted,
    /// for those who count what an operation takes.
    #[arg(long, conflicts_with = "seconds", value_parser = at_least_one)]
    cycles: Option<usize>,
    /// How long each client runs before the first round, in seconds: the server's compiler needs
    /// it. 3 by default; with `--cycles` it does not run.
    #[arg(long, default_value = "3", value_parser = seconds)]
    warm_up: f64,
    /// A server that runs already, instead of one of its own with `forceSync=yes`.
    #[arg(long)]
    server: Option<String>,
    /// Writes a line of JSON for each turn to this file; a relative one is below tests/interop,
    /// where cargo runs this.
    #[arg(long)]
    json: Option<PathBuf>,
    /// What `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it has to be 1 or more".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && number <= 3600.0 => Ok(number),
        Ok(_) => Err("it has to be more than 0, and 3600 at the most".into()),
        Err(error) => Err(format!("{error}")),
    }
}

/// What a thread does again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Create an ephemeral sequential node, list its directory, delete it, one after the other.
    Cycle,
    /// The same; the first two are submitted together.
    Together,
    /// Read a node of 100 bytes.
    Read,
    /// Read a node of a million bytes.
    ReadLarge,
}

impl Workload {
    fn run(self, client: &dyn Client, folder: &str, root: &str) -> Outcome<()> {
        let read = |name: &str, length| match client.read(&format!("{root}/{name}"))? {
            come if come == length => Ok(()),
            come => Err(format!("{come} bytes of {length} have come").into()),
        };
        match self {
            Workload::Cycle => client.cycle(folder),
            Workload::Together => client.together(folder),
            Workload::Read => read("small", SMALL),
            Workload::ReadLarge => read("large", LARGE),
        }
    }
}

/// When a turn ends.
#[derive(Clone, Copy)]
enum Until {
    Time(Duration),
    Cycles(usize),
}

fn main() -> Outcome<()> {
    let options = Options::parse();
    let mut json = options.json.as_ref().map(File::create).transpose()?;
    let own = match options.server {
        Some(_) => None,
        None => Some(start()?),
    };
    let server = match (&options.server, &own) {
        (Some(given), _) => given.clone(),
        (None, own) => own.as_ref().ok_or("no server")?.connect_string(),
    };
    let most = options.threads.iter().copied().max().unwrap_or(1).max(4);
    let root = prepare(&server, most)?;
    let mut wanted = or_all(&options.client);
    if !cfg!(feature = "classic") && wanted.contains(&Contestant::Classic) {
        eprintln!("skipped: {}: this is built without the feature `classic`", Contestant::Classic);
        wanted.retain(|&contestant| contestant != Contestant::Classic);
    }
    let connect = |contestant: Contestant| Ok((contestant, contestant.connect(&server)?));
    let clients = wanted.into_iter().map(connect).collect::<Outcome<Vec<_>>>()?;
    if options.cycles.is_none() {
        for (contestant, client) in &clients {
            eprintln!("{contestant}: warming up");
            let threads = if contestant.can(4) { 4 } else { 1 };
            let time = Until::Time(Duration::from_secs_f64(options.warm_up / 2.0));
            for workload in [Workload::Cycle, Workload::Read] {
                turn(client.as_ref(), workload, threads, time, &root)?;
            }
        }
    }
    for workload in or_all(&options.only) {
        let mut cases = Vec::new();
        for &threads in &options.threads {
            let able = clients.iter().filter(|(contestant, _)| contestant.can(threads));
            let able: Vec<_> = able.collect();
            let mut case = Case::new(threads, able.iter().map(|(contestant, _)| *contestant));
            for round in 0..options.rounds {
                // Another one is first each time, and every other round goes backwards: who comes
                // after whom must not matter.
                let mut order: Vec<_> = (0..able.len()).collect();
                order.rotate_left(round / 2 % able.len().max(1));
                if !round.is_multiple_of(2) {
                    order.reverse();
                }
                for place in order {
                    let (contestant, client) = able[place];
                    let name = table::name(workload);
                    eprintln!("{name}, {threads} threads, round {}: {contestant}", round + 1);
                    let rate = one(&options, client.as_ref(), workload, threads, &root)
                        .map_err(|error| format!("{contestant}: {error}"))?;
                    case.add(place, rate);
                    if let Some(file) = &mut json {
                        let line = json!({ "bench": "client", "workload": name, "threads": threads,
                            "client": contestant.to_string(), "round": round, "per_second": rate });
                        writeln!(file, "{line}")?;
                    }
                }
            }
            cases.push(case);
        }
        println!("{}", table::table(workload, &cases));
    }
    Ok(())
}

fn or_all<T: ValueEnum>(wanted: &[T]) -> Vec<T> {
    let wanted = if wanted.is_empty() { T::value_variants() } else { wanted };
    wanted.to_vec()
}

/// As those that locks are measured on, in benches/locks: each write is on disk.
fn start() -> std::io::Result<Server> {
    Server::builder()
        .force_sync(true)
        .tick(Duration::from_secs(2))
        .jvm_flag("-Xmx1g")
        .jvm_flag("-XX:TieredStopAtLevel=4")
        .start()
}

/// The nodes that are read, and a directory for each thread. Returns what they are below.
fn prepare(server: &str, threads: usize) -> Outcome<String> {
    let probe =
        Probe::connect(server).map_err(|error| format!("cannot connect to {server}: {error}"))?;
    let root = fresh_path("client");
    for thread in 0..threads {
        probe.create_all(&format!("{root}/{thread}"))?;
    }
    for (name, length) in [("small", SMALL), ("large", LARGE)] {
        probe.create(&format!("{root}/{name}"), &vec![b'x'; length], false, false)?;
    }
    Ok(root)
}

/// Operations per second in one turn.
fn one(
    options: &Options,
    client: &dyn Client,
    workload: Workload,
    threads: usize,
    root: &str,
) -> Outcome<f64> {
    if let Some(count) = options.cycles {
        return turn(client, workload, threads, Until::Cycles(count), root);
    }
    let time = Duration::from_secs_f64(options.seconds);
    turn(client, workload, threads, Until::Time(time.mul_f64(WARM_UP)), root)?;
    turn(client, workload, threads, Until::Time(time), root)
}

fn turn(
    client: &dyn Client,
    workload: Workload,
    threads: usize,
    until: Until,
    root: &str,
) -> Outcome<f64> {
    let together = Barrier::new(threads);
    let run = |thread: usize| -> Outcome<(Instant, Instant, usize)> {
        let folder = format!("{root}/{thread}");
        together.wait();
        let (begun, mut count) = (Instant::now(), 0);
        while match until {
            Until::Time(time) => begun.elapsed() < time,
            Until::Cycles(cycles) => count < cycles,
        } {
            workload.run(client, &folder, root)?;
            count += 1;
        }
        Ok((begun, Instant::now(), count))
    };
    let run = &run;
    let runs: Vec<Outcome<_>> = thread::scope(|scope| {
        let start = |thread| scope.spawn(move || run(thread));
        let started: Vec<_> = (0..threads).map(start).collect();
        let joined = started.into_iter().map(|thread| thread.join());
        joined.map(|run| run.map_err(|_| "a thread panicked")?).collect()
    });
    let runs = runs.into_iter().collect::<Outcome<Vec<_>>>()?;
    let begun = runs.iter().map(|run| run.0).min().ok_or("no thread")?;
    let ended = runs.iter().map(|run| run.1).max().ok_or("no thread")?;
    let count: usize = runs.iter().map(|run| run.2).sum();
    Ok(count as f64 / (ended - begun).as_secs_f64())
}
