//! What an observer costs a turn: of a lock that asks the server, and of one that is kept and asks nobody.
//!
//! Turns with and without it take place one after the other, so that whatever else the machine does hits both.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use zoolock::observer::{Acquired, Ended, Observer};
use zoolock::{Client, DistributedLock, LockOptions};
use zoolock_test_support::{Server, fresh_path};

const ROUNDS: usize = 4000;
/// So many turns that ask nobody are measured at once.
const KEPT_TURNS: u32 = 1000;
const KEPT_ROUNDS: usize = 400;

/// Adds up, as an exporter would.
#[derive(Default)]
struct Sums([AtomicU64; 4]);

impl Observer for Sums {
    fn acquired(&self, call: &Acquired<'_>) {
        self.0[0].fetch_add(1, Ordering::Relaxed);
        self.0[1].fetch_add(call.waited.as_micros() as u64, Ordering::Relaxed);
    }

    fn ended(&self, hold: &Ended<'_>) {
        self.0[2].fetch_add(1, Ordering::Relaxed);
        self.0[3].fetch_add(hold.held.as_micros() as u64, Ordering::Relaxed);
    }
}

fn main() {
    let server = Server::start().expect("a server");
    let builder = || Client::builder(&server.connect_string());
    let mut clients = vec![
        ("nobody", builder().connect().expect("connect")),
        ("nobody, again", builder().connect().expect("connect")),
        ("sums", builder().observer(Sums::default()).connect().expect("connect")),
    ];
    #[cfg(feature = "metrics")]
    clients.push(("metrics", metrics_client(builder())));

    let kept = LockOptions::new().keep_idle(Duration::MAX);
    for (what, options, rounds, turns) in [
        ("a turn at the server", LockOptions::new(), ROUNDS, 1),
        ("a turn of a lock that is kept", kept, KEPT_ROUNDS, KEPT_TURNS),
    ] {
        let lock = |client: &Client| {
            let options = options.clone().name("invoices");
            DistributedLock::with(client, fresh_path("observed"), options).expect("a good path")
        };
        let locks: Vec<_> = clients.iter().map(|(_, client)| lock(client)).collect();
        let mut times = vec![Vec::new(); locks.len()];
        for round in 0..rounds + rounds / 10 {
            for index in 0..locks.len() {
                // Nobody is always behind the same one.
                let index = (index + round) % locks.len();
                let begun = Instant::now();
                for _ in 0..turns {
                    let guard = locks[index].acquire().expect("a turn");
                    black_box(&guard);
                    guard.release().expect("a release");
                }
                if round >= rounds / 10 {
                    times[index].push(begun.elapsed() / turns);
                }
            }
        }
        println!("{what}, medians of {rounds} times {turns}:");
        let base = median(&mut times[0]);
        for ((name, _), times) in clients.iter().zip(&mut times) {
            let median = median(times);
            let ratio = median.as_secs_f64() / base.as_secs_f64();
            println!("  {name:14} {:8.2} us, {ratio:.4}", median.as_secs_f64() * 1e6);
        }
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[cfg(feature = "metrics")]
fn metrics_client(builder: zoolock::ClientBuilder) -> Client {
    let prometheus = metrics_exporter_prometheus::PrometheusBuilder::new();
    let prometheus = prometheus.set_buckets(&[0.001, 0.01, 0.1, 1.0, 10.0]).expect("buckets");
    prometheus.install_recorder().expect("the first recorder");
    builder.observer(zoolock::metrics::MetricsObserver::new()).connect().expect("connect")
}
