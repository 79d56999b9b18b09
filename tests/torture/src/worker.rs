//! One thread of a client process: takes locks and tells the parent everything. What it does while
//! it holds them is in [`stay`](crate::stay).

use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use zoolock::Error;
use zoolock::crossbeam_channel::Sender;

use crate::Outcome;
use crate::clock::{Nanos, after, now};
use crate::gate::{Drained, Gate};
use crate::kinds::{Kind, Kinds};
use crate::locks::Locks;
use crate::message::{Answer, Call, HoldId, InFlight, Said, ThreadId, receive};
use crate::mouth::Mouth;
use crate::ops::{Op, Patience, Wish};
use crate::places::lock_path;
use crate::seed;
use crate::setting::socket;

/// Who works for a time and then rests leaves the machine to the others.
const LONGEST_REST: u64 = 120;

/// What the threads of a process share.
pub(crate) struct Shared {
    pub(crate) locks: Vec<Locks>,
    pub(crate) kinds: Kinds,
    pub(crate) gate: Gate,
    /// The next holder that is about to write has to ask first.
    pub(crate) armed: AtomicBool,
    /// Nobody kills the process in this phase any more.
    pub(crate) spared: AtomicU32,
    pub(crate) calls: Vec<Mutex<Option<InFlight>>>,
    /// Of the thread that only sleeps.
    pub(crate) naps: Sender<Duration>,
}

pub(crate) struct Worker<'a> {
    me: ThreadId,
    seed: u64,
    pub(crate) folder: &'a Path,
    pub(crate) shared: &'a Shared,
    ear: BufReader<UnixStream>,
    pub(crate) mouth: Mouth,
    holds: u32,
}

/// One call, and what it is made with.
pub(crate) struct Turn<'a> {
    pub(crate) kind: Kind,
    pub(crate) op: &'static Op,
    pub(crate) wish: Wish,
    pub(crate) started: Nanos,
    pub(crate) drained: &'a Drained,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        me: ThreadId,
        seed: u64,
        folder: &'a Path,
        shared: &'a Shared,
    ) -> io::Result<Worker<'a>> {
        let stream = UnixStream::connect(socket(folder))?;
        let ear = BufReader::new(stream.try_clone()?);
        let mouth = Mouth::new(stream);
        mouth.say(&Said::Worker(me));
        Ok(Worker { me, seed, folder, shared, ear, mouth, holds: 0 })
    }

    pub(crate) fn work(mut self) -> Outcome<()> {
        loop {
            match self.ask(&Said::Next)? {
                Answer::Turn { phase, deaths } => self.phase(phase, deaths)?,
                _ => return Ok(()),
            }
        }
    }

    fn phase(&mut self, phase: u32, deaths: bool) -> Outcome<()> {
        let ThreadId { process, life, thread } = self.me;
        let parts = [process as u64, u64::from(life), thread as u64, phase.into()];
        let mut rng = seed::rng(self.seed, &parts);
        while let Some(drained) = self.shared.gate.enter(phase) {
            let kind = self.shared.kinds.pick(&mut rng);
            let spared = self.shared.spared.load(Ordering::SeqCst) >= phase;
            let op = Op::pick(kind, &mut rng, deaths && !spared);
            let turn =
                Turn { kind, op, wish: op.wish(kind, &mut rng), started: now(), drained: &drained };
            self.take(&turn, &mut rng)?;
            rest(&mut rng, &drained);
        }
        Ok(())
    }

    fn take(&mut self, turn: &Turn<'_>, rng: &mut Rng) -> Outcome<()> {
        let Turn { op, wish, .. } = turn;
        if op.patience == Patience::Given {
            // Not heard by a sleeper that is asleep.
            let _ = self.shared.naps.try_send(wish.time);
        }
        let locks = &self.shared.locks;
        let got = self.timed(op.name, wish.path, op.bound(wish), || (op.get)(locks, wish));
        let forever = op.patience == Patience::Forever;
        match got {
            Ok(Some(held)) => self.hold(turn, held, rng)?,
            Ok(None) if !forever => {}
            Ok(None) => self.wrong(op.name, wish.path, "came back without the lock"),
            Err(error) if turn.kind == Kind::Multi && is_loss(&error, !forever) => {
                let kind = turn.kind;
                self.mouth.say(&Said::LostWhileWaiting { kind });
            }
            Err(Error::Disconnected { .. }) if !forever => {}
            Err(error) => self.wrong(op.name, wish.path, &error.to_string()),
        }
        Ok(())
    }

    /// Makes a call that the parent can see while it lasts.
    pub(crate) fn timed<T>(
        &self,
        op: &str,
        path: usize,
        patience: Option<Duration>,
        call: impl FnOnce() -> T,
    ) -> T {
        let started: Nanos = now();
        let deadline = patience.map(|patience| after(started, patience));
        let thread = self.me.thread;
        let slot = || self.shared.calls[thread].lock().unwrap_or_else(PoisonError::into_inner);
        *slot() = Some(InFlight { thread, op: op.to_owned(), path, since: started, deadline });
        let result = call();
        let ended = now();
        *slot() = None;
        self.mouth.say(&Said::Called(Call { op: op.to_owned(), path, started, deadline, ended }));
        result
    }

    pub(crate) fn ask(&mut self, question: &Said) -> Outcome<Answer> {
        self.mouth.say(question);
        Ok(receive(&mut self.ear)?.ok_or("the parent is gone")?)
    }

    pub(crate) fn wrong(&self, op: &str, path: usize, what: &str) {
        let (me, path) = (self.me, lock_path(path));
        self.mouth.say(&Said::Wrong(format!("{me}: {op} at {path}: {what}")));
    }

    pub(crate) fn next_id(&mut self) -> HoldId {
        self.holds += 1;
        HoldId { by: self.me, number: self.holds }
    }
}

/// A member was lost while a later one was waited for, or while those taken were given back again.
fn is_loss(error: &Error, tried: bool) -> bool {
    match error {
        Error::Lost { .. } => true,
        Error::Release { failures } => failures.iter().all(|failure| match failure {
            Error::Disconnected { .. } => tried,
            failure => is_loss(failure, tried),
        }),
        _ => false,
    }
}

fn rest(rng: &mut Rng, drained: &Drained) {
    let time = Duration::from_millis(rng.u64(0..=LONGEST_REST));
    let _ = drained.recv_timeout(time);
    thread::yield_now();
}
