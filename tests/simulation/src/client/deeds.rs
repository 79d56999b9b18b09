//! Deeds of a client while it holds a lock, and its unusual actions.

use std::rc::Rc;
use std::time::Duration;

use kernel::thread;
use zookeeper::Permissions;
use zoolock::crossbeam_channel::RecvTimeoutError::Timeout;
use zoolock::{
    Client, ClientState, DistributedLock, DistributedSemaphore, Error, Hold, Lock, Transaction,
    Version,
};
use zoolock_judge::{Mode, Unlocked};

use super::objects::{Object, make, mode};
use super::turn::{Ask, Turn};
use super::{SLACK, Shared, has_jumped};
use crate::coverage::count_variant;
use crate::network;
use crate::plan::{Deed, End, Kind, ObjectPlan, Odd, Options, Place, Wait};
use crate::witness::{self, DATA, Held, violation, witness};
use crate::world::restrict;

/// Number of permits that, with thirty more, just exceed a client's quota at the longest paths.
const MANY: u32 = 200;

impl Shared {
    pub(super) fn do_deed(&self, turn: &Turn<'_>, deed: &Deed) {
        let Turn { who, target, number, own } = turn;
        let (kind, place) = (turn.kind(), turn.place());
        count_variant("deed", deed);
        match deed {
            Deed::Work(time) => self.work(own, *time),
            Deed::Prolong(time) => {
                let least = target.plan.options.hold_at_least.unwrap_or_default();
                let now = kernel::elapsed();
                let was_lost = turn.is_lost();
                if self.told("prolong", || own.prolong(*time)).is_some() {
                    if was_lost {
                        violation(format!("{who}: a hold of {place} that was lost is prolonged"));
                    }
                    witness::lasts(*number, now, *time, least);
                }
            }
            Deed::UntilDue => {
                // Heartbeats prolong a hold that only its lease ends.
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
            Deed::UntilAsked(time) => {
                let since = kernel::elapsed();
                let Some(asked) = self.told("revocation", || own.revocation()) else { return };
                let is_asked = kernel::recv_timeout(&asked, *time).is_ok();
                witness::listened(*number, since);
                if is_asked {
                    kernel::count("deed: was asked");
                    witness::heard(&turn.node());
                }
            }
            Deed::EnterAgain(times, time) => self.enter_again(turn, *times, *time),
            Deed::ReadBelow => {
                if let (Some(seen), Object::Write(_, read)) = (self.read_below(turn), target.object)
                {
                    self.end_read(seen, read);
                }
            }
            Deed::Also { object, wait } => self.also(turn, *object, *wait),
            Deed::Verify => {
                self.verify(turn);
                self.verify_former();
            }
            Deed::Write => {
                let set = |data: &str| own.transaction().set(DATA, data, None);
                if self.commit("commit", turn, set).is_ok() {
                    kernel::count("deed: was written");
                }
            }
            Deed::ReadAndWrite(rest) => self.read_and_write(turn, *rest),
            Deed::CreateAgain => {
                let create = |data: &str| own.transaction().create(DATA, data);
                if self.commit("careful commit", turn, create).is_ok() {
                    violation(format!("{} has created {DATA}, which is there", self.name));
                }
            }
            Deed::WriteLate(rest) => self.write_late(turn, *rest),
            Deed::Second { is_behind } => {
                self.use_a_second(kind, place);
                self.take_a_second(turn, *is_behind);
            }
            Deed::Expire(time) => {
                let Some(session) = witness::owner(&turn.node().0) else { return };
                kernel::count("deed: its session ends");
                kernel::after(*time, move || {
                    witness::expires(session);
                    network::serve(|servers, now| servers.expire(session, now));
                });
            }
        }
    }

    fn enter_again(&self, turn: &Turn<'_>, times: u32, time: Duration) {
        if !matches!(turn.kind(), Kind::Reentrant | Kind::Read | Kind::Write) {
            return;
        }
        let Some(lock) = turn.target.object.lock() else { return };
        kernel::count("deed: entered again");
        let mut depth = 0;
        for _ in 0..times {
            let was_lost = turn.is_lost();
            if self.told("re-entry", || lock.lock()).is_some() {
                depth += 1;
                if was_lost {
                    violation(format!("{} has entered again what it had lost", self.name));
                }
            }
        }
        self.work(&turn.own, time);
        for _ in 0..depth {
            self.judge_unlock(turn.is_lost(), &lock.unlock());
        }
    }

    fn read_and_write(&self, turn: &Turn<'_>, rest: Duration) {
        let (kind, place) = (turn.kind(), turn.place());
        let (_, left) = witness::version(kind, place);
        let read = match self.told("read", || self.client.read(DATA)) {
            Some(Some((_, version))) => i32::from(version),
            Some(None) => return self.fail(format!("{DATA} is not there")),
            None => return,
        };
        let is_held = || turn.own.is_held() && witness::is_sure(turn.number);
        if read < left && is_held() && kind != Kind::Semaphore {
            let name = &self.name;
            violation(format!("{name} holds {place} and reads version {read}, behind {left}"));
        }
        thread::sleep(rest);
        let set = |data: &str| turn.own.transaction().set(DATA, data, Version::from(read));
        let written = self.commit("careful commit", turn, set);
        let (version, _) = witness::version(kind, place);
        if matches!(written, Err(Error::Conflict { .. })) && version == read {
            self.fail(format!("a conflict with nobody, of version {read}"));
        }
    }

    /// Commits a write of data that no other write has.
    fn commit(
        &self,
        call: &str,
        turn: &Turn<'_>,
        write: impl FnOnce(&str) -> Transaction,
    ) -> zoolock::Result<()> {
        let data = format!("{} {}", turn.data(), witness::number_of_a_write());
        let connections = || {
            let is_connected = self.client.state() == ClientState::Connected;
            (is_connected, self.client.stats().connections)
        };
        let (begun, before) = (kernel::elapsed(), connections());
        let written = write(&data).commit();
        witness::wrote(turn.node(), data, &written);
        if !before.0 && connections() == before {
            self.judge_unsent(call, begun, &written);
        }
        self.told_since(call, begun, Duration::MAX, written.clone());
        written
    }

    /// Writes later in another thread, even if the hold has ended. The witness sees whether that was carried out.
    fn write_late(&self, turn: &Turn<'_>, rest: Duration) {
        let (own, data, name) = (turn.own.clone(), turn.data(), self.name.clone());
        thread::spawn_in(kernel::own_process(), "late write", move || {
            thread::sleep(rest);
            match own.transaction().set(DATA, data, None).commit() {
                Ok(()) => kernel::count("deed: was written late"),
                Err(Error::Lost { .. } | Error::NotHeld { .. } | Error::Closed) => {}
                Err(Error::Disconnected { .. } | Error::MaybeDone { .. }) => {}
                Err(Error::InvalidArgument { .. }) => {}
                Err(Error::PermissionDenied { .. }) if witness(|witness| witness.has_hidden) => {}
                Err(error) => violation(format!("{name}: late commit: {error}")),
            }
        });
    }

    fn another(&self, kind: Kind, place: Place) -> Object {
        make(&self.client, &ObjectPlan { kind, place, options: Options::default() })
    }

    /// Checks that a second object of the held lock does not have the hold, and does not release it.
    fn use_a_second(&self, kind: Kind, place: Place) {
        let second = self.another(kind, place);
        let Some(lock) = second.lock().filter(|_| kind != Kind::Several) else { return };
        kernel::count("deed: unlocks through a second object");
        if lock.is_held() || !lock.holds().is_empty() {
            self.fail(format!("another object has {place}"));
        }
        let unlocked = lock.unlock();
        if !matches!(unlocked, Err(Error::NotHeld { .. } | Error::Closed)) {
            self.fail(format!("another object unlocks {place}: {unlocked:?}"));
        }
    }

    /// Checks that a second object of the held lock does not grant it again, unless the hold is lost.
    fn take_a_second(&self, turn: &Turn<'_>, is_behind: bool) {
        let (who, place, was_lost) = (turn.who, turn.place(), turn.is_lost());
        let kind = match turn.kind() {
            Kind::Reentrant => Kind::Reentrant,
            Kind::Read | Kind::Write => Kind::Write,
            kind @ (Kind::Exclusive | Kind::Single) if was_lost => kind,
            _ => return,
        };
        kernel::count("deed: a second object of what is held");
        let second = Rc::new(self.another(kind, place));
        let (own, hold, name) = (turn.own.clone(), turn.number, self.name.clone());
        // Gives back what the second object has got.
        let end = Rc::new(move |lock: &dyn Lock| {
            count_turn(place, kind, lock);
            if own.is_held() && witness::is_sure(hold) && are_there(kind, lock) {
                violation(format!("{name} has {place} twice"));
            }
            let _ = lock.unlock();
        });
        let other = is_behind.then(|| {
            let (second, end) = (Rc::clone(&second), Rc::clone(&end));
            let other = thread::spawn_in(kernel::own_process(), "second", move || {
                if let Some(lock) = second.lock()
                    && matches!(lock.try_lock_for(Duration::from_secs(2)), Ok(true))
                {
                    end(lock);
                }
            });
            thread::sleep(Duration::from_millis(30));
            other
        });
        if let Some(lock) = second.lock() {
            let took = self.take_nested(turn, lock, was_lost, || end(lock));
            if was_lost
                && matches!(took, Err(Error::WouldDeadlock { .. }))
                && witness::holds_here(who, kind, place) == 1
            {
                violation(format!("{who} cannot lock {place}, which it has lost"));
            }
        }
        if turn.kind() == Kind::Read && is_behind {
            // The other thread may be a writer that waits for this one by now.
            if let Some(lock) = self.another(Kind::Read, place).lock() {
                let end = || {
                    count_turn(place, Kind::Read, lock);
                    let _ = lock.unlock();
                };
                let _ = self.take_nested(turn, lock, false, end);
            }
        }
        other.into_iter().for_each(|other| drop(other.join()));
    }

    /// Takes a further object of the held lock, and ends what it got. Checks that the thread did not wait for itself.
    fn take_nested(
        &self,
        turn: &Turn<'_>,
        lock: &dyn Lock,
        waits: bool,
        end: impl FnOnce(),
    ) -> zoolock::Result<bool> {
        let (begun, most) = (kernel::elapsed(), Duration::from_secs(1));
        let took = if waits { lock.lock().map(|()| true) } else { lock.try_lock_for(most) };
        match took {
            Ok(true) => end(),
            Ok(false) if turn.own.is_held() && witness::is_sure(turn.number) => {
                violation(format!("{} has waited for itself at {}", turn.who, turn.place()));
            }
            _ => {}
        }
        self.told_since("nested lock", begun, most, took.clone());
        took
    }

    /// Takes a read lock below the thread's own write. Returns the hold's number at the witness unless it has ended.
    pub(super) fn read_below(&self, turn: &Turn<'_>) -> Option<Option<usize>> {
        let Object::Write(_, read) = turn.target.object else { return None };
        kernel::count("deed: read below the write");
        let begun = kernel::elapsed();
        self.told("read below", || read.lock())?;
        let holds = Lock::holds(read);
        Some((!holds.is_empty()).then(|| {
            let (who, place) = (turn.who.to_owned(), turn.place());
            let held = Held::new(who, Kind::Read, place, Mode::Shared, holds);
            witness::granted(held, begun, None, Some(turn.number))
        }))
    }

    fn also(&self, turn: &Turn<'_>, object: usize, wait: Duration) {
        let also = self.target(object);
        // The same object would be the same hold.
        if turn.target.shared() == Some(object) || also.plan.kind == Kind::Leadership {
            return;
        }
        kernel::count("deed: another lock beside");
        let ask = Ask { who: turn.who, target: also, wait: Wait::For(wait), permits: 1 };
        let Some((taken, turn)) = self.get("nested lock", ask, true) else { return };
        thread::sleep(Duration::from_millis(20));
        self.give_back(also, taken, End::Release, turn.as_ref());
    }

    /// Works for this time, and checks that the end of the hold is announced in time.
    fn work(&self, own: &Hold, time: Duration) {
        let end = kernel::elapsed() + time;
        loop {
            let left = end.saturating_sub(kernel::elapsed());
            if left.is_zero() {
                return;
            }
            let begun = kernel::elapsed();
            if kernel::recv_timeout(own.lost(), left.min(own.valid_for())) != Err(Timeout) {
                if own.is_held() {
                    violation(format!("{} heard of an end, and holds", self.name));
                }
                return thread::sleep(end.saturating_sub(kernel::elapsed()));
            }
            if !own.valid_for().is_zero() {
                continue;
            }
            // It is announced within 100 ms, and stays over until then.
            let told = kernel::recv_timeout(own.lost(), Duration::from_millis(100) + SLACK);
            if own.is_held() {
                violation(format!("{} holds again what was over", self.name));
            }
            // Another thread may be just about to announce it.
            if told == Err(Timeout)
                && !has_jumped(kernel::own_process(), begun)
                && kernel::recv_timeout(own.lost(), SLACK) == Err(Timeout)
            {
                violation(format!("{} was not told of the end of its hold", self.name));
            }
        }
    }

    /// Takes turns without rivals, and checks the number of requests.
    pub(super) fn take_turns(&self, object: usize, count: u32) {
        let Some(lock) = self.objects[object].lock() else { return };
        kernel::count("call: turns in a row");
        let kind = self.plan.objects[object].kind;
        let mut first = None;
        // During the first turns the client finds out that it has no rivals.
        for number in 0..count + 3 {
            if !matches!(lock.try_lock_for(Duration::from_secs(2)), Ok(true)) {
                return;
            }
            let node = Lock::holds(lock).first().map(|own| witness::id_of(kind, own));
            // Without numbers to order by, only a list shows that nobody else is there.
            if node.as_ref().is_some_and(|(path, _)| path.ends_with(&i32::MAX.to_string())) {
                let _ = lock.unlock();
                return;
            }
            let session = node.and_then(|(path, _)| witness::owner(&path));
            let _ = lock.unlock();
            if number == 2 {
                // A search for orphans sends requests beside each unlock.
                let session = session.filter(|_| self.client.stats().deleting == 0);
                first = session.map(|session| {
                    let made = witness::made(session);
                    (session, made, kernel::elapsed(), self.client.stats().requests)
                });
            }
        }
        let Some((session, (own, others), begun, requests)) = first else { return };
        // The client sends a heartbeat each quarter of a session timeout.
        let beats = (kernel::elapsed() - begun).div_duration_f64(self.client.session_timeout() / 4);
        let took = self.client.stats().requests - requests;
        // Each turn lists the directory without shortcuts, and where it stays: its create may have lost its answer.
        let stays = witness::is_any(self.plan.objects[object].place.path());
        let each = if kernel::shortcuts() && !stays { 7 } else { 10 };
        if witness(|witness| witness.is_well)
            && witness::made(session) == (own + u64::from(count), others)
            && took > u64::from(count) * each / 3 + beats as u64 + 2
        {
            self.fail(format!("{count} turns alone took {took} requests"));
        }
    }

    pub(super) fn do_odd(&self, name: &str, object: usize, odd: Odd, time: Duration) {
        let kind = self.plan.objects[object].kind;
        match odd {
            Odd::Unlock => {
                // Any thread may unlock the other kinds.
                if !matches!(kind, Kind::Reentrant | Kind::Read | Kind::Write) {
                    return;
                }
                kernel::count("call: unlock of nothing");
                if let Some(lock) = self.objects[object].lock()
                    && self.told("unlock of nothing", || lock.unlock()).is_some()
                {
                    violation(format!("{}, {name} has given back what it has not", self.name));
                }
            }
            Odd::DropHeld => self.drop_held(name, object, time),
            Odd::LongPaths { are_stuck } => self.lock_long_paths(time, are_stuck),
            Odd::Visit { is_cut } => self.visit(is_cut),
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

    /// Drops the last handle of a held lock, which releases the lock without waiting.
    fn drop_held(&self, name: &str, object: usize, time: Duration) {
        let plan = &self.plan.objects[object];
        if matches!(plan.kind, Kind::Semaphore | Kind::Several | Kind::Leadership) {
            return;
        }
        kernel::count("call: the last handle of what is held is dropped");
        let second = make(&self.client, plan);
        let Some(lock) = second.lock() else { return };
        let (begun, mode) = (kernel::elapsed(), mode(plan.kind, 1));
        let who = format!("{}, {name}", self.name);
        let most = Duration::from_secs(2);
        let has = self.call_at(plan.place, || lock.try_lock_for(most));
        if self.told_since("nested lock", begun, most, has) != Some(true) {
            return;
        }
        let holds = Lock::holds(lock);
        count_turn(plan.place, plan.kind, lock);
        let hold = (!holds.is_empty()).then(|| {
            let held = Held::new(who, plan.kind, plan.place, mode, holds);
            witness::granted(held, begun, plan.options.hold_at_most, None)
        });
        thread::sleep(time);
        hold.into_iter().for_each(witness::left);
        drop(second);
        hold.into_iter().for_each(|hold| witness::ended(hold, Unlocked::Silent));
    }

    /// Checks that a client cannot take more paths than its quota allows.
    fn lock_long_paths(&self, time: Duration, are_stuck: bool) {
        kernel::count("call: locks at long paths");
        let path = format!("/{}", "x".repeat(250)).repeat(16);
        let leases = format!("{path}/leases");
        let Ok(semaphore) = DistributedSemaphore::new(&self.client, path, 1_000) else {
            return self.fail("a long path is invalid");
        };
        let wait = Duration::from_secs(1);
        let mut some = self.told("nested lock", || semaphore.try_acquire_for(30, wait)).flatten();
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
        let more = self.told("nested lock", || semaphore.try_acquire_for(MANY, wait)).flatten();
        // An operator deletes the stuck nodes later: this one, or that of another client.
        let is_full = (!stuck.is_empty() && stuck.iter().all(witness::is_there))
            || some.as_ref().is_some_and(|permits| permits.is_held());
        if more.is_some() && is_full && self.client.stats().sessions == sessions {
            violation(format!("{} has more paths than fit", self.name));
        }
        thread::sleep(time);
        // The permits may be lost by then.
        drop(some);
    }

    /// Connects a client and drops it unclosed. Its session ends with the last handle.
    fn visit(&self, is_cut: bool) {
        let builder = Client::builder(&self.hosts).session_timeout(self.plan.timeout);
        let Ok(client) = builder.connect() else { return };
        kernel::count("call: a client that is dropped");
        if let Ok(lock) = DistributedLock::new(&client, "/visit") {
            let _ = lock.try_lock_for(Duration::from_secs(1));
        }
        drop(client);
        if is_cut {
            network::act(|world| world.cut(kernel::own_process()));
        }
    }
}

/// Counts the turn that this thread has with a second object of a lock.
fn count_turn(place: Place, kind: Kind, lock: &dyn Lock) {
    lock.holds().iter().for_each(|own| witness::unchecked_turn(place, kind, own));
}

/// Returns whether the nodes of this thread's hold are there. Its client may not know yet that they are deleted.
fn are_there(kind: Kind, lock: &dyn Lock) -> bool {
    lock.holds().iter().all(|own| witness::is_there(&witness::id_of(kind, own)))
}
