//! Proves that paths that are used once leave nothing on the servers: threads of one client lock
//! and unlock, each time at a path that was never used before.
//!
//! `cargo bench -p zoolock-benches --bench churn -- [--turns N] [--threads N]`
//!
//! The output has a line of JSON every few seconds, and at the end. The bench fails if the server then has over
//! [`LEFT`] nodes more than at the beginning. This server never removes empty directories itself, so the client has
//! deleted all that are gone. For a million acquisitions, its log takes about half a gigabyte of the temporary
//! directory.

mod status;

use std::error::Error;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::json;
use zoolock::{Client, DistributedLock};
use zoolock_test_support::Server;

use status::status;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The nodes that may stay: `/orders`, and the directory of the first acquisition. The client creates these before it
/// has found out whether the server supports containers, and leaves them to the server.
const LEFT: u64 = 2;
const PAUSE: Duration = Duration::from_secs(5);
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// Locks and unlocks at paths that are always new, and counts the nodes that are left.
#[derive(Parser)]
struct Options {
    /// The number of paths.
    #[arg(long, default_value_t = 1_000_000)]
    turns: usize,
    /// The number of threads.
    #[arg(long, default_value_t = 64)]
    threads: usize,
    /// The argument that `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let Options { turns, threads, .. } = Options::parse();
    let never = format!("-Dznode.container.checkIntervalMs={}", i32::MAX);
    let server = Server::builder().jvm_flag(&never).start()?;
    let znodes = || server.metric("zk_znode_count");
    let (before, begun) = (znodes()?, Instant::now());
    let client = Client::connect(server.connect_string(), SESSION_TIMEOUT)?;
    let done = Arc::new(AtomicUsize::new(0));
    let report = || -> Result<()> {
        let done = done.load(Ordering::Relaxed);
        let line = json!({
            "bench": "churn", "turns": done,
            "turns_per_second": (done as f64 / begun.elapsed().as_secs_f64()).round(),
            "znodes": znodes()?, "resident_kib": status(process::id(), "VmRSS")? as u64,
        });
        println!("{line}");
        Ok(())
    };
    turn(&client, 0)?;
    let ends = start(&client, turns, threads, &done);
    loop {
        match ends.recv_timeout(PAUSE) {
            Ok(ended) => ended?,
            Err(RecvTimeoutError::Timeout) => report()?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    client.close()?;
    report()?;
    let (done, left) = (done.load(Ordering::Relaxed), znodes()? - before);
    let text = format!("{done} of {turns} turns are done; {left} nodes are left, {LEFT} may be");
    if done < turns || left > LEFT {
        return Err(text.into());
    }
    println!("\n{text}");
    Ok(())
}

/// Starts the threads. Each sends its result when it ends.
fn start(
    client: &Client,
    turns: usize,
    threads: usize,
    done: &Arc<AtomicUsize>,
) -> Receiver<zoolock::Result<()>> {
    let (sender, ends) = mpsc::channel();
    for thread in 1..=threads {
        let (client, done, sender) = (client.clone(), Arc::clone(done), sender.clone());
        thread::spawn(move || {
            let ended = (thread..=turns).step_by(threads).try_for_each(|number| {
                turn(&client, number)?;
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            sender.send(ended)
        });
    }
    ends
}

fn turn(client: &Client, number: usize) -> zoolock::Result<()> {
    let lock = DistributedLock::new(client, format!("/orders/{number}"))?;
    lock.lock()?;
    lock.unlock()
}
