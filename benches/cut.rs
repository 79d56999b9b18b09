//! Breaks a busy client's connection repeatedly. Measures the time until every held lock is held
//! again on the resumed session, and until the watches of all waiters are set again.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{
    CancelToken, Client, DistributedLock, DistributedRwLock, Hold, HoldState, Lock, Wait,
};
use zoolock_test_support::{FaultProxy, Probe, fresh_path, wait_until};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a connection lasts before it is broken. The client replaces such a connection at once.
/// After a shorter one, it pauses first, because the server may accept connections only to close
/// them.
const LASTED: Duration = Duration::from_millis(1100);
/// The time between two polls.
const PAUSE: Duration = Duration::from_micros(100);

/// The times of one recovery, from the break on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recovery {
    /// Until every held lock was held again.
    pub(crate) held: Duration,
    /// Until all watches were set again as well.
    pub(crate) waiting: Duration,
}

/// A client that holds locks, with threads that wait for another one.
pub(crate) struct Cuts {
    proxy: FaultProxy,
    client: Client,
    locks: Vec<DistributedLock>,
    holds: Vec<Hold>,
    queue: Queue,
    busy: Arc<AtomicBool>,
}

impl Cuts {
    pub(crate) fn new(server: SocketAddr, held: usize, waiting: usize) -> Result<Cuts> {
        let proxy = FaultProxy::start(server)?;
        let client = Client::connect(proxy.connect_string(), SESSION_TIMEOUT)?;
        let locks = hold(&client, held)?;
        Ok(Cuts {
            holds: locks.iter().flat_map(Lock::holds).collect(),
            locks,
            queue: Queue::new(&server.to_string(), &client, waiting)?,
            busy: busy(&client)?,
            proxy,
            client,
        })
    }

    /// Breaks the connection once, after it has lasted long enough.
    pub(crate) fn cut(&self) -> Result<Recovery> {
        thread::sleep(LASTED);
        let before = self.client.stats();
        let cut = Instant::now();
        self.proxy.cut();
        look_until("held again", || {
            self.client.stats().connections > before.connections
                && self.holds.iter().all(|hold| hold.state() == HoldState::Held)
        });
        let held = cut.elapsed();
        // The client sets its watches before it sends other requests, so the answer to this request
        // shows that they are set.
        self.client.contenders("/nothing-is-here")?;
        let waiting = cut.elapsed();
        Ok(Recovery { held, waiting })
    }

    /// Releases everything. Returns how many locks were lost.
    pub(crate) fn end(self) -> Result<u64> {
        let lost = self.client.stats().holds_lost;
        self.busy.store(false, Ordering::SeqCst);
        self.queue.end()?;
        for lock in &self.locks {
            lock.unlock()?;
        }
        self.client.close()?;
        Ok(lost)
    }
}

fn hold(client: &Client, count: usize) -> Result<Vec<DistributedLock>> {
    let lock = |number| {
        let lock = DistributedLock::new(client, fresh_path(&format!("held-{number}")))?;
        lock.lock()?;
        Ok(lock)
    };
    (0..count).map(lock).collect()
}

/// Waits for a condition, polling at intervals that are shorter than the times measured.
fn look_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        thread::sleep(PAUSE);
    }
}

/// Threads that wait for a lock that another client holds.
struct Queue {
    ahead: DistributedLock,
    waiting: Vec<thread::JoinHandle<zoolock::Result<()>>>,
    token: CancelToken,
}

impl Queue {
    fn new(server: &str, client: &Client, count: usize) -> Result<Queue> {
        let path = fresh_path("queue");
        let ahead = DistributedLock::new(&Client::connect(server, SESSION_TIMEOUT)?, &path)?;
        ahead.lock()?;
        let probe = Probe::connect(server)?;
        let (mut waiting, token) = (Vec::new(), CancelToken::new());
        for _ in 0..count {
            // Each read has its own node. Other calls of one client for a path wait in the process.
            let lock = DistributedRwLock::new(client, &path)?.reader();
            let wait = Wait::FOREVER.cancelled_by(&token);
            let builder = thread::Builder::new().stack_size(256 * 1024);
            waiting.push(builder.spawn(move || lock.lock_within(wait).map(drop))?);
        }
        wait_until("all are in the queue", PATIENCE, || {
            probe.children(&path).is_ok_and(|nodes| nodes.len() > count)
        });
        Ok(Queue { ahead, waiting, token })
    }

    fn end(self) -> Result<()> {
        self.token.cancel();
        for waiter in self.waiting {
            let ended = waiter.join().map_err(|_| "a waiter panicked")?;
            if !ended.is_err_and(|error| matches!(error, zoolock::Error::Cancelled { .. })) {
                return Err("a waiter was granted a lock that is held".into());
            }
        }
        Ok(self.ahead.unlock()?)
    }
}

/// A thread that locks and unlocks until the flag is false.
fn busy(client: &Client) -> Result<Arc<AtomicBool>> {
    let lock = DistributedLock::new(client, fresh_path("busy"))?;
    let on = Arc::new(AtomicBool::new(true));
    let go_on = Arc::clone(&on);
    thread::spawn(move || {
        while go_on.load(Ordering::SeqCst) {
            if let Err(error) = lock.lock().and_then(|()| lock.unlock()) {
                eprintln!("busy: {error}");
            }
        }
    });
    Ok(on)
}
