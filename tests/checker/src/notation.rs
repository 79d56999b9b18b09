//! A notation for handmade histories.

use crate::event::{Answer, Carried, Commit, Doubt, Grant, HoldId, Loss, Unlocked, WorkerId};
use crate::history::History;
use crate::lock::{Lock, LockIndex, Mode, Use};
use crate::time::Nanos;

pub(crate) const MUTEX: LockIndex = 0;
pub(crate) const RW: LockIndex = 1;
pub(crate) const SEMAPHORE: LockIndex = 2;
pub(crate) const EPHEMERAL: LockIndex = 3;

pub(crate) fn locks() -> Vec<Lock> {
    vec![
        Lock::new("/mutex", Use::Exclusive),
        Lock::new("/rw", Use::ReadWrite),
        Lock::new("/semaphore", Use::Semaphore(3)),
        Lock::new("/ephemeral", Use::Ephemeral),
    ]
}

/// Returns the hold with this name: a letter for the process, and a digit for any hold other than its first.
pub(crate) fn hold(name: &str) -> HoldId {
    let process = usize::from(name.as_bytes()[0] - b'A');
    let number = name[1..].parse().unwrap_or(1);
    HoldId { by: WorkerId { process, thread: 0 }, number }
}

/// Returns the grant of an exclusive hold.
pub(crate) fn granted(hold: HoldId, path: LockIndex, token: u64, at: Nanos) -> Grant {
    Grant {
        hold,
        under: None,
        path,
        mode: Mode::Exclusive,
        op: "lock".into(),
        nodes: vec![format!("_c_x-lock-{token:010}")],
        token: Some(token),
        started: at,
        at,
    }
}

/// Returns the history that a trace such as `10 A mutex 1, 60 A leaves` describes: each part consists of a time, a
/// hold, and what happens to it.
pub(crate) fn history_of(trace: &str) -> History {
    let mut history = History::new(0);
    for part in trace.split(", ") {
        let words: Vec<&str> = part.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("{part}"));
        let (at, hold) = (number(0), hold(words[1]));
        let grant = |path| granted(hold, path, number(3), at);
        match words[2] {
            "mutex" => history.granted(grant(MUTEX)),
            "ephemeral" => history.granted(grant(EPHEMERAL)),
            "writer" => history.granted(grant(RW)),
            "reader" => {
                let under = words.get(4).map(|name| self::hold(name));
                history.granted(Grant { mode: Mode::Shared, under, ..grant(RW) });
            }
            "permits" => {
                let (mode, token) = (Mode::Permits(number(3) as u32), None);
                history.granted(Grant { mode, token, ..grant(SEMAPHORE) });
            }
            "leaves" => {
                history.left(hold, at);
                history.unlocked(hold, Some(at + 5), Unlocked::Fine);
            }
            "drops" => {
                history.left(hold, at);
                history.unlocked(hold, None, Unlocked::Silent);
            }
            "notified" => history.unlocked(hold, Some(at), Unlocked::Lost),
            "loses" => history.lost(hold, Loss { at, reason: "expired".into() }),
            "dies" => history.died(hold.by.process, at),
            "doubts" => {
                let (path, over) = (Some(number(3) as LockIndex), number(4));
                let process = hold.by.process;
                history.doubts.push(Doubt { process, path, begun: at, over });
            }
            "writes" | "asks" | "fails" => {
                let answer = match words[2] {
                    "writes" => Answer::Done,
                    "asks" => Answer::Unknown,
                    _ => Answer::Refused,
                };
                commit(&mut history, hold, 0, (at, number(3)), answer);
                if answer == Answer::Done {
                    let path = history.grant(hold).map_or(MUTEX, |grant| grant.path);
                    history.carried_out.push(Carried { path, token: 1, hold, number: 0, zxid: 1 });
                }
            }
            _ => panic!("{part}"),
        }
    }
    history
}

pub(crate) fn commit(
    history: &mut History,
    hold: HoldId,
    number: u32,
    (started, ended): (Nanos, Nanos),
    answer: Answer,
) {
    history.committed(Commit { hold, number, held: true, started, ended, answer });
}
