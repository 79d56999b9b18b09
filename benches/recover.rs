//! How long a client needs to get over the loss of its connection: from the cut until every held
//! lock is held on the next connection, and until every waiting one has its place there.
//!
//! `cargo bench --bench recover -- [--rounds N] [--held N] [--waiting N]`
//!
//! The client is busy all the time, which is when the crate below loses its session for good. A
//! line of JSON for each round, and a table at the end.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::json;
use zoolock::{Client, DistributedLock, Hold, HoldState, Lock};
use zoolock_test_support::{FaultProxy, Probe, connect_string, fresh_path, wait_until};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// Cuts a busy client's connection again and again and measures how long it takes to recover.
#[derive(Parser)]
struct Options {
    /// How often to cut.
    #[arg(long, default_value_t = 10)]
    rounds: u32,
    /// Locks held all the time.
    #[arg(long, default_value_t = 8)]
    held: usize,
    /// Threads waiting for one lock.
    #[arg(long, default_value_t = 1000)]
    waiting: usize,
    /// What `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let server = connect_string();
    let first = server.split(',').next().unwrap_or_default();
    let proxy = FaultProxy::start(first.parse()?)?;
    let client = Client::connect(&proxy.connect_string(), SESSION_TIMEOUT)?;
    let locks = held(&client, options.held)?;
    let holds: Vec<Hold> = locks.iter().flat_map(Lock::holds).collect();
    let queue = Queue::new(&server, &client, options.waiting)?;
    let busy = busy(&client)?;

    let (mut held_ms, mut waiting_ms) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let moved = client.stats().seats_moved;
        let connections = client.stats().connections;
        let cut = Instant::now();
        proxy.cut();
        wait_until("held again", PATIENCE, || {
            client.stats().connections > connections
                && holds.iter().all(|hold| hold.state() == HoldState::Held)
        });
        held_ms.push(millis(cut));
        let seats = (options.held + options.waiting) as u64;
        wait_until("every place is kept", PATIENCE, || {
            client.stats().seats_moved - moved >= seats
        });
        waiting_ms.push(millis(cut));
        let line = json!({
            "bench": "recover", "round": round, "held": options.held, "waiting": options.waiting,
            "held_ms": held_ms.last(), "waiting_ms": waiting_ms.last(),
        });
        println!("{line}");
    }
    let lost = client.stats().seats_lost;
    busy.store(false, Ordering::SeqCst);
    queue.end()?;
    for lock in &locks {
        lock.unlock()?;
    }
    client.close()?;

    println!("\n| from the cut until | p50 ms | max ms |\n|---|---:|---:|");
    for (what, samples) in [
        (
            format!("{} held locks are held again", options.held),
            held_ms,
        ),
        (
            format!("{} waiting locks have their place", options.waiting),
            waiting_ms,
        ),
    ] {
        let (middle, most) = middle_and_most(samples);
        println!("| {what} | {middle} | {most} |");
    }
    println!("\nlocks lost: {lost}");
    Ok(())
}

fn held(client: &Client, count: usize) -> Result<Vec<DistributedLock>> {
    let lock = |number| {
        let lock = DistributedLock::new(client, fresh_path(&format!("held-{number}")))?;
        lock.lock()?;
        Ok(lock)
    };
    (0..count).map(lock).collect()
}

/// Threads that wait for a lock which somebody else holds.
struct Queue {
    ahead: DistributedLock,
    waiting: Vec<thread::JoinHandle<zoolock::Result<()>>>,
    locks: Vec<DistributedLock>,
}

impl Queue {
    fn new(server: &str, client: &Client, count: usize) -> Result<Queue> {
        let path = fresh_path("queue");
        let ahead = DistributedLock::new(&Client::connect(server, SESSION_TIMEOUT)?, &path)?;
        ahead.lock()?;
        let probe = Probe::connect(server)?;
        let (mut waiting, mut locks) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let lock = DistributedLock::new(client, &path)?;
            locks.push(lock.clone());
            let builder = thread::Builder::new().stack_size(256 * 1024);
            waiting.push(builder.spawn(move || lock.lock())?);
        }
        wait_until("all are in the queue", PATIENCE, || {
            probe.children(&path).is_ok_and(|nodes| nodes.len() > count)
        });
        Ok(Queue {
            ahead,
            waiting,
            locks,
        })
    }

    fn end(self) -> Result<()> {
        self.locks.iter().for_each(DistributedLock::cancel_waiters);
        for waiter in self.waiting {
            let ended = waiter.join().map_err(|_| "a waiter panicked")?;
            if !ended.is_err_and(|error| error.is_cancelled()) {
                return Err("a waiter was granted a lock that is held".into());
            }
        }
        Ok(self.ahead.unlock()?)
    }
}

/// A thread that locks and unlocks until the flag is false.
fn busy(client: &Client) -> Result<Arc<AtomicBool>> {
    let lock = DistributedLock::new(client, fresh_path("busy"))?;
    let on = Arc::new(AtomicBool::new(true));
    let go_on = Arc::clone(&on);
    thread::spawn(move || {
        while go_on.load(Ordering::SeqCst) {
            if let Err(error) = lock.lock().and_then(|()| lock.unlock()) {
                eprintln!("busy: {error}");
            }
        }
    });
    Ok(on)
}

fn millis(since: Instant) -> u128 {
    since.elapsed().as_millis()
}

fn middle_and_most(mut samples: Vec<u128>) -> (u128, u128) {
    samples.sort_unstable();
    let middle = samples.get(samples.len() / 2).copied();
    (middle.unwrap_or(0), samples.last().copied().unwrap_or(0))
}
