//! The calls of a client that wait, and what ends them before their deadline: a cancel, or an outage
//! that is longer than a call allows. It sends no requests.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::base::signal::{Ended, Signal};
use crate::base::sys::{self, Mutex};

/// The waiting calls of one client.
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
    /// The number of the lock object.
    object: u64,
    /// How long the call goes on without a connection.
    connection: Option<Duration>,
    /// Its place among those that an outage ends.
    due: Option<(Instant, u64)>,
    call: Arc<Call>,
}

#[derive(Debug)]
struct Call {
    signal: Signal,
    /// An outage ended the call, and no cancel.
    is_outage: AtomicBool,
}

/// A call that may have to wait, until this is dropped.
#[derive(Debug)]
pub(crate) struct WaitingCall {
    all: Arc<WaitingCalls>,
    number: u64,
    call: Arc<Call>,
}

impl WaitingCalls {
    /// Registers a call for a lock object, which goes on for this long without a connection.
    pub(crate) fn begin(
        self: &Arc<Self>,
        object: u64,
        connection: Option<Duration>,
    ) -> WaitingCall {
        let call = Arc::new(Call { signal: Signal::new(), is_outage: AtomicBool::new(false) });
        let mut guard = self.0.lock();
        let table = &mut *guard;
        table.last += 1;
        let number = table.last;
        let mut entry = Entry { object, connection, due: None, call: Arc::clone(&call) };
        if let Some(outage) = &mut table.outage {
            outage.extend(entry.begin(sys::now(), number));
        }
        table.calls.insert(number, entry);
        WaitingCall { all: Arc::clone(self), number, call }
    }

    /// Ends the calls for this lock object; all calls for `None`.
    pub(crate) fn cancel(&self, object: Option<u64>) {
        let is_its = |entry: &&Entry| object.is_none_or(|object| entry.object == object);
        let calls: Vec<_> = {
            let table = self.0.lock();
            table.calls.values().filter(is_its).map(|entry| Arc::clone(&entry.call)).collect()
        };
        for call in calls {
            call.signal.raise();
        }
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
                over.extend(table.calls.get(&number).map(|entry| Arc::clone(&entry.call)));
            }
            let first = outage.first().map(|(due, _)| *due);
            if first.is_some_and(|first| table.look.is_none_or(|look| look <= now || first < look))
            {
                table.look = first;
                next = first;
            }
        }
        for call in over {
            sys::reached("an outage is longer than a waiting call allows");
            call.is_outage.store(true, Ordering::Relaxed);
            call.signal.raise();
        }
        next
    }
}

impl Entry {
    /// Notes that the call of this number goes on without a connection since `begun`. Returns when
    /// that is for long enough. A limit too large for the clock is none.
    fn begin(&mut self, begun: Instant, number: u64) -> Option<(Instant, u64)> {
        self.due = Some((begun.checked_add(self.connection?)?, number));
        self.due
    }
}

impl WaitingCall {
    /// Returns a signal that is ready when the call has to end before its deadline.
    pub(crate) fn ended(&self) -> &Ended {
        self.call.signal.ended()
    }

    /// Returns whether an outage has ended the call, and no cancel.
    pub(crate) fn is_by_outage(&self) -> bool {
        self.call.is_outage.load(Ordering::Relaxed)
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
    use crossbeam_channel::TryRecvError;

    use super::*;

    fn is_ended(call: &WaitingCall) -> bool {
        call.ended().try_recv() == Err(TryRecvError::Disconnected)
    }

    /// A thread sees that there is no connection, and is late.
    #[test]
    fn outage_that_is_over_is_not_counted() {
        let all = Arc::<WaitingCalls>::default();
        let limit = Duration::from_millis(20);
        let call = all.begin(1, Some(limit));
        all.end_outage();
        assert_eq!(all.end_overdue(0), None);
        std::thread::sleep(2 * limit);
        assert!(all.end_overdue(1).is_some(), "the next outage begins now");
        assert!(!is_ended(&call));
    }
}
