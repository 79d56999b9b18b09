//! The run as a history, for the judges that it shares with the torture run: `zoolock_judge`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use kernel::Process;
use zoolock_judge::{
    Call, Doubt, Grant, History, HoldId, Judge, Kind, Linear, Lock, Loss, Margins, Missed, Mode,
    Nanos, OpenCall, Outage, Rules, Unlocked, Use, WorkerId,
};

use crate::plan::{self, Place};
use crate::witness::{self, Held, limit};

/// What the judges are told.
#[derive(Default)]
struct Recorder {
    history: History,
    holds: BTreeMap<usize, (HoldId, usize)>,
    lost: BTreeMap<usize, ()>,
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

/// All locks: three at each place.
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
    place.0 * 3
        + match kind {
            plan::Kind::Single => 1,
            plan::Kind::Semaphore => 2,
            _ => 0,
        }
}

fn mode(mode: witness::Mode) -> Mode {
    match mode {
        witness::Mode::Alone => Mode::Exclusive,
        witness::Mode::Shared => Mode::Shared,
        witness::Mode::Permits(count) => Mode::Permits(count),
    }
}

fn worker() -> WorkerId {
    let (process, _) = kernel::whoami();
    WorkerId { process: process.0, incarnation: 0, thread: kernel::thread::number() }
}

pub(crate) fn reset() {
    record(|recorder| *recorder = Recorder::default());
}

/// A call for a lock begins.
pub(crate) fn began(kind: plan::Kind, place: Place, wanted: witness::Mode) {
    let call = OpenCall {
        op: Cow::Borrowed("lock"),
        path: lock(kind, place),
        mode: Some(mode(wanted)),
        started: now(),
        deadline: None,
    };
    record(|recorder| recorder.history.began(worker(), call));
}

/// It is back. `missed` says whether it is certain that nothing was taken, if it has nothing.
pub(crate) fn returned(
    kind: plan::Kind,
    place: Place,
    wanted: witness::Mode,
    begun: Duration,
    missed: Option<bool>,
) {
    let call = Call {
        op: Cow::Borrowed("lock"),
        path: lock(kind, place),
        started: begun.as_nanos() as Nanos,
        deadline: None,
        ended: now(),
        missed: missed.map(|certain| Missed { mode: mode(wanted), certain }),
    };
    record(|recorder| recorder.history.called(worker(), call));
}

pub(crate) fn granted(
    number: usize,
    held: &Held,
    token: u64,
    nodes: &[String],
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
    // Numbers begin again with each directory: the order of the nodes is that of their transactions.
    let order = (token >> 32) * 1_000_000 + (token & 0xffff_ffff);
    let nodes = nodes.iter().map(|node| format!("{node} {order:010}")).collect();
    record(|recorder| {
        let hold = HoldId { by: worker(), number: number as u32 };
        recorder.holds.insert(number, (hold, path));
        let under = under.and_then(|under| recorder.holds.get(&under)).map(|(hold, _)| *hold);
        recorder.history.granted(Grant {
            hold,
            under,
            kind,
            path,
            mode: mode(held.mode),
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

/// `is_held()` is false though nobody has given it back.
pub(crate) fn lost(number: usize) {
    record(|recorder| {
        if let (Some((hold, _)), None) =
            (recorder.holds.get(&number).copied(), recorder.lost.insert(number, ()))
        {
            recorder.history.lost(hold, Loss { at: now(), reason: Cow::Borrowed("seen") });
        }
    });
}

pub(crate) fn left(number: usize) {
    record(|recorder| {
        if let Some((hold, _)) = recorder.holds.get(&number).copied() {
            recorder.history.left(hold, now());
        }
    });
}

pub(crate) fn unlocked(number: usize) {
    record(|recorder| {
        if let Some((hold, _)) = recorder.holds.get(&number).copied() {
            let said = match recorder.lost.contains_key(&number) {
                true => Unlocked::Lost,
                false => Unlocked::Silent,
            };
            recorder.history.unlocked(hold, Some(now()), said);
        }
    });
}

/// Somebody has deleted the node of a hold, or ended its session: it cannot know.
pub(crate) fn doubted(number: usize) {
    record(|recorder| {
        if let Some((hold, path)) = recorder.holds.get(&number).copied() {
            let (process, path) = (hold.by.process, Some(path));
            recorder.history.doubts.push(Doubt { process, path, begun: 0, over: now() });
        }
    });
}

pub(crate) fn died(process: Process) {
    record(|recorder| recorder.history.died((process.0, 0), now()));
}

/// What both judges say.
pub(crate) fn verdict() -> Vec<String> {
    let recorder = record(std::mem::take);
    let mut history = recorder.history;
    history.over = Some(now());
    let locks = locks();
    let rules = Rules { outage: Outage::Long, ..Rules::STRICT };
    let mut judge = Judge::new(locks.clone(), Margins::EXACT);
    let mut violations = judge.judge(&rules, &history).violations;
    let second = Linear::new(&locks).check(&history);
    violations.extend(second.violations);
    violations
}
