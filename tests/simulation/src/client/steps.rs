//! The steps of a client's threads: turns with locks, looks at them from outside, and acts of operators.

use std::time::Duration;

use kernel::thread;
use zoolock::Contender;

use super::objects::{Object, make};
use super::turn::Target;
use super::{Shared, Token, node_of};
use crate::coverage::count_variant;
use crate::network;
use crate::plan::{Place, TurnPlan, Wait, What};
use crate::witness::{self, limit, lists, violation, witness};

impl Shared {
    pub(super) fn step(&self, name: &str, what: &What) {
        count_variant("call", what);
        match what {
            What::Lock(turn) => {
                let shared = self.target(turn.object);
                let fresh = turn.is_fresh.then(|| make(&self.client, shared.plan));
                let object = fresh.as_ref().unwrap_or(shared.object);
                let target = Target { is_fresh: turn.is_fresh, object, ..shared };
                self.use_lock(name, target, turn);
            }
            What::Contenders(place) => {
                let _ = self.contenders(*place);
                self.verify_former();
            }
            What::Revoke(place) => self.revoke(*place),
            What::BreakLock(place) => {
                if let Some(holder) = self.holder(*place) {
                    kernel::note(|| format!("breaks {place}, which {} has", holder.node));
                    witness(|witness| witness.broken.insert(node_of(&holder)));
                    plant_anew(&node_of(&holder));
                    let broken = self.told("break_lock", || self.client.break_lock(&holder));
                    if broken.is_some() && holder.node.is_empty() {
                        violation(format!("{} has broken {place}, a single node", self.name));
                    }
                }
            }
            What::CancelWaiters { object } => {
                kernel::note(|| "cancels who waits".to_owned());
                let Token { token, cancelled } = self.tokens[*object].borrow().clone();
                witness::cancels(*object);
                token.cancel();
                cancelled.set(Some(kernel::elapsed()));
                // Calls may have come before the token was cancelled.
                witness::cancels(*object);
                // Others come with it behind that.
                let rest = kernel::with_random(|random| random.u64(..200).saturating_sub(100));
                thread::sleep(Duration::from_millis(rest));
                self.tokens[*object].take();
            }
            What::Turns { object, count } => {
                let turn = TurnPlan::plain(*object, Wait::For(Duration::from_secs(2)));
                (0..*count).for_each(|_| self.use_lock(name, self.target(*object), &turn));
            }
            What::Narrow { object, time } => self.narrow(*object, *time),
            What::PathsBelow => self.paths_below(),
            What::Odd { object, odd, time } => self.do_odd(name, *object, *odd, *time),
            What::Close => {
                let (process, client) = (kernel::own_process(), self.client.clone());
                let other = thread::spawn_in(process, "second close", move || client.close());
                self.close();
                let _ = other.join();
            }
        }
    }

    fn revoke(&self, place: Place) {
        let Some(holder) = self.holder(place) else { return };
        kernel::note(|| format!("asks {} to let go of {place}", holder.node));
        let node = (node_of(&holder), holder.token);
        witness(|witness| witness.asked.insert(node.clone()));
        let was_there = witness::is_there(&node);
        // Time between the look and the request, in half of the cases.
        let rest = kernel::with_random(|random| random.u64(..200).saturating_sub(100));
        thread::sleep(Duration::from_millis(rest));
        let is_gone = was_there && !witness::is_there(&node);
        let asked = self.told("revoke", || self.client.revoke(&holder));
        // A stranger may have created a node of the same name since.
        let is_sure = is_gone && !witness(|witness| witness.has_strangers);
        if asked.is_some() && holder.node.is_empty() {
            violation(format!("{} has asked for {place}, a single node", self.name));
        }
        if is_sure && asked.is_some() {
            violation(format!("{} has asked {}, which was gone", self.name, node.0));
        }
    }

    fn narrow(&self, object: usize, time: Duration) {
        let Object::Semaphore(semaphore) = &self.objects[object] else { return };
        kernel::count("call: set_limit");
        let place = self.plan.objects[object].place;
        let (most, usual) = (semaphore.limit(), limit(place));
        self.told("set_limit", || semaphore.set_limit(1));
        thread::sleep(time);
        self.told("set_limit", || semaphore.set_limit(usual));
        witness(|witness| witness.ended_at.insert(place, kernel::elapsed()));
        if let Some(free) = self.told("available", || semaphore.available())
            && free > most.max(usual)
        {
            self.fail(format!("{free} permits are free of {most}"));
        }
    }

    /// Asks for the contenders at a place, and checks that none is missing and that they are in order.
    fn contenders(&self, place: Place) -> Option<Vec<Contender>> {
        let begun = kernel::elapsed();
        let found = self.told("contenders", || self.client.contenders(place.path()))?;
        lists::in_order(&self.name, place.path(), &found, begun);
        Some(found)
    }

    fn holder(&self, place: Place) -> Option<Contender> {
        let found = self.contenders(place)?;
        // Several permits have several holders.
        let mut holders: Vec<_> = found.into_iter().filter(|contender| contender.holds).collect();
        let count = holders.len();
        let chosen = (count > 0).then(|| kernel::with_random(|random| random.usize(..count)));
        chosen.map(|chosen| holders.swap_remove(chosen))
    }

    /// Checks the locks at the top of the tree, which come in order.
    fn paths_below(&self) {
        let Some(paths) = self.told("paths_below", || self.client.paths_below("/")) else { return };
        if !paths.is_sorted() {
            self.fail(format!("found {paths:?} in this order"));
        }
        for path in paths.iter().filter(|path| !path.starts_with(witness::FOLDER)) {
            let begun = kernel::elapsed();
            let found = self.told("contenders", || self.client.contenders(path));
            found.into_iter().for_each(|found| lists::listed(&self.name, path, &found, begun));
        }
    }
}

/// Puts another node in the place of a stranger's, sometimes.
fn plant_anew(node: &str) {
    let is_planted = witness(|witness| witness.planted.contains(node));
    if is_planted
        && kernel::with_random(|random| random.bool())
        && network::serve(|servers, now| servers.delete(node, now)).is_ok()
    {
        kernel::note(|| format!("== somebody plants {node} anew"));
        let _ = network::serve(|servers, now| servers.create(node, b"", now));
    }
}
