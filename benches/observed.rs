//! Measures the cost of an observer for each acquisition.
//!
//! Short blocks of acquisitions, with and without an observer, come in random order, so that other
//! work of the machine affects both alike. An observer uses the calling thread. The output has the
//! processor time of that thread beside the duration of an acquisition, because a busy machine
//! changes it little.

use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusBuilder;
use zoolock::metrics::MetricsObserver;
use zoolock::observer::{Called, Ended, Observer};
use zoolock::{Client, DistributedLock, LockOptions};
use zoolock_test_support::{Server, fresh_path};

const BLOCKS: usize = 100;
const TURNS: u32 = 100;

/// An observer that adds up numbers, as an exporter does.
#[derive(Default)]
struct Sums([AtomicU64; 4]);

impl Observer for Sums {
    fn called(&self, call: &Called<'_>) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
        self.0[1].fetch_add(call.waited.as_micros() as u64, Ordering::Relaxed);
    }

    fn ended(&self, hold: &Ended<'_>) {
        self.0[2].fetch_add(1, Ordering::Relaxed);
        self.0[3].fetch_add(hold.held.as_micros() as u64, Ordering::Relaxed);
    }
}

fn main() {
    PrometheusBuilder::new().install_recorder().expect("the first recorder");
    let server = Server::start().expect("a server");
    let builder = || Client::builder(server.connect_string());
    let clients = [
        ("nobody", builder()),
        ("nobody, again", builder()),
        ("sums", builder().observer(Sums::default())),
        ("metrics", builder().observer(MetricsObserver::new())),
    ]
    .map(|(name, builder)| (name, builder.connect().expect("connect")));

    let mut runs = clients.each_ref().map(|(_, client)| {
        let options = LockOptions::new().name("invoices");
        let lock = DistributedLock::with_options(client, fresh_path("observed"), options);
        (lock.expect("a good path"), Vec::new(), Vec::new())
    });
    for block in 0..BLOCKS + BLOCKS / 10 {
        let mut order: Vec<_> = runs.iter_mut().collect();
        fastrand::shuffle(&mut order);
        for (lock, times, works) in order {
            let (begun, worked) = (Instant::now(), work());
            for _ in 0..TURNS {
                let guard = lock.acquire().expect("a turn");
                black_box(&guard);
                guard.release().expect("a release");
            }
            // Leave out the first blocks, which run with cold caches.
            if block >= BLOCKS / 10 {
                times.push(begun.elapsed() / TURNS);
                works.push((work() - worked) / TURNS);
            }
        }
    }
    println!("medians of {BLOCKS} blocks of {TURNS} turns: time, and work");
    let mut base = Duration::ZERO;
    for ((name, _), (_, times, works)) in clients.iter().zip(&mut runs) {
        let (time, work) = (median(times), median(works));
        base = if base.is_zero() { time } else { base };
        let ratio = time.as_secs_f64() / base.as_secs_f64();
        println!("  {name:14} {time:8.2?} ({ratio:.4}) {work:8.2?}");
    }
}

/// Returns the processor time of this thread.
fn work() -> Duration {
    // The system updates this number when the thread yields.
    thread::yield_now();
    let line = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanos = line.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("a number"))
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
