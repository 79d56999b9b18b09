//! The steps of a waiter: it enters, looks at its position, waits, is granted, and leaves.

use std::mem;

use super::world::{Name, Phase, Step, Waiter, World};
use super::{Broken, Queue};

impl World {
    /// Sends a create, with a new uuid.
    pub(crate) fn enter(&mut self, number: usize) {
        let waiter = &mut self.waiters[number];
        waiter.creates += 1;
        let name = Name { waiter: number, create: waiter.creates };
        (waiter.phase, waiter.step, waiter.own) = (Phase::Waiting, Step::Entering, Some(name));
        self.in_flight.insert(name);
    }

    /// Lists the directory and decides. The lowest of the waiter's nodes is its place; the others
    /// are deleted, and what is not there yet is remembered. If nothing is there it enters again.
    pub(crate) fn look(&mut self, number: usize, protocol: &Queue) {
        let waiter = &mut self.waiters[number];
        let mut known = mem::take(&mut waiter.remembered);
        known.extend(waiter.own.take());
        let mut found = self.nodes.clone();
        found.retain(|name| known.contains(name));
        if !protocol.is(Broken::NotRemembered) {
            waiter.remembered = known.into_iter().filter(|name| !found.contains(name)).collect();
        }
        if protocol.is(Broken::BehindOneself) {
            found = found.pop().into_iter().collect();
        }
        waiter.own = found.first().copied();
        waiter.to_delete.extend(found.into_iter().skip(1));
        self.waiters[number].step = match self.waiters[number].own {
            None => Step::Out,
            Some(place) => self.ahead_of(place, protocol).map_or(Step::First, Step::SettingWatch),
        };
    }

    /// The highest of the lower nodes. Every node counts, whatever has become of the waiter that
    /// made it, except those of the same waiter.
    fn ahead_of(&self, place: Name, protocol: &Queue) -> Option<Name> {
        let client = |name: &Name| self.waiters[name.waiter].client;
        let counts = |name: &Name| match protocol.broken {
            Some(Broken::BehindOneself) => true,
            Some(Broken::ClientIsNoRival) => client(name) != client(&place),
            _ => name.waiter != place.waiter,
        };
        self.lower_than(place).filter(counts).last()
    }

    /// Reads the node ahead and thereby sets a watch on it. If it has gone meanwhile there is
    /// nothing to watch, and so nothing to wait for.
    pub(crate) fn set_watch(&mut self, number: usize, protocol: &Queue) {
        let Step::SettingWatch(ahead) = self.waiters[number].step else { return };
        let waits = self.exists(ahead) || protocol.is(Broken::AbsenceIgnored);
        self.waiters[number].step = if waits { Step::Watching(ahead) } else { Step::Placed };
    }

    /// An event has come. It only means that a look is worth while.
    pub(crate) fn wake(&mut self, number: usize, protocol: &Queue) {
        let believes = protocol.is(Broken::WokenIsGranted);
        self.waiters[number].step = if believes { Step::First } else { Step::Placed };
    }

    pub(crate) fn grant(&mut self, number: usize) {
        let Some(place) = self.waiters[number].own else { return };
        let waits = |name: &Name| self.waiters[name.waiter].phase == Phase::Waiting;
        let lower: Vec<_> = self.lower_than(place).filter(waits).collect();
        self.overtaken.extend(lower);
        self.overtaken.extend((!self.exists(place)).then_some(place));
        let waiter = &mut self.waiters[number];
        (waiter.phase, waiter.step) = (Phase::Held, Step::Placed);
    }

    pub(crate) fn give_up(&mut self, number: usize) {
        self.left.give_ups -= 1;
        self.waiters[number].leave(Phase::Released);
    }

    /// Is there reason to look for what is remembered? None of it can come any more when a T has
    /// passed since the cut. To look at the release, too, only finds it earlier.
    pub(crate) fn may_search(&self, waiter: &Waiter, protocol: &Queue) -> bool {
        let in_time = match protocol.is(Broken::SearchedOnce) {
            true => waiter.has_ended(),
            false => waiter.remembered.is_disjoint(&self.in_flight),
        };
        in_time && !waiter.remembered.is_empty()
    }

    pub(crate) fn search(&mut self, number: usize) {
        let waiter = &mut self.waiters[number];
        let remembered = mem::take(&mut waiter.remembered).into_iter();
        waiter.to_delete.extend(remembered.filter(|name| self.nodes.contains(name)));
    }
}

impl Waiter {
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Lost | Phase::Released)
    }

    /// The end of a claim, by release, loss or giving up. Its place is deleted; a create that was
    /// not answered is remembered.
    pub(crate) fn leave(&mut self, end: Phase) {
        let own = self.own.take();
        match self.step {
            Step::Entering | Step::Unsure => self.remembered.extend(own),
            _ => self.to_delete.extend(own),
        }
        (self.phase, self.step) = (end, Step::Out);
    }
}
