//! Records a run as a history for the judges in `zoolock_judge`, which also judge the torture run.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kernel::Process;
use zoolock::Result;
use zoolock_judge::{
    Call, Doubt, Grant, History, HoldId, Judge, Kind, Linear, Linearized, Lock, Loss, Margins,
    Missed, Mode, Nanos, OpenCall, Outage, Rules, Unlocked, Use, WorkerId,
};

use crate::plan::{self, Place};
use crate::witness::{Held, limit, queue};

/// Records for the judges.
#[derive(Default)]
struct Recorder {
    history: History,
    holds: BTreeMap<usize, (HoldId, usize)>,
    lost: BTreeSet<usize>,
}

thread_local! {
    static RECORDER: RefCell<Recorder> = RefCell::default();
}

fn record<T>(act: impl FnOnce(&mut Recorder) -> T) -> T {
    RECORDER.with_borrow_mut(act)
}

fn now() -> Nanos {
    kernel::elapsed().as_nanos() as Nanos
}

/// Returns all locks, three at each place.
fn locks() -> Vec<Lock> {
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

fn lock(kind: plan::Kind, place: Place) -> usize {
    let (place, number) = queue(kind, place);
    place.0 * 3 + number
}

/// Adds to the history of a hold whose grant was recorded.
fn record_of(number: usize, act: impl FnOnce(&mut Recorder, HoldId, usize)) {
    record(|recorder| {
        if let Some((hold, path)) = recorder.holds.get(&number).copied() {
            act(recorder, hold, path);
        }
    });
}

fn worker() -> WorkerId {
    WorkerId { process: kernel::own_process().0, incarnation: 0, thread: kernel::thread::number() }
}

pub(crate) fn reset() {
    record(|recorder| *recorder = Recorder::default());
}

/// Makes a call for a lock. A call that fails may still have taken the lock.
pub(crate) fn call<T>(
    kind: plan::Kind,
    place: Place,
    mode: Mode,
    make: impl FnOnce() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let (op, path) = (Cow::Borrowed("lock"), lock(kind, place));
    let (started, deadline) = (now(), None);
    let call = OpenCall { op: op.clone(), path, mode: Some(mode), started, deadline };
    record(|recorder| recorder.history.began(worker(), call));
    let taken = make();
    let missed = match &taken {
        Ok(Some(_)) => None,
        Ok(None) => Some(Missed { mode, certain: true }),
        Err(_) => Some(Missed { mode, certain: false }),
    };
    let call = Call { op, path, started, deadline, ended: now(), missed };
    record(|recorder| recorder.history.called(worker(), call));
    taken
}

pub(crate) fn granted(
    number: usize,
    held: &Held,
    begun: Duration,
    under: Option<usize>,
    is_held: bool,
) {
    let kind = match held.kind {
        plan::Kind::Exclusive | plan::Kind::Leadership => Kind::Exclusive,
        plan::Kind::Reentrant => Kind::Reentrant,
        plan::Kind::Read | plan::Kind::Write => Kind::ReadWrite,
        plan::Kind::Semaphore => Kind::Semaphore,
        plan::Kind::Single => Kind::Ephemeral,
        plan::Kind::Several => Kind::Multi,
    };
    let path = lock(held.kind, held.place);
    // Nodes are ordered by their transactions, because a directory that is created again numbers from zero.
    let token = held.token;
    let order = (token >> 32) * 1_000_000 + (token & 0xffff_ffff);
    let nodes = held.nodes.iter().map(|(node, _)| format!("{node} {order:010}")).collect();
    record(|recorder| {
        let hold = HoldId { by: worker(), number: number as u32 };
        recorder.holds.insert(number, (hold, path));
        let under = under.and_then(|under| recorder.holds.get(&under)).map(|(hold, _)| *hold);
        recorder.history.granted(Grant {
            hold,
            under,
            kind,
            path,
            mode: held.mode,
            member: 0,
            op: Cow::Borrowed("lock"),
            waited: false,
            nodes,
            token: Some(token),
            started: begun.as_nanos() as Nanos,
            at: now(),
            still_held: is_held,
            witness_free: true,
        });
    });
}

/// Records that `is_held()` became false before the owner gave the hold back.
pub(crate) fn lost(number: usize) {
    record_of(number, |recorder, hold, _| {
        if recorder.lost.insert(number) {
            recorder.history.lost(hold, Loss { at: now(), reason: Cow::Borrowed("seen") });
        }
    });
}

pub(crate) fn left(number: usize) {
    record_of(number, |recorder, hold, _| recorder.history.left(hold, now()));
}

pub(crate) fn unlocked(number: usize, said: Unlocked) {
    record_of(number, |recorder, hold, _| {
        let said = if recorder.lost.contains(&number) { Unlocked::Lost } else { said };
        recorder.history.unlocked(hold, Some(now()), said);
    });
}

/// Records that somebody deleted the node of a hold or ended its session, so that the owner cannot know of the loss.
pub(crate) fn doubted(number: usize) {
    record_of(number, |recorder, hold, path| {
        let (process, path) = (hold.by.process, Some(path));
        recorder.history.doubts.push(Doubt { process, path, begun: 0, over: now() });
    });
}

pub(crate) fn died(process: Process) {
    record(|recorder| recorder.history.died((process.0, 0), now()));
}

/// Returns the judge's violations of a run, and the result of the judge of linearizability.
pub(crate) fn verdict() -> (Vec<String>, Linearized) {
    let recorder = record(std::mem::take);
    let mut history = recorder.history;
    history.over = Some(now());
    let locks = locks();
    let rules = Rules { outage: Outage::Long, ..Rules::STRICT };
    let violations = Judge::new(locks.clone(), Margins::EXACT).judge(&rules, &history).violations;
    let linearized = Linear::new(&locks).check(&history);
    (violations, linearized)
}
