//! Records the history of a plan, from the reports of its client processes and from its faults.

use std::io::BufReader;
use std::process::ChildStdout;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zoolock_checker::{Doubt, History, Loss, Nanos, OpenCall, Record, WorkerId, after, millis};

use crate::protocol::{Event, now};

pub(crate) struct Recorder {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) history: History,
    /// How many client processes have completed all steps or have ended.
    pub(crate) idle: usize,
    /// How many client processes have stopped reporting.
    pub(crate) gone: usize,
    /// How many events were reported.
    pub(crate) events: u64,
    /// The names of nodes that were deleted by others than their owners, and when.
    deleted: Vec<(String, Nanos)>,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        let state = State { history: History::new(now()), ..State::default() };
        Recorder { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the condition is met. Returns false if this takes longer than `limit`.
    pub(crate) fn wait(&self, limit: Duration, is_so: impl Fn(&State) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), limit, |state| !is_so(state));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Records everything that a client process reports. `expire` ends the client's session.
    pub(crate) fn listen(&self, from: Option<ChildStdout>, expire: impl Fn()) {
        let mut from = from.map(BufReader::new);
        let mut is_idle = false;
        while let Some(event) = from.as_mut().and_then(Event::read) {
            if matches!(event, Event::Expires) {
                expire();
            }
            is_idle |= matches!(event, Event::Idle);
            self.change(|state| state.record(event));
        }
        self.change(|state| {
            state.idle += usize::from(!is_idle);
            state.gone += 1;
        });
    }

    pub(crate) fn change(&self, act: impl FnOnce(&mut State)) {
        act(&mut self.state());
        self.changed.notify_all();
    }
}

impl State {
    fn record(&mut self, event: Event) {
        self.events += 1;
        let history = &mut self.history;
        match event {
            Event::Began { by, op, path, mode, started, deadline } => {
                history.began(by, OpenCall { op: op.into(), path, mode, started, deadline });
            }
            Event::Called(by, call) => history.called(by, call),
            Event::Granted(grant) => history.granted(grant),
            Event::Lost(hold, at, why) => history.lost(hold, Loss { at, reason: why.into() }),
            Event::Leaving(hold, at) => history.left(hold, at),
            Event::Ended(hold, unlocked, at) => history.unlocked(hold, Some(at), unlocked),
            Event::Committed(commit) => history.committed(commit),
            Event::Deletes(node, at) => self.deletes(&node, at),
            Event::Unexpected(text) => history.unexpected.push(text),
            Event::Idle => self.idle += 1,
            Event::Expires => {}
        }
    }

    /// Records that the node at this path is deleted by another than its owner.
    pub(crate) fn deletes(&mut self, path: &str, at: Nanos) {
        let name = path.rsplit('/').next().unwrap_or_default();
        self.deleted.push((name.to_owned(), at));
    }

    /// Records that a client could not know the state of its holds in this period.
    pub(crate) fn doubt(&mut self, process: usize, begun: Nanos, over: Nanos) {
        self.history.doubts.push(Doubt { process, path: None, begun, over });
    }

    /// Completes the history. A holder whose node was deleted is in doubt until it has certainly detected that.
    pub(crate) fn finish(&mut self, timeout: Duration) {
        self.history.over = Some(now());
        for (name, begun) in &self.deleted {
            let its = |record: &&Record| record.grant.nodes.contains(name);
            let doubt = |record: &Record| {
                let (process, path) = (record.grant.hold.by.process, Some(record.grant.path));
                Doubt { process, path, begun: *begun, over: after(*begun, timeout * 2) }
            };
            let robbed = self.history.holds.iter().filter(its);
            self.history.doubts.extend(robbed.map(doubt));
        }
    }

    /// Describes the calls that have not returned.
    pub(crate) fn open_calls(&self) -> String {
        let locks = zoolock_simulation::locks();
        let one = |(by, call): (&WorkerId, &OpenCall)| {
            let time = millis(now().saturating_sub(call.started) as i64);
            format!("{by} in {} at {} for {time} ms", call.op, locks[call.path].name)
        };
        self.history.open.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}
