//! Judges margins: for how long the next holder stays out, if the clocks have ended a hold.

use std::time::Duration;

use kernel::Process;
use zoolock::{Hold, HoldState, LossReason};
use zoolock_judge::Mode;

use super::holds::Held;
use super::{QueueId, Witness, witness};

/// A hold with a margin.
pub(super) struct Margin {
    process: Process,
    who: String,
    queue: QueueId,
    mode: Mode,
    holds: Vec<Hold>,
    paths: Vec<String>,
    margin: Duration,
    /// When it was last seen to be held, by the true time.
    held: Duration,
    /// It was seen to be lost.
    is_lost: bool,
}

impl Margin {
    fn has(&self, is_like: impl Fn(HoldState) -> bool) -> bool {
        let any = || self.holds.iter().any(|hold| is_like(hold.state()));
        kernel::peek(self.process, any) == Some(true)
    }
}

/// Records the margin of a hold that was just granted.
pub(crate) fn has_margin(hold: usize, margin: Duration) {
    witness(|witness| {
        // It may be over already.
        let is_held = |held: &&Held| held.is_held() == Some(true);
        let Some(held) = witness.held.get(&hold).filter(is_held) else {
            return;
        };
        let margin = Margin {
            process: held.process,
            who: held.who.clone(),
            queue: held.queue(),
            mode: held.mode,
            holds: held.holds.clone(),
            paths: held.nodes.iter().map(|(path, _)| path.clone()).collect(),
            margin,
            held: kernel::elapsed(),
            is_lost: false,
        };
        witness.margins.insert(hold, margin);
    });
}

/// Records that a process is about to close its client, which ends its sessions.
pub(crate) fn closes(process: Process) {
    witness(|witness| {
        witness.margins.retain(|_, margin| margin.process != process);
        witness.closing.insert(process);
    });
}

impl Witness {
    /// Notes which holds with a margin are held now. Checks that none is held again.
    pub(super) fn note_margins(&mut self) -> Vec<String> {
        let now = kernel::elapsed();
        let mut problems = Vec::new();
        for margin in self.margins.values_mut() {
            if margin.has(|state| matches!(state, HoldState::Held | HoldState::Suspended)) {
                margin.held = now;
                if margin.is_lost {
                    problems.push(format!("{} holds again what it has lost", margin.who));
                }
            }
            margin.is_lost |= margin.has(|state| matches!(state, HoldState::Lost(_)));
        }
        problems
    }

    /// Checks that a new hold keeps its distance to those that the clocks have ended.
    pub(super) fn judge_margins(&mut self, held: &Held, under: Option<usize>) -> Vec<String> {
        let (now, queue) = (kernel::elapsed(), held.queue());
        let mut problems = Vec::new();
        let here: Vec<usize> = self
            .margins
            .iter()
            .filter(|(number, margin)| margin.queue == queue && Some(**number) != under)
            .map(|(number, _)| *number)
            .collect();
        for number in here {
            let margin = &self.margins[&number];
            let is_over = |state| !matches!(state, HoldState::Held | HoldState::Suspended);
            if !margin.has(is_over) {
                continue;
            }
            let by_clock = |state| {
                let reasons = [LossReason::LeaseExpired, LossReason::HeldTooLong];
                reasons.into_iter().any(|reason| state == HoldState::Lost(reason))
            };
            let is_free = matches!(
                (margin.mode, held.mode),
                (Mode::Shared, Mode::Shared) | (Mode::Permits(_), Mode::Permits(_))
            );
            let is_sure = !self.dead.contains(&margin.process)
                && !margin.paths.iter().any(|path| self.is_robbed(margin.process, path));
            if margin.has(by_clock) && !is_free && is_sure && now - margin.held < margin.margin {
                problems.push(format!(
                    "{} has {} only {:?} after {} had it, whose margin is {:?}",
                    held.who,
                    held.place,
                    now - margin.held,
                    margin.who,
                    margin.margin,
                ));
            }
            kernel::count("margin: judged");
            self.margins.remove(&number);
        }
        problems
    }
}
