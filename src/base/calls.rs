//! The calls of a client that wait for a connection for a limited time, and their end by an outage
//! that is longer than that. It sends no requests.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::signal::{Ended, Signal};
use crate::base::sys::{self, Mutex};

/// The calls of one client that an outage may end.
#[derive(Debug, Default)]
pub(crate) struct WaitingCalls(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// By their numbers, so that they end in the order in which they began.
    calls: BTreeMap<u64, Entry>,
    /// The number of the last call.
    last: u64,
    /// How often there was a connection.
    connections: u64,
    /// Without a connection: when calls have gone on for long enough, and their numbers.
    outage: Option<BTreeSet<(Instant, u64)>>,
    /// When the next look at those is due.
    look: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    /// How long the call goes on without a connection.
    limit: Duration,
    /// Its place among those that the current outage ends.
    due: Option<(Instant, u64)>,
    signal: Arc<Signal>,
}

/// A call that an outage may end, until this is dropped.
#[derive(Debug)]
pub(crate) struct WaitingCall {
    all: Arc<WaitingCalls>,
    number: u64,
    signal: Arc<Signal>,
}

impl WaitingCalls {
    /// Registers a call that goes on for this long without a connection.
    pub(crate) fn begin(self: &Arc<Self>, limit: Duration) -> WaitingCall {
        let signal = Arc::new(Signal::new());
        let mut guard = self.0.lock();
        let table = &mut *guard;
        table.last += 1;
        let number = table.last;
        let mut entry = Entry { limit, due: None, signal: Arc::clone(&signal) };
        if let Some(outage) = &mut table.outage {
            outage.extend(entry.begin(sys::now(), number));
        }
        table.calls.insert(number, entry);
        WaitingCall { all: Arc::clone(self), number, signal }
    }

    /// Notes that there is a connection.
    pub(crate) fn end_outage(&self) {
        let mut table = self.0.lock();
        table.connections += 1;
        table.outage = None;
        table.look = None;
    }

    /// Returns how often there was a connection.
    pub(crate) fn connections(&self) -> u64 {
        self.0.lock().connections
    }

    /// Ends the calls that have gone on for long enough without a connection. There was none behind
    /// the last one of so many `connections`; if there is another one by now, does nothing. Returns
    /// when to look again, unless a look was due before.
    pub(crate) fn end_overdue(&self, connections: u64) -> Option<Instant> {
        let now = sys::now();
        let (mut over, mut next) = (Vec::new(), None);
        {
            let mut guard = self.0.lock();
            let table = &mut *guard;
            if table.connections != connections {
                return None;
            }
            let outage = table.outage.get_or_insert_with(|| {
                table.calls.iter_mut().filter_map(|(number, one)| one.begin(now, *number)).collect()
            });
            let later = outage.split_off(&(now, u64::MAX));
            for (_, number) in mem::replace(outage, later) {
                over.extend(table.calls.get(&number).map(|entry| Arc::clone(&entry.signal)));
            }
            let first = outage.first().map(|(due, _)| *due);
            if first.is_some_and(|first| table.look.is_none_or(|look| look <= now || first < look))
            {
                table.look = first;
                next = first;
            }
        }
        for signal in over {
            sys::reached("an outage is longer than a waiting call allows");
            signal.raise();
        }
        next
    }
}

impl Entry {
    /// Notes that the call of this number goes on without a connection since `begun`. Returns when
    /// that is for long enough. A limit too large for the clock is none.
    fn begin(&mut self, begun: Instant, number: u64) -> Option<(Instant, u64)> {
        self.due = Some((begun.checked_add(self.limit)?, number));
        self.due
    }
}

impl WaitingCall {
    /// Returns a signal that is ready when an outage has ended the call.
    pub(crate) fn ended(&self) -> &Ended {
        self.signal.ended()
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        let mut guard = self.all.0.lock();
        let table = &mut *guard;
        let due = table.calls.remove(&self.number).and_then(|entry| entry.due);
        if let (Some(outage), Some(due)) = (&mut table.outage, due) {
            outage.remove(&due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread sees that there is no connection, and is late.
    #[test]
    fn outage_that_is_over_is_not_counted() {
        let all = Arc::<WaitingCalls>::default();
        let limit = Duration::from_millis(20);
        let call = all.begin(limit);
        all.end_outage();
        assert_eq!(all.end_overdue(0), None);
        std::thread::sleep(2 * limit);
        assert!(all.end_overdue(1).is_some(), "the next outage begins now");
        assert!(!call.signal.is_raised());
    }
}
