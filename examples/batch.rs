//! A batch that runs on one machine at a time.
//!
//! ```text
//! cargo run --example batch -- hang & cargo run --example batch
//! ```
//!
//! The first of these two hangs in its second step. Its heartbeats go on, so only the end of its
//! hold gives the lock back: each step must take less than `LONGEST_STEP`. A process whose hold is
//! lost is aborted, whether it hangs, was cut off, or somebody broke its lock. A supervisor would
//! start it again.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::thread;
use std::time::{Duration, SystemTime};

use zoolock::{Client, DistributedLock, LockOptions};

/// A step that takes longer hangs.
const LONGEST_STEP: Duration = Duration::from_secs(2);
const STEPS: u32 = 3;

fn main() {
    if let Err(error) = run() {
        eprintln!("batch: {error}");
        std::process::exit(1);
    }
}

fn run() -> zoolock::Result<()> {
    let hangs = std::env::args().nth(1).as_deref() == Some("hang");
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let client = Client::builder(servers).connect_lazily()?; // the batch waits for servers, too
    let options = LockOptions::new().hold_at_most(LONGEST_STEP).abort_on_loss(true);
    let lock = DistributedLock::with_options(&client, "/zoolock-examples/batch", options)?;

    let guard = lock.acquire()?;
    for step in 1..=STEPS {
        guard.prolong(LONGEST_STEP)?;
        println!("step {step} begins at {} ms", now());
        if hangs && step == 2 {
            loop {
                thread::park(); // until the process is aborted
            }
        }
        thread::sleep(Duration::from_millis(200));
    }
    guard.release()?;
    println!("all done");
    client.close()
}

/// Returns the time since 1970 in milliseconds.
fn now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis()
}
