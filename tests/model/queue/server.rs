//! The steps of the server: it applies creates and deletes and fires watches; connections break,
//! and sessions are resumed or expire.

use super::world::{Link, Name, Phase, Session, Step, World};
use super::{Broken, Queue};

impl World {
    /// A create is applied: in time, or long after its connection has broken. It waits in a
    /// follower that its session returns to.
    pub(crate) fn apply(&mut self, name: Name) {
        self.in_flight.remove(&name);
        self.nodes.push(name);
    }

    /// May a create get lost? Not while its connection lives.
    pub(crate) fn may_lose(&self, name: Name) -> bool {
        let waiter = &self.waiters[name.waiter];
        waiter.step != Step::Entering || waiter.own != Some(name)
    }

    pub(crate) fn lose(&mut self, name: Name) {
        self.in_flight.remove(&name);
    }

    /// A delete is applied and answered. One that was applied and not answered is repeated, and
    /// finds nothing: the same as one that was not applied.
    pub(crate) fn delete(&mut self, name: Name) {
        self.remove(name);
        self.waiters[name.waiter].to_delete.remove(&name);
    }

    fn remove(&mut self, name: Name) {
        self.nodes.retain(|&node| node != name);
        for waiter in &mut self.waiters {
            let hears = self.sessions[waiter.client].link == Link::Alive;
            if hears && waiter.step == Step::Watching(name) {
                waiter.step = Step::Woken(name);
            }
        }
    }

    /// The nodes of the session go, and nothing more comes from it.
    pub(crate) fn expire(&mut self, client: usize) {
        self.left.expiries -= 1;
        self.sessions[client].expired = true;
        let is_its = |name: &Name| self.waiters[name.waiter].client == client;
        self.in_flight.retain(|name| !is_its(name));
        let nodes: Vec<_> = self.nodes.iter().copied().filter(is_its).collect();
        nodes.into_iter().for_each(|name| self.remove(name));
    }

    /// Every cut begins with this, if only for an instant.
    pub(crate) fn cut_off(&mut self, client: usize) {
        self.left.cuts -= 1;
        self.sessions[client].link = Link::CutOff;
    }

    /// The connection is no more. What was under way on it has no answer.
    pub(crate) fn cut(&mut self, client: usize, protocol: &Queue) {
        self.sessions[client].link = Link::Away;
        for waiter in self.waiters_of(client) {
            waiter.step = match waiter.step {
                Step::Out => Step::Out,
                Step::Entering | Step::Unsure => Step::Unsure,
                Step::Placed | Step::First | Step::SettingWatch(_) => Step::Placed,
                Step::Watching(ahead) | Step::Woken(ahead) => Step::Watching(ahead),
            };
            if protocol.is(Broken::DeletedOnce) {
                waiter.to_delete.clear();
            }
        }
    }

    /// The client is connected again, with the same session or, if that has expired, another.
    pub(crate) fn resume(&mut self, client: usize, protocol: &Queue) {
        if self.sessions[client].expired {
            self.begin_anew(client);
        }
        self.sessions[client].link = Link::Alive;
        // The request is called setWatches. Events that were missed come at once.
        for waiter in self.waiters.iter_mut().filter(|waiter| waiter.client == client) {
            if let Step::Watching(ahead) = waiter.step
                && !self.nodes.contains(&ahead)
                && !protocol.is(Broken::WatchesLost)
            {
                waiter.step = Step::Woken(ahead);
            }
        }
    }

    /// Nothing is left of the session before. Whoever waits enters again.
    fn begin_anew(&mut self, client: usize) {
        self.sessions[client] = Session::NEW;
        for waiter in self.waiters_of(client) {
            (waiter.step, waiter.own) = (Step::Out, None);
            waiter.remembered.clear();
            waiter.to_delete.clear();
        }
    }

    /// By the client's clock the lease is over: whoever still holds on it has lost, at that instant
    /// and for ever. Whoever waits goes on.
    pub(crate) fn end_lease(&mut self, client: usize, protocol: &Queue) {
        self.sessions[client].lease = false;
        let holds = |phase| phase == Phase::Held && !protocol.is(Broken::LeaseIgnored);
        for waiter in self.waiters_of(client).filter(|waiter| holds(waiter.phase)) {
            waiter.leave(Phase::Lost);
            if protocol.is(Broken::LostNodeLeft) {
                waiter.to_delete.clear();
            }
        }
    }
}
