//! Records a run as a history for the checkers in `zoolock_checker`, which the torture run uses as well.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::time::Duration;

use kernel::Process;
use zoolock_checker::{
    Doubt, Grant, History, HoldId, Linear, Linearized, Lock, Loss, Margins, Nanos, Outage, Rules,
    Unlocked, Use, WorkerId, check,
};

use crate::monitor::{Held, limit, queue};
use crate::plan::{self, Place};

thread_local! {
    static HISTORY: RefCell<History> = RefCell::default();
    static LAST: Cell<usize> = const { Cell::new(0) };
}

fn record<T>(act: impl FnOnce(&mut History) -> T) -> T {
    HISTORY.with_borrow_mut(act)
}

fn now() -> Nanos {
    kernel::elapsed().as_nanos() as Nanos
}

/// Returns all locks: three at each place.
pub fn locks() -> Vec<Lock> {
    let at = |number: usize| {
        let path = Place(number).path();
        [
            Lock::new(path, Use::ReadWrite),
            Lock::new(format!("{path} (node)"), Use::Ephemeral),
            Lock::new(format!("{path} (permits)"), Use::Semaphore(limit(Place(number)))),
        ]
    };
    (0..Place::ALL.len()).flat_map(at).collect()
}

/// Returns the index of the lock that objects of this kind acquire at this place.
pub fn lock(kind: plan::Kind, place: Place) -> usize {
    let (place, number) = queue(kind, place);
    place.0 * 3 + number
}

/// Returns the next number of a hold or a call.
pub(crate) fn next() -> usize {
    LAST.set(LAST.get() + 1);
    LAST.get()
}

/// Returns the id of the next hold of the running thread.
pub(crate) fn next_hold() -> HoldId {
    let by = WorkerId { process: kernel::own_process().0, thread: kernel::thread::number() };
    HoldId { by, number: next() as u32 }
}

pub(crate) fn reset() {
    LAST.set(0);
    record(|history| *history = History::default());
}

pub(crate) fn granted(held: &Held, begun: Duration, under: Option<HoldId>) {
    let grant = Grant {
        hold: held.id,
        under,
        path: lock(held.kind, held.place),
        mode: held.mode,
        op: Cow::Borrowed("lock"),
        nodes: held.nodes.iter().map(|(node, _)| node.clone()).collect(),
        token: Some(held.token),
        started: begun.as_nanos() as Nanos,
        at: now(),
    };
    record(|history| history.granted(grant));
}

/// Records that `is_held()` became false before the owner had released the hold.
pub(crate) fn lost(hold: HoldId) {
    record(|history| {
        if history.hold(hold).is_some_and(|record| record.loss.is_none()) {
            history.lost(hold, Loss { at: now(), reason: Cow::Borrowed("seen") });
        }
    });
}

pub(crate) fn left(hold: HoldId) {
    record(|history| history.left(hold, now()));
}

pub(crate) fn unlocked(hold: HoldId, said: Unlocked) {
    record(|history| {
        let is_lost = history.hold(hold).is_some_and(|record| record.loss.is_some());
        history.unlocked(hold, Some(now()), if is_lost { Unlocked::Lost } else { said });
    });
}

/// Records that the node of a hold or its session was deleted by others, which the owner cannot detect in time.
pub(crate) fn doubted(hold: HoldId) {
    record(|history| {
        let (process, path) = (hold.by.process, history.grant(hold).map(|grant| grant.path));
        history.doubts.push(Doubt { process, path, begun: now(), over: now() });
    });
}

pub(crate) fn died(process: Process) {
    record(|history| history.died(process.0, now()));
}

/// Returns the violations that the first checker found in a run, and the result of the linearizability checker.
pub(crate) fn verdict() -> (Vec<String>, Linearized) {
    let history = record(std::mem::take);
    let locks = locks();
    let rules = Rules { outage: Outage::Long, ..Rules::STRICT };
    let violations = check(&locks, &Margins::EXACT, &rules, &history).violations;
    let linearized = Linear::new(&locks).check(&history);
    (violations, linearized)
}
