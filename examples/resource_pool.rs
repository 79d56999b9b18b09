//! A pool of licences that many workers share, under a semaphore.
//!
//! ```text
//! cargo run --example resource_pool
//! ```
//!
//! There are three licences. Eight workers, each with its own client, solve four problems each.
//! Some problems need one licence, some two, which a worker gets together or not at all. While too
//! few are free, workers wait in a queue until their deadline. The program checks that no more than
//! three licences were ever in use.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use zoolock::{Client, DistributedSemaphore, Guard};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// All programs that use the pool must use this number.
const LICENCES: u32 = 3;
const WORKERS: usize = 8;
const PROBLEMS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// The pool, as one program uses it.
struct Pool(DistributedSemaphore);

impl Pool {
    fn new(servers: &str) -> zoolock::Result<Pool> {
        let client = Client::connect(servers, Duration::from_secs(10))?;
        DistributedSemaphore::new(&client, "/zoolock-examples/licences", LICENCES).map(Pool)
    }

    fn take(&self, count: u32) -> Outcome<Guard> {
        let permits = self.0.acquire_within(count, PATIENCE)?;
        Ok(permits.ok_or_else(|| format!("no {count} licences within {PATIENCE:?}"))?)
    }
}

/// Counts the licences in use, without the help of the pool.
#[derive(Default)]
struct Meter {
    in_use: AtomicUsize,
    most: AtomicUsize,
}

fn worker(pool: &Pool, number: usize, meter: &Meter) -> Outcome<()> {
    for problem in 0..PROBLEMS {
        let count = 1 + (number + problem) % 2;
        let permits = pool.take(count as u32)?;
        let in_use = meter.in_use.fetch_add(count, Ordering::SeqCst) + count;
        meter.most.fetch_max(in_use, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(10)); // solves the problem
        let held = permits.is_held();
        meter.in_use.fetch_sub(count, Ordering::SeqCst);
        permits.release()?; // an error if the permits were lost; a drop would only log it
        println!("worker {number} solved problem {problem} with {count} of {in_use} in use");
        if !held {
            return Err("the licences were lost".into());
        }
    }
    Ok(())
}

fn run() -> Outcome<()> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let meter = Meter::default();
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for number in 0..WORKERS {
            let (pool, meter) = (Pool::new(servers)?, &meter);
            workers.push(scope.spawn(move || worker(&pool, number, meter)));
        }
        for worker in workers {
            worker.join().map_err(|_| "a worker panicked")??;
        }
        Outcome::Ok(())
    })?;
    let most = meter.most.load(Ordering::SeqCst);
    if most > LICENCES as usize {
        return Err(format!("{most} of {LICENCES} licences were in use").into());
    }
    let solved = WORKERS * PROBLEMS;
    println!("{solved} problems solved, at most {most} of {LICENCES} licences in use");
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("resource_pool: {error}");
        std::process::exit(1);
    }
}
