//! Figures by their names: those of a round, and the medians of rounds.

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
/// Resident memory of a waiter, beyond that of a parked thread.
pub(crate) const KIB_PER_WAITER: &str = "kib_per_waiter";
/// Threads of the process, beyond those that it had without a session.
pub(crate) const THREADS: &str = "threads";

/// Rounds of which these are the medians.
pub(crate) const ROUNDS: &str = "rounds";

const ALL: [&str; 10] = [
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
];

const NANOS: f64 = 1e9;
const NANOS_PER_MICRO: f64 = 1e3;

/// Some of the figures above.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Figures(BTreeMap<&'static str, f64>);

impl Figures {
    /// Reads a program's answer: the time of all operations, then of each. Also returns the number
    /// of operations.
    pub(crate) fn of_times(answer: &str) -> Outcome<(Figures, f64)> {
        let numbers = answer.split_whitespace().map(str::parse::<u64>);
        let mut numbers = numbers.collect::<Result<Vec<_>, _>>()?.into_iter();
        let all = numbers.next().ok_or("no times")? as f64;
        let mut times: Vec<u64> = numbers.collect();
        times.sort_unstable();
        let last = times.len().checked_sub(1).ok_or("no operation has ended")?;
        let at = |share: f64| times[(last as f64 * share).round() as usize] as f64;
        let mut figures = Figures::default();
        figures.set(PER_SECOND, times.len() as f64 / all * NANOS);
        figures.set(P50, at(0.5) / NANOS_PER_MICRO);
        figures.set(P99, at(0.99) / NANOS_PER_MICRO);
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

    /// Returns the median of each figure.
    pub(crate) fn medians(rounds: &[Figures]) -> Figures {
        let names = rounds.iter().flat_map(|round| round.0.keys());
        let median = |name: &&'static str| {
            let mut samples: Vec<f64> = rounds.iter().filter_map(|round| round.get(name)).collect();
            samples.sort_by(f64::total_cmp);
            let (low, high) = ((samples.len() - 1) / 2, samples.len() / 2);
            (*name, f64::midpoint(samples[low], samples[high]))
        };
        let mut medians = Figures(names.map(median).collect());
        medians.set(ROUNDS, rounds.len() as f64);
        medians
    }
}
