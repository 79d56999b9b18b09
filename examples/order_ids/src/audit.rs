//! Counts the errors in the ledger, and sums up the reports of the clerks.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::books::Entry;

/// Counts of the errors in a ledger.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Findings {
    /// All lines.
    pub(crate) orders: usize,
    /// Lines whose order is already on an earlier line.
    pub(crate) duplicates: usize,
    /// Orders that should have been handed out, but are on no line.
    pub(crate) gaps: usize,
    /// Lines that were written while another thread used the books.
    pub(crate) overlaps: usize,
    /// Lines with a lower fencing token than the line before.
    pub(crate) late_tokens: usize,
}

impl Findings {
    /// Checks a ledger that should have the orders from 1 to `wanted`.
    pub(crate) fn of(ledger: &[Entry], wanted: u64) -> Findings {
        let mut lines: HashMap<u64, usize> = HashMap::new();
        for entry in ledger {
            *lines.entry(entry.order).or_default() += 1;
        }
        Findings {
            orders: ledger.len(),
            duplicates: ledger.len() - lines.len(),
            gaps: (1..=wanted).filter(|order| !lines.contains_key(order)).count(),
            overlaps: ledger.iter().filter(|entry| !entry.alone).count(),
            late_tokens: ledger.windows(2).filter(|pair| pair[1].token < pair[0].token).count(),
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.duplicates + self.gaps + self.overlaps + self.late_tokens == 0
    }
}

/// The reports of one process, summed up.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    waits: u32,
    waited: Duration,
    longest_wait: Duration,
    re_entries: u32,
    refused: u32,
}

impl Tally {
    pub(crate) fn waited(&mut self, time: Duration) {
        self.waits += 1;
        self.waited += time;
        self.longest_wait = self.longest_wait.max(time);
    }

    /// Notes an order that was written by a thread with `depth` entries into the lock.
    pub(crate) fn ordered(&mut self, depth: u32) {
        self.re_entries += depth.saturating_sub(1);
    }

    pub(crate) fn refused(&mut self) {
        self.refused += 1;
    }

    fn mean_wait(&self) -> Duration {
        self.waited / self.waits.max(1)
    }
}

/// One line of the table of processes.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) process: u64,
    /// The number of its lines in the ledger.
    pub(crate) orders: usize,
    pub(crate) tally: &'a Tally,
    pub(crate) end: &'a str,
}

impl Row<'_> {
    pub(crate) const HEADING: &'static str = "process   orders    waits  mean wait  longest wait  \
                                              re-entries  try_lock refused  end";
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (process, orders, tally, end) = (self.process, self.orders, self.tally, self.end);
        let millis = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        write!(
            f,
            "{process:>7} {orders:>8} {waits:>8} {mean:>10} {longest:>13} {re:>11} {refused:>17}  {end}",
            waits = tally.waits,
            mean = millis(tally.mean_wait()),
            longest = millis(tally.longest_wait),
            re = tally.re_entries,
            refused = tally.refused,
        )
    }
}
