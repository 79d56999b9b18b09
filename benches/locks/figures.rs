//! Metrics by their names: those of a round, and the medians of rounds.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::session::Outcome;

pub(crate) const PER_SECOND: &str = "operations_per_second";
pub(crate) const P50: &str = "p50_us";
pub(crate) const P99: &str = "p99_us";
/// Requests per operation, by the server's count.
pub(crate) const REQUESTS: &str = "requests";
/// Watch events per operation, by the server's count.
pub(crate) const EVENTS: &str = "events";
/// Transactions per operation, by the server's count.
pub(crate) const TRANSACTIONS: &str = "transactions";
/// Syncs of the server's log to its disk, per operation.
pub(crate) const SYNCS: &str = "syncs";
/// Requests per operation, by the client's count.
pub(crate) const OWN_REQUESTS: &str = "own_requests";
/// Resident memory of a waiter, in addition to that of a parked thread.
pub(crate) const KIB_PER_WAITER: &str = "kib_per_waiter";
/// Threads of the process, in addition to those that it had without a session.
pub(crate) const THREADS: &str = "threads";

/// The operations of the fastest thread for each operation of the slowest. All threads want the lock all the time, so 1
/// is a fair lock.
pub(crate) const FAIRNESS: &str = "fairness";

const ALL: [&str; 11] = [
    PER_SECOND,
    P50,
    P99,
    REQUESTS,
    EVENTS,
    TRANSACTIONS,
    SYNCS,
    OWN_REQUESTS,
    KIB_PER_WAITER,
    THREADS,
    FAIRNESS,
];

/// If the fastest thread has more than this, the rate is not compared with others.
pub(crate) const UNFAIR: f64 = 10.0;

const NANOS: f64 = 1e9;
const NANOS_PER_MICRO: f64 = 1e3;

/// Some of the metrics above.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Figures(BTreeMap<&'static str, f64>);

impl Figures {
    /// Reads a program's answer: the time of all operations, the number of each thread, and the time
    /// of each operation. Also returns the number of operations.
    pub(crate) fn of_times(answer: &str) -> Outcome<(Figures, f64)> {
        let mut words = answer.split_whitespace();
        let all = words.next().ok_or("no times")?.parse::<u64>()? as f64;
        let counts = words.next().ok_or("no counts")?;
        let mut times = words.map(str::parse::<u64>).collect::<Result<Vec<_>, _>>()?;
        times.sort_unstable();
        let last = times.len().checked_sub(1).ok_or("no operation has ended")?;
        let at = |share: f64| times[(last as f64 * share).round() as usize] as f64;
        let mut figures = Figures::default();
        figures.set(PER_SECOND, times.len() as f64 / all * NANOS);
        figures.set(P50, at(0.5) / NANOS_PER_MICRO);
        figures.set(P99, at(0.99) / NANOS_PER_MICRO);
        if counts.contains(',') {
            let counts = counts.split(',').map(str::parse::<u64>);
            let counts = counts.collect::<Result<Vec<_>, _>>()?;
            let (least, most) = (counts.iter().min(), counts.iter().max());
            let (least, most) = (least.ok_or("no thread")?, most.ok_or("no thread")?);
            figures.set(FAIRNESS, *most as f64 / (*least).max(1) as f64);
        }
        Ok((figures, times.len() as f64))
    }

    /// Reads the figures that a run has printed.
    pub(crate) fn of_json(printed: &Value) -> Figures {
        let figure = |name: &'static str| Some((name, printed.get(name)?.as_f64()?));
        Figures(ALL.into_iter().filter_map(figure).collect())
    }

    pub(crate) fn set(&mut self, name: &'static str, value: f64) {
        self.0.insert(name, value);
    }

    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Returns whether one thread did most of the work. Such a rate says little about a lock: it is that of one thread
    /// for which the lock is always free.
    pub(crate) fn is_of_one_thread(&self) -> bool {
        self.get(FAIRNESS).is_some_and(|fairness| fairness > UNFAIR)
    }

    /// Returns the median of each metric.
    pub(crate) fn medians(rounds: &[Figures]) -> Figures {
        let names = rounds.iter().flat_map(|round| round.0.keys());
        let median = |name: &&'static str| {
            let mut samples: Vec<f64> = rounds.iter().filter_map(|round| round.get(name)).collect();
            samples.sort_by(f64::total_cmp);
            let (low, high) = ((samples.len() - 1) / 2, samples.len() / 2);
            (*name, f64::midpoint(samples[low], samples[high]))
        };
        Figures(names.map(median).collect())
    }
}
