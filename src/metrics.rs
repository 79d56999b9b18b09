//! Metrics of locks and clients for the crate [`metrics`](https://docs.rs/metrics), which exports
//! them to Prometheus and other systems. Needs the feature `metrics`. The version of `metrics` is
//! 0.24: a recorder for another version receives nothing.
//!
//! Pass a [`MetricsObserver`] to the client's builder. Call [`record_client`] before each read of
//! the metrics. The example `prometheus` does both. Install the recorder before the first call for
//! a lock, because earlier events are lost.
//!
//! | metric | labels | what |
//! |---|---|---|
//! | `zoolock_acquisitions_total` | `lock`, `name`, `outcome` | counter: calls that lock, as `acquired`, `busy`, `timed_out`, `cancelled` or `failed` |
//! | `zoolock_wait_seconds` | `lock`, `name` | histogram: the waiting time of calls that acquired their lock |
//! | `zoolock_queue_length` | `lock`, `name` | histogram: how many contenders were ahead on the servers when a call queued, whatever its outcome |
//! | `zoolock_hold_seconds` | `lock`, `name` | histogram: how long holds lasted, including lost holds |
//! | `zoolock_lost_total` | `lock`, `name`, `reason` | counter: holds that were lost, as `lease_expired`, `node_deleted`, `client_closed` or `held_too_long` |
//! | `zoolock_connected` | | gauge: 1 with a connection, otherwise 0 |
//! | `zoolock_held`, `zoolock_waiting`, `zoolock_deleting`, `zoolock_registered` | | gauges: those of [`Stats`](crate::Stats) |
//! | `zoolock_requests_total`, `zoolock_events_total`, `zoolock_connections_total`, `zoolock_sessions_total`, `zoolock_resumed_total`, `zoolock_holds_lost_total` | | counters: those of [`Stats`](crate::Stats) |
//!
//! `lock` is the [kind](crate::LockKind::as_str), and `name` the lock's
//! [`LockOptions::name`](crate::LockOptions::name). [`observer`](crate::observer) describes which
//! calls and holds are counted.

use metrics::{
    Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use crate::client::Client;
use crate::observer::{CallOutcome, Called, Ended, Observer};
use crate::session::ClientState;

/// An [`Observer`] that records calls and holds as metrics.
///
/// ```no_run
/// use zoolock::Client;
/// use zoolock::metrics::{MetricsObserver, record_client};
///
/// # fn main() -> zoolock::Result<()> {
/// // After a recorder has been installed.
/// let builder = Client::builder("127.0.0.1:2181").observer(MetricsObserver::new());
/// let client = builder.connect()?;
/// record_client(&client); // and again before each scrape
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MetricsObserver(());

/// The counters, and the values of their labels. Once a lock is used, the counter of each value
/// starts at zero: otherwise, the first loss would not appear as an increase.
const COUNTERS: [(&str, &str, &[&str]); 2] = [
    (
        "zoolock_acquisitions_total",
        "outcome",
        &["acquired", "busy", "timed_out", "cancelled", "failed"],
    ),
    (
        "zoolock_lost_total",
        "reason",
        &["lease_expired", "node_deleted", "client_closed", "held_too_long"],
    ),
];

impl MetricsObserver {
    /// Creates an observer that has recorded nothing yet, and describes its metrics to the
    /// recorder.
    #[must_use]
    pub fn new() -> MetricsObserver {
        let calls = "Calls for a lock, by outcome.";
        describe_counter!("zoolock_acquisitions_total", Unit::Count, calls);
        let wait = "How long calls waited before they acquired their lock.";
        describe_histogram!("zoolock_wait_seconds", Unit::Seconds, wait);
        let queue = "How many contenders were ahead when a call queued.";
        describe_histogram!("zoolock_queue_length", Unit::Count, queue);
        let hold = "How long locks were held.";
        describe_histogram!("zoolock_hold_seconds", Unit::Seconds, hold);
        let lost = "Holds that were lost, by reason.";
        describe_counter!("zoolock_lost_total", Unit::Count, lost);
        MetricsObserver::default()
    }
}

/// Counts a call for this lock, or a hold of it, with this outcome.
fn count(lock: &'static str, name: &str, outcome: &str) {
    for (counter, label, values) in COUNTERS {
        for &value in values {
            let counter =
                counter!(counter, "lock" => lock, "name" => name.to_owned(), label => value);
            counter.increment((value == outcome).into());
        }
    }
}

fn sizes(what: &'static str, lock: &'static str, name: &str) -> Histogram {
    histogram!(what, "lock" => lock, "name" => name.to_owned())
}

impl Observer for MetricsObserver {
    fn called(&self, call: &Called<'_>) {
        let (lock, name) = (call.lock.as_str(), call.name);
        count(lock, name, call.outcome.as_str());
        if let Some(ahead) = call.queue {
            sizes("zoolock_queue_length", lock, name).record(ahead as f64);
        }
        if let CallOutcome::Acquired = call.outcome {
            sizes("zoolock_wait_seconds", lock, name).record(call.waited);
        }
    }

    fn ended(&self, hold: &Ended<'_>) {
        let (lock, name) = (hold.lock.as_str(), hold.name);
        count(lock, name, hold.outcome.as_str());
        sizes("zoolock_hold_seconds", lock, name).record(hold.held);
    }
}

/// Records the current [`Client::state`] and [`Client::stats`]. Call this before the metrics are
/// read. If it is called for several clients, the values of the last one remain. Never blocks.
pub fn record_client(client: &Client) {
    let (stats, is_connected) = (client.stats(), client.state() == ClientState::Connected);
    let is_registered = usize::from(stats.is_registered);
    let gauges = [
        ("zoolock_held", stats.held, "Holds, and released locks that hold_at_least keeps busy."),
        ("zoolock_waiting", stats.waiting, "Calls that wait for a lock on the servers."),
        ("zoolock_deleting", stats.deleting, "Nodes being deleted or searched for."),
        ("zoolock_registered", is_registered, "Whether a reaper has accepted the session."),
        ("zoolock_connected", usize::from(is_connected), "Whether there is a connection."),
    ];
    for (name, value, what) in gauges {
        describe_gauge!(name, Unit::Count, what);
        gauge!(name).set(value as f64);
    }
    let counters = [
        ("zoolock_requests_total", stats.requests, "Requests sent to the servers."),
        ("zoolock_events_total", stats.events, "Watch events received."),
        ("zoolock_connections_total", stats.connections, "Connections that had a session."),
        ("zoolock_sessions_total", stats.sessions, "Sessions opened."),
        ("zoolock_resumed_total", stats.resumed, "Sessions resumed on another connection."),
        ("zoolock_holds_lost_total", stats.holds_lost, "Holds lost."),
    ];
    for (name, value, what) in counters {
        describe_counter!(name, Unit::Count, what);
        counter!(name).absolute(value);
    }
}
