//! A batch that runs on one machine at a time, and ends its process when its lock is lost.
//!
//! ```text
//! cargo run --example batch -- hang & cargo run --example batch
//! ```
//!
//! [`AtLoss`] is the part to copy: an observer of all holds of a client, which needs no thread for
//! each of them. The first of the two batches hangs in its second step. Because its heartbeats
//! continue, the lock becomes free only when its hold expires. Each step must therefore take less
//! than `LONGEST_STEP`. If its hold is lost, the process is aborted, whether it hangs, is
//! disconnected, or another program broke its lock. A supervisor would start it again.
//!
//! The abort follows the loss within milliseconds, unless the process is paused. The next batch may
//! begin a moment before the abort. A resource that can check [fencing
//! tokens](zoolock::Hold::fencing_token) should therefore check them.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::thread;
use std::time::{Duration, SystemTime};

use zoolock::observer::{Ended, HoldOutcome, Observer};
use zoolock::{Client, DistributedLock, LockOptions, LossReason};

/// A step that takes longer counts as hanging.
const LONGEST_STEP: Duration = Duration::from_secs(2);
const STEPS: u32 = 3;

/// Calls a function when a hold of its client is lost, but not when the program closes the client.
struct AtLoss<F>(F);

impl<F: Fn(LossReason) + Send + Sync> Observer for AtLoss<F> {
    fn ended(&self, hold: &Ended<'_>) {
        if let HoldOutcome::Lost(reason) = hold.outcome
            && reason != LossReason::ClientClosed
        {
            (self.0)(reason);
        }
    }
}

/// Ends the process without destructors and exit handlers, because they could wait for the work
/// that hangs.
fn abort(reason: LossReason) {
    eprintln!("batch: the lock was lost: {reason}");
    std::process::abort()
}

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
    // If the servers are down, the batch waits for them.
    let client = Client::builder(servers).observer(AtLoss(abort)).connect_lazily()?;
    let options = LockOptions::new().hold_at_most(LONGEST_STEP);
    let lock = DistributedLock::with_options(&client, "/zoolock-examples/batch", options)?;

    let guard = lock.acquire()?;
    for step in 1..=STEPS {
        guard.expire_in(LONGEST_STEP)?;
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

#[cfg(all(test, feature = "testing"))]
mod tests {
    use zoolock::crossbeam_channel::{Receiver, unbounded};
    use zoolock::testing::Server;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    /// Returns a client, and the losses of its holds.
    fn observed(server: &Server) -> (Client, Receiver<LossReason>) {
        let (tell, losses) = unbounded();
        let observer = AtLoss(move |reason| tell.send(reason).expect("somebody listens"));
        (server.builder().observer(observer).connect().expect("a client"), losses)
    }

    #[test]
    fn each_loss_is_heard() {
        let server = Server::start().expect("a server");
        let (client, losses) = observed(&server);
        let options = LockOptions::new().hold_at_most(Duration::from_millis(50));
        let short = DistributedLock::with_options(&client, "/short", options).expect("a good path");
        let long = DistributedLock::new(&client, "/long").expect("a good path");
        let short = short.acquire().expect("it is free");
        assert_eq!(losses.recv_timeout(SOON), Ok(LossReason::HeldTooLong));
        assert!(short.release().is_err());
        let long = long.acquire().expect("it is free");
        server.expire(&client);
        assert_eq!(losses.recv_timeout(SOON), Ok(LossReason::LeaseExpired));
        assert!(long.release().is_err() && losses.is_empty());
    }

    #[test]
    fn release_and_close_are_no_losses() {
        let server = Server::start().expect("a server");
        let (client, losses) = observed(&server);
        let lock = |path| DistributedLock::new(&client, path).expect("a good path");
        lock("/released").acquire().expect("it is free").release().expect("it was held");
        let held = lock("/held").acquire().expect("it is free");
        client.close().expect("a server answers");
        drop(held);
        drop(client);
        // The observer is dropped with its client, so nothing more can arrive.
        assert!(losses.recv_timeout(SOON).is_err_and(|end| end.is_disconnected()));
    }
}
