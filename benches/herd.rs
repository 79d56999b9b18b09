//! Compares the queue of `DistributedLock` with the single node of `EphemeralLock`, for growing numbers of contenders:
//! hand-overs per second, and the requests that they cost.
//!
//! `cargo bench -p zoolock-benches --bench herd -- [--rounds N] [--seconds S] [--sync] [--clients 2,4,8]`
//!
//! Each contender has its own client. After its unlock, it waits until another one has the lock before it contends
//! again. Therefore, every grant is a hand-over, and all contenders except one or two wait at any time. Rounds of both
//! locks alternate. The output has a line of JSON for each round, and a table of the medians at the end.

use std::error::Error;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::json;
use zoolock::{Client, DistributedLock, EphemeralLock, Lock};
use zoolock_test_support::{Server, fresh_path};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Long, so that almost all requests counted are those of the locks.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60);

/// Passes one lock around between more and more clients.
#[derive(Parser)]
struct Options {
    /// The number of rounds of each lock; the table shows medians.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The length of a round, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Make the server force each transaction to disk.
    #[arg(long)]
    sync: bool,
    /// The numbers of contenders.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16, 32, 64])]
    clients: Vec<usize>,
    /// The argument that `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A lock type, and a function that creates a lock.
type Make = fn(&Client, &str) -> zoolock::Result<Box<dyn Lock>>;

const LOCKS: [(&str, Make); 2] = [
    ("EphemeralLock", |client, path| EphemeralLock::new(client, path).map(Into::into)),
    ("DistributedLock", |client, path| DistributedLock::new(client, path).map(Into::into)),
];

/// The metrics of one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    hand_overs_per_second: f64,
    requests_per_acquisition: f64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let server = Server::builder().force_sync(options.sync).start()?;
    println!("{} processors, forced to disk: {}", thread::available_parallelism()?, options.sync);
    let mut table = Vec::new();
    for &contenders in &options.clients {
        let clients: Vec<_> = (0..contenders)
            .map(|_| Client::connect(server.connect_string(), SESSION_TIMEOUT))
            .collect::<zoolock::Result<_>>()?;
        let mut rounds: [Vec<Round>; 2] = Default::default();
        for number in 0..options.rounds {
            for (rounds, (name, make)) in rounds.iter_mut().zip(LOCKS) {
                let round = round(&clients, make, Duration::from_secs_f64(options.seconds))?;
                let line = json!({
                    "bench": "herd", "round": number, "contenders": contenders, "lock": name,
                    "hand_overs_per_second": round.hand_overs_per_second,
                    "requests_per_acquisition": round.requests_per_acquisition,
                });
                println!("{line}");
                rounds.push(round);
            }
        }
        table.push((contenders, rounds.each_ref().map(|rounds| medians(rounds))));
        for client in &clients {
            client.close()?;
        }
    }
    println!(
        "\n| contenders | hand-overs/s, EphemeralLock | DistributedLock | ratio \
         | requests each, EphemeralLock | DistributedLock |\n|---:|---:|---:|---:|---:|---:|"
    );
    for (contenders, [single, queue]) in table {
        println!(
            "| {contenders} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} |",
            single.hand_overs_per_second,
            queue.hand_overs_per_second,
            single.hand_overs_per_second / queue.hand_overs_per_second,
            single.requests_per_acquisition,
            queue.requests_per_acquisition,
        );
    }
    Ok(())
}

/// Counts the grants, and keeps the last holder from contending again at once.
#[derive(Default)]
struct Turns {
    state: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    grants: u64,
    over: bool,
}

impl Turns {
    /// Counts a grant, and returns its number.
    fn granted(&self) -> u64 {
        let mut turn = self.state.lock().expect("turns");
        turn.grants += 1;
        self.changed.notify_all();
        turn.grants
    }

    /// Waits for the grant after `own`. Returns false if the round is over.
    fn await_next(&self, own: u64) -> bool {
        let turn = self.state.lock().expect("turns");
        let waits = |turn: &mut Turn| turn.grants == own && !turn.over;
        let turn = self.changed.wait_while(turn, waits).expect("turns");
        !turn.over
    }

    fn end(&self) {
        self.state.lock().expect("turns").over = true;
        self.changed.notify_all();
    }

    fn grants(&self) -> u64 {
        self.state.lock().expect("turns").grants
    }
}

/// Runs one round, in which all contend for one lock.
fn round(clients: &[Client], make: Make, time: Duration) -> Result<Round> {
    let path = fresh_path("herd");
    let turns = Arc::new(Turns::default());
    let contenders: Vec<_> = clients
        .iter()
        .map(|client| {
            let (lock, turns) = (make(client, &path)?, Arc::clone(&turns));
            Ok(thread::spawn(move || -> zoolock::Result<()> {
                loop {
                    lock.lock()?;
                    let own = turns.granted();
                    lock.unlock()?;
                    if !turns.await_next(own) {
                        return Ok(());
                    }
                }
            }))
        })
        .collect::<zoolock::Result<_>>()?;
    let requests = || -> u64 { clients.iter().map(|client| client.stats().requests).sum() };
    // All clients are connected, and the directory exists.
    thread::sleep(time / 4);
    let (begun, requests_before, before) = (Instant::now(), requests(), turns.grants());
    thread::sleep(time);
    let (took, sent, grants) =
        (begun.elapsed(), requests() - requests_before, turns.grants() - before);
    turns.end();
    for contender in contenders {
        contender.join().map_err(|_| "a contender panicked")??;
    }
    Ok(Round {
        hand_overs_per_second: grants as f64 / took.as_secs_f64(),
        requests_per_acquisition: sent as f64 / grants.max(1) as f64,
    })
}

fn medians(rounds: &[Round]) -> Round {
    let middle = |of: fn(&Round) -> f64| {
        let mut samples: Vec<_> = rounds.iter().map(of).collect();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied().unwrap_or(0.0)
    };
    Round {
        hand_overs_per_second: middle(|round| round.hand_overs_per_second),
        requests_per_acquisition: middle(|round| round.requests_per_acquisition),
    }
}
