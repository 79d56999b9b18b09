//! One thread of a client process: takes locks, writes to the register while it holds them, and
//! tells the parent everything.

use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Signal, getpid, kill_process};
use zoolock::crossbeam_channel::{Sender, after as alarm, select};
use zoolock::{Error, Hold};

use crate::Outcome;
use crate::clock::{Nanos, after, now};
use crate::gate::{Drained, Gate};
use crate::message::{Answer, Call, Grant, HoldId, InFlight, Said, ThreadId, Unlocked};
use crate::message::{receive, send};
use crate::ops::{Held, Locks, Op, Patience, Stay, long_stay};
use crate::seed;
use crate::setting::{ANSWER_WITHIN, lock_path, socket};
use crate::witness::{Guardian, Witness};

/// Who works for a time and then rests leaves the machine to the others.
const LONGEST_REST: u64 = 120;
const MOST_WRITES: u32 = 3;

/// What the threads of a process share.
pub(crate) struct Shared {
    pub(crate) locks: Vec<Locks>,
    pub(crate) gate: Gate,
    /// The next holder that is about to write has to ask first.
    pub(crate) armed: AtomicBool,
    pub(crate) calls: Vec<Mutex<Option<InFlight>>>,
    /// Of the thread that only sleeps.
    pub(crate) naps: Sender<Duration>,
}

/// Says things to the parent, from the worker and its guardian. When the parent is gone, so is
/// the process.
#[derive(Debug, Clone)]
pub(crate) struct Mouth(Arc<Mutex<UnixStream>>);

impl Mouth {
    pub(crate) fn new(stream: UnixStream) -> Mouth {
        Mouth(Arc::new(Mutex::new(stream)))
    }

    pub(crate) fn say(&self, what: &Said) {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if send(&mut *stream, what).is_err() {
            process::exit(1);
        }
    }
}

pub(crate) struct Worker<'a> {
    me: ThreadId,
    seed: u64,
    folder: &'a Path,
    shared: &'a Shared,
    ear: BufReader<UnixStream>,
    mouth: Mouth,
    guardian: Guardian,
    holds: u32,
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
        Ok(Worker {
            me,
            seed,
            folder,
            shared,
            ear,
            guardian: Guardian::start(mouth.clone()),
            mouth,
            holds: 0,
        })
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
        let ThreadId {
            process,
            life,
            thread,
        } = self.me;
        let parts = [process as u64, u64::from(life), thread as u64, phase.into()];
        let mut rng = seed::rng(self.seed, &parts);
        while let Some(drained) = self.shared.gate.enter(phase) {
            self.turn(&mut rng, deaths, &drained)?;
            rest(&mut rng, &drained);
        }
        Ok(())
    }

    fn turn(&mut self, rng: &mut Rng, deaths: bool, drained: &Drained) -> Outcome<()> {
        let op = Op::pick(rng, deaths);
        let path = op.pick_path(rng);
        let time = op.pick_patience(rng);
        let patience = match op.patience {
            Patience::Forever => None,
            Patience::Given => Some(time),
            Patience::Answer => Some(ANSWER_WITHIN),
        };
        if op.patience == Patience::Given {
            // Not heard by a sleeper that is asleep.
            let _ = self.shared.naps.try_send(time);
        }
        let locks = &self.shared.locks[path];
        let got = self.timed(op.name, path, patience, || (op.get)(locks, time));
        match got {
            Ok(Some(held)) => self.hold(op, path, held, rng, drained)?,
            Ok(None) if op.patience != Patience::Forever => {}
            Err(Error::Disconnected { .. }) if op.patience != Patience::Forever => {}
            Ok(None) => self.wrong(op.name, path, "came back without the lock"),
            Err(error) => self.wrong(op.name, path, &error.to_string()),
        }
        Ok(())
    }

    fn hold(
        &mut self,
        op: &Op,
        path: usize,
        held: Held<'_>,
        rng: &mut Rng,
        drained: &Drained,
    ) -> Outcome<()> {
        let at = now();
        let witness = Arc::new(Witness::take(self.folder, path)?);
        let alone = witness.is_mine();
        let hold = held.hold.clone();
        let id = self.next_id();
        self.guardian.watch(id, hold.clone(), Arc::clone(&witness));
        let token = self.timed("fencing_token", path, Some(ANSWER_WITHIN), || {
            hold.fencing_token()
        });
        let token = token.ok();
        self.mouth.say(&Said::Granted(Grant {
            hold: id,
            path,
            op: op.name.to_owned(),
            node: hold.node(),
            token,
            at,
            alone,
        }));
        if op.stay == Stay::Die {
            self.die();
        }
        let write = |worker: &mut Self| match token {
            Some(token) => worker.write(id, &hold, token),
            None => Ok(()),
        };
        for _ in 0..rng.u32(1..=MOST_WRITES) {
            write(self)?;
        }
        match op.stay {
            Stay::Again => self.re_enter(path, &hold),
            Stay::Long => {
                stay(&hold, drained, long_stay(rng));
                write(self)?;
            }
            Stay::Short | Stay::Die => {}
        }
        witness.let_go();
        let at = now();
        let unlocked = self.timed("unlock", path, Some(ANSWER_WITHIN), || held.release());
        let unlocked = self.judge_unlock(path, unlocked);
        self.timed("end of lost()", path, Some(ANSWER_WITHIN), || {
            self.guardian.wait();
        });
        let hold = id;
        self.mouth.say(&Said::Ended { hold, at, unlocked });
        Ok(())
    }

    /// Looks at the lock and writes. Nothing but the register keeps a stop of the process between
    /// the two from doing harm.
    fn write(&mut self, hold: HoldId, view: &Hold, token: u64) -> Outcome<()> {
        if !view.is_held() {
            return Ok(());
        }
        if self.shared.armed.swap(false, Ordering::SeqCst) {
            self.ask(&Said::Checked { hold })?;
        }
        self.ask(&Said::Write { hold, token })?;
        Ok(())
    }

    fn re_enter(&mut self, path: usize, hold: &Hold) {
        let locks = &self.shared.locks[path];
        let patience = Some(Duration::ZERO);
        match self.timed("re-entry", path, patience, || locks.re_enter()) {
            Ok(2) => {}
            Ok(count) => self.wrong("re-entry", path, &format!("hold_count() was {count}")),
            Err(Error::Lost { .. }) if !hold.is_held() => {}
            Err(error) => self.wrong("re-entry", path, &error.to_string()),
        }
    }

    fn judge_unlock(&self, path: usize, unlocked: Option<zoolock::Result<()>>) -> Unlocked {
        match unlocked {
            None => Unlocked::Silent,
            Some(Ok(())) => Unlocked::Fine,
            Some(Err(Error::Lost { .. })) => Unlocked::Lost,
            Some(Err(error)) => {
                self.wrong("unlock", path, &error.to_string());
                Unlocked::Wrong
            }
        }
    }

    /// As a crash would: nothing is closed, and the servers have to find out.
    fn die(&self) -> ! {
        self.mouth.say(&Said::Dying { at: now() });
        let _ = kill_process(getpid(), Signal::KILL);
        process::abort()
    }

    /// Makes a call that the parent can see while it lasts.
    fn timed<T>(
        &self,
        op: &str,
        path: usize,
        patience: Option<Duration>,
        call: impl FnOnce() -> T,
    ) -> T {
        let started: Nanos = now();
        let deadline = patience.map(|patience| after(started, patience));
        let thread = self.me.thread;
        let slot = || {
            self.shared.calls[thread]
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        *slot() = Some(InFlight {
            thread,
            op: op.to_owned(),
            path,
            since: started,
            deadline,
        });
        let result = call();
        let ended = now();
        *slot() = None;
        self.mouth.say(&Said::Called(Call {
            op: op.to_owned(),
            path,
            started,
            deadline,
            ended,
        }));
        result
    }

    fn ask(&mut self, question: &Said) -> Outcome<Answer> {
        self.mouth.say(question);
        Ok(receive(&mut self.ear)?.ok_or("the parent is gone")?)
    }

    fn wrong(&self, op: &str, path: usize, what: &str) {
        let (me, path) = (self.me, lock_path(path));
        self.mouth
            .say(&Said::Wrong(format!("{me}: {op} at {path}: {what}")));
    }

    fn next_id(&mut self) -> HoldId {
        self.holds += 1;
        HoldId {
            by: self.me,
            number: self.holds,
        }
    }
}

/// Works with the lock, until it is lost.
fn stay(hold: &Hold, drained: &Drained, time: Duration) {
    select! {
        recv(hold.lost()) -> _ => {}
        recv(drained) -> _ => {}
        recv(alarm(time)) -> _ => {}
    }
}

fn rest(rng: &mut Rng, drained: &Drained) {
    let time = Duration::from_millis(rng.u64(0..=LONGEST_REST));
    let _ = drained.recv_timeout(time);
    thread::yield_now();
}
