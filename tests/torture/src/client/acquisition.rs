//! An acquisition of a lock: the call, the operations during the hold, and the release.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use zoolock::{Error, Hold, HoldState, Lock, Result};
use zoolock_checker::{Answer, Commit, Grant, HoldId, Mode, Nanos, Unlocked, after};
use zoolock_simulation::DATA;

use super::Program;
use super::objects::{Object, Taken, make, mode, release};
use crate::monitor::limit;
use crate::plan::{AcquisitionPlan, End, Kind, ObjectPlan, Wait};
use crate::protocol::{Event, JOURNAL, now};

/// What a call has acquired, and the object with which it was acquired.
pub(super) struct Acquisition<'a> {
    pub(super) object: &'a Object,
    pub(super) plan: &'a ObjectPlan,
    taken: Taken,
    pub(super) hold: Holding,
    pub(super) writer: Arc<Writer>,
}

/// A hold, as it is reported to the coordinator: of one lock, or of several permits. For a multi-lock, it is the first
/// member's, which is at a place where other clients lock as well.
pub(super) struct Holding {
    id: HoldId,
    lock: usize,
    pub(super) own: Hold,
    /// When the hold expires, as far as is known now.
    due: Arc<AtomicU64>,
    watcher: JoinHandle<()>,
}

/// Writes that the holds of an acquisition guard.
pub(super) struct Writer {
    id: HoldId,
    lock: usize,
    kind: Kind,
    holds: Vec<Hold>,
    /// The number of writes so far.
    writes: AtomicU32,
    is_refused: AtomicBool,
}

impl Program {
    /// Acquires a lock, carries out the plan's operations, and releases the lock.
    pub(super) fn acquire(&'static self, acquisition: &AcquisitionPlan) {
        let AcquisitionPlan { wait, permits, end, .. } = *acquisition;
        let (shared, plan) =
            (&self.objects[acquisition.object], &self.plan.objects[acquisition.object]);
        let fresh = acquisition.is_fresh.then(|| make(&self.client, plan));
        let object = fresh.as_ref().unwrap_or(shared);
        let is_guard = !matches!(end, End::Unlock | End::Downgrade);
        let call = if matches!(wait, Wait::Forever) { "lock" } else { "try_lock" };
        let taken = self.take(call, (object, plan), wait, permits, is_guard);
        let Some(taken) = taken else { return };
        acquisition
            .while_held
            .iter()
            .for_each(|operation| self.carry_out(&taken, operation, acquisition));
        let read = if matches!(end, End::Downgrade) { self.read_below(&taken) } else { None };
        self.give_back(taken, end);
        if let (Some(read), Object::Write(_, lock)) = (read, object) {
            thread::sleep(Duration::from_millis(30));
            self.end(read, 1, false, || lock.unlock());
        }
    }

    pub(super) fn take<'a>(
        &self,
        call: &'static str,
        (object, plan): (&'a Object, &'a ObjectPlan),
        wait: Wait,
        permits: u32,
        is_guard: bool,
    ) -> Option<Acquisition<'a>> {
        let ObjectPlan { kind, place, .. } = *plan;
        let permits = permits.min(limit(place));
        if kind == Kind::Leadership {
            return None;
        }
        let (lock, mode, started) =
            (zoolock_simulation::lock(kind, place), mode(kind, permits), now());
        let within = match wait {
            Wait::Forever | Wait::Connected(None, _) => None,
            // After the last try, a multi-lock releases the members that it has, one by one.
            Wait::Try => Some(self.patience() * (2 * kind.members() - 1)),
            Wait::For(time) | Wait::Connected(Some(time), _) => {
                Some(time + self.patience() * (kind.members() - 1))
            }
        };
        let missed = |taken: &Result<Option<Taken>>| match taken {
            Ok(Some(_)) => None,
            // A call that returns an error may have held the lock for a while.
            taken => Some(taken.is_ok()),
        };
        // An object created for this call is not in the list, so it has no cancel token.
        let number = self.objects.iter().position(|one| ptr::eq(one, object));
        let token = number.filter(|_| fastrand::bool()).map(|number| self.token_of(number).clone());
        let take = || object.take(wait, token.as_ref(), permits, is_guard);
        let taken = self.timed((call, lock, Some(mode)), within, take, missed);
        if matches!((wait, &taken), (Wait::Forever, Ok(None))) {
            self.unexpected(format!("{call} at {place} returned without the lock"));
        }
        let taken = self.checked(call, taken)??;
        let holds = object.holds(&taken);
        if holds.is_empty() {
            // The hold had ended before the call returned.
            self.checked("unlock", release(object, taken, End::Unlock));
            return None;
        }
        let shown = holds.len();
        if matches!(mode, Mode::Permits(count) if count as usize != shown) {
            self.unexpected(format!("{shown} holds are shown of {mode:?}"));
        }
        let shared = if kind == Kind::Several { 1 } else { shown };
        let hold = self.begin((call, lock, mode, started), holds[..shared].to_vec(), None);
        let (writes, is_refused) = Default::default();
        let writer = Writer { id: hold.id, lock, kind, holds, writes, is_refused };
        Some(Acquisition { object, plan, taken, hold, writer: Arc::new(writer) })
    }

    /// Reports a grant, and starts to watch the hold.
    pub(super) fn begin(
        &self,
        (call, lock, mode, started): (&'static str, usize, Mode, Nanos),
        holds: Vec<Hold>,
        under: Option<HoldId>,
    ) -> Holding {
        let at = now();
        let still_held = holds.iter().all(Hold::is_held);
        let id = HoldId { by: self.by(), number: self.holds.fetch_add(1, Ordering::SeqCst) };
        let own = holds[0].clone();
        let token = own.fencing_token();
        Event::Granted(Grant {
            hold: id,
            under,
            path: lock,
            mode,
            op: call.into(),
            nodes: holds.iter().map(Hold::node).collect(),
            token: Some(token).filter(|_| !matches!(mode, Mode::Permits(_))),
            started,
            at,
        })
        .report();
        // A hold that ended before its call returned makes no promise.
        let due = Arc::new(AtomicU64::new(if still_held { Nanos::MAX } else { at }));
        let watcher = watch(id, holds, &due);
        Holding { id, lock, own, due, watcher }
    }

    pub(super) fn give_back(&self, acquisition: Acquisition<'_>, end: End) {
        let Acquisition { object, plan, taken, hold, .. } = acquisition;
        let is_silent = matches!(end, End::Drop | End::Panic);
        self.end(hold, plan.kind.members(), is_silent, || release(object, taken, end));
    }

    /// Ends a hold of this many locks, and reports the result.
    pub(super) fn end(
        &self,
        hold: Holding,
        members: u32,
        is_silent: bool,
        release: impl FnOnce() -> Result<()>,
    ) {
        hold.leave();
        let what = ("unlock", hold.lock, None);
        let said = self.timed(what, Some(self.patience() * members), release, |_| None);
        let is_its =
            |lost: &Error| matches!(lost, Error::Lost { path, .. } if path == hold.own.path());
        hold.ended(match &said {
            _ if is_silent => Unlocked::Silent,
            Ok(()) => Unlocked::Fine,
            Err(Error::Multiple { failures, .. }) if failures.iter().any(is_its) => Unlocked::Lost,
            Err(Error::Multiple { .. }) => Unlocked::Fine,
            Err(error) if is_its(error) => Unlocked::Lost,
            Err(_) => Unlocked::Unexpected,
        });
        self.checked("unlock", said);
        // After the unlock, the library reports the hold as ended, so the watcher stops.
        let _ = hold.watcher.join();
    }

    /// Acquires a read lock while the acquisition's write lock is held.
    pub(super) fn read_below(&self, acquisition: &Acquisition<'_>) -> Option<Holding> {
        let (Object::Write(_, read), write) = (acquisition.object, &acquisition.hold) else {
            return None;
        };
        let started = now();
        let what = ("read below", write.lock, None);
        self.checked("read below", self.timed(what, None, || read.lock(), |_| None))?;
        let holds = Lock::holds(read);
        if holds.first()?.fencing_token() != write.own.fencing_token() && write.own.is_held() {
            self.unexpected("a read below a write has another token".to_owned());
        }
        let begun = ("read below", write.lock, Mode::Shared, started);
        Some(self.begin(begun, holds, Some(write.id)))
    }
}

impl Holding {
    pub(super) fn leave(&self) {
        Event::Leaving(self.id, now()).report();
    }

    pub(super) fn ended(&self, unlocked: Unlocked) {
        Event::Ended(self.id, unlocked, now()).report();
    }

    /// Updates the time at which the hold expires, because it may have changed.
    pub(super) fn look_at_its_end(&self) {
        self.due.store(after(now(), self.own.valid_for()), Ordering::SeqCst);
    }
}

/// Starts a thread that waits for the loss of a hold and reports it, because the owner may be busy. Several permits of
/// a hold are lost together.
fn watch(hold: HoldId, all: Vec<Hold>, due: &Arc<AtomicU64>) -> JoinHandle<()> {
    let due = Arc::clone(due);
    thread::spawn(move || {
        // `ended()` may be up to 100 ms late, but `is_held()` is not. This also wakes up when the lease may have ended.
        while all.iter().all(Hold::is_held) {
            let left = all.iter().map(Hold::valid_for).min().unwrap_or_default();
            due.store(after(now(), left), Ordering::SeqCst);
            if !all[0].ended().recv_timeout(left).is_err_and(|error| error.is_timeout()) {
                break;
            }
        }
        let reason = all.iter().find_map(|hold| match hold.state() {
            HoldState::Lost(reason) => Some(reason.to_string()),
            _ => None,
        });
        if let Some(reason) = reason {
            // This thread may run after the hold has expired.
            let at = now().min(due.load(Ordering::SeqCst));
            Event::Lost(hold, at, reason).report();
        }
    })
}

impl Writer {
    /// Commits a write, unless an earlier write of the hold was refused.
    pub(super) fn write(&self, program: &Program) {
        if self.is_refused.load(Ordering::SeqCst) {
            return;
        }
        let number = self.writes.fetch_add(1, Ordering::SeqCst);
        let (first, others) = (&self.holds[0], &self.holds[1..]);
        let transaction = others.iter().fold(first.transaction(), |all, one| all.and_held(one));
        // Holders of permits write at the same time, so their writes are in no particular order.
        let is_ordered = self.kind != Kind::Semaphore;
        let entry = (self.lock, first.fencing_token(), self.id, number);
        let entry = serde_json::to_string(&entry).unwrap_or_default();
        let transaction = match is_ordered {
            true => transaction.create(format!("{JOURNAL}/{entry}"), ""),
            false => transaction.set(DATA, "", None),
        };
        let held = self.holds.iter().all(Hold::is_held);
        let started = now();
        let said = transaction.commit();
        let ended = now();
        let answer = match &said {
            Ok(()) => Answer::Done,
            Err(error) if error.is_maybe_done() => Answer::Unknown,
            Err(_) => Answer::Refused,
        };
        program.checked("commit", said);
        self.is_refused.fetch_or(answer == Answer::Refused, Ordering::SeqCst);
        if is_ordered {
            let hold = self.id;
            Event::Committed(Commit { hold, number, held, started, ended, answer }).report();
        }
    }
}
