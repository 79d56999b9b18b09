//! Measures the memory of a waiting lock, beyond the thread that waits.
//!
//! `cargo bench -p zoolock-benches --bench memory -- [--waiters 10,100,1000] [--locks N]`
//!
//! Threads are started first, and are parked. Then each thread creates a lock object and waits for
//! a lock that another client holds. The result is the growth of the heap, divided by the number of
//! threads. The output has a line of JSON for each size.

use std::error::Error;
use std::mem;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::Parser;
use dhat::{HeapStats, Profiler};
use serde_json::json;
use zoolock::{Client, DistributedLock, DistributedRwLock, Error as LockError};
use zoolock_test_support::{Server, fresh_path, wait_until};

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Long, so that only the waiting is measured.
const TIMEOUT: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(120);

/// Measures the heap of waiting locks.
#[derive(Parser)]
struct Options {
    /// The numbers of waiters.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000, 4000])]
    waiters: Vec<usize>,
    /// The number of locks that they wait for, spread evenly.
    #[arg(long, default_value_t = 10)]
    locks: usize,
    /// The argument that `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let server = Server::builder().property("maxSessionTimeout", "600000").start()?;
    let _profiler = Profiler::builder().testing().build();
    for &waiters in &options.waiters {
        let locks = options.locks.min(waiters);
        let grown = measure(&server, waiters, locks)?;
        let line = json!({
            "bench": "memory", "waiters": waiters, "locks": locks, "heap_bytes": grown,
            "heap_bytes_per_waiter": grown / waiters,
        });
        println!("{line}");
    }
    Ok(())
}

/// Returns the heap's growth with this many waiters, in bytes.
fn measure(server: &Server, waiters: usize, locks: usize) -> Result<usize> {
    let [holder, client] = [(); 2].map(|()| Client::connect(server.connect_string(), TIMEOUT));
    let (holder, client) = (holder?, client?);
    let paths: Vec<_> = (0..locks).map(|_| fresh_path("memory")).collect();
    let held = paths.iter().map(|path| {
        let lock = DistributedLock::new(&holder, path)?;
        lock.lock().map(|()| lock)
    });
    let held: Vec<_> = held.collect::<zoolock::Result<_>>()?;
    let count = |path| holder.contenders(path).map_or(0, |all| all.len());
    let await_all = |number: usize| {
        wait_until("all wait", SOON, || paths.iter().map(&count).sum::<usize>() == number);
        // By then, each waiter has its list, and watches its own node and the node ahead.
        wait_until("all know their place", SOON, || {
            let watches = server.metric("zk_watch_count");
            watches.is_ok_and(|watches| watches >= number as u64)
        });
        let mut last = 0;
        wait_until("nothing is given back any more", SOON, || {
            let now = HeapStats::get().curr_bytes;
            mem::replace(&mut last, now) == now
        });
    };
    // One waiter starts before the measurement, so that the client has its own memory already.
    let mut crowd = Crowd::new(&client, &paths, locks);
    crowd.go();
    await_all(held.len() + locks);
    let mut rest = Crowd::new(&client, &paths, waiters);
    let before = HeapStats::get().curr_bytes;
    rest.go();
    await_all(held.len() + locks + waiters);
    let grown = HeapStats::get().curr_bytes - before;
    client.close()?;
    crowd.threads.append(&mut rest.threads);
    for thread in crowd.threads {
        match thread.join() {
            Ok(LockError::Closed) => {}
            ended => return Err(format!("a waiter ended with {ended:?}").into()),
        }
    }
    Ok(grown)
}

/// Threads that have started, and are parked until they may begin.
struct Crowd {
    stage: Arc<Barrier>,
    threads: Vec<JoinHandle<LockError>>,
}

impl Crowd {
    fn new(client: &Client, paths: &[String], number: usize) -> Crowd {
        let stage = Arc::new(Barrier::new(number + 1));
        let each = paths.iter().cycle().take(number).map(|path| {
            let (client, stage, path) = (client.clone(), Arc::clone(&stage), path.clone());
            thread::spawn(move || wait(&client, &stage, &path))
        });
        let threads = each.collect();
        stage.wait();
        Crowd { stage, threads }
    }

    fn go(&self) {
        self.stage.wait();
    }
}

/// Waits for the lock, and returns the error that ends the wait.
fn wait(client: &Client, stage: &Barrier, path: &str) -> LockError {
    stage.wait(); // all are there
    stage.wait(); // all go
    // Each read has its own node. Other calls of one client for a path wait in the process.
    let waited = DistributedRwLock::new(client, path).and_then(|lock| lock.reader().lock());
    waited.expect_err("somebody else has the lock")
}
