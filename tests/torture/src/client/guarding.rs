//! The work of a worker with locks that guard writes.

use std::time::Duration;

use fastrand::Rng;
use zoolock::crossbeam_channel::RecvTimeoutError;
use zoolock::{Error, Transaction};

use crate::client::Drained;
use crate::client::hold::Holding;
use crate::client::worker::Worker;
use crate::clock::{after, now};
use crate::journal;
use crate::protocol::{Answer, Commit, Event, HoldId};
use crate::settings::ANSWER_WITHIN;

/// In milliseconds.
const LONGEST_HOLD: u64 = 400;
const LONGEST_PAUSE: u64 = 10;

impl Worker<'_> {
    /// Commits one write after the other for some time. It ends behind one that was carried out, so
    /// that whoever is stopped in the middle of this has one to commit when it goes on; or behind
    /// one that was refused.
    pub(super) fn commit_for_some_time(&self, on: &[Holding], drained: &Drained, rng: &mut Rng) {
        let holds: Vec<HoldId> = on.iter().map(|holding| holding.id).collect();
        let enough = after(now(), Duration::from_millis(rng.u64(0..=LONGEST_HOLD)));
        let mut is_over = false;
        let mut before = Answer::Unknown;
        for number in 0.. {
            let Some(transaction) = write(on, number, before) else {
                return;
            };
            let held = on.iter().all(|holding| holding.part.is_held());
            let (path, within) = (on[0].part.path, Some(ANSWER_WITHIN));
            let started = now();
            let said = self.timed("commit", path, within, || transaction.commit());
            let ended = now();
            let answer = match said {
                Ok(()) => Answer::Done,
                Err(Error::Disconnected { .. }) => Answer::Unknown,
                Err(Error::Lost { .. }) => Answer::Refused,
                Err(error) => {
                    self.unexpected("commit", path, &error.to_string());
                    Answer::Refused
                }
            };
            let holds = holds.clone();
            let commit = Commit { holds, number, held, started, ended, answer };
            self.reporter.report(&Event::Committed(commit));
            is_over |= ended > enough;
            if answer == Answer::Refused || is_over && answer == Answer::Done {
                return;
            }
            let pause = Duration::from_millis(rng.u64(0..=LONGEST_PAUSE));
            is_over |= drained.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
            before = answer;
        }
    }
}

/// Takes the place of the one before, if it is known to be there and was not the first.
fn write(on: &[Holding], number: u32, before: Answer) -> Option<Transaction> {
    let holds: Vec<_> = on.iter().filter_map(|holding| holding.part.holds.first()).collect();
    let (first, others) = holds.split_first()?;
    let mut transaction = first.transaction();
    for hold in others {
        transaction = transaction.and_held(hold);
    }
    for holding in on {
        let (path, token) = (holding.part.path, holding.token?);
        let node = |number| journal::node(path, token, holding.id, number);
        transaction = transaction.create(node(number), "");
        if number > 1 && before == Answer::Done {
            transaction = transaction.delete(node(number - 1), None);
        }
    }
    Some(transaction)
}
