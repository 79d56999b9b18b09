//! Where the parent hears its client processes: one thread for each of their sockets, and one state
//! behind a mutex.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufReader};
use std::mem;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, Sender, unbounded};

use crate::clock::now;
use crate::evidence::{Evidence, Loss, Write};
use crate::hung::{Watch, describe};
use crate::message::{Answer, Counts, HoldId, InFlight, Life, Said, ThreadId, receive, send};
use crate::register::Register;
use crate::setting::socket;

pub(crate) struct Hub {
    state: Mutex<State>,
    changed: Condvar,
    gone: Sender<Life>,
}

pub(crate) struct State {
    pub(crate) register: Register,
    pub(crate) evidence: Evidence,
    /// The phase that workers are let into.
    turn: Option<Answer>,
    /// How many workers there are to be.
    all: usize,
    /// The workers that are connected, and those among them that wait for a turn.
    workers: HashSet<ThreadId>,
    waiting: HashMap<ThreadId, UnixStream>,
    /// A holder that waits between its look at the lock and its write.
    pub(crate) checked: Option<(HoldId, UnixStream)>,
    beats: HashMap<Life, Beat>,
    watch: Watch,
    /// The workers are being sent home.
    pub(crate) finishing: bool,
}

#[derive(Default)]
struct Beat {
    calls: Vec<InFlight>,
    counts: Counts,
}

impl Hub {
    /// Listens in the folder, for so many workers. The receiver tells which processes are gone.
    pub(crate) fn open(folder: &Path, workers: usize) -> io::Result<(Arc<Hub>, Receiver<Life>)> {
        let (gone, gone_processes) = unbounded();
        let hub = Arc::new(Hub {
            state: Mutex::new(State {
                register: Register::new(),
                evidence: Evidence::new(),
                turn: None,
                all: workers,
                workers: HashSet::new(),
                waiting: HashMap::new(),
                checked: None,
                beats: HashMap::new(),
                watch: Watch::default(),
                finishing: false,
            }),
            changed: Condvar::new(),
            gone,
        });
        let listener = UnixListener::bind(socket(folder))?;
        let for_streams = Arc::clone(&hub);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let hub = Arc::clone(&for_streams);
                thread::spawn(move || hub.listen(&stream));
            }
        });
        Ok((hub, gone_processes))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is there; None if it is not within the bound.
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

    /// Returns when everything that the workers of a process that is gone have said was heard.
    pub(crate) fn hear_out(&self, process: usize, life: u32) {
        let speaks = |state: &mut State| {
            let mut workers = state.workers.iter();
            workers.any(|id| (id.process, id.life) == (process, life))
        };
        let state = self.changed.wait_while(self.state(), speaks);
        drop(state.unwrap_or_else(PoisonError::into_inner));
    }

    /// Nobody who comes into this phase from now on kills the process.
    pub(crate) fn spare(&self) {
        if let Some(Answer::Turn { deaths, .. }) = &mut self.state().turn {
            *deaths = false;
        }
    }

    /// Lets the workers into a phase.
    pub(crate) fn begin(&self, turn: Answer) {
        let mut state = self.state();
        state.turn = Some(turn);
        state.answer_all(turn);
    }

    /// Lets nobody in any more.
    pub(crate) fn end(&self) {
        self.state().turn = None;
    }

    /// The workers wait for nothing more, and end.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.finishing = true;
        state.turn = Some(Answer::Finish);
        state.answer_all(Answer::Finish);
    }

    fn listen(&self, stream: &UnixStream) {
        let Ok(ear) = stream.try_clone() else { return };
        let mut ear = BufReader::new(ear);
        match receive(&mut ear) {
            Ok(Some(Said::Worker(id))) => self.hear_worker(id, &mut ear, stream),
            Ok(Some(Said::Process { process, life })) => self.hear_process(process, life, &mut ear),
            _ => {}
        }
    }

    fn hear_worker(&self, id: ThreadId, ear: &mut BufReader<UnixStream>, mut to: &UnixStream) {
        self.state().workers.insert(id);
        while let Ok(Some(said)) = receive(ear) {
            let answer = self.state().hear(id, said, to);
            if let Some(answer) = answer {
                // A process that is gone is noticed by the end of what it says.
                let _ = send(&mut to, &answer);
            }
            self.changed.notify_all();
        }
        let mut state = self.state();
        state.workers.remove(&id);
        state.waiting.remove(&id);
        drop(state);
        self.changed.notify_all();
    }

    fn hear_process(&self, process: usize, life: u32, ear: &mut BufReader<UnixStream>) {
        while let Ok(Some(said)) = receive(ear) {
            let mut state = self.state();
            match said {
                Said::Beat { at, calls, counts } => {
                    let hung = state.watch.look((process, life), at, &calls);
                    state.evidence.hung.extend(hung);
                    let beat = Beat { calls, counts };
                    state.beats.insert((process, life), beat);
                }
                Said::Slept { since, late } => state.evidence.slept(since, late),
                _ => {}
            }
        }
        let _ = self.gone.send((process, life));
    }
}

impl State {
    fn hear(&mut self, by: ThreadId, said: Said, to: &UnixStream) -> Option<Answer> {
        match said {
            Said::Next => {
                if self.turn.is_some() {
                    return self.turn;
                }
                self.waiting.insert(by, to.try_clone().ok()?);
            }
            Said::Called(call) => self.evidence.calls.push((by, call)),
            Said::Granted(grant) => self.evidence.granted(grant),
            Said::Checked { hold } => self.checked = Some((hold, to.try_clone().ok()?)),
            Said::Write { hold, token } => return self.write(hold, token),
            Said::Lost { hold, at, reason } => self.evidence.lost(hold, Loss { at, reason }),
            Said::Leaving { hold, at } => self.evidence.left(hold, at),
            Said::Ended { hold, unlocked } => self.evidence.unlocked(hold, unlocked),
            Said::LostWhileWaiting { kind } => {
                self.evidence.lost_while_waiting.push((by, kind));
            }
            Said::Dying { at } => self.evidence.died(by.process, by.life, at),
            Said::Wrong(text) => self.evidence.wrongs.push(text),
            Said::Worker(_) | Said::Process { .. } | Said::Beat { .. } | Said::Slept { .. } => {}
        }
        None
    }

    fn write(&mut self, hold: HoldId, token: u64) -> Option<Answer> {
        let path = self.evidence.grant(hold)?.path;
        let accepted = self.register.write(path, token);
        self.evidence.wrote(Write { at: now(), path, token, hold, accepted });
        Some(Answer::Written { accepted })
    }

    fn answer_all(&mut self, answer: Answer) {
        for (_, mut to) in self.waiting.drain() {
            let _ = send(&mut to, &answer);
        }
    }

    /// Every worker waits, and nothing of a process that died is still to be heard.
    pub(crate) fn is_at_rest(&self) -> bool {
        let all = self.all;
        self.workers.len() == all && self.waiting.len() == all
    }

    /// The workers that do not wait, with what they were last heard to be doing.
    pub(crate) fn busy(&self) -> Vec<String> {
        let name = |id: &ThreadId| {
            let beat = self.beats.get(&(id.process, id.life));
            let mut calls = beat.into_iter().flat_map(|beat| &beat.calls);
            match calls.find(|call| call.thread == id.thread) {
                Some(call) => format!("{id} {}", describe(now(), call)),
                None => format!("{id} in no call"),
            }
        };
        let busy = |id: &&ThreadId| !self.waiting.contains_key(id);
        let mut names: Vec<_> = self.workers.iter().filter(busy).map(name).collect();
        names.sort();
        let missing = self.all.saturating_sub(self.workers.len());
        if missing > 0 {
            names.push(format!("{missing} workers have not come"));
        }
        names
    }

    /// What was seen until now. What comes next belongs to the next phase.
    pub(crate) fn take_evidence(&mut self) -> Evidence {
        mem::replace(&mut self.evidence, Evidence::new())
    }

    /// Over all processes and their lives.
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
