//! Locks in an asynchronous program: tasks that wait, tasks that are cancelled while they wait, and
//! a task that works until its lock is lost.
//!
//! ```text
//! cargo run -p asynchronous
//! ```
//!
//! [`task_lock`] is the part to copy. The guide explains it on the page `asynchronous`.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

mod task_lock;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use zoolock::{Client, Wait};

use task_lock::{TaskGuard, TaskLocks};

const PATH: &str = "/zoolock-examples/asynchronous";

/// Works until the lock is lost. Returns whether the work was finished. Dropping the future ends
/// the work, then releases the lock.
async fn work(guard: TaskGuard, finished: oneshot::Receiver<()>) -> bool {
    println!("works with token {}", guard.hold().fencing_token());
    tokio::select! {
        finished = finished => finished.is_ok(),
        () = guard.ended() => false,
    }
}

async fn run(client: Client) -> Result<(), Box<dyn Error>> {
    let lock = TaskLocks::new(&client).at(PATH)?;
    let guard = lock.acquire(Wait::FOREVER).await?.ok_or("never busy")?;
    let impatient = lock.acquire(Wait::within(Duration::from_millis(100))).await?;
    println!("the second task {}", if impatient.is_some() { "works as well" } else { "gave up" });
    let (finish, finished) = oneshot::channel();
    let working = tokio::spawn(work(guard, finished));
    let _ = finish.send(());
    println!("the first task has finished: {}", working.await?);
    drop(lock.acquire(Wait::FOREVER).await?);
    // Closing the client waits for the servers.
    Ok(tokio::task::spawn_blocking(move || client.close()).await??)
}

fn main() {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    // Before the runtime, because it waits for the servers.
    let client = Client::connect(servers, Duration::from_secs(10));
    let done = client.map_err(Into::into).and_then(|client| Runtime::new()?.block_on(run(client)));
    if let Err(error) = done {
        eprintln!("asynchronous: {error}");
        std::process::exit(1);
    }
}
