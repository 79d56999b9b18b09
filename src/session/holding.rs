//! From the grant to the end of a hold: the register of what is held, what the clocks and the servers
//! say of it, and what is kept for the next thread.
//!
//! What is taken for known here, what that rests on, and who could break it:
//! - *The nodes are there*: their session lives while the lease runs, and nobody else deletes them. Whoever may delete
//!   them could break it, which a watch tells that is set a quarter of the session timeout after the grant.
//! - *Nobody else wants what is kept*: a list, and a watch on the directory.
//! - *What is watched is told*: events. Whoever takes READ from us first could break it: servers tell nothing of a node
//!   to those who may not read it by then. So all that is held or kept is [looked at again](Session::next_look) after
//!   some session timeouts.

use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use log::{Level, debug, error};
use zookeeper::{ErrorKind, EventType, Stat, WatchedEvent, Watcher};

use super::failure::Failure;
use super::nodes::{Claim, End, Grant, Leases, Node, Nodes};
use super::shared::Session;
use crate::data;
use crate::error::LossReason;
use crate::names::{self, Number};
use crate::signal::Until;
use crate::sys;

/// What became of nodes that were to be granted.
pub(crate) enum Granted {
    Held(Arc<Grant>),
    /// No lease runs that they could be held in, or too short a one.
    NotYet,
    /// It ran out meanwhile: they are given up.
    Over,
}

impl Session {
    /// Makes own nodes, which were seen to be first in their queue, or even alone, held ones, and takes them.
    ///
    /// A lease shorter than 9/20 of the session timeout is renewed first, with one request, if that is of use:
    /// if the connection falls silent right after the grant, that is noticed a quarter of the session timeout
    /// later, and a fifth is left to connect again. With less than that nothing is granted: of a process that
    /// has stood still the servers may not have heard for nearly a session timeout, and what they hear of it
    /// now is certain a quarter later.
    pub(crate) fn grant(
        &self,
        claim: &Claim,
        (own, alone): (&mut Vec<Node>, Option<Number>),
        id: i64,
        until: &Until,
    ) -> Result<Granted, Failure> {
        let zk = self.zk.in_session(id);
        let mut lease = zk.lease();
        if lease.valid_for < self.timeout() / 20 * 9 && lease.renewable <= sys::now() {
            sys::reached("a lease is renewed before a grant");
            self.ask_one(Some(id), until, |batch| batch.renew_lease())?;
            lease = zk.lease();
        }
        if lease.valid_for < self.timeout() / 5 {
            sys::reached("too little of a lease is left to grant in");
            if lease.session_id == id {
                self.pause(lease.renewable, until)?;
            }
            return Ok(Granted::NotYet);
        }
        let mut registry = self.registry.lock();
        if registry.is_closed {
            sys::reached("a grant comes behind the close");
            return Err(Failure::Closed);
        }
        registry.next += 1;
        let me: Weak<dyn Leases> = Weak::clone(&self.me) as _;
        // Held before anybody can find them: without a grant they would be there for whoever comes.
        let (nodes, grant) =
            Nodes::new(registry.next, (claim.clone(), mem::take(own), alone), (me, lease));
        registry.nodes.insert(nodes.key(), Arc::clone(&nodes));
        if registry.keeper.is_none() {
            registry.keeper = Some(self.zk.keep_lease());
        }
        drop(registry);
        // From here on its end is told; before, it may have come unheard.
        if nodes.valid_for().is_zero() {
            sys::reached("a lease runs out while a hold is granted");
            self.lose(&nodes, LossReason::LeaseExpired);
            return Ok(Granted::Over);
        }
        self.attend_at(nodes.granted + self.timeout() / 4);
        let (node, lock) = (&nodes.list[0].name, &claim.lock);
        debug!(target: "zoolock::queue", lock:%, node:%; "{node} holds {lock}");
        Ok(Granted::Held(grant))
    }

    /// How many are held or kept.
    pub(super) fn held(&self) -> usize {
        self.registry.lock().nodes.values().filter(|nodes| !nodes.claim.is_turn()).count()
    }

    fn all(&self) -> Vec<Arc<Nodes>> {
        self.registry.lock().nodes.values().cloned().collect()
    }

    pub(super) fn forget(&self, nodes: &Nodes) {
        self.registry.lock().nodes.remove(&nodes.key());
    }

    /// Does the claim's owner hold something in the same directory already that it would have to wait
    /// for? Then it would wait for itself.
    pub(crate) fn holds_here(&self, claim: &Claim) -> bool {
        let waits_for = |held: &Claim| match (claim.mode, held.mode) {
            (Some(mode), Some(other)) => mode.waits_for(other),
            _ => true,
        };
        let here = (claim.directory.clone(), 0)..=(claim.directory.clone(), u64::MAX);
        let held = || -> Vec<_> {
            self.registry.lock().nodes.range(here).map(|(_, nodes)| Arc::clone(nodes)).collect()
        };
        claim.owner.is_some()
            && held().iter().any(|nodes| {
                waits_for(&nodes.claim)
                    && nodes.owners().contains(&claim.owner)
                    && !nodes.valid_for().is_zero()
            })
    }

    // ---- time

    /// Has [`attend`](Self::attend) called at this instant or before.
    pub(super) fn attend_at(&self, when: Instant) {
        let mut registry = self.registry.lock();
        if registry.due.is_some_and(|due| due <= when) {
            return;
        }
        registry.due = Some(when);
        drop(registry);
        let me = Weak::clone(&self.me);
        self.zk.call_at(when, move || {
            me.upgrade().inspect(|session| session.attend(when));
        });
    }

    /// Does what time has brought: nodes that have been held for a while are looked at, what was kept for
    /// long enough is given back, and orphans are looked for.
    fn attend(&self, due: Instant) {
        let now = sys::now();
        // One that was to come later is not called off, and would come twice.
        if self.registry.lock().due.take_if(|next| *next == due).is_none() {
            return;
        }
        let mut next = self.attend_orphans(now);
        for nodes in self.all() {
            match nodes.look_due(self.timeout()) {
                Some(due) if due <= now => self.look_at(&nodes),
                due => next = next.into_iter().chain(due).min(),
            }
            match nodes.kept_until() {
                Some(until) if until <= now => {
                    sys::reached("the time of what is kept or reserved is over");
                    self.end_unwanted(&nodes);
                }
                until => next = next.into_iter().chain(until).min(),
            }
        }
        let mut registry = self.registry.lock();
        let is_unused = registry.nodes.is_empty();
        let unused = registry.keeper.take_if(|_| is_unused);
        let busy = registry.keeper.is_some();
        drop(registry);
        drop(unused);
        let later = now + self.timeout() / 4;
        if busy || next.is_some() {
            self.attend_at(next.unwrap_or(later).clamp(now + self.timeout() / 100, later));
        }
    }

    // ---- losses

    /// Ends all holds whose lease has run out.
    pub(super) fn lapse(&self) {
        let over: Vec<_> = self.all();
        let over = over.iter().filter(|nodes| nodes.valid_for().is_zero());
        let over = over.inspect(|_| sys::reached("the end of a lease ends a hold"));
        over.for_each(|nodes| self.lose(nodes, LossReason::LeaseExpired));
    }

    /// Ends all holds, and takes no new ones.
    pub(super) fn lose_all(&self) {
        let mut registry = self.registry.lock();
        registry.is_closed = true;
        let (nodes, keeper) = (mem::take(&mut registry.nodes), registry.keeper.take());
        drop(registry);
        drop(keeper);
        let reason = LossReason::ClientClosed;
        for nodes in nodes.into_values() {
            let holders = nodes.end(End::Lost(reason)).unwrap_or_default();
            sys::reached_if(|| !holders.is_empty(), "the close ends a hold");
            self.tell_losses(&nodes, &holders, reason);
        }
    }

    fn lose(&self, nodes: &Nodes, reason: LossReason) {
        if let Some(holders) = nodes.end(End::Lost(reason)) {
            self.after_loss(nodes, &holders, reason);
        }
    }

    /// Their session may live on, and with it the nodes.
    pub(super) fn after_loss(&self, nodes: &Nodes, holders: &[Arc<Grant>], reason: LossReason) {
        self.forget(nodes);
        self.tell_losses(nodes, holders, reason);
        self.delete_later(nodes);
    }

    /// On whatever thread has noticed it, which may be one that must not wait for an observer.
    fn tell_losses(&self, nodes: &Nodes, holders: &[Arc<Grant>], reason: LossReason) {
        self.count_losses(nodes, holders.len(), reason);
        for tell in holders.iter().filter_map(|grant| grant.tells(End::Lost(reason))) {
            self.zk.call_aside(tell);
        }
    }

    pub(super) fn count_losses(&self, nodes: &Nodes, holders: usize, reason: LossReason) {
        if holders > 0 && !nodes.claim.is_turn() && nodes.is_first_loss() {
            self.counters.holds_lost.fetch_add(holders as u64, Ordering::Relaxed);
            let path = nodes.claim.lock.clone();
            self.zk.note("zoolock", Level::Error, move || {
                error!(target: "zoolock", lock:% = path, reason:%; "lock {path} was lost: {reason}");
            });
        }
    }

    // ---- the nodes

    /// Looks at nodes that are held or kept, whatever was told of them.
    fn look_at(&self, nodes: &Arc<Nodes>) {
        match nodes.watcher() {
            Some(_) => {
                sys::reached("what is held is looked at though nothing was told");
                self.read_all(nodes);
            }
            None => self.watch_nodes(nodes),
        }
        self.look_around(nodes);
    }

    /// Has them watched from now on, if they are not yet, and looks whether they are there.
    pub(super) fn watch_nodes(&self, nodes: &Arc<Nodes>) {
        let (told, me) = (Arc::downgrade(nodes), Weak::clone(&self.me));
        let watcher = Watcher::new(move |event: &WatchedEvent| {
            let (Some(session), Some(nodes)) = (me.upgrade(), told.upgrade()) else {
                return;
            };
            match event.event_type {
                EventType::NodeDeleted => session.node_gone(&nodes),
                EventType::WatchEnded => {}
                _ => session.read_all(&nodes),
            }
        });
        if nodes.watch(&watcher) {
            self.read_all(nodes);
        }
    }

    /// Reads what they say, and has them watched.
    fn read_all(&self, nodes: &Arc<Nodes>) {
        let Some(watcher) = nodes.watcher() else {
            return;
        };
        nodes.look_again_at(self.next_look());
        let zk = self.zk.in_session(nodes.lease.session_id);
        let reads = zk.submit(|batch| {
            let read = |node| batch.get_data(&nodes.path_of(node), Some(&watcher));
            nodes.list.iter().map(read).collect::<Vec<_>>()
        });
        for (index, read) in reads.into_iter().enumerate() {
            let (me, nodes) = (Weak::clone(&self.me), Arc::clone(nodes));
            read.on_done(move |read| {
                if let Some(session) = me.upgrade() {
                    session.has_read(&nodes, index, read);
                }
            });
        }
    }

    fn has_read(&self, nodes: &Arc<Nodes>, index: usize, read: zookeeper::Result<(Vec<u8>, Stat)>) {
        let node = &nodes.list[index];
        let single = nodes.claim.is_single().then_some(node.token);
        match read {
            // Somebody else's, in the place of a single node.
            Ok((_, stat)) if stat.czxid != node.czxid => {
                sys::reached("a single node that is held is another one by now");
                self.node_gone(nodes);
            }
            Ok((data, stat)) if data::asks(&data, single) => {
                sys::reached("a holder is asked to let go");
                nodes.ask(index, stat.mzxid);
                self.answer_request(nodes, index, stat.version);
                // Nobody holds it who could be asked.
                self.end_unwanted(nodes);
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NoNode => self.node_gone(nodes),
            // To be tried again.
            Err(_) => {
                sys::reached("a look at what is held has no answer");
                nodes.stop_watching();
            }
        }
    }

    /// Has a node say again whose it is, and that it was asked for. Those who ask for a single node leave that to
    /// be read.
    fn answer_request(&self, nodes: &Nodes, index: usize, version: i32) {
        if nodes.claim.is_single() {
            return;
        }
        let zk = self.zk.in_session(nodes.lease.session_id);
        let (path, data) = (nodes.path_of(&nodes.list[index]), data::answer(&nodes.claim.identity));
        // It is for people, who can do without.
        drop(zk.submit(|batch| batch.set_data(&path, &data, Some(version))));
    }

    /// One of the nodes is gone though nobody here deleted it: it went with its session if the lease is over.
    pub(crate) fn node_gone(&self, nodes: &Nodes) {
        let reason = match nodes.valid_for().is_zero() {
            true => LossReason::LeaseExpired,
            false => {
                sys::reached("a node that is held or kept is deleted");
                LossReason::NodeDeleted
            }
        };
        self.lose(nodes, reason);
    }

    // ---- what is kept for the next thread

    /// Leaves what a hold has to the next thread, until somebody else wants the lock, and for so long after
    /// its grant at most. False if the servers have to be told of its end.
    pub(crate) fn keep(&self, grant: &Arc<Grant>, time: Duration) -> bool {
        let nodes = grant.nodes();
        let Some(until) = nodes.may_keep(time) else {
            sys::reached("a hold is not kept as its time is over or somebody has come");
            return false;
        };
        if !nodes.leave_to_next(grant) {
            return false;
        }
        sys::reached("a hold is kept for whoever comes");
        self.watch_directory(nodes);
        self.attend_at(until);
        true
    }

    /// Gives back what nobody has taken over. Nothing if somebody has.
    pub(crate) fn end_unwanted(&self, nodes: &Nodes) {
        if nodes.end_unwanted() {
            self.forget(nodes);
            self.delete_later(nodes);
        }
    }

    /// What is kept is not kept over the end of its connection.
    pub(super) fn end_all_kept(&self) {
        self.all().iter().for_each(|nodes| self.end_unwanted(nodes));
    }

    /// Has their directory watched from now on, and looks who is there already.
    fn watch_directory(&self, nodes: &Arc<Nodes>) {
        let (told, me) = (Arc::downgrade(nodes), Weak::clone(&self.me));
        let watcher = Watcher::new(move |_: &WatchedEvent| {
            if let (Some(session), Some(nodes)) = (me.upgrade(), told.upgrade()) {
                session.recall(&nodes);
            }
        });
        if nodes.watch_directory(&watcher) {
            self.look_around(nodes);
        }
    }

    /// Looks whether somebody wants what is kept.
    fn look_around(&self, nodes: &Arc<Nodes>) {
        let Some(watcher) = nodes.kept_watcher() else {
            return;
        };
        let zk = self.zk.in_session(nodes.lease.session_id);
        let directory = nodes.claim.directory.as_str();
        let listed = zk.submit(|batch| batch.get_children(directory, Some(&watcher)));
        let (me, nodes) = (Weak::clone(&self.me), Arc::clone(nodes));
        listed.on_done(move |listed| {
            let own = &nodes.list[0].name;
            let contends = |name: &str| names::mode_of(name).is_some() && name != own;
            let has_come = listed.map_or(true, |(names, _)| names.iter().any(contends));
            me.upgrade().filter(|_| has_come).inspect(|session| session.recall(&nodes));
        });
    }

    /// Somebody wants it, or may want it.
    fn recall(&self, nodes: &Nodes) {
        sys::reached("somebody may want what is kept");
        nodes.recall();
        self.end_unwanted(nodes);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use super::*;
    use crate::path::LockPath;

    /// Gives one client a session, and says nothing else.
    fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            // Both messages of the handshake begin with their length.
            let mut length = [0; 4];
            client.read_exact(&mut length).unwrap();
            client.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize]).unwrap();
            // Protocol 0, the timeout in milliseconds, the session, its password, not read-only.
            let mut answer = 37_u32.to_be_bytes().to_vec();
            answer.extend(0_u32.to_be_bytes());
            answer.extend(10_000_u32.to_be_bytes());
            answer.extend(0x5e55_u64.to_be_bytes());
            answer.extend(16_u32.to_be_bytes());
            answer.extend([7; 16]);
            answer.push(0);
            client.write_all(&answer).unwrap();
            let _ = io::copy(&mut client, &mut io::sink());
        });
        address
    }

    #[test]
    fn what_was_seen_in_another_session_is_not_granted() {
        let servers = server().to_string();
        let zk = zookeeper::ZooKeeper::connect(&servers, Duration::from_secs(10)).unwrap();
        let session = Session::new(zk, Vec::new());
        let path = LockPath::parse("/another-session").unwrap();
        let claim = Claim {
            lock: path.clone(),
            directory: path,
            mode: None,
            owner: None,
            identity: "".into(),
            background: false,
            at_least: Duration::ZERO,
        };
        let until = Until::within(Duration::from_secs(60));
        for (id, is_held) in [(session.id(), true), (session.id() + 1, false)] {
            let charge = session.charge(&claim, 1).unwrap();
            let name = "node".to_owned();
            let node = Node { name, number: None, czxid: 1, token: 1, charge };
            let granted = session.grant(&claim, (&mut vec![node], None), id, &until);
            assert_eq!(matches!(granted, Ok(Granted::Held(_))), is_held, "in session {id:x}");
        }
    }

    #[test]
    fn second_close_waits_until_the_first_has_ended_the_holds() {
        let servers = server().to_string();
        let zk = zookeeper::ZooKeeper::connect(&servers, Duration::from_secs(10)).unwrap();
        let session = Session::new(zk, Vec::new());
        // The first one stands still here.
        let ending = session.registry.lock();
        let (tell, closed) = crossbeam_channel::unbounded();
        let close = || {
            let (session, tell) = (Arc::clone(&session), tell.clone());
            thread::spawn(move || {
                let _ = session.close(Duration::ZERO);
                tell.send(()).unwrap();
            })
        };
        let first = close();
        while !session.is_closed() {
            thread::yield_now();
        }
        let second = close();
        assert!(closed.recv_timeout(Duration::from_millis(200)).is_err(), "a session may end");
        drop(ending);
        [first, second].into_iter().for_each(|close| close.join().unwrap());
        assert_eq!(closed.try_iter().count(), 2);
    }
}
