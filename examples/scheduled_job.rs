//! A job that is due on many machines and runs on one of them, though their clocks differ.
//!
//! ```text
//! for late in 0 100 200; do cargo run --example scheduled_job -- $late & done; wait
//! ```
//!
//! The job is due every two seconds. Everybody tries to get its lock then, without waiting. Whoever has it runs
//! the job and unlocks at once, but the lock is held on for as long as anybody else may still take the job for
//! due: else a machine whose clock is late would find the lock free, and run the job once more. Here the
//! clocks differ by 250 ms at most; the argument is by how many milliseconds this one is late.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::error::Error;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zoolock::{Client, DistributedLock, Guard, LockOptions};

/// From one time that the job is due to the next. Longer than `LATEST` and `AT_LEAST` together, so that the
/// lock is free again by then.
const PERIOD: Duration = Duration::from_secs(2);
/// A run begins at most so long after it was due.
const LATEST: Duration = Duration::from_millis(500);
/// By so much the clocks of the machines may differ.
const CLOCKS: Duration = Duration::from_millis(250);
/// Then it is too late on all of them.
const AT_LEAST: Duration = LATEST.saturating_add(CLOCKS);
/// How often it is due before this program ends.
const ROUNDS: u32 = 3;

fn main() {
    if let Err(error) = run() {
        eprintln!("scheduled_job: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let late = std::env::args().nth(1).map_or(Ok(0), |late| late.parse())?;
    let clock = Clock { late: Duration::from_millis(late) };
    let client = Client::connect(servers, Duration::from_secs(10))?;
    let options = LockOptions::new().hold_at_least(AT_LEAST);
    let lock = DistributedLock::with(&client, "/zoolock-examples/scheduled-job", options)?;

    let next = (clock.now().as_millis() / PERIOD.as_millis()) as u32 + 1;
    for round in next..next + ROUNDS {
        let due = PERIOD * round;
        clock.sleep_until(due);
        match lock.try_acquire() {
            Ok(Some(guard)) => {
                if clock.now() < due + LATEST {
                    job(round, &guard)?;
                } else {
                    println!("round {round}: too late");
                }
                guard.release()?; // an error if it was lost, and may have run elsewhere, too
            }
            Ok(None) => println!("round {round}: runs elsewhere"),
            // Whether it runs elsewhere is not known. It is due again soon.
            Err(error) if error.is_retryable() => println!("round {round}: left out: {error}"),
            Err(error) => return Err(error.into()),
        }
    }
    // With the client everything ends that it holds on to.
    thread::sleep(AT_LEAST);
    Ok(client.close()?)
}

fn job(round: u32, guard: &Guard) -> zoolock::Result<()> {
    println!("round {round}: ran here, token {}", guard.fencing_token()?);
    Ok(())
}

/// The clock of this machine.
struct Clock {
    late: Duration,
}

impl Clock {
    /// Since 1970.
    fn now(&self) -> Duration {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.unwrap_or_default().saturating_sub(self.late)
    }

    fn sleep_until(&self, time: Duration) {
        thread::sleep(time.saturating_sub(self.now()));
    }
}
