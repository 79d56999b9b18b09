//! What a worker does with a lock that was granted, until it gives it [back](crate::leave).

use std::process;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Signal, getpid, kill_process};
use zoolock::Error;
use zoolock::crossbeam_channel::Select;

use crate::Outcome;
use crate::clock::now;
use crate::gate::Drained;
use crate::guardian::Guardian;
use crate::held::{Held, Part, Then};
use crate::message::{Grant, HoldId, Said};
use crate::ops::{Patience, Stay, long_stay};
use crate::places::Share;
use crate::setting::ANSWER_WITHIN;
use crate::view::View;
use crate::witness::Witness;
use crate::worker::{Turn, Worker};

const MOST_WRITES: u32 = 3;
/// Of those who write nothing, in milliseconds.
const LONGEST_LOOK: u64 = 25;

/// One lock of what was granted.
pub(crate) struct Holding {
    pub(crate) id: HoldId,
    pub(crate) path: usize,
    share: Share,
    view: View,
    pub(crate) witness: Arc<Witness>,
    pub(crate) guardian: Guardian,
    /// Only of those who write.
    token: Option<u64>,
}

impl Worker<'_> {
    pub(crate) fn hold(&mut self, turn: &Turn<'_>, held: Held<'_>, rng: &mut Rng) -> Outcome<()> {
        let at = now();
        // All before the first request: a hold may be lost while that takes its time.
        let witness = |part: &Part| Witness::take(self.folder, part.path, part.share);
        let witnesses: Vec<_> = held.parts.iter().map(witness).collect::<Result<_, _>>()?;
        let mut holdings = Vec::new();
        for ((member, part), witness) in held.parts.iter().enumerate().zip(witnesses) {
            holdings.push(self.begin(turn, part, witness, (member, None), at));
        }
        if turn.op.stay == Stay::Die {
            self.die();
        }
        self.work_with(&holdings, turn, rng)?;
        match &held.then {
            Then::Nothing => {}
            Then::ReEnter(again) => self.re_enter(&holdings, again),
            Then::Read(read) => {
                if let Some((read, reading)) = self.read_under(turn, &holdings, read)? {
                    return self.leave_as_reader((held, holdings), (read, reading), turn, rng);
                }
            }
        }
        self.end(held, holdings, turn);
        Ok(())
    }

    /// Tells of a grant, and has it watched.
    fn begin(
        &mut self,
        turn: &Turn<'_>,
        part: &Part,
        witness: Witness,
        (member, under): (usize, Option<&Holding>),
        at: u64,
    ) -> Holding {
        let Part { path, share, view } = part;
        let (path, share, view) = (*path, *share, view.clone());
        let sound = view.is_held();
        let alone = witness.is_complete();
        let (id, witness) = (self.next_id(), Arc::new(witness));
        let guardian = Guardian::start(id, view.clone(), Arc::clone(&witness), self.mouth.clone());
        let token = match share {
            Share::Alone => self.token(path, &view),
            Share::Reading | Share::Permits(_) => None,
        };
        self.mouth.say(&Said::Granted(Grant {
            hold: id,
            under: under.map(|write| write.id),
            kind: turn.kind,
            path,
            share,
            member,
            op: turn.op.name.to_owned(),
            waited: turn.op.patience == Patience::Forever,
            nodes: view.nodes().collect(),
            token,
            started: turn.started,
            at,
            sound,
            alone,
        }));
        self.check_count(path, share, &view);
        Holding { id, path, share, view, witness, guardian, token }
    }

    fn token(&self, path: usize, view: &View) -> Option<u64> {
        let token = || view.fencing_token();
        self.timed("fencing_token", path, Some(ANSWER_WITHIN), token)?.ok()
    }

    fn check_count(&self, path: usize, share: Share, view: &View) {
        let wanted = match share {
            Share::Permits(count) => count as usize,
            Share::Alone | Share::Reading => 1,
        };
        let shown = view.nodes().count();
        if shown != wanted {
            self.wrong("holds", path, &format!("{shown} are shown of {wanted}"));
        }
    }

    /// As long as the turn says, with writes at all places that take them.
    fn work_with(&mut self, on: &[Holding], turn: &Turn<'_>, rng: &mut Rng) -> Outcome<()> {
        for _ in 0..rng.u32(1..=MOST_WRITES) {
            self.write_all(on)?;
        }
        if on.iter().all(|holding| holding.share != Share::Alone) {
            let look = Duration::from_millis(rng.u64(0..=LONGEST_LOOK));
            stay(on, turn.drained, look);
        }
        if turn.op.stay == Stay::Long {
            stay(on, turn.drained, long_stay(rng));
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
        if !on.view.is_held() {
            return Ok(());
        }
        let hold = on.id;
        if self.shared.armed.swap(false, Ordering::SeqCst) {
            self.ask(&Said::Checked { hold })?;
        }
        self.ask(&Said::Write { hold, token })?;
        Ok(())
    }

    fn re_enter(&self, on: &[Holding], again: &dyn Fn() -> zoolock::Result<u32>) {
        for Holding { path, view, .. } in on {
            match self.timed("re-entry", *path, Some(Duration::ZERO), again) {
                Ok(2) => {}
                Ok(count) => self.wrong("re-entry", *path, &format!("hold_count() was {count}")),
                Err(Error::Lost { .. }) if !view.is_held() => {}
                Err(error) => self.wrong("re-entry", *path, &error.to_string()),
            }
        }
    }

    /// Takes the read under the write that is held. None if that is lost.
    fn read_under<'h>(
        &mut self,
        turn: &Turn<'_>,
        on: &[Holding],
        read: &dyn Fn() -> crate::held::Got<'h>,
    ) -> Outcome<Option<(Held<'h>, Holding)>> {
        let write = &on[0];
        let (op, path) = ("read under a write", write.path);
        let read = match self.timed(op, path, None, read) {
            Ok(Some(read)) => read,
            Err(Error::Lost { .. }) if !write.view.is_held() => return Ok(None),
            Ok(None) => return Err("a call without a deadline says that it is busy".into()),
            Err(error) => {
                self.wrong(op, path, &error.to_string());
                return Ok(None);
            }
        };
        let at = now();
        let heir = write.witness.inherit();
        let reading = self.begin(turn, &read.parts[0], heir, (0, Some(write)), at);
        if let (Some(token), Some(own)) = (self.token(path, &reading.view), write.token)
            && token != own
        {
            self.wrong(op, path, &format!("its token {token} is not the write's, {own}"));
        }
        Ok(Some((read, reading)))
    }

    /// Mostly the write ends first, and the thread goes on as a reader.
    fn leave_as_reader(
        &mut self,
        (write, writing): (Held<'_>, Vec<Holding>),
        (read, reading): (Held<'_>, Holding),
        turn: &Turn<'_>,
        rng: &mut Rng,
    ) -> Outcome<()> {
        let reading = vec![reading];
        if rng.u32(0..4) == 0 {
            self.end(read, reading, turn);
            self.end(write, writing, turn);
            return Ok(());
        }
        self.end(write, writing, turn);
        self.work_with(&reading, turn, rng)?;
        self.end(read, reading, turn);
        Ok(())
    }

    /// As a crash would: nothing is closed, and the servers have to find out.
    fn die(&self) -> ! {
        self.mouth.say(&Said::Dying { at: now() });
        let _ = kill_process(getpid(), Signal::KILL);
        process::abort()
    }
}

/// Works with the locks, until one of them is lost.
fn stay(on: &[Holding], drained: &Drained, time: Duration) {
    let mut end = Select::new();
    end.recv(drained);
    for holding in on {
        end.recv(holding.view.lost());
    }
    // Whichever it was, what follows looks for itself.
    let _ = end.ready_timeout(time);
}
