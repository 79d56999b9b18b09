//! Acquires a lock, works while it is held, and releases it: a program to start from.
//!
//! ```text
//! cargo run --example quickstart
//! ```
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::time::Duration;

use zoolock::{Client, DistributedLock};

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> zoolock::Result<()> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let client = Client::connect(servers, Duration::from_secs(10))?;
    let lock = DistributedLock::new(&client, "/zoolock-examples/quickstart")?;

    let guard = lock.acquire()?; // waits for its turn; see acquire_within() for a deadline
    println!("held, with fencing token {}", guard.fencing_token());
    for step in 1..=3 {
        if !guard.is_held() {
            break; // lost: another process may be at work by now
        }
        println!("step {step}, certain for another {:?}", guard.valid_for());
        std::thread::sleep(Duration::from_millis(300));
    }
    guard.release()?; // an error if the lock was lost meanwhile
    println!("released");
    client.close()
}
