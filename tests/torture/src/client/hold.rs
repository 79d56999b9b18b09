//! The work of a worker with a lock, from the grant to the release.

use std::process;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Signal, getpid, kill_process};
use zoolock::crossbeam_channel::Select;
use zoolock::{Error, Hold};

use crate::Outcome;
use crate::client::Drained;
use crate::client::granted::{Granted, Part, Response, Then};
use crate::client::operations::{Wait, Work, long_work};
use crate::client::witness::{LossWatcher, Witness};
use crate::client::worker::{Invocation, Worker};
use crate::clock::now;
use crate::paths::{Mode, lock_path};
use crate::protocol::{Event, Grant, HoldId, Unlocked};
use crate::settings::ANSWER_WITHIN;

const MOST_WRITES: u32 = 3;
/// Of those who write nothing, in milliseconds.
const LONGEST_LOOK: u64 = 25;

/// One lock of what was granted.
pub(super) struct Holding {
    pub(super) id: HoldId,
    pub(super) part: Part,
    witness: Arc<Witness>,
    loss_watcher: LossWatcher,
    /// Only of those who write.
    pub(super) token: Option<u64>,
}

impl Worker<'_> {
    pub(crate) fn hold(
        &mut self,
        invocation: &Invocation<'_>,
        granted: Granted<'_>,
        rng: &mut Rng,
    ) -> Outcome<()> {
        let at = now();
        // All before the first request: a hold may be lost while that takes its time.
        let witness = |part: &Part| Witness::take(self.folder, part.path, part.mode);
        let witnesses: Vec<_> = granted.parts.iter().map(witness).collect::<Result<_, _>>()?;
        let mut holdings = Vec::new();
        for ((member, part), witness) in granted.parts.iter().enumerate().zip(witnesses) {
            holdings.push(self.begin(invocation, part, witness, (member, None), at));
        }
        if invocation.op.work == Work::Die {
            self.die();
        }
        self.work_with(&holdings, invocation, rng)?;
        match &granted.then {
            Then::Nothing => {}
            Then::ReEnter(again) => self.re_enter(&holdings, again),
            Then::Read(read) => {
                if let Some((read, reading)) = self.read_under(invocation, &holdings, read)? {
                    return self.leave_as_reader(
                        (granted, holdings),
                        (read, reading),
                        invocation,
                        rng,
                    );
                }
            }
        }
        self.end(granted, holdings, invocation);
        Ok(())
    }

    /// Tells of a grant, and has it watched.
    fn begin(
        &mut self,
        invocation: &Invocation<'_>,
        part: &Part,
        witness: Witness,
        (member, under): (usize, Option<&Holding>),
        at: u64,
    ) -> Holding {
        let still_held = part.is_held();
        let witness_free = witness.was_free();
        let (id, witness) = (self.next_id(), Arc::new(witness));
        let loss_watcher = LossWatcher::start(id, part, &witness, &self.reporter);
        let token = match part.mode {
            Mode::Exclusive => part.fencing_token(),
            Mode::Shared | Mode::Permits(_) => None,
        };
        self.reporter.report(&Event::Granted(Grant {
            hold: id,
            under: under.map(|write| write.id),
            kind: invocation.kind,
            path: part.path,
            mode: part.mode,
            member,
            op: invocation.op.name.into(),
            waited: invocation.op.patience == Wait::Forever,
            nodes: part.holds.iter().map(Hold::node).collect(),
            token,
            started: invocation.started,
            at,
            still_held,
            witness_free,
        }));
        self.check_count(part);
        Holding { id, part: part.clone(), witness, loss_watcher, token }
    }

    fn check_count(&self, part: &Part) {
        let wanted = match part.mode {
            Mode::Permits(count) => count as usize,
            Mode::Exclusive | Mode::Shared => 1,
        };
        let shown = part.holds.len();
        if shown != wanted {
            self.unexpected("holds", part.path, &format!("{shown} are shown of {wanted}"));
        }
    }

    /// As long as the invocation says, with writes at all paths that take them.
    fn work_with(
        &mut self,
        on: &[Holding],
        invocation: &Invocation<'_>,
        rng: &mut Rng,
    ) -> Outcome<()> {
        if invocation.op.work == Work::Guard {
            self.commit_for_some_time(on, invocation.drained, rng);
            return Ok(());
        }
        for _ in 0..rng.u32(1..=MOST_WRITES) {
            self.write_all(on)?;
        }
        if on.iter().all(|holding| holding.part.mode != Mode::Exclusive) {
            let look = Duration::from_millis(rng.u64(0..=LONGEST_LOOK));
            work_for(on, invocation.drained, look);
        }
        if invocation.op.work == Work::Long {
            work_for(on, invocation.drained, long_work(rng));
            self.write_all(on)?;
        }
        Ok(())
    }

    fn write_all(&mut self, on: &[Holding]) -> Outcome<()> {
        on.iter().try_for_each(|holding| match holding.token {
            Some(token) => self.write(holding, token),
            None => Ok(()),
        })
    }

    /// Looks at the lock and writes. Nothing but the register keeps a stop of the process between
    /// the two from doing harm.
    fn write(&mut self, on: &Holding, token: u64) -> Outcome<()> {
        if !on.part.is_held() {
            return Ok(());
        }
        let hold = on.id;
        if self.shared.armed.swap(false, Ordering::SeqCst) {
            self.ask(&Event::AboutToWrite { hold })?;
        }
        self.ask(&Event::Write { hold, token })?;
        Ok(())
    }

    fn re_enter(&self, on: &[Holding], again: &dyn Fn() -> zoolock::Result<u32>) {
        for Holding { part, .. } in on {
            match self.timed("re-entry", part.path, Some(Duration::ZERO), again) {
                Ok(2) => {}
                Ok(count) => {
                    self.unexpected("re-entry", part.path, &format!("hold_count() was {count}"));
                }
                Err(Error::Lost { .. }) if !part.is_held() => {}
                Err(error) => self.unexpected("re-entry", part.path, &error.to_string()),
            }
        }
    }

    /// Takes the read under the write that is held. None if that is lost.
    fn read_under<'h>(
        &mut self,
        invocation: &Invocation<'_>,
        on: &[Holding],
        read: &dyn Fn() -> Response<'h>,
    ) -> Outcome<Option<(Granted<'h>, Holding)>> {
        let write = &on[0];
        let (op, path) = ("read under a write", write.part.path);
        let read = match self.timed(op, path, None, read) {
            Ok(Some(read)) => read,
            Err(Error::Lost { .. }) if !write.part.is_held() => return Ok(None),
            Ok(None) => return Err("a call without a deadline says that it is busy".into()),
            Err(error) => {
                self.unexpected(op, path, &error.to_string());
                return Ok(None);
            }
        };
        let at = now();
        let witness = write.witness.downgrade();
        let reading = self.begin(invocation, &read.parts[0], witness, (0, Some(write)), at);
        if let (Some(token), Some(own)) = (reading.part.fencing_token(), write.token)
            && token != own
        {
            self.unexpected(op, path, &format!("its token {token} is not the write's, {own}"));
        }
        Ok(Some((read, reading)))
    }

    /// Mostly the write ends first, and the thread goes on as a reader.
    fn leave_as_reader(
        &mut self,
        (write, writing): (Granted<'_>, Vec<Holding>),
        (read, reading): (Granted<'_>, Holding),
        invocation: &Invocation<'_>,
        rng: &mut Rng,
    ) -> Outcome<()> {
        let reading = vec![reading];
        if rng.u32(0..4) == 0 {
            self.end(read, reading, invocation);
            self.end(write, writing, invocation);
            return Ok(());
        }
        self.end(write, writing, invocation);
        self.work_with(&reading, invocation, rng)?;
        self.end(read, reading, invocation);
        Ok(())
    }

    /// Gives everything back. The coordinator knows before the first request: if another thread
    /// kills the process meanwhile, the next holder may be there already.
    fn end(&self, granted: Granted<'_>, on: Vec<Holding>, invocation: &Invocation<'_>) {
        on.iter().for_each(|holding| holding.witness.let_go());
        let at = now();
        for &Holding { id: hold, .. } in &on {
            self.reporter.report(&Event::Leaving { hold, at });
        }
        let (path, within) =
            (invocation.arguments.path, Some(invocation.arguments.release_within()));
        let said = self.timed("unlock", path, within, || granted.release());
        let at = Some(now());
        for holding in on {
            let (hold, path) = (holding.id, holding.part.path);
            let unlocked = self.judge_unlock(path, said.as_ref());
            self.timed("end of lost()", path, Some(ANSWER_WITHIN), || {
                holding.loss_watcher.wait();
            });
            self.reporter.report(&Event::Ended { hold, unlocked, at });
        }
    }

    /// What an unlock said of the lock at one path.
    fn judge_unlock(&self, path: usize, said: Option<&zoolock::Result<()>>) -> Unlocked {
        let error = match said {
            None => return Unlocked::Silent,
            Some(Ok(())) => return Unlocked::Fine,
            Some(Err(error)) => error,
        };
        let failures = match error {
            Error::Release { failures } => &failures[..],
            error => slice::from_ref(error),
        };
        let (mut unlocked, here) = (Unlocked::Fine, lock_path(path));
        for failure in failures {
            match failure {
                Error::Lost { path, .. } if *path == here => unlocked = Unlocked::Lost,
                Error::Lost { .. } => {}
                failure => {
                    self.unexpected("unlock", path, &failure.to_string());
                    return Unlocked::Unexpected;
                }
            }
        }
        unlocked
    }

    /// As a crash would: nothing is closed, and the servers have to find out.
    fn die(&self) -> ! {
        self.reporter.report(&Event::Dying { at: now() });
        let _ = kill_process(getpid(), Signal::KILL);
        process::abort()
    }
}

/// Until one of the locks is lost, or the phase is over.
fn work_for(on: &[Holding], drained: &Drained, time: Duration) {
    let losses: Vec<_> = on.iter().map(|holding| holding.part.lost()).collect();
    let mut end = Select::new();
    end.recv(drained);
    for lost in &losses {
        end.recv(lost);
    }
    // Whichever it was, what follows looks for itself.
    let _ = end.ready_timeout(time);
}
