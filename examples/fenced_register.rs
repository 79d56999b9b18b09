//! A resource that refuses late writers by their fencing token: what makes a lock with a time limit
//! safe. Two clients write to it, and one of them stands still at the wrong moment.
//!
//! ```text
//! cargo run --example fenced_register
//! ```
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use zoolock::{Client, DistributedLock};

/// In a database: `UPDATE register SET value = :value, token = :token WHERE token <= :token`.
#[derive(Default)]
struct FencedRegister {
    /// The value, and the highest token that was seen.
    inner: Mutex<(String, u64)>,
}

impl FencedRegister {
    /// Writes, unless somebody with a higher token has written. Look and write are one step.
    fn write(&self, token: u64, value: &str) -> Result<(), String> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if token < inner.1 {
            return Err(format!("token {token} is lower than {}", inner.1));
        }
        *inner = (value.to_owned(), token);
        Ok(())
    }

    fn value(&self) -> String {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.0.clone()
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let connect = || Client::connect(servers, Duration::from_secs(10));
    let (slow, quick) = (connect()?, connect()?);
    let path = "/zoolock-examples/fenced-register";
    let register = FencedRegister::default();

    // One takes the lock, looks that it has it, and is about to write..
    let guard = DistributedLock::new(&slow, path)?.acquire()?;
    let stale = guard.fencing_token()?;
    assert!(guard.is_held());
    println!("slow  has token {stale}, and is about to write");

    // .. when it is paused for so long that the servers end its session. To save the time, that is
    // done here by closing its client.
    slow.close()?;

    let guard = DistributedLock::new(&quick, path)?.acquire()?;
    let token = guard.fencing_token()?;
    register.write(token, "written by quick")?;
    println!("quick has token {token}, and has written");

    // It wakes up, and does not know that it has lost the lock between the look and the write.
    let refused = register.write(stale, "written by slow");
    println!("slow  writes with token {stale}: {refused:?}");
    assert!(refused.is_err() && stale < token);
    println!("the register says {:?}", register.value());

    // Third parties can ask whose token is current. That is for people: it may change at once.
    println!("token {stale} is current: {}", quick.verify(path, stale)?);
    println!("token {token} is current: {}", quick.verify(path, token)?);
    guard.release()?;
    quick.close()?;
    Ok(())
}
