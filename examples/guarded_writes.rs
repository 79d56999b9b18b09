//! Writes to ZooKeeper that the servers carry out only while the lock is held. Two clients write to
//! a node, and one of them loses its lock just before its write.
//!
//! ```text
//! cargo run --example guarded_writes
//! ```
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::time::Duration;

use zoolock::{Client, ConflictReason, DistributedLock, Error};

const LOCK: &str = "/zoolock-examples/guarded-writes";
/// The node that the lock protects.
const CONFIG: &str = "/zoolock-examples/config";

fn main() {
    if let Err(error) = run() {
        eprintln!("guarded_writes: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let connect = || Client::connect(servers, Duration::from_secs(10));
    let (slow, quick) = (connect()?, connect()?);
    let guard = DistributedLock::new(&slow, LOCK)?.acquire()?;

    // The node may exist already, from an earlier run or from another client.
    match guard.transaction().create(CONFIG, "colour=grey").commit() {
        Err(Error::Conflict { reason: ConflictReason::NodeExists, .. }) => {}
        created => created?,
    }
    let (text, first) = slow.read(CONFIG)?.ok_or("the node is missing")?;
    println!("slow  has read {:?}, version {first}", String::from_utf8_lossy(&text));
    guard.transaction().set(CONFIG, "colour=green", first).commit()?;
    println!("slow  has written colour=green");

    // The session of the first client ends just before its next write, as after a long pause or a
    // network failure. To save time, the program closes the client instead.
    let late = guard.transaction().set(CONFIG, "colour=red", None);
    slow.close()?;
    let next = DistributedLock::new(&quick, LOCK)?.acquire()?;
    next.transaction().set(CONFIG, "colour=blue", None).commit()?;
    println!("quick has the lock, and has written colour=blue");

    let refused = late.commit();
    println!("slow  writes colour=red: {refused:?}");
    assert!(refused.is_err());
    let (text, version) = quick.read(CONFIG)?.ok_or("the node is gone")?;
    println!("the node says {:?}, version {version}", String::from_utf8_lossy(&text));
    assert_eq!(text, b"colour=blue");

    // A holder gets an error if the data are not those that it expects.
    let stale = next.transaction().set(CONFIG, "colour=pink", first).commit();
    println!("quick writes to the first version: {stale:?}");
    assert!(matches!(stale, Err(Error::Conflict { reason: ConflictReason::BadVersion, .. })));
    next.release()?;
    quick.close()?;
    Ok(())
}
