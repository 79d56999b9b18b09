//! The steps of a client's threads, and the operations while they hold a lock.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use zoolock::Contender;

use super::Program;
use super::acquisition::Acquisition;
use super::objects::Object;
use crate::plan::{AcquisitionPlan, End, Odd, Operation, Place, Wait, What};
use crate::protocol::{Event, now};
use crate::run::shortened;

/// Without this limit, waiting for the end of a hold that only its lease ends may take forever.
const DUE_WITHIN: Duration = Duration::from_secs(4);
const ACQUIRED_WITHIN: Duration = Duration::from_secs(2);

impl Program {
    pub(super) fn step(&'static self, what: &What) {
        match what {
            What::Lock(acquisition) => self.acquire(acquisition),
            What::Acquisitions { object, count } => {
                let acquisition = AcquisitionPlan::plain(*object, Wait::For(ACQUIRED_WITHIN));
                (0..*count).for_each(|_| self.acquire(&acquisition));
            }
            What::Contenders(place) => drop(self.holder(*place)),
            What::Revoke(place) => {
                if let Some(holder) = self.holder(*place) {
                    self.checked("revoke", self.client.revoke(&holder));
                }
            }
            What::BreakLock(place) => {
                // The contender of an `EphemeralLock` has no node name, and its lock cannot be broken.
                if let Some(holder) = self.holder(*place).filter(|holder| !holder.node.is_empty()) {
                    Event::Deletes(holder.node.clone(), now()).report();
                    self.checked("break_lock", self.client.break_lock(&holder));
                }
            }
            What::CancelWaiters { object } => {
                let token = mem::take(&mut *self.token_of(*object));
                token.cancel();
            }
            What::Odd { odd: Odd::Resign { .. }, .. } => drop(self.end_leadership()),
            What::Close => {
                self.is_closed.store(true, Ordering::SeqCst);
                let second = thread::spawn(move || self.client.close());
                self.close();
                let _ = second.join();
            }
            // These steps only affect what the client itself keeps track of. The replay covers their requests.
            What::Odd { .. } | What::Narrow { .. } | What::PathsBelow => {}
        }
    }

    /// Returns a random one of the holders.
    fn holder(&self, place: Place) -> Option<Contender> {
        let mut found = self.checked("contenders", self.client.contenders(place.path()))?;
        found.retain(|contender| contender.holds);
        fastrand::choice(found)
    }

    /// Carries out one of the plan's operations while the lock is held.
    pub(super) fn carry_out(
        &'static self,
        acquisition: &Acquisition<'_>,
        operation: &Operation,
        plan: &AcquisitionPlan,
    ) {
        let own = &acquisition.hold.own;
        match operation {
            Operation::Work(time) => thread::sleep(shortened(*time)),
            Operation::Prolong(time) => {
                if self.checked("expire_in", own.expire_in(*time)).is_some() {
                    acquisition.hold.look_at_its_end();
                }
            }
            Operation::UntilDue => thread::sleep(own.valid_for().min(DUE_WITHIN)),
            Operation::UntilAsked(time) => {
                if let Some(asked) = self.checked("revocation", own.revocation()) {
                    let _ = asked.recv_timeout(shortened(*time));
                }
            }
            Operation::ReadBelow => {
                if let (Some(read), Object::Write(_, lock)) =
                    (self.read_below(acquisition), acquisition.object)
                {
                    self.end(read, 1, false, || lock.unlock());
                }
            }
            // Only another object, because the same one would yield the same hold.
            Operation::Also { object, wait } if plan.is_fresh || plan.object != *object => {
                let also = (&self.objects[*object], &self.plan.objects[*object]);
                if let Some(acquisition) = self.take("nested lock", also, Wait::For(*wait), 1, true)
                {
                    thread::sleep(Duration::from_millis(20));
                    self.give_back(acquisition, End::Release);
                }
            }
            Operation::Verify => {
                self.checked("verify", self.client.verify_token(own.path(), own.fencing_token()));
            }
            Operation::Write => acquisition.writer.write(self),
            Operation::WriteLate(rest) => {
                let (writer, rest) = (Arc::clone(&acquisition.writer), *rest);
                thread::spawn(move || {
                    thread::sleep(rest);
                    writer.write(self);
                });
            }
            Operation::Expire(time) => {
                let time = *time;
                thread::spawn(move || {
                    thread::sleep(time);
                    Event::Expires.report();
                });
            }
            // These operations only affect what the client itself keeps track of. The replay covers their requests.
            Operation::Also { .. } | Operation::EnterAgain(..) | Operation::Second { .. } => {}
            Operation::ReadAndWrite(_) => {}
        }
    }
}
