//! The steps of a client's threads: acquisitions of locks, queries about locks, and actions of operators.

use std::time::Duration;

use kernel::thread;
use zoolock::Contender;

use super::acquisition::Target;
use super::objects::{Object, make};
use super::{Shared, Token, node_of};
use crate::coverage::count_variant;
use crate::monitor::{self, limit, lists, monitor, violation};
use crate::network;
use crate::plan::{AcquisitionPlan, Place, Wait, What};

impl Shared {
    pub(super) fn step(&self, name: &str, what: &What) {
        count_variant("call", what);
        match what {
            What::Lock(acquisition) => {
                let shared = self.target(acquisition.object);
                let fresh = acquisition.is_fresh.then(|| make(&self.client, shared.plan));
                let object = fresh.as_ref().unwrap_or(shared.object);
                let target = Target { is_fresh: acquisition.is_fresh, object, ..shared };
                self.use_lock(name, target, acquisition);
            }
            What::Contenders(place) => {
                let _ = self.contenders(*place);
                self.verify_former();
            }
            What::Revoke(place) => self.revoke(*place),
            What::BreakLock(place) => {
                if let Some(holder) = self.holder(*place) {
                    kernel::note(|| format!("breaks {place}, which {} has", holder.node));
                    monitor(|monitor| monitor.broken.insert(node_of(&holder)));
                    plant_anew(&node_of(&holder));
                    let broken = self.checked("break_lock", || self.client.break_lock(&holder));
                    if broken.is_some() && holder.node.is_empty() {
                        violation(format!("{} has broken {place}, a single node", self.name));
                    }
                }
            }
            What::CancelWaiters { object } => {
                kernel::note(|| "cancels the calls that wait".to_owned());
                let Token { token, cancelled } = self.tokens[*object].borrow().clone();
                monitor::cancels(*object);
                token.cancel();
                cancelled.set(Some(kernel::elapsed()));
                // Calls may have begun with the token before it is cancelled.
                monitor::cancels(*object);
                // Other calls may begin while the token is already cancelled.
                let rest = kernel::with_random(|random| random.u64(..200).saturating_sub(100));
                thread::sleep(Duration::from_millis(rest));
                self.tokens[*object].take();
            }
            What::Acquisitions { object, count } => {
                let acquisition =
                    AcquisitionPlan::plain(*object, Wait::For(Duration::from_secs(2)));
                (0..*count).for_each(|_| self.use_lock(name, self.target(*object), &acquisition));
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
        kernel::note(|| format!("requests {} to release {place}", holder.node));
        let node = (node_of(&holder), holder.token);
        monitor(|monitor| monitor.asked.insert(node.clone()));
        let was_there = monitor::is_there(&node);
        // In half of the cases, time passes between the list and the request.
        let rest = kernel::with_random(|random| random.u64(..200).saturating_sub(100));
        thread::sleep(Duration::from_millis(rest));
        let is_gone = was_there && !monitor::is_there(&node);
        let asked = self.checked("revoke", || self.client.revoke(&holder));
        // A stranger may have created a node with that name in the meantime.
        let is_sure = is_gone && !monitor(|monitor| monitor.has_strangers);
        if asked.is_some() && holder.node.is_empty() {
            violation(format!("{} has requested {place}, an `EphemeralLock`", self.name));
        }
        if is_sure && asked.is_some() {
            violation(format!("{} has requested {}, which was deleted", self.name, node.0));
        }
    }

    fn narrow(&self, object: usize, time: Duration) {
        let Object::Semaphore(semaphore) = &self.objects[object] else { return };
        kernel::count("call: set_limit");
        let place = self.plan.objects[object].place;
        let (most, usual) = (semaphore.limit(), limit(place));
        self.checked("set_limit", || semaphore.set_limit(1));
        thread::sleep(time);
        self.checked("set_limit", || semaphore.set_limit(usual));
        monitor(|monitor| monitor.ended_at.insert(place, kernel::elapsed()));
        if let Some(free) = self.checked("available", || semaphore.available())
            && free > most.max(usual)
        {
            self.fail(format!("{free} permits are free of {most}"));
        }
    }

    /// Lists the contenders at a place, and checks that none is missing and that their order is correct.
    fn contenders(&self, place: Place) -> Option<Vec<Contender>> {
        let begun = kernel::elapsed();
        let found = self.checked("contenders", || self.client.contenders(place.path()))?;
        lists::in_order(&self.name, place.path(), &found, begun);
        Some(found)
    }

    fn holder(&self, place: Place) -> Option<Contender> {
        let found = self.contenders(place)?;
        // A semaphore may have several holders.
        let mut holders: Vec<_> = found.into_iter().filter(|contender| contender.holds).collect();
        let count = holders.len();
        let chosen = (count > 0).then(|| kernel::with_random(|random| random.usize(..count)));
        chosen.map(|chosen| holders.swap_remove(chosen))
    }

    /// Checks which locks at the top of the tree are listed. They must be in order.
    fn paths_below(&self) {
        let Some(paths) = self.checked("paths_below", || self.client.paths_below("/")) else {
            return;
        };
        if !paths.is_sorted() {
            self.fail(format!("found {paths:?} in this order"));
        }
        for path in paths.iter().filter(|path| !path.starts_with(monitor::FOLDER)) {
            let begun = kernel::elapsed();
            let found = self.checked("contenders", || self.client.contenders(path));
            found.into_iter().for_each(|found| lists::listed(&self.name, path, &found, begun));
        }
    }
}

/// In some cases, deletes a stranger's node and creates it again.
fn plant_anew(node: &str) {
    let is_planted = monitor(|monitor| monitor.planted.contains(node));
    if is_planted
        && kernel::with_random(|random| random.bool())
        && network::serve(|servers, now| servers.delete(node, now)).is_ok()
    {
        kernel::note(|| format!("== a stranger replaces {node}"));
        let _ = network::serve(|servers, now| servers.create(node, b"", now));
    }
}
