//! Generates histories of a correct lock. Decides who holds it when, and then when the calls begin and return.

use fastrand::Rng;

use crate::event::{Answer, Call, Commit, Grant, HoldId, Loss, Missed, Unlocked, WorkerId};
use crate::history::History;
use crate::lock::{Mode, Use};
use crate::notation::granted;
use crate::time::Nanos;

/// Generates a history of `holds` holds, with up to `threads` calls in progress at the same time.
pub(crate) fn history(what: Use, rng: &mut Rng, threads: u64, holds: u32) -> History {
    let mut history = History::new(0);
    // For each holder, when the servers release its lock, and the units that it takes.
    let mut inside: Vec<(Nanos, u32)> = Vec::new();
    let mut now = 1_000;
    for token in 1..=holds {
        // Each call has its own thread, and a client has three threads.
        let (client, thread) = ((token / 3) as usize, token as usize % 3);
        let by = WorkerId { process: client, thread };
        let mode = mode(what, rng);
        let units = what.units(mode);
        while inside.iter().map(|(_, units)| units).sum::<u32>() + units > what.capacity() {
            let next = inside.iter().min().map_or(0, |(gone, _)| *gone);
            now = now.max(next);
            inside.retain(|(gone, _)| *gone > next);
        }
        now += rng.u64(1..20);
        inside.retain(|(gone, _)| *gone >= now);
        let late = |rng: &mut Rng, from: Nanos| from + rng.u64(0..20);
        let started = now.saturating_sub(rng.u64(0..threads * 20));
        if rng.u8(0..40) == 0 {
            // The call gives up. If this is not certain, the call may have been granted the lock for a while.
            let certain = rng.bool();
            let missed = Some(Missed { mode, certain });
            let (op, ended) = ("lock_within".into(), late(rng, now));
            history.called(by, Call { op, path: 0, started, deadline: None, ended, missed });
            if !certain {
                inside.push((late(rng, now), units));
            }
            continue;
        }
        let hold = HoldId { by, number: token };
        let mut at = late(rng, now);
        let token = (!matches!(mode, Mode::Permits(_))).then_some(u64::from(token));
        history.granted(Grant { mode, started, token, ..granted(hold, 0, 0, at) });
        let mut number = 0;
        while !matches!(what, Use::Semaphore(_)) && rng.u8(0..4) == 0 {
            let (started, ended) = (late(rng, at), late(rng, at + 20));
            let (held, answer) = (true, Answer::Done);
            history.committed(Commit { hold, number, held, started, ended, answer });
            (at, number) = (ended, number + 1);
        }
        let end = late(rng, at);
        let gone = late(rng, end);
        match rng.u8(0..20) {
            0 => {
                history.lost(hold, Loss { at: end, reason: "lost".into() });
                history.left(hold, end + 1);
                history.unlocked(hold, Some(end + 2), Unlocked::Lost);
            }
            1 => {
                history.left(hold, end);
                history.unlocked(hold, None, Unlocked::Silent);
            }
            _ => {
                history.left(hold, end);
                history.unlocked(hold, Some(late(rng, gone)), Unlocked::Fine);
            }
        }
        inside.push((gone, units));
    }
    history
}

fn mode(what: Use, rng: &mut Rng) -> Mode {
    match what {
        Use::ReadWrite if rng.u8(0..3) > 0 => Mode::Shared,
        Use::Semaphore(most) => Mode::Permits(rng.u32(1..=most)),
        _ => Mode::Exclusive,
    }
}
