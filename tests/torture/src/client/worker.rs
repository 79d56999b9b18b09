//! A thread of a client process. It makes one call after another, and reports each.
//! [`hold`](crate::client::hold) has its actions under a lock.

use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use zoolock::Error;

use crate::Outcome;
use crate::client::granted::Response;
use crate::client::mix;
use crate::client::operations::{Arguments, Op, Wait};
use crate::client::{Drained, Shared};
use crate::clock::{Nanos, after, now};
use crate::kinds::Kind;
use crate::paths::lock_path;
use crate::protocol::{
    Call, Event, HoldId, InFlight, Missed, Reply, Reporter, Task, WorkerId, receive,
};
use crate::settings;

/// A worker that rests after its work leaves the machine to the others.
const LONGEST_REST: u64 = 120;

pub(crate) struct Worker<'a> {
    pub(crate) me: WorkerId,
    seed: u64,
    pub(crate) folder: &'a Path,
    pub(crate) shared: &'a Shared,
    replies: BufReader<UnixStream>,
    pub(crate) reporter: Reporter,
    /// The number of its holds so far.
    pub(crate) holds: u32,
}

/// One call and its arguments.
pub(crate) struct Invocation<'a> {
    pub(crate) kind: Kind,
    pub(crate) op: &'static Op,
    pub(crate) arguments: Arguments,
    pub(crate) started: Nanos,
    pub(crate) drained: &'a Drained,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        me: WorkerId,
        seed: u64,
        folder: &'a Path,
        shared: &'a Shared,
    ) -> io::Result<Worker<'a>> {
        let reporter = Reporter::connect(folder)?;
        let replies = BufReader::new(reporter.replies()?);
        reporter.report(&Event::Worker(me));
        Ok(Worker { me, seed, folder, shared, replies, reporter, holds: 0 })
    }

    pub(crate) fn work(mut self) -> Outcome<()> {
        loop {
            match self.ask(&Event::Ready)? {
                Reply::Begin { phase, deaths, task } => self.phase(phase, deaths, task)?,
                _ => return Ok(()),
            }
        }
    }

    fn phase(&mut self, phase: u32, deaths: bool, task: Task) -> Outcome<()> {
        let mut rng = self.rng(phase);
        while let Some(drained) = self.shared.gate.enter(phase) {
            let (kind, op) = if task == Task::Guard {
                let (kind, op) = &mix::GUARDING[rng.usize(0..mix::GUARDING.len())];
                (*kind, op)
            } else {
                let kind = self.shared.kinds.pick(&mut rng);
                let spared = self.shared.spared.load(Ordering::SeqCst) >= phase;
                (kind, Op::pick(mix::of(kind), &mut rng, deaths && !spared))
            };
            let arguments = op.arguments(kind, &mut rng);
            let invocation = Invocation { kind, op, arguments, started: now(), drained: &drained };
            self.take(&invocation, &mut rng)?;
            rest(&mut rng, &drained);
        }
        Ok(())
    }

    pub(crate) fn rng(&self, phase: u32) -> Rng {
        let WorkerId { process, incarnation, thread } = self.me;
        let parts = [process as u64, u64::from(incarnation), thread as u64, phase.into()];
        settings::rng(self.seed, &parts)
    }

    fn take(&mut self, invocation: &Invocation<'_>, rng: &mut Rng) -> Outcome<()> {
        let Invocation { op, arguments, .. } = invocation;
        let call = || (op.get)(&self.shared.locks, arguments);
        let mode = op.mode(invocation.kind, arguments);
        let missed = |got: &Response<'_>| match got {
            Ok(Some(_)) => None,
            Ok(None) => Some(Missed { mode: mode?, certain: true }),
            Err(_) => Some(Missed { mode: mode?, certain: false }),
        };
        let got =
            self.timed_acquisition(op.name, arguments.path, op.bound(arguments), call, missed);
        let forever = op.patience == Wait::Forever;
        match got {
            Ok(Some(granted)) => self.hold(invocation, granted, rng)?,
            Ok(None) if !forever => {}
            Ok(None) => self.unexpected(op.name, arguments.path, "came back without the lock"),
            Err(error) if invocation.kind == Kind::Multi && is_loss(&error, !forever) => {
                let kind = invocation.kind;
                self.reporter.report(&Event::LostWhileWaiting { kind });
            }
            Err(Error::Disconnected { .. }) if !forever => {}
            Err(error) => self.unexpected(op.name, arguments.path, &error.to_string()),
        }
        Ok(())
    }

    /// Makes a call that is visible to the coordinator while it runs.
    pub(crate) fn timed<T>(
        &self,
        op: &'static str,
        path: usize,
        patience: Option<Duration>,
        call: impl FnOnce() -> T,
    ) -> T {
        self.timed_acquisition(op, path, patience, call, |_| None)
    }

    /// The same, and reports an acquisition that returned without the lock.
    fn timed_acquisition<T>(
        &self,
        op: &'static str,
        path: usize,
        patience: Option<Duration>,
        call: impl FnOnce() -> T,
        missed: impl FnOnce(&T) -> Option<Missed>,
    ) -> T {
        let started: Nanos = now();
        let deadline = patience.map(|patience| after(started, patience));
        let thread = self.me.thread;
        let slot = || self.shared.calls[thread].lock().unwrap_or_else(PoisonError::into_inner);
        *slot() = Some(InFlight { thread, op: op.into(), path, since: started, deadline });
        let result = call();
        let ended = now();
        *slot() = None;
        self.reporter.report(&Event::Called(Call {
            op: op.into(),
            path,
            started,
            deadline,
            ended,
            missed: missed(&result),
        }));
        result
    }

    pub(crate) fn ask(&mut self, question: &Event) -> Outcome<Reply> {
        self.reporter.report(question);
        Ok(receive(&mut self.replies)?.ok_or("the coordinator is gone")?)
    }

    pub(crate) fn unexpected(&self, op: &str, path: usize, what: &str) {
        let (me, path) = (self.me, lock_path(path));
        self.reporter.report(&Event::Unexpected(format!("{me}: {op} at {path}: {what}")));
    }

    pub(crate) fn next_id(&mut self) -> HoldId {
        self.holds += 1;
        HoldId { by: self.me, number: self.holds }
    }
}

/// A member was lost during the wait for a later one, or during the release of the taken ones.
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
