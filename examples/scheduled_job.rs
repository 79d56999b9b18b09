//! A job that is due on many machines, whose clocks differ, but runs on only one of them.
//!
//! ```text
//! for late in 0 100 200; do cargo run --example scheduled_job -- $late & done; wait
//! ```
//!
//! The job is due every two seconds. At that time, every machine tries to acquire its lock, without
//! waiting. The holder runs the job and unlocks at once. The lock stays busy for as long as the job
//! may still be due on another machine: otherwise a machine whose clock is behind would find the
//! lock free, and run the job again. Here the clocks differ by at most 250 ms. The argument is how
//! far this machine's clock is behind, in milliseconds.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::error::Error;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zoolock::{Client, DistributedLock, Guard, LockOptions};

/// The interval between runs. It is longer than `LATEST` and `AT_LEAST` together, so that the lock
/// is free again before the next run.
const PERIOD: Duration = Duration::from_secs(2);
/// A run begins at most this long after it was due.
const LATEST: Duration = Duration::from_millis(500);
/// The largest difference between the clocks of the machines.
const CLOCKS: Duration = Duration::from_millis(250);
/// How long the lock stays busy. After this time, no machine starts the job any more.
const AT_LEAST: Duration = LATEST.saturating_add(CLOCKS);
/// The number of runs before this program ends.
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
    let lock = lock(&client)?;

    let next = (clock.now().as_millis() / PERIOD.as_millis()) as u32 + 1;
    for round in next..next + ROUNDS {
        clock.sleep_until(PERIOD * round);
        match attempt(&lock, &clock, round)? {
            Attempt::Ran => {}
            Attempt::TooLate => println!("round {round}: too late"),
            Attempt::Elsewhere => println!("round {round}: runs elsewhere"),
            // The state of the lock is unknown, so this machine skips the round. The job is due
            // again soon.
            Attempt::LeftOut(error) => println!("round {round}: left out: {error}"),
        }
    }
    // The end of the client also ends the locks that stay busy.
    thread::sleep(AT_LEAST);
    Ok(client.close()?)
}

fn lock(client: &Client) -> zoolock::Result<DistributedLock> {
    let options = LockOptions::new().hold_at_least(AT_LEAST);
    DistributedLock::with_options(client, "/zoolock-examples/scheduled-job", options)
}

/// The result of a round on this machine.
#[derive(Debug)]
enum Attempt {
    Ran,
    TooLate,
    Elsewhere,
    LeftOut(zoolock::Error),
}

fn attempt(lock: &DistributedLock, clock: &Clock, round: u32) -> zoolock::Result<Attempt> {
    let guard = match lock.try_acquire() {
        Ok(Some(guard)) => guard,
        Ok(None) => return Ok(Attempt::Elsewhere),
        Err(error) if error.is_retryable() => return Ok(Attempt::LeftOut(error)),
        Err(error) => return Err(error),
    };
    let in_time = clock.now() < PERIOD * round + LATEST;
    if in_time {
        job(round, &guard)?;
    }
    guard.release()?; // an error if the lock was lost: another machine may have run the job, too
    Ok(if in_time { Attempt::Ran } else { Attempt::TooLate })
}

fn job(round: u32, guard: &Guard) -> zoolock::Result<()> {
    println!("round {round}: ran here, token {}", guard.fencing_token());
    Ok(())
}

/// The clock of this machine.
struct Clock {
    late: Duration,
}

impl Clock {
    /// Returns the time since 1970 by this machine's clock.
    fn now(&self) -> Duration {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.unwrap_or_default().saturating_sub(self.late)
    }

    fn sleep_until(&self, time: Duration) {
        thread::sleep(time.saturating_sub(self.now()));
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use zoolock::testing::Server;

    use super::*;

    /// A clock by which this round has just become due. By the real clock it was due long ago.
    fn due(round: u32) -> Clock {
        let now = Clock { late: Duration::ZERO }.now();
        Clock { late: now - PERIOD * round }
    }

    #[test]
    fn job_runs_on_one_machine_and_on_the_other_after_a_crash() {
        let server = Server::start().expect("a server");
        let [ours, theirs] = [server.client().unwrap(), server.client().unwrap()];
        let [here, there] = [&ours, &theirs].map(|client| lock(client).expect("a good path"));
        assert!(matches!(attempt(&there, &due(1), 1), Ok(Attempt::Ran)));
        assert!(matches!(attempt(&here, &due(1), 1), Ok(Attempt::Elsewhere)));
        server.expire(&theirs);
        assert!(matches!(attempt(&here, &due(3), 2), Ok(Attempt::TooLate)));
    }

    #[test]
    fn round_without_a_connection_is_skipped() {
        let server = Server::start().expect("a server");
        let client = server.client().unwrap();
        server.suspend(&client);
        let left_out = attempt(&lock(&client).unwrap(), &due(1), 1);
        assert!(matches!(left_out, Ok(Attempt::LeftOut(_))), "{left_out:?}");
        server.resume(&client);
    }
}
