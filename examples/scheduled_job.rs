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

use zoolock::{Client, DistributedLock, Error, Guard};

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
        match attempt(&lock, round, due)? {
            Attempt::Ran => {}
            Attempt::TooLate => println!("round {round}: too late"),
            Attempt::Elsewhere => println!("round {round}: runs elsewhere"),
            // Whether it runs elsewhere is not known. It is due again soon.
            Attempt::LeftOut(error) => println!("round {round}: left out: {error}"),
        }
    }
    client.close()
}

/// What has become of a round here.
#[derive(Debug)]
enum Attempt {
    Ran,
    TooLate,
    Elsewhere,
    LeftOut(Error),
}

fn attempt(lock: &DistributedLock, round: u64, due: SystemTime) -> zoolock::Result<Attempt> {
    match lock.try_acquire() {
        Ok(Some(guard)) if since(due) < LATEST => {
            job(round, &guard)?;
            sleep_until(due + LATEST + CLOCKS);
            guard.release()?; // an error if it was lost, and may have run elsewhere, too
            Ok(Attempt::Ran)
        }
        Ok(Some(guard)) => guard.release().map(|()| Attempt::TooLate),
        Ok(None) => Ok(Attempt::Elsewhere),
        Err(error) if error.is_retryable() => Ok(Attempt::LeftOut(error)),
        Err(error) => Err(error),
    }
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

#[cfg(all(test, feature = "testing"))]
mod tests {
    use zoolock::testing::Server;

    use super::*;

    fn lock_of(client: &Client) -> DistributedLock {
        DistributedLock::new(client, "/job").expect("a good path")
    }

    #[test]
    fn it_runs_on_one_of_two_machines_and_on_the_other_when_that_has_crashed() {
        let server = Server::start().expect("a server");
        let [ours, theirs] = [server.client().unwrap(), server.client().unwrap()];
        let _running = lock_of(&theirs).acquire().unwrap();
        let due = SystemTime::now();
        assert!(matches!(attempt(&lock_of(&ours), 1, due), Ok(Attempt::Elsewhere)));
        server.expire(&theirs);
        assert!(matches!(attempt(&lock_of(&ours), 2, due - LATEST), Ok(Attempt::TooLate)));
        // In time to begin, and all others are too late when it has.
        let due = SystemTime::now() - LATEST + CLOCKS;
        assert!(matches!(attempt(&lock_of(&ours), 3, due), Ok(Attempt::Ran)));
    }

    #[test]
    fn without_a_connection_a_round_is_left_out() {
        let server = Server::start().expect("a server");
        let client = server.client().unwrap();
        server.suspend(&client);
        let left_out = attempt(&lock_of(&client), 1, SystemTime::now());
        assert!(matches!(left_out, Ok(Attempt::LeftOut(_))), "{left_out:?}");
        server.resume(&client);
    }
}
