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
    let lock = lock(&client)?;

    let next = (clock.now().as_millis() / PERIOD.as_millis()) as u32 + 1;
    for round in next..next + ROUNDS {
        clock.sleep_until(PERIOD * round);
        match attempt(&lock, &clock, round)? {
            Attempt::Ran => {}
            Attempt::TooLate => println!("round {round}: too late"),
            Attempt::Elsewhere => println!("round {round}: runs elsewhere"),
            // Whether it runs elsewhere is not known. It is due again soon.
            Attempt::LeftOut(error) => println!("round {round}: left out: {error}"),
        }
    }
    // With the client everything ends that it holds on to.
    thread::sleep(AT_LEAST);
    Ok(client.close()?)
}

fn lock(client: &Client) -> zoolock::Result<DistributedLock> {
    let options = LockOptions::new().hold_at_least(AT_LEAST);
    DistributedLock::with(client, "/zoolock-examples/scheduled-job", options)
}

/// What has become of a round here.
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
    guard.release()?; // an error if it was lost, and may have run elsewhere, too
    Ok(if in_time { Attempt::Ran } else { Attempt::TooLate })
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

#[cfg(all(test, feature = "testing"))]
mod tests {
    use zoolock::testing::Server;

    use super::*;

    /// A clock by which this round has just become due, long ago for the real one.
    fn due(round: u32) -> Clock {
        let now = Clock { late: Duration::ZERO }.now();
        Clock { late: now - PERIOD * round }
    }

    #[test]
    fn it_runs_on_one_of_two_machines_though_that_has_unlocked_and_on_the_other_if_that_crashed() {
        let server = Server::start().expect("a server");
        let [ours, theirs] = [server.client().unwrap(), server.client().unwrap()];
        let [here, there] = [&ours, &theirs].map(|client| lock(client).expect("a good path"));
        assert!(matches!(attempt(&there, &due(1), 1), Ok(Attempt::Ran)));
        assert!(matches!(attempt(&here, &due(1), 1), Ok(Attempt::Elsewhere)));
        server.expire(&theirs);
        assert!(matches!(attempt(&here, &due(3), 2), Ok(Attempt::TooLate)));
    }

    #[test]
    fn without_a_connection_a_round_is_left_out() {
        let server = Server::start().expect("a server");
        let client = server.client().unwrap();
        server.suspend(&client);
        let left_out = attempt(&lock(&client).unwrap(), &due(1), 1);
        assert!(matches!(left_out, Ok(Attempt::LeftOut(_))), "{left_out:?}");
        server.resume(&client);
    }
}
