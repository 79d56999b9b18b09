//! A configuration in two parts that many servers read and few editors change, under a read-write
//! lock.
//!
//! ```text
//! cargo run --example config_cache
//! ```
//!
//! Four servers, each with its own client, refresh their caches again and again, at the same time.
//! Two editors take the write lock alternately and change both parts. Each editor then becomes a
//! reader, with no other editor in between, and checks what it has published. The program checks
//! that a reader never found one part of one version and the other part of another.
//!
//! Needs a ZooKeeper server: the one in `ZOOKEEPER_CONNECT`, or 127.0.0.1:2181.

use std::error::Error;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use zoolock::{Client, DistributedRwLock};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const SERVERS: usize = 4;
const REFRESHES: usize = 25;
const EDITORS: usize = 2;
const EDITS: u64 = 5;
/// The time between the changes of the two parts.
const BETWEEN: Duration = Duration::from_millis(3);

/// The shared configuration, like two files or two rows: nothing here keeps the parts together.
#[derive(Default)]
struct Configuration {
    routes: AtomicU64,
    limits: AtomicU64,
    readers: AtomicUsize,
    most_readers: AtomicUsize,
}

impl Configuration {
    /// The version, if both parts have the same.
    fn load(&self) -> Outcome<u64> {
        let readers = self.readers.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_readers.fetch_max(readers, Ordering::SeqCst);
        let routes = self.routes.load(Ordering::SeqCst);
        thread::sleep(BETWEEN);
        let limits = self.limits.load(Ordering::SeqCst);
        self.readers.fetch_sub(1, Ordering::SeqCst);
        if routes != limits {
            return Err(format!("routes of version {routes}, limits of version {limits}").into());
        }
        Ok(routes)
    }

    fn store(&self) {
        let version = self.routes.load(Ordering::SeqCst) + 1;
        self.routes.store(version, Ordering::SeqCst);
        thread::sleep(BETWEEN);
        self.limits.store(version, Ordering::SeqCst);
    }
}

/// Keeps a cache up to date. Returns the last version that it read.
fn server(lock: &DistributedRwLock, shared: &Configuration) -> Outcome<u64> {
    let mut cached = 0;
    for _ in 0..REFRESHES {
        let reading = lock.read()?; // together with other readers
        let version = shared.load()?;
        reading.release()?; // an error if the lock was lost: then the parts may not match
        if version < cached {
            return Err(format!("version {version} after version {cached}").into());
        }
        cached = version;
    }
    Ok(cached)
}

fn editor(lock: &DistributedRwLock, shared: &Configuration) -> Outcome<u64> {
    let mut seen = 0;
    for _ in 0..EDITS {
        let writing = lock.write()?; // alone
        shared.store();
        let stored = shared.load()?;
        let reading = lock.read()?; // at once: this thread holds the write
        writing.release()?; // lets other readers in, but no editor
        seen = shared.load()?;
        if seen != stored {
            return Err(format!("stored version {stored}, then read {seen}").into());
        }
        reading.release()?;
    }
    Ok(seen)
}

fn run() -> Outcome<()> {
    let servers = std::env::var("ZOOKEEPER_CONNECT");
    let servers = servers.as_deref().unwrap_or("127.0.0.1:2181");
    let lock = || -> zoolock::Result<DistributedRwLock> {
        let client = Client::connect(servers, Duration::from_secs(10))?;
        DistributedRwLock::new(&client, "/zoolock-examples/config")
    };
    let shared = Configuration::default();
    thread::scope(|scope| {
        let mut all = Vec::new();
        for number in 0..SERVERS + EDITORS {
            let (lock, shared) = (lock()?, &shared);
            let part = if number < SERVERS { server } else { editor };
            all.push(scope.spawn(move || part(&lock, shared)));
        }
        for one in all {
            one.join().map_err(|_| "a thread panicked")??;
        }
        Outcome::Ok(())
    })?;
    let (version, most) = (shared.load()?, shared.most_readers.load(Ordering::SeqCst));
    let expected = EDITORS as u64 * EDITS;
    if version != expected {
        return Err(format!("{expected} edits, but version {version}").into());
    }
    let reads = SERVERS * REFRESHES;
    println!("{reads} reads, at most {most} at once, {version} versions, none of them half read");
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("config_cache: {error}");
        std::process::exit(1);
    }
}
