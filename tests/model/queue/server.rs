//! The fate of nodes and sessions: creates and deletes are applied, watches fire, connections break, and
//! sessions are resumed or expire.

use super::world::{Link, Name, Phase, Session, Step, World};
use super::{Broken, Queue};

impl World {
    /// A create is applied in time, or long after its connection has broken. It waits in a follower to which
    /// its session returns.
    pub(crate) fn apply(&mut self, name: Name) {
        self.in_flight.remove(&name);
        self.nodes.push(name);
    }

    /// Whether a create may be lost. It cannot while its connection lives.
    pub(crate) fn may_lose(&self, name: Name) -> bool {
        let waiter = &self.waiters[name.waiter];
        waiter.step != Step::Entering || waiter.own != Some(name)
    }

    pub(crate) fn lose(&mut self, name: Name) {
        self.in_flight.remove(&name);
    }

    /// A delete is applied and answered. One that was applied without an answer is repeated and finds
    /// nothing, as if it had not been applied.
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

    /// The session's nodes are deleted, and none of its requests arrives any more.
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

    /// The connection ends. Its pending requests get no answer.
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

    /// The client is connected again, with the same session or, after its expiry, another.
    pub(crate) fn resume(&mut self, client: usize, protocol: &Queue) {
        if self.sessions[client].expired {
            self.begin_anew(client);
        }
        self.sessions[client].link = Link::Alive;
        // The request is called setWatches. The missed events come at once.
        for waiter in self.waiters.iter_mut().filter(|waiter| waiter.client == client) {
            if let Step::Watching(ahead) = waiter.step
                && !self.nodes.contains(&ahead)
                && !protocol.is(Broken::WatchesLost)
            {
                waiter.step = Step::Woken(ahead);
            }
        }
    }

    /// Nothing is left of the previous session. Its waiters enter again.
    fn begin_anew(&mut self, client: usize) {
        self.sessions[client] = Session::NEW;
        for waiter in self.waiters_of(client) {
            (waiter.step, waiter.own) = (Step::Out, None);
            waiter.remembered.clear();
            waiter.to_delete.clear();
        }
    }

    /// The lease ends by the client's clock. All its holds are lost at that instant and for good, and its
    /// waiters continue.
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
