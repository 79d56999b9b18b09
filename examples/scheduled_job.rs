//! A job that is due on many machines and runs on one of them.
//!
//! ```text
//! for machine in 1 2 3; do cargo run --example scheduled_job & done; wait
//! ```
//!
//! The job is due every two seconds. Everybody tries to get its lock then, without waiting. Whoever
//! has it looks whether it is still in time, runs the job, and keeps the lock until nobody else can
//! be in time any more: else a machine that comes a little later would find the lock free again and
//! run the job once more. For that the machines' clocks must agree, here within a quarter of a
//! second.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zoolock::{Client, DistributedLock, Guard};

/// From one time that the job is due to the next, in seconds.
const PERIOD: u64 = 2;
/// A run begins at most so long after it was due.
const LATEST: Duration = Duration::from_millis(1000);
/// By so much the clocks of the machines may differ.
const CLOCKS: Duration = Duration::from_millis(250);
/// How often it is due before this program ends.
const ROUNDS: u64 = 3;

fn main() {
    if let Err(error) = run() {
        eprintln!("scheduled_job: {error}");
        std::process::exit(1);
    }
}

fn run() -> zoolock::Result<()> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let client = Client::connect(servers, Duration::from_secs(10))?;
    let lock = DistributedLock::new(&client, "/zoolock-examples/scheduled-job")?;

    let next = since(UNIX_EPOCH).as_secs() / PERIOD + 1;
    for round in next..next + ROUNDS {
        let due = UNIX_EPOCH + Duration::from_secs(round * PERIOD);
        sleep_until(due);
        match lock.try_acquire() {
            Ok(Some(guard)) if since(due) < LATEST => {
                job(round, &guard)?;
                sleep_until(due + LATEST + CLOCKS);
                guard.release()?; // an error if it was lost, and may have run elsewhere, too
            }
            Ok(Some(guard)) => {
                println!("round {round}: too late");
                guard.release()?;
            }
            Ok(None) => println!("round {round}: runs elsewhere"),
            // Whether it runs elsewhere is not known. It is due again soon.
            Err(error) if error.is_retryable() => println!("round {round}: left out: {error}"),
            Err(error) => return Err(error),
        }
    }
    client.close()
}

fn job(round: u64, guard: &Guard) -> zoolock::Result<()> {
    println!("round {round}: ran here, token {}", guard.fencing_token()?);
    Ok(())
}

fn since(instant: SystemTime) -> Duration {
    instant.elapsed().unwrap_or_default()
}

fn sleep_until(instant: SystemTime) {
    let left = instant.duration_since(SystemTime::now());
    thread::sleep(left.unwrap_or_default());
}
