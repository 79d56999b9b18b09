//! Measures large numbers: thousands of threads that wait for one lock, and a client that holds
//! thousands of locks.
//!
//! `cargo bench -p zoolock-benches --bench large -- [--waiting 10,100,1000,10000] [--held 10,100,1000,10000]`
//!
//! The waiters are threads of ten clients, each with its own lock object. The threads of a client queue in the process,
//! and each client has one node on the server. 0 skips a part. The output has a line of JSON for each size, and the
//! tables at the end.

mod sleepers;
mod status;

use std::error::Error;
use std::fs;
use std::process;
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::Value;
use zookeeper::ZooKeeper;
use zoolock::{CancelToken, Client, DistributedLock, Hold, Lock, Wait};
use zoolock_test_support::{FaultProxy, Server, fresh_path, wait_until};

use sleepers::sleepers;
use status::status;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The metrics of one size, with their names.
type Row = Vec<(&'static str, f64)>;

const CLIENTS: usize = 10;
/// The number of repetitions of operations that enter or leave the queue.
const TIMES: usize = 20;
/// The largest number of hand-overs to time, so that the queue keeps its length.
const HAND_OVERS: usize = 400;
/// The number of threads that lock at the same time.
const THREADS: usize = 64;
/// Long, so that almost all requests measured are those of the locks.
const LONG: Duration = Duration::from_secs(600);
/// The session timeout of the client that holds the locks.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
const REST: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(600);
const STACK: usize = 128 * 1024;

/// Measures long queues, and clients that hold many locks.
#[derive(Parser)]
struct Options {
    /// The numbers of waiters for one lock.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000, 10_000])]
    waiting: Vec<usize>,
    /// The numbers of locks that one client holds.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000, 10_000])]
    held: Vec<usize>,
    /// The argument that `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let (waiting, held) = (rows(&options.waiting, queue)?, rows(&options.held, holder)?);
    table(&waiting);
    table(&held);
    Ok(())
}

fn rows(sizes: &[usize], measure: fn(usize) -> Result<Row>) -> Result<Vec<Row>> {
    let row = |size: &usize| {
        let row = measure(*size)?;
        let line = row.iter().map(|(name, figure)| (name.to_string(), Value::from(*figure)));
        println!("{}", Value::Object(line.collect()));
        Ok(row)
    };
    sizes.iter().filter(|size| **size > 0).map(row).collect()
}

/// A column for each metric.
fn table(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let names: Vec<_> = first.iter().map(|(name, _)| *name).collect();
    println!("\n| {} |\n|{}", names.join(" | "), "---:|".repeat(names.len()));
    for row in rows {
        let figures: Vec<_> = row.iter().map(|(_, figure)| figure.to_string()).collect();
        println!("| {} |", figures.join(" | "));
    }
}

// ---- waiting threads

/// Threads that wait for one lock, and their results.
struct Queue {
    threads: Vec<(CancelToken, JoinHandle<zoolock::Result<Instant>>)>,
    stage: Arc<Barrier>,
    grants: Arc<Mutex<Vec<Instant>>>,
    /// The last holder waits here when the hand-overs are over.
    end: Arc<Barrier>,
    /// The number of grants after which the hand-overs are over.
    last: usize,
}

impl Queue {
    /// Starts the threads, which are parked at first.
    fn new(clients: &[Client], path: &str, number: usize) -> Result<Queue> {
        let last = HAND_OVERS.min(number - number / 10);
        let mut queue = Queue {
            threads: Vec::new(),
            stage: Arc::new(Barrier::new(number + 1)),
            grants: Arc::default(),
            last,
            end: Arc::new(Barrier::new(2)),
        };
        for client in clients.iter().cycle().take(number) {
            let (stage, grants) = (Arc::clone(&queue.stage), Arc::clone(&queue.grants));
            let end = Arc::clone(&queue.end);
            let (lock, token) = (DistributedLock::new(client, path)?, CancelToken::new());
            let forever = Wait::FOREVER.cancelled_by(&token);
            let wait = move || {
                stage.wait();
                stage.wait();
                if let Err(error) = lock.lock_within(forever) {
                    return if matches!(error, zoolock::Error::Cancelled { .. }) {
                        Ok(Instant::now())
                    } else {
                        Err(error)
                    };
                }
                let granted = Instant::now();
                let mut grants = grants.lock().expect("grants");
                grants.push(granted);
                let is_last = grants.len() == last;
                drop(grants);
                if is_last {
                    end.wait();
                }
                lock.unlock()?;
                Ok(granted)
            };
            let thread = thread::Builder::new().stack_size(STACK).spawn(wait)?;
            queue.threads.push((token, thread));
        }
        queue.stage.wait();
        Ok(queue)
    }

    /// Lets a waiter in the middle give up. Returns how long that takes.
    fn leave(&mut self) -> Result<f64> {
        let middle = self.threads.len() / 2;
        let (token, thread) = self.threads.swap_remove(middle);
        let begun = Instant::now();
        token.cancel();
        let left = thread.join().map_err(|_| "a waiter panicked")??;
        Ok(millis(left - begun))
    }
}

fn queue(number: usize) -> Result<Row> {
    let server = Server::builder().property("maxSessionTimeout", "600000").start()?;
    let connect = || Client::connect(server.connect_string(), LONG);
    let clients: Vec<_> = (0..CLIENTS).map(|_| connect()).collect::<zoolock::Result<_>>()?;
    let (other, raw) = (connect()?, ZooKeeper::connect(&server.connect_string(), LONG)?);
    let path = fresh_path("large");
    let lock = DistributedLock::new(&other, &path)?;
    lock.lock()?;
    let count = || raw.exists(&path).map_or(0, |stat| stat.map_or(0, |stat| stat.num_children));
    let await_count = |what: &str, number: usize| {
        wait_until(what, PATIENCE, || usize::try_from(count()).is_ok_and(|count| count == number));
    };

    let requests = || clients.iter().map(|client| client.stats().requests).sum::<u64>();

    let mut queue = Queue::new(&clients, &path, number)?;
    let status = |name| status(process::id(), name);
    let (memory, threads, begun) = (status("VmRSS")?, status("Threads")?, Instant::now());
    queue.stage.wait();
    await_count("all clients are in", CLIENTS.min(number) + 1);
    wait_until("all wait", PATIENCE, || {
        sleepers(process::id()).is_ok_and(|asleep| asleep >= number)
    });
    let entered = begun.elapsed().as_secs_f64();
    let memory = (status("VmRSS")? - memory) / number as f64;
    let threads = (status("Threads")? - threads) / number as f64;

    let tries = || {
        timed(|| DistributedLock::new(&clients[0], &path)?.try_lock().map(drop).map_err(Into::into))
    };
    let tries = middle(&mut (0..TIMES).map(|_| tries()).collect::<Result<Vec<_>>>()?);
    let leaving = number / 10;
    let leave = (0..leaving.min(TIMES)).map(|_| queue.leave()).collect::<Result<Vec<_>>>();
    let leave = middle(&mut leave?);

    let (before, sent, released) = (processor()?, requests(), Instant::now());
    lock.unlock()?;
    wait_until("handed over", PATIENCE, || {
        queue.grants.lock().is_ok_and(|grants| grants.len() == queue.last)
    });
    let mut gaps: Vec<f64> = {
        let grants = queue.grants.lock().expect("grants");
        let before = [released].into_iter().chain(grants.iter().copied());
        before.zip(grants.iter()).map(|(before, grant)| millis(*grant - before)).collect()
    };
    let processor = (processor()? - before) / gaps.len() as f64;
    let sent = (requests() - sent) as f64 / gaps.len() as f64;
    let hand_over = middle(&mut gaps);
    let slow = gaps[gaps.len() * 99 / 100];

    let begun = Instant::now();
    queue.threads.iter().for_each(|(token, _)| token.cancel());
    await_count("all but the holder have left", 1);
    let left = begun.elapsed().as_secs_f64();
    queue.end.wait();
    for (_, thread) in queue.threads {
        thread.join().map_err(|_| "a waiter panicked")??;
    }
    Ok(vec![
        ("waiting", number as f64),
        ("until all are in s", round(entered)),
        ("hand over ms", round(hand_over)),
        ("p99 ms", round(slow)),
        ("requests", round(sent)),
        ("processor ms", round(processor)),
        ("one leaves ms", round(leave)),
        ("try lock ms", round(tries)),
        ("until all have left s", round(left)),
        ("KiB each", round(memory)),
        ("threads each", round(threads)),
    ])
}

// ---- one client that holds locks

fn holder(number: usize) -> Result<Row> {
    let server = Server::start()?;
    let connect = |to: &str| Client::connect(to, SESSION_TIMEOUT);
    let (client, other) = (connect(&server.connect_string())?, connect(&server.connect_string())?);
    let watched = || server.metric("zk_watch_count").is_ok_and(|count| count >= number as u64);

    let mut locks = locks(&client, number)?;
    let by_one = timed(|| lock_all(&locks, 1))?;
    let unlock = timed(|| Ok(locks.iter().try_for_each(DistributedLock::unlock)?))?;
    locks = self::locks(&client, number)?;
    let by_many = timed(|| lock_all(&locks, THREADS))?;

    // By now, all nodes are watched: this happens a quarter of the session timeout after their grants.
    let (one, mut cycles) = (DistributedLock::new(&client, fresh_path("one-more"))?, Vec::new());
    while cycles.len() < 1000 || !watched() {
        cycles.push(timed(|| Ok(one.lock().and_then(|()| one.unlock())?))?);
    }
    let cycle = middle(&mut cycles);
    let path = fresh_path("one-more");
    let (own, its) = (DistributedLock::new(&client, &path)?, DistributedLock::new(&other, &path)?);
    let wait = || -> Result<f64> {
        its.lock()?;
        let own = own.clone();
        let waiter = thread::spawn(move || own.lock().and_then(|()| own.unlock()));
        wait_until("it waits", PATIENCE, || its.contenders().is_ok_and(|all| all.len() == 2));
        timed(|| {
            its.unlock()?;
            Ok(waiter.join().map_err(|_| "the waiter panicked")??)
        })
    };
    let wait = middle(&mut (0..TIMES).map(|_| wait()).collect::<Result<Vec<_>>>()?);

    let (requests, before) = (client.stats().requests, processor()?);
    thread::sleep(REST);
    let seconds = REST.as_secs_f64();
    let (processor, requests) =
        ((processor()? - before) / seconds, (client.stats().requests - requests) as f64 / seconds);
    client.close()?;

    let proxy = FaultProxy::start(server.address())?;
    let client = connect(&proxy.connect_string())?;
    locks = self::locks(&client, number)?;
    lock_all(&locks, THREADS)?;
    wait_until("all are watched", PATIENCE, watched);
    let holds: Vec<_> = locks.iter().flat_map(Lock::holds).collect();
    let cut = timed(|| {
        let connections = client.stats().connections;
        proxy.cut();
        wait_until("held again", PATIENCE, || {
            client.stats().connections > connections && holds.iter().all(Hold::is_held)
        });
        // The answer to this request arrives after those to the watches.
        client.contenders("/nothing-is-here")?;
        Ok(())
    })?;
    assert_eq!(client.stats().holds_lost, 0);
    proxy.expire_sessions()?;
    let lost = timed(|| {
        let lost = || client.stats().holds_lost == number as u64;
        wait_until("all are lost", PATIENCE, lost);
        Ok(())
    })?;
    locks = self::locks(&client, number)?;
    let again = timed(|| lock_all(&locks, THREADS))?;
    client.close()?;
    Ok(vec![
        ("held", number as f64),
        ("lock all s", round(by_one / 1e3)),
        ("unlock all s", round(unlock / 1e3)),
        ("lock all by 64 threads s", round(by_many / 1e3)),
        ("one more locked and unlocked ms", round(cycle)),
        ("p99 ms", round(cycles[cycles.len() * 99 / 100])),
        ("most ms", round(cycles[cycles.len() - 1])),
        ("one more waited for ms", round(wait)),
        ("requests per s at rest", round(requests)),
        ("processor ms per s", round(processor)),
        ("from a cut until held ms", round(cut)),
        ("from an expiry until lost ms", round(lost)),
        ("until held again s", round(again / 1e3)),
    ])
}

/// Creates lock objects whose paths have 20 bytes.
fn locks(client: &Client, number: usize) -> Result<Vec<DistributedLock>> {
    let lock = |number| DistributedLock::new(client, format!("/large/locks/{number:07}"));
    Ok((0..number).map(lock).collect::<zoolock::Result<_>>()?)
}

fn lock_all(locks: &[DistributedLock], threads: usize) -> Result<()> {
    thread::scope(|scope| {
        let each = locks.chunks(locks.len().div_ceil(threads));
        let all: Vec<_> = each
            .map(|locks| scope.spawn(move || locks.iter().try_for_each(DistributedLock::lock)))
            .collect();
        all.into_iter()
            .try_for_each(|thread| Ok(thread.join().map_err(|_| "a thread panicked")??))
    })
}

// ---- metrics

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(millis(begun.elapsed()))
}

/// Sorts the samples and returns their median.
fn middle(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Rounds to three decimal places.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Returns the processor time of this process, in milliseconds.
fn processor() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The fields begin after the name, which may contain spaces.
    let figures = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = figures.skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<std::result::Result<f64, _>>()? * 10.0)
}
