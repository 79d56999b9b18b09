//! Measures how long a client takes to recover from the loss of its connection: from the break
//! until every held lock is held on the next connection, and until every waiting lock has its queue
//! position there.
//!
//! `cargo bench -p zoolock-benches --bench recover -- [--rounds N] [--held N] [--waiting N]`
//!
//! The output has a line of JSON for each round, and a table at the end.

mod cut;

use std::error::Error;

use clap::Parser;
use serde_json::json;
use zoolock_test_support::connect_string;

use cut::Cuts;

/// Breaks a busy client's connection repeatedly, and measures how long it takes to recover.
#[derive(Parser)]
struct Options {
    /// The number of breaks.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// The number of locks held all the time.
    #[arg(long, default_value_t = 8)]
    held: usize,
    /// The number of threads that wait for one lock.
    #[arg(long, default_value_t = 1000)]
    waiting: usize,
    /// The argument that `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let options = Options::parse();
    let server = connect_string();
    let first = server.split(',').next().unwrap_or_default();
    let cuts = Cuts::new(first.parse()?, options.held, options.waiting)?;
    let (mut held_ms, mut waiting_ms) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let recovery = cuts.cut()?;
        held_ms.push(recovery.held.as_secs_f64() * 1e3);
        waiting_ms.push(recovery.waiting.as_secs_f64() * 1e3);
        let line = json!({
            "bench": "recover", "round": round, "held": options.held, "waiting": options.waiting,
            "held_ms": held_ms.last(), "waiting_ms": waiting_ms.last(),
        });
        println!("{line}");
    }
    let lost = cuts.end()?;

    println!("\n| from the cut until | p50 ms | max ms |\n|---|---:|---:|");
    for (what, samples) in [
        (format!("{} held locks are held again", options.held), held_ms),
        (format!("{} waiting locks have their place", options.waiting), waiting_ms),
    ] {
        let (middle, most) = middle_and_most(samples);
        println!("| {what} | {middle:.1} | {most:.1} |");
    }
    println!("\nlocks lost: {lost}");
    Ok(())
}

fn middle_and_most(mut samples: Vec<f64>) -> (f64, f64) {
    samples.sort_by(f64::total_cmp);
    let middle = samples.get(samples.len() / 2).copied();
    (middle.unwrap_or(0.0), samples.last().copied().unwrap_or(0.0))
}
