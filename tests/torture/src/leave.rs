//! How a worker gives a lock back.

use std::slice;

use zoolock::Error;

use crate::clock::now;
use crate::held::Held;
use crate::message::{Said, Unlocked};
use crate::places::lock_path;
use crate::setting::ANSWER_WITHIN;
use crate::stay::Holding;
use crate::worker::{Turn, Worker};

impl Worker<'_> {
    /// Gives everything back. The parent knows before the first request: if another thread kills
    /// the process meanwhile, the next holder may be there already.
    pub(crate) fn end(&self, held: Held<'_>, on: Vec<Holding>, turn: &Turn<'_>) {
        on.iter().for_each(|holding| holding.witness.let_go());
        let at = now();
        for &Holding { id: hold, .. } in &on {
            self.mouth.say(&Said::Leaving { hold, at });
        }
        let (path, within) = (turn.wish.path, Some(turn.wish.release_within()));
        let said = self.timed("unlock", path, within, || held.release());
        for holding in on {
            let Holding { id: hold, path, .. } = holding;
            let unlocked = self.judge_unlock(path, said.as_ref());
            self.timed("end of lost()", path, Some(ANSWER_WITHIN), || {
                holding.guardian.wait();
            });
            self.mouth.say(&Said::Ended { hold, unlocked });
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
                    self.wrong("unlock", path, &failure.to_string());
                    return Unlocked::Wrong;
                }
            }
        }
        unlocked
    }
}
