//! Operations of a client while it holds a lock, and its unusual actions.

use std::rc::Rc;
use std::time::Duration;

use kernel::thread;
use zookeeper::Permissions;
use zoolock::crossbeam_channel::RecvTimeoutError::Timeout;
use zoolock::{ClientState, DistributedSemaphore, Error, Hold, Lock, Transaction, Version};
use zoolock_checker::{Mode, Unlocked};

use super::acquisition::{Acquisition, Ask, Target};
use super::objects::{Object, make};
use super::{SLACK, Shared, has_jumped};
use crate::coverage::count_variant;
use crate::monitor::{self, DATA, Held, monitor, violation};
use crate::network;
use crate::plan::{End, Kind, ObjectPlan, Odd, Operation, Options, Wait};
use crate::world::restrict;

/// The number of permits that, together with thirty more paths, just exceeds a client's quota at the longest paths.
const MANY: u32 = 200;

impl Shared {
    pub(super) fn do_operation(&self, acquisition: &Acquisition<'_>, operation: &Operation) {
        let Acquisition { who, target, number, own, .. } = acquisition;
        let place = acquisition.place();
        count_variant("operation", operation);
        match operation {
            Operation::Work(time) => self.work(own, *time),
            Operation::Prolong(time) => {
                let least = target.plan.options.hold_at_least.unwrap_or_default();
                let now = kernel::elapsed();
                let was_lost = acquisition.is_lost();
                if self.checked("expire_in", || own.expire_in(*time)).is_some() {
                    if was_lost {
                        violation(format!("{who}: a hold of {place} that was lost is prolonged"));
                    }
                    monitor::lasts(*number, now, *time, least);
                }
            }
            Operation::UntilDue => {
                // A hold that only its lease can end is prolonged by heartbeats, so the wait is limited.
                let end = kernel::elapsed() + Duration::from_secs(8);
                while !own.valid_for().is_zero() && kernel::elapsed() < end {
                    thread::sleep(own.valid_for());
                }
                if own.valid_for().is_zero() {
                    let later = kernel::with_random(|random| random.u64(..200));
                    thread::sleep(Duration::from_millis(later));
                    if own.is_held() {
                        violation(format!("{who} holds {place} again, which was over"));
                    }
                }
            }
            Operation::UntilAsked(time) => {
                let since = kernel::elapsed();
                let Some(asked) = self.checked("revocation", || own.revocation()) else { return };
                let is_asked = kernel::recv_timeout(asked, *time).is_ok();
                if !acquisition.was_asked.replace(is_asked || acquisition.was_asked.get()) {
                    monitor::listened(*number, since);
                }
                if is_asked {
                    kernel::count("operation: was asked");
                    monitor::received_request(&acquisition.node());
                }
            }
            Operation::EnterAgain(times, time) => self.enter_again(acquisition, *times, *time),
            Operation::ReadBelow => {
                if let (Some(seen), Object::Write(_, read)) =
                    (self.read_below(acquisition), target.object)
                {
                    self.end_read(seen, read);
                }
            }
            Operation::Also { object, wait } => self.also(acquisition, *object, *wait),
            Operation::Verify => {
                self.verify(acquisition);
                self.verify_former();
            }
            Operation::Write => {
                let set = |data: &str| own.transaction().set(DATA, data, None);
                if self.commit("commit", acquisition, set).is_ok() {
                    kernel::count("operation: was written");
                }
            }
            Operation::ReadAndWrite(rest) => self.read_and_write(acquisition, *rest),
            Operation::WriteLate(rest) => self.write_late(acquisition, *rest),
            Operation::Second { is_behind } => self.take_a_second(acquisition, *is_behind),
            Operation::Expire(time) => {
                let Some(session) = monitor::owner(&acquisition.node().0) else { return };
                kernel::count("operation: its session ends");
                kernel::after(*time, move || {
                    monitor::expires(session);
                    network::serve(|servers, now| servers.expire(session, now));
                });
            }
        }
    }

    fn enter_again(&self, acquisition: &Acquisition<'_>, times: u32, time: Duration) {
        if !matches!(acquisition.kind(), Kind::Reentrant | Kind::Read | Kind::Write) {
            return;
        }
        let Some(lock) = acquisition.target.object.lock() else { return };
        kernel::count("operation: entered again");
        let mut depth = 0;
        for _ in 0..times {
            let was_lost = acquisition.is_lost();
            if self.checked("re-entry", || lock.lock()).is_some() {
                depth += 1;
                if was_lost {
                    violation(format!("{} has entered again what it had lost", self.name));
                }
            }
        }
        self.work(&acquisition.own, time);
        for _ in 0..depth {
            self.check_unlock(acquisition.is_lost(), &lock.unlock());
        }
    }

    fn read_and_write(&self, acquisition: &Acquisition<'_>, rest: Duration) {
        let (kind, place) = (acquisition.kind(), acquisition.place());
        let (_, left) = monitor::version(kind, place);
        let read = match self.checked("read", || self.client.read(DATA)) {
            Some(Some((_, version))) => i32::from(version),
            Some(None) => return self.fail(format!("{DATA} does not exist")),
            None => return,
        };
        let is_held = || acquisition.own.is_held() && monitor::is_sure(acquisition.number);
        if read < left && is_held() && kind != Kind::Semaphore {
            let name = &self.name;
            violation(format!("{name} holds {place} and reads version {read}, older than {left}"));
        }
        thread::sleep(rest);
        let set = |data: &str| acquisition.own.transaction().set(DATA, data, Version::from(read));
        let written = self.commit("careful commit", acquisition, set);
        let (version, _) = monitor::version(kind, place);
        if matches!(written, Err(Error::Conflict { .. })) && version == read {
            self.fail(format!("a conflict at version {read}, which is current"));
        }
    }

    /// Commits a write with data that no other write has.
    fn commit(
        &self,
        call: &str,
        acquisition: &Acquisition<'_>,
        write: impl FnOnce(&str) -> Transaction,
    ) -> zoolock::Result<()> {
        let data = format!("{} {}", acquisition.data(), monitor::number_of_a_write());
        let connections = || {
            let is_connected = self.client.state() == ClientState::Connected;
            (is_connected, self.client.stats().connections)
        };
        let (begun, before) = (kernel::elapsed(), connections());
        let written = write(&data).commit();
        monitor::wrote(acquisition.node(), data, &written);
        if !before.0 && connections() == before {
            self.check_unsent(call, begun, &written);
        }
        self.checked_since(call, begun, Duration::MAX, written.clone());
        written
    }

    /// Writes later, on another thread, even if the hold has ended. The monitor checks which writes the servers apply.
    fn write_late(&self, acquisition: &Acquisition<'_>, rest: Duration) {
        let (own, data, name) = (acquisition.own.clone(), acquisition.data(), self.name.clone());
        thread::spawn_in(kernel::own_process(), "late write", move || {
            thread::sleep(rest);
            match own.transaction().set(DATA, data, None).commit() {
                Ok(()) => kernel::count("operation: was written late"),
                Err(Error::Lost { .. } | Error::NotHeld { .. } | Error::Closed) => {}
                Err(Error::Disconnected { .. } | Error::MaybeDone { .. }) => {}
                Err(Error::InvalidArgument { .. }) => {}
                Err(Error::PermissionDenied { .. }) if monitor(|monitor| monitor.has_hidden) => {}
                Err(error) => violation(format!("{name}: late commit: {error}")),
            }
        });
    }

    /// Checks that a second object is not granted a lock that the client holds, unless the hold is lost.
    fn take_a_second(&self, acquisition: &Acquisition<'_>, is_behind: bool) {
        let (who, place, was_lost) = (acquisition.who, acquisition.place(), acquisition.is_lost());
        let kind = match acquisition.kind() {
            Kind::Reentrant => Kind::Reentrant,
            Kind::Read | Kind::Write => Kind::Write,
            kind @ (Kind::Exclusive | Kind::Single) if was_lost => kind,
            _ => return,
        };
        kernel::count("operation: a second object of what is held");
        let second = ObjectPlan { kind, place, options: Options::default() };
        let second = Rc::new(make(&self.client, &second));
        let (own, hold, name) = (acquisition.own.clone(), acquisition.number, self.name.clone());
        // Releases what the second object has acquired.
        let end = Rc::new(move |lock: &dyn Lock| {
            let holds = lock.holds();
            holds.iter().for_each(|own| monitor::unchecked_acquisition(place, kind, own));
            // If the nodes have been deleted, the client may not have been notified yet.
            let are_there = holds.iter().all(|own| monitor::is_there(&monitor::id_of(kind, own)));
            if own.is_held() && monitor::is_sure(hold) && are_there {
                violation(format!("{name} has {place} twice"));
            }
            let _ = lock.unlock();
        });
        let other = is_behind.then(|| {
            let (second, end) = (Rc::clone(&second), Rc::clone(&end));
            let other = thread::spawn_in(kernel::own_process(), "second", move || {
                if let Some(lock) = second.lock()
                    && matches!(lock.lock_within(Duration::from_secs(2).into()), Ok(true))
                {
                    end(lock);
                }
            });
            thread::sleep(Duration::from_millis(30));
            other
        });
        if let Some(lock) = second.lock() {
            let (begun, most) = (kernel::elapsed(), Duration::from_secs(1));
            let took =
                if was_lost { lock.lock().map(|()| true) } else { lock.lock_within(most.into()) };
            match took {
                Ok(true) => end(lock),
                Ok(false) if acquisition.own.is_held() && monitor::is_sure(acquisition.number) => {
                    violation(format!("{who} has waited for itself at {place}"));
                }
                Err(Error::WouldDeadlock { .. })
                    if was_lost && monitor::holds_here(who, kind, place) == 1 =>
                {
                    violation(format!("{who} cannot lock {place}, which it has lost"));
                }
                _ => {}
            }
            self.checked_since("nested lock", begun, most, took);
        }
        other.into_iter().for_each(|other| drop(other.join()));
    }

    /// Acquires a read lock below the thread's own write lock. Returns the number of the hold unless it has ended.
    pub(super) fn read_below(&self, acquisition: &Acquisition<'_>) -> Option<Option<usize>> {
        let Object::Write(_, read) = acquisition.target.object else { return None };
        kernel::count("operation: read below the write");
        let begun = kernel::elapsed();
        self.checked("read below", || read.lock())?;
        let holds = Lock::holds(read);
        Some((!holds.is_empty()).then(|| {
            let (who, place) = (acquisition.who.to_owned(), acquisition.place());
            let held = Held::new(who, Kind::Read, place, Mode::Shared, holds);
            monitor::granted(held, begun, None, Some(acquisition.number))
        }))
    }

    fn also(&self, acquisition: &Acquisition<'_>, object: usize, wait: Duration) {
        let also = self.target(object);
        // The same object would return the same hold.
        if acquisition.target.shared() == Some(object) || also.plan.kind == Kind::Leadership {
            return;
        }
        kernel::count("operation: another lock beside");
        let ask = Ask { who: acquisition.who, target: also, wait: Wait::For(wait), permits: 1 };
        let Some((taken, acquisition)) = self.get("nested lock", ask, true) else { return };
        thread::sleep(Duration::from_millis(20));
        self.give_back(also, taken, End::Release, acquisition.as_ref());
    }

    /// Works for this time, and checks that the end of the hold is reported promptly.
    fn work(&self, own: &Hold, time: Duration) {
        let end = kernel::elapsed() + time;
        loop {
            let left = end.saturating_sub(kernel::elapsed());
            if left.is_zero() {
                return;
            }
            let begun = kernel::elapsed();
            if kernel::recv_timeout(own.ended(), left.min(own.valid_for())) != Err(Timeout) {
                if own.is_held() {
                    violation(format!("{} was notified of an end, and holds", self.name));
                }
                return thread::sleep(end.saturating_sub(kernel::elapsed()));
            }
            if !own.valid_for().is_zero() {
                continue;
            }
            // The end has to be reported within 100 ms, and the hold must not become valid again.
            let notified = kernel::recv_timeout(own.ended(), Duration::from_millis(100) + SLACK);
            if own.is_held() {
                violation(format!("{} holds again what was over", self.name));
            }
            // Another thread may just be about to report the end.
            if notified == Err(Timeout)
                && !has_jumped(kernel::own_process(), begun)
                && kernel::recv_timeout(own.ended(), SLACK) == Err(Timeout)
            {
                violation(format!("{} was not notified of the end of its hold", self.name));
            }
        }
    }

    pub(super) fn do_odd(&self, name: &str, object: usize, odd: Odd, time: Duration) {
        let kind = self.plan.objects[object].kind;
        match odd {
            Odd::Unlock => {
                // For all other kinds, any thread may unlock.
                if !matches!(kind, Kind::Reentrant | Kind::Read | Kind::Write) {
                    return;
                }
                kernel::count("call: unlock of nothing");
                if let Some(lock) = self.objects[object].lock()
                    && self.checked("unlock of nothing", || lock.unlock()).is_some()
                {
                    violation(format!("{}, {name} has given back what it has not", self.name));
                }
            }
            Odd::DropHeld => self.drop_held(name, object, time),
            Odd::LongPaths { are_stuck } => self.lock_long_paths(time, are_stuck),
            Odd::Resign { waits } => {
                let Some(leadership) = self.leaderships.borrow_mut().pop() else { return };
                kernel::count("call: the end of a leadership");
                match waits {
                    true => self.end_leadership(leadership),
                    false => drop(leadership),
                }
            }
        }
    }

    /// Drops the last handle to a held lock, which releases the lock without waiting for an answer.
    fn drop_held(&self, name: &str, number: usize, time: Duration) {
        let plan = &self.plan.objects[number];
        if matches!(plan.kind, Kind::Semaphore | Kind::Several | Kind::Leadership) {
            return;
        }
        kernel::count("call: the last handle of what is held is dropped");
        let (who, object) = (format!("{}, {name}", self.name), make(&self.client, plan));
        let target = Target { number, is_fresh: true, object: &object, plan };
        let wait = Wait::For(Duration::from_secs(2));
        let ask = Ask { who: &who, target, wait, permits: 1 };
        let Some((_, Some(acquisition))) = self.get("nested lock", ask, false) else { return };
        thread::sleep(time);
        let hold = acquisition.number;
        monitor::left(hold);
        drop(acquisition);
        drop(object);
        monitor::ended(hold, Unlocked::Silent);
    }

    /// Checks that a client cannot lock more paths than its quota allows.
    fn lock_long_paths(&self, time: Duration, are_stuck: bool) {
        kernel::count("call: locks at long paths");
        let path = format!("/{}", "x".repeat(250)).repeat(16);
        let leases = format!("{path}/leases");
        let Ok(semaphore) = DistributedSemaphore::new(&self.client, path, 1_000) else {
            return self.fail("a long path is invalid");
        };
        let wait = Duration::from_secs(1);
        let mut some = self.checked("nested lock", || semaphore.acquire_within(30, wait)).flatten();
        let (sessions, mut stuck) = (self.client.stats().sessions, Vec::new());
        let path_of = |own: &Hold| format!("{leases}/{}", own.node());
        if are_stuck && some.is_some() {
            kernel::count("call: locks at long paths that stay");
            restrict(&self.hosts, leases.clone(), Permissions::DELETE, wait * 4, false);
            thread::sleep(wait);
            let permits = some.take().map_or_else(Vec::new, |permits| {
                let nodes = permits.holds();
                match permits.release() {
                    Err(Error::PermissionDenied { .. }) => nodes,
                    _ => Vec::new(),
                }
            });
            stuck = permits.iter().map(|own| (path_of(own), own.fencing_token())).collect();
        }
        let more = self.checked("nested lock", || semaphore.acquire_within(MANY, wait)).flatten();
        // An operator later deletes nodes of this or another client that cannot be deleted now.
        let is_full = (!stuck.is_empty() && stuck.iter().all(monitor::is_there))
            || some.as_ref().is_some_and(|permits| permits.is_held());
        if more.is_some() && is_full && self.client.stats().sessions == sessions {
            violation(format!("{} has more paths than fit", self.name));
        }
        thread::sleep(time);
        // The permits may have been lost by now.
        drop(some);
    }
}
