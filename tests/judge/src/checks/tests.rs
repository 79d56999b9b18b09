//! What histories that are made by hand are made of.

use super::{Case, Findings, Judge};
use crate::event::{Grant, HoldId, WorkerId};
use crate::history::History;
use crate::lock::{Kind, Lock, Mode, Use};
use crate::rules::{Margins, Rules};
use crate::time::Nanos;

pub(super) const MUTEX: usize = 0;
pub(super) const RW: usize = 1;
pub(super) const SEMAPHORE: usize = 2;

pub(super) fn locks() -> Vec<Lock> {
    vec![
        Lock::new("/mutex", Use::Exclusive),
        Lock::new("/rw", Use::ReadWrite),
        Lock::new("/semaphore", Use::Semaphore(3)),
    ]
}

pub(super) fn case_of(history: &History, check: impl FnOnce(Case<'_>)) {
    let (locks, margins, rules) = (locks(), Margins::EXACT, Rules::STRICT);
    check(Case { locks: &locks, margins: &margins, rules: &rules, history });
}

pub(super) fn judge(rules: &Rules, history: &History) -> Findings {
    let found = Judge::new(locks(), Margins::EXACT).judge(rules, history);
    println!("{:?}", found.violations);
    found
}

pub(super) fn hold(process: usize, number: u32) -> HoldId {
    HoldId { by: WorkerId { process, incarnation: 0, thread: 0 }, number }
}

pub(super) fn granted(hold: HoldId, path: usize, token: u64, at: Nanos) -> Grant {
    Grant {
        hold,
        under: None,
        kind: Kind::Exclusive,
        path,
        mode: Mode::Exclusive,
        member: 0,
        op: "lock".into(),
        waited: true,
        nodes: vec![format!("_c_x-lock-{token:010}")],
        token: Some(token),
        started: at,
        at,
        still_held: true,
        witness_free: true,
    }
}
