//! Records the reports of the client processes, and answers the workers: a thread for each socket, and one
//! state behind a mutex.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::mem;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, Sender, unbounded};
use zoolock_judge::{History, Loss, Write};

use crate::clock::now;
use crate::coordinator::hung::{HungCalls, describe};
use crate::paths::PATHS;
use crate::protocol::{
    Counts, Event, HoldId, InFlight, Incarnation, Reply, WorkerId, receive, send,
};
use crate::settings::socket;

pub(crate) struct Recorder {
    state: Mutex<State>,
    changed: Condvar,
    gone: Sender<Incarnation>,
}

pub(crate) struct State {
    pub(crate) register: Register,
    pub(crate) history: History,
    /// The answer to ready workers: the phase that they enter.
    next: Option<Reply>,
    /// The number of workers.
    all: usize,
    /// The connected workers, and those that wait for a phase.
    workers: HashSet<WorkerId>,
    waiting: HashMap<WorkerId, UnixStream>,
    /// A holder that waits between its look at the lock and its write.
    pub(crate) about_to_write: Option<(HoldId, UnixStream)>,
    beats: HashMap<Incarnation, Beat>,
    hung_calls: HungCalls,
    /// Set when no phase follows and the processes end.
    pub(crate) finishing: bool,
}

/// The last heartbeat of a process.
#[derive(Default)]
struct Beat {
    calls: Vec<InFlight>,
    counts: Counts,
}

impl Recorder {
    /// Listens in the folder for this many workers. The receiver names the processes that are gone.
    pub(crate) fn open(
        folder: &Path,
        workers: usize,
    ) -> io::Result<(Arc<Recorder>, Receiver<Incarnation>)> {
        let (gone, gone_processes) = unbounded();
        let recorder = Arc::new(Recorder {
            state: Mutex::new(State {
                register: Register::default(),
                history: History::new(now()),
                next: None,
                all: workers,
                workers: HashSet::new(),
                waiting: HashMap::new(),
                about_to_write: None,
                beats: HashMap::new(),
                hung_calls: HungCalls::default(),
                finishing: false,
            }),
            changed: Condvar::new(),
            gone,
        });
        let listener = UnixListener::bind(socket(folder))?;
        let for_streams = Arc::clone(&recorder);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let recorder = Arc::clone(&for_streams);
                thread::spawn(move || recorder.listen(&stream));
            }
        });
        Ok((recorder, gone_processes))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `look` returns something; `None` after the limit.
    pub(crate) fn wait<T>(
        &self,
        bound: Duration,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        let missing = |state: &mut State| {
            found = look(state);
            found.is_none()
        };
        drop(self.changed.wait_timeout_while(self.state(), bound, missing));
        found
    }

    /// Returns when all reports of a process that is gone are recorded.
    pub(crate) fn wait_for_all_of(&self, gone: Incarnation) {
        let missing = |state: &mut State| {
            let mut workers = state.workers.iter();
            workers.any(|id| id.incarnation() == gone)
        };
        let state = self.changed.wait_while(self.state(), missing);
        drop(state.unwrap_or_else(PoisonError::into_inner));
    }

    /// Forbids workers that enter this phase from now on to kill their process.
    pub(crate) fn spare(&self) {
        if let Some(Reply::Begin { deaths, .. }) = &mut self.state().next {
            *deaths = false;
        }
    }

    /// Admits the workers to a phase.
    pub(crate) fn begin(&self, next: Reply) {
        let mut state = self.state();
        state.next = Some(next);
        state.reply_to_all(next);
    }

    /// Admits no more workers.
    pub(crate) fn end(&self) {
        self.state().next = None;
    }

    /// Ends the workers, which have nothing more to wait for.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.finishing = true;
        state.next = Some(Reply::Finish);
        state.reply_to_all(Reply::Finish);
    }

    fn listen(&self, stream: &UnixStream) {
        let Ok(from) = stream.try_clone() else { return };
        let mut from = BufReader::new(from);
        match next_event(&mut from) {
            Some(Event::Worker(id)) => self.record_worker(id, &mut from, stream),
            Some(Event::Process { process, incarnation }) => {
                self.record_process((process, incarnation), &mut from);
            }
            _ => {}
        }
    }

    fn record_worker(&self, id: WorkerId, from: &mut impl BufRead, mut to: &UnixStream) {
        self.state().workers.insert(id);
        while let Some(event) = next_event(from) {
            let reply = self.state().record(id, event, to);
            if let Some(reply) = reply {
                // A process that is gone is noticed by the end of its reports.
                let _ = send(&mut to, &reply);
            }
            self.changed.notify_all();
        }
        let mut state = self.state();
        state.workers.remove(&id);
        state.waiting.remove(&id);
        drop(state);
        self.changed.notify_all();
    }

    fn record_process(&self, process: Incarnation, from: &mut impl BufRead) {
        while let Some(event) = next_event(from) {
            let mut state = self.state();
            match event {
                Event::Beat { at, calls, counts } => {
                    let hung = state.hung_calls.look(process, at, &calls);
                    state.history.hung.extend(hung);
                    state.beats.insert(process, Beat { calls, counts });
                }
                Event::Slept { since, late } => state.history.slept(since, late),
                _ => {}
            }
        }
        let _ = self.gone.send(process);
    }
}

impl State {
    fn record(&mut self, by: WorkerId, event: Event, to: &UnixStream) -> Option<Reply> {
        match event {
            Event::Ready => {
                if self.next.is_some() {
                    return self.next;
                }
                self.waiting.insert(by, to.try_clone().ok()?);
            }
            Event::Called(call) => self.history.called(by, call),
            Event::Granted(grant) => self.history.granted(grant),
            Event::AboutToWrite { hold } => {
                self.about_to_write = Some((hold, to.try_clone().ok()?))
            }
            Event::Write { hold, token } => return self.write(hold, token),
            Event::Lost { hold, at, reason } => {
                self.history.lost(hold, Loss { at, reason: reason.into() })
            }
            Event::Leaving { hold, at } => self.history.left(hold, at),
            Event::Ended { hold, unlocked, at } => self.history.unlocked(hold, at, unlocked),
            Event::LostWhileWaiting { kind } => {
                self.history.lost_while_waiting.push((by, kind));
            }
            Event::Committed(commit) => self.history.committed(commit),
            Event::Dying { at } => self.history.died(by.incarnation(), at),
            Event::Unexpected(text) => self.history.unexpected.push(text),
            Event::Worker(_) | Event::Process { .. } | Event::Beat { .. } | Event::Slept { .. } => {
            }
        }
        None
    }

    fn write(&mut self, hold: HoldId, token: u64) -> Option<Reply> {
        let path = self.history.grant(hold)?.path;
        let accepted = self.register.write(path, token);
        self.history.writes.push(Write { at: now(), path, token, hold, accepted });
        Some(Reply::Written { accepted })
    }

    fn reply_to_all(&mut self, reply: Reply) {
        for (_, mut to) in self.waiting.drain() {
            let _ = send(&mut to, &reply);
        }
    }

    /// Whether every worker waits, and all reports of dead processes are recorded.
    pub(crate) fn is_at_rest(&self) -> bool {
        let all = self.all;
        self.workers.len() == all && self.waiting.len() == all
    }

    /// The workers that do not wait, with their last reported actions.
    pub(crate) fn busy(&self) -> Vec<String> {
        let name = |id: &WorkerId| {
            let beat = self.beats.get(&id.incarnation());
            let mut calls = beat.into_iter().flat_map(|beat| &beat.calls);
            match calls.find(|call| call.thread == id.thread) {
                Some(call) => format!("{id} {}", describe(now(), call)),
                None => format!("{id} in no call"),
            }
        };
        let busy = |id: &&WorkerId| !self.waiting.contains_key(id);
        let mut names: Vec<_> = self.workers.iter().filter(busy).map(name).collect();
        names.sort();
        let missing = self.all.saturating_sub(self.workers.len());
        if missing > 0 {
            names.push(format!("{missing} workers have not come"));
        }
        names
    }

    /// The history until now. Later reports belong to the next phase.
    pub(crate) fn take_history(&mut self) -> History {
        mem::replace(&mut self.history, History::new(now()))
    }

    /// The sum over all processes and their incarnations.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for Beat { counts, .. } in self.beats.values() {
            sum.connections += counts.connections;
            sum.resumed += counts.resumed;
            sum.holds_lost += counts.holds_lost;
        }
        sum
    }
}

/// `None` at the end. A malformed line is a bug of this program or of a peer.
fn next_event(from: &mut impl BufRead) -> Option<Event> {
    let event = receive(from);
    if let Err(error) = &event
        && error.kind() == ErrorKind::InvalidData
    {
        eprintln!("torture: a client process reports what cannot be read: {error}");
        process::exit(1);
    }
    event.ok().flatten()
}

/// The protected values: one at each path, which refuses writes with lower fencing tokens than the highest it
/// has seen. It knows nothing of zoolock.
#[derive(Debug, Default)]
pub(crate) struct Register {
    highest: [u64; PATHS],
}

impl Register {
    /// Whether the write was accepted.
    pub(crate) fn write(&mut self, path: usize, token: u64) -> bool {
        let fresh = token >= self.highest[path];
        if fresh {
            self.highest[path] = token;
        }
        fresh
    }

    pub(crate) fn highest(&self, path: usize) -> u64 {
        self.highest[path]
    }
}
