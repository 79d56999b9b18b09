//! The steps of a client's threads, and their deeds while they hold a lock.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use zoolock::Contender;

use super::Program;
use super::objects::Object;
use super::turn::Turn;
use crate::plan::{Deed, End, Odd, Place, TurnPlan, Wait, What};
use crate::protocol::{Event, now};
use crate::run::shortened;

/// A hold that only its lease ends may last for ever.
const DUE_WITHIN: Duration = Duration::from_secs(4);
const TURN_WITHIN: Duration = Duration::from_secs(2);

impl Program {
    pub(super) fn step(&'static self, what: &What) {
        match what {
            What::Lock(turn) => self.take_turn(turn),
            What::Turns { object, count } => {
                let turn = TurnPlan::plain(*object, Wait::For(TURN_WITHIN));
                (0..*count).for_each(|_| self.take_turn(&turn));
            }
            What::Contenders(place) => drop(self.holder(*place)),
            What::Revoke(place) => {
                if let Some(holder) = self.holder(*place) {
                    self.told("revoke", self.client.revoke(&holder));
                }
            }
            What::BreakLock(place) => {
                // A single node cannot be broken.
                if let Some(holder) = self.holder(*place).filter(|holder| !holder.node.is_empty()) {
                    Event::Deletes(holder.node.clone(), now()).report();
                    self.told("break_lock", self.client.break_lock(&holder));
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
            // They are about what a client knows by itself. The replay sends their requests.
            What::Odd { .. } | What::Narrow { .. } | What::PathsBelow => {}
        }
    }

    /// Returns one of the holders.
    fn holder(&self, place: Place) -> Option<Contender> {
        let mut found = self.told("contenders", self.client.contenders(place.path()))?;
        found.retain(|contender| contender.holds);
        fastrand::choice(found)
    }

    /// Carries out a deed of a plan while its lock is held.
    pub(super) fn carry_out(&'static self, turn: &Turn<'_>, deed: &Deed, plan: &TurnPlan) {
        let own = &turn.hold.own;
        match deed {
            Deed::Work(time) => thread::sleep(shortened(*time)),
            Deed::Prolong(time) => {
                if self.told("expire_in", own.expire_in(*time)).is_some() {
                    turn.hold.look_at_its_end();
                }
            }
            Deed::UntilDue => thread::sleep(own.valid_for().min(DUE_WITHIN)),
            Deed::UntilAsked(time) => {
                if let Some(asked) = self.told("revocation", own.revocation()) {
                    let _ = asked.recv_timeout(shortened(*time));
                }
            }
            Deed::ReadBelow => {
                if let (Some(read), Object::Write(_, lock)) = (self.read_below(turn), turn.object) {
                    self.end(read, 1, false, || lock.unlock());
                }
            }
            // The same object would be the same hold.
            Deed::Also { object, wait } if plan.is_fresh || plan.object != *object => {
                let also = (&self.objects[*object], &self.plan.objects[*object]);
                if let Some(turn) = self.take("nested lock", also, Wait::For(*wait), 1, true) {
                    thread::sleep(Duration::from_millis(20));
                    self.give_back(turn, End::Release);
                }
            }
            Deed::Verify => {
                self.told("verify", self.client.verify_token(own.path(), own.fencing_token()));
            }
            Deed::Write => turn.writer.write(self),
            Deed::WriteLate(rest) => {
                let (writer, rest) = (Arc::clone(&turn.writer), *rest);
                thread::spawn(move || {
                    thread::sleep(rest);
                    writer.write(self);
                });
            }
            Deed::Expire(time) => {
                let time = *time;
                thread::spawn(move || {
                    thread::sleep(time);
                    Event::Expires.report();
                });
            }
            // They are about what a client knows by itself. The replay sends their requests.
            Deed::Also { .. } | Deed::EnterAgain(..) | Deed::Second { .. } => {}
            Deed::ReadAndWrite(_) => {}
        }
    }
}
