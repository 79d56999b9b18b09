//! The state of the model: nodes, and waiters with their connections; and the steps of threads, readers and servers.

use std::collections::VecDeque;
use std::mem;

use super::{Bounds, Broken, Mode, Opens};
use crate::stay::{Ahead, Next, Reaction, Stay, Woken};

/// A node, identified by its position in the queue. Positions are in the order of creation.
pub(crate) type Node = u8;

/// The first holder's node, and the node of the read that may replace it.
pub(crate) const WRITE: Node = 0;
const READ: Node = 1;
pub(crate) const FIRST_OF_WAITERS: Node = 2;
/// Represents all contenders behind the waiters.
const RIVAL: usize = usize::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Nodes(u16);

impl Nodes {
    pub(crate) fn contains(self, node: Node) -> bool {
        self.0 & (1 << node) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn insert(&mut self, node: Node) {
        self.0 |= 1 << node;
    }

    /// Removes the node. Returns false if it did not exist.
    fn remove(&mut self, node: Node) -> bool {
        let was_there = self.contains(node);
        self.0 &= !(1 << node);
        was_there
    }

    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = Node> {
        (0..16).filter(move |&node| self.contains(node))
    }
}

/// Nodes to watch, in this order: the waiter's own node, the second ahead, and the nearest ahead.
pub(crate) type New = [Option<Node>; 3];

/// A request of a client to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Create,
    /// Sent by the thread.
    List,
    /// Sent by the reader after an event.
    ListBehind,
    /// Sets watches. The server reports immediately which of the nodes do not exist.
    Watch(New),
}

/// A message from a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    Created(Node),
    Listed(Nodes),
    ListedBehind(Nodes),
    Watching,
    /// The server has refused to set watches.
    Refused,
    /// An event of a watched node: its deletion if the value is true, another change otherwise.
    Event(Node, bool),
}

impl Message {
    pub(crate) fn is_event(self) -> bool {
        matches!(self, Message::Event(..))
    }
}

/// The state of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Step {
    #[default]
    Out,
    Looking,
    Deciding(Nodes),
    Watching(New),
    Waiting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Phase {
    #[default]
    Waiting,
    Held,
    /// Released, given up or lost.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Session {
    #[default]
    Live,
    /// Neither the client nor the thread has detected the expiry.
    Expired,
    /// The client has another session, but the thread has not detected that.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Waiter {
    mode: Mode,
    pub(crate) phase: Phase,
    pub(crate) session: Session,
    pub(crate) connected: bool,
    /// Requests in flight to the server, and messages in flight to the client.
    pub(crate) outbox: VecDeque<Request>,
    pub(crate) inbox: VecDeque<Message>,
    /// Events that occurred while the client was disconnected. They arrive before all others.
    pub(crate) missed: Nodes,
    /// The nodes that the server watches for this connection.
    told: Nodes,
    /// The nodes that the client considers watched. It watches them again on the next connection.
    set: Nodes,

    // State that the reader and the thread share.
    pub(crate) stay: Stay<Node, Nodes>,
    pub(crate) is_woken: bool,
    /// How often the session was resumed: in total, and when the thread last decided.
    resumed: u64,
    stood: u64,
    /// Whether, since the last list, the waiter missed the event of a watched node because it could not read the node.
    pub(crate) was_not_told: bool,

    // State of the thread alone.
    pub(crate) step: Step,
    /// `None` while the waiter does not know its node. The node may exist nevertheless.
    pub(crate) own: Option<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct World {
    pub(crate) nodes: Nodes,
    /// The owners of the nodes, starting with the node of the first waiter.
    made: Vec<usize>,
    /// Whether a read has replaced the first holder's write.
    pub(crate) has_read: bool,
    /// Nodes that were first, but were deleted before their waiters were notified of the grant.
    pub(crate) overdue: Nodes,
    /// Nodes that have become unreadable.
    hidden: Nodes,
    pub(crate) waiters: Vec<Waiter>,
    /// How many of the bounded events may still happen.
    pub(crate) left: Bounds,
}

/// The steps of threads.
impl World {
    /// Returns a world in which all waiters have created their nodes, and are about to list.
    pub(crate) fn new(bounds: Bounds) -> World {
        let mut world = World { left: bounds, ..World::default() };
        world.nodes.insert(WRITE);
        for (number, &mode) in bounds.waiters.iter().enumerate() {
            let own = Some(world.create(number));
            world.waiters.push(Waiter { mode, own, connected: true, ..Waiter::default() });
        }
        for _ in 0..bounds.rivals {
            world.create(RIVAL);
        }
        world
    }

    /// Lists, or, if the client has another session, queues again.
    pub(crate) fn begin(&mut self, number: usize) {
        let waiter = &mut self.waiters[number];
        waiter.is_woken = false;
        if waiter.session == Session::Other {
            (waiter.session, waiter.own, waiter.stay) = (Session::Live, None, Stay::default());
            return waiter.enter();
        }
        waiter.ask(Step::Looking, Request::List);
    }

    /// Finds the waiter's own node in the list, and the nodes ahead of it.
    pub(crate) fn decide(&mut self, number: usize, protocol: &Opens) {
        let Step::Deciding(list) = self.waiters[number].step else { return };
        let is_own = |&node: &Node| self.owner(node) == Some(number);
        let own = match self.waiters[number].own {
            Some(own) => Some(own).filter(|&own| list.contains(own)),
            None => list.iter().rfind(is_own),
        };
        self.waiters[number].own = own;
        let Some(own) = own else { return self.waiters[number].enter() };
        let Some(ahead) = self.ahead(own, list, protocol) else { return self.grant(number) };

        let waiter = &mut self.waiters[number];
        waiter.stood = waiter.resumed;
        let epoch = waiter.epoch(protocol);
        let new = waiter.stay.stand(epoch, own, ahead, true);
        let mut new =
            new.into_iter().filter(|&it| it != own || !protocol.is(Broken::OwnNotWatched));
        let new = [(); 3].map(|()| new.next());
        match new[0] {
            Some(_) => waiter.ask(Step::Watching(new), Request::Watch(new)),
            None => waiter.step = Step::Waiting,
        }
        if waiter.step == Step::Watching(new) {
            new.into_iter().flatten().for_each(|node| waiter.set.insert(node));
        }
    }

    /// Returns the nodes ahead in a list, as `names::decide` does.
    fn ahead(&self, own: Node, list: Nodes, protocol: &Opens) -> Option<Ahead<Node>> {
        let mut before = list.iter().take_while(|&node| node < own).collect::<Vec<_>>();
        before.retain(|&node| self.exclude_each_other(node, own));
        let nearest = before.pop()?;
        let may_go_on = nearest == WRITE
            && self.left.holder == Mode::Write
            && self.mode(own) != Mode::Read
            && !protocol.is(Broken::DowngradeIgnored);
        let second = before.pop().filter(|_| !protocol.is(Broken::SecondIgnored));
        let next = Next::of(may_go_on, second, |&second| {
            self.mode(own) != Mode::Read && self.exclude_each_other(nearest, second)
        });
        Some(Ahead { nearest, next })
    }

    pub(crate) fn hear(&mut self, number: usize) {
        let waiter = &mut self.waiters[number];
        waiter.is_woken = false;
        waiter.step = match waiter.stay.woken() {
            None => Step::Waiting,
            Some(Woken::Granted) => return self.grant(number),
            Some(Woken::Listed(list)) => Step::Deciding(list),
            Some(Woken::Look) => Step::Out,
        };
    }

    /// Grants the lock to the waiter, or, in an expired session, lets its thread start over.
    fn grant(&mut self, number: usize) {
        let waiter = &mut self.waiters[number];
        if waiter.session != Session::Live {
            return waiter.step = Step::Out;
        }
        waiter.phase = match waiter.own {
            Some(own) if self.overdue.contains(own) => Phase::Over,
            _ => Phase::Held,
        };
        waiter.end();
    }

    /// Ends a wait or a hold, and deletes the node in the same step. A delay is modelled by taking this step later.
    pub(crate) fn leave(&mut self, number: usize) {
        let waiter = &mut self.waiters[number];
        waiter.phase = Phase::Over;
        waiter.end();
        if let Some(own) = waiter.own {
            self.delete(own);
        }
    }

    pub(crate) fn is_opened(waiter: &Waiter) -> bool {
        let woken = waiter.stay.clone().woken();
        waiter.step == Step::Waiting && waiter.is_woken && woken == Some(Woken::Granted)
    }
}

impl Waiter {
    fn enter(&mut self) {
        self.ask(Step::Looking, Request::Create);
        if self.step == Step::Looking {
            self.outbox.push_back(Request::List);
        }
    }

    /// Sends a request, or, in an expired session, lets the thread start over.
    fn ask(&mut self, step: Step, request: Request) {
        if self.session != Session::Live {
            self.breaks_off_watching(step);
            return self.step = Step::Out;
        }
        self.step = step;
        self.outbox.push_back(request);
    }

    /// If this step sets watches, records that they were not set.
    fn breaks_off_watching(&mut self, step: Step) {
        if let Step::Watching(new) = step {
            let new: Vec<Node> = new.into_iter().flatten().collect();
            self.stay.unwatch(&new);
            new.iter().for_each(|&node| {
                self.set.remove(node);
            });
        }
    }

    /// Returns how often the session was resumed, unless the broken rule ignores some of that.
    fn epoch(&self, protocol: &Opens) -> u64 {
        match protocol.broken {
            Some(Broken::WatchedBeforeResume) => 0,
            Some(Broken::OutlivesResume) => self.stood,
            _ => self.resumed,
        }
    }

    /// Returns the node whose deletion the waiter would take for a grant.
    pub(crate) fn expected(&self) -> Option<Node> {
        self.set.iter().find(|node| {
            let mut stay = self.stay.clone();
            stay.event(node, true, self.stood, true);
            stay.woken() == Some(Woken::Granted)
        })
    }

    pub(crate) fn look_again(&mut self) {
        (self.step, self.was_not_told) = (Step::Out, false);
    }

    /// Resets the waiter's other state, because later messages to it do not matter.
    fn end(&mut self) {
        let Waiter { mode, phase, session, own, .. } = *self;
        *self = Waiter { mode, phase, session, own, connected: true, ..Waiter::default() };
    }

    fn told_of(&mut self, node: Node, is_end: bool, protocol: &Opens) {
        if !self.set.remove(node) {
            return;
        }
        let (is_end, epoch) = (is_end || protocol.is(Broken::ChangeIsEnd), self.epoch(protocol));
        if protocol.is(Broken::NothingForgotten) && self.own == Some(node) {
            return;
        }
        match self.stay.event(&node, is_end, epoch, true) {
            Reaction::Wake => self.is_woken = true,
            Reaction::List => self.outbox.push_back(Request::ListBehind),
            Reaction::Wait => {}
        }
    }
}

impl World {
    pub(crate) fn receive(&mut self, number: usize, place: usize, protocol: &Opens) {
        let waiter = &mut self.waiters[number];
        let Some(message) = waiter.inbox.remove(place) else { return };
        match message {
            Message::Created(node) => waiter.own = Some(node),
            Message::Listed(list) => waiter.step = Step::Deciding(list),
            Message::ListedBehind(list) => {
                let mut stay = mem::take(&mut waiter.stay);
                let is_last = |&own: &Node, &nearest: &Node, &list: &Nodes| {
                    let last = Ahead { nearest, next: Next::Grant };
                    list.contains(own) && self.ahead(own, list, protocol) == Some(last)
                };
                let wakes = stay.listed(Some(list), is_last);
                let waiter = &mut self.waiters[number];
                waiter.stay = stay;
                waiter.is_woken |= wakes;
            }
            Message::Watching => waiter.step = Step::Waiting,
            Message::Refused => {
                match protocol.is(Broken::RefusedIsWatched) {
                    true => waiter.step = Step::Out,
                    false => waiter.breaks_off(),
                };
            }
            Message::Event(node, is_end) => waiter.told_of(node, is_end, protocol),
        }
    }

    pub(crate) fn receive_missed(&mut self, number: usize, node: Node, protocol: &Opens) {
        let waiter = &mut self.waiters[number];
        waiter.missed.remove(node);
        waiter.told_of(node, true, protocol);
    }

    /// Breaks the connection. Messages in flight are lost, and the reader's list counts as failed.
    pub(crate) fn cut(&mut self, number: usize) {
        self.left.cuts -= 1;
        let waiter = &mut self.waiters[number];
        waiter.connected = false;
        (waiter.told, waiter.missed) = Default::default();
        let is_listing = waiter.inbox.iter().any(|it| matches!(it, Message::ListedBehind(_)))
            || waiter.outbox.contains(&Request::ListBehind);
        (waiter.inbox, waiter.outbox) = Default::default();
        waiter.is_woken |= is_listing && waiter.stay.listed(None, |_, _, _| false);
        waiter.breaks_off();
    }

    /// Reconnects. Resuming increments the counter and sets the watches again before any other request is sent. If
    /// there is another session, the watches of the expired one have ended.
    pub(crate) fn resume(&mut self, number: usize) {
        let nodes = self.nodes;
        let waiter = &mut self.waiters[number];
        waiter.connected = true;
        if waiter.session == Session::Expired {
            waiter.session = Session::Other;
            waiter.outbox.clear();
            waiter.breaks_off();
            for node in mem::take(&mut waiter.set).iter() {
                waiter.stay.event(&node, false, waiter.resumed, false);
                waiter.is_woken = true;
            }
            return;
        }
        waiter.resumed += 1;
        waiter.told = Nodes(waiter.set.0 & nodes.0);
        waiter.missed = Nodes(waiter.set.0 & !nodes.0);
    }
}

impl Waiter {
    /// The thread receives an error instead of an answer.
    fn breaks_off(&mut self) {
        self.breaks_off_watching(self.step);
        if matches!(self.step, Step::Looking | Step::Watching(_)) {
            self.step = Step::Out;
        }
    }
}

/// The steps of servers.
impl World {
    pub(crate) fn serve(&mut self, number: usize, protocol: &Opens) {
        let Some(request) = self.waiters[number].outbox.pop_front() else { return };
        let message = match request {
            Request::Create => Message::Created(self.create(number)),
            Request::List => Message::Listed(self.nodes),
            Request::ListBehind => Message::ListedBehind(self.nodes),
            Request::Watch(new) => {
                let waiter = &mut self.waiters[number];
                for node in new.into_iter().flatten() {
                    match self.nodes.contains(node) {
                        true => waiter.told.insert(node),
                        false if protocol.is(Broken::AbsenceIgnored) => {}
                        false => waiter.inbox.push_back(Message::Event(node, true)),
                    }
                }
                Message::Watching
            }
        };
        self.waiters[number].inbox.push_back(message);
    }

    /// Refuses the next request, which must be one to set watches.
    pub(crate) fn refuse(&mut self, number: usize) {
        self.left.refusals -= 1;
        self.waiters[number].outbox.pop_front();
        self.waiters[number].inbox.push_back(Message::Refused);
    }

    fn create(&mut self, owner: usize) -> Node {
        let node = FIRST_OF_WAITERS + self.made.len() as Node;
        self.made.push(owner);
        self.nodes.insert(node);
        node
    }

    /// Deletes the node. If it was first, a later grant to its waiter is correct, but the hold is already lost.
    pub(crate) fn delete(&mut self, node: Node) {
        let was_first = self.is_first(node);
        if !self.nodes.remove(node) {
            return;
        }
        if let Some(owner) = self.owner(node).and_then(|owner| self.waiters.get_mut(owner)) {
            match owner.phase {
                Phase::Held if owner.own == Some(node) => owner.phase = Phase::Over,
                Phase::Waiting if was_first => self.overdue.insert(node),
                _ => {}
            }
        }
        self.tell_of(node, true);
    }

    pub(crate) fn tell_of(&mut self, node: Node, is_end: bool) {
        for waiter in &mut self.waiters {
            match waiter.told.remove(node) {
                true if self.hidden.contains(node) => waiter.was_not_told = true,
                true => waiter.inbox.push_back(Message::Event(node, is_end)),
                false => {}
            }
        }
    }

    pub(crate) fn hide(&mut self, node: Node) {
        self.left.hides -= 1;
        self.hidden.insert(node);
    }

    pub(crate) fn expire(&mut self, number: usize) {
        self.left.expiries -= 1;
        self.waiters[number].session = Session::Expired;
        let nodes = self.nodes.iter().filter(|&node| self.owner(node) == Some(number));
        nodes.collect::<Vec<_>>().into_iter().for_each(|node| self.delete(node));
    }

    pub(crate) fn holder_reads(&mut self) {
        self.has_read = true;
        self.nodes.insert(READ);
    }

    pub(crate) fn is_watched(&self, node: Node) -> bool {
        self.waiters.iter().any(|waiter| waiter.told.contains(node))
    }

    pub(crate) fn of_others(&self) -> impl Iterator<Item = Node> {
        let is_others = |&node: &Node| self.owner(node).is_none_or(|owner| owner == RIVAL);
        self.nodes.iter().filter(is_others)
    }

    fn owner(&self, node: Node) -> Option<usize> {
        let place = node.checked_sub(FIRST_OF_WAITERS)?;
        self.made.get(usize::from(place)).copied()
    }

    fn mode(&self, node: Node) -> Mode {
        match self.owner(node) {
            Some(RIVAL) => Mode::Exclusive,
            Some(owner) => self.left.waiters[owner],
            None if node == READ => Mode::Read,
            None => self.left.holder,
        }
    }

    fn exclude_each_other(&self, one: Node, other: Node) -> bool {
        [one, other].iter().any(|&node| self.mode(node) != Mode::Read)
    }

    /// Returns whether the node exists and no node ahead excludes it.
    pub(crate) fn is_first(&self, node: Node) -> bool {
        let mut before = self.nodes.iter().take_while(|&other| other < node);
        self.nodes.contains(node) && !before.any(|other| self.exclude_each_other(other, node))
    }

    /// Returns the nodes of the holders. A rival is a holder as soon as it is first.
    pub(crate) fn held_by_others(&self) -> impl Iterator<Item = Node> {
        self.nodes.iter().filter(|&node| match self.owner(node) {
            None => true,
            Some(owner) => owner == RIVAL && self.is_first(node),
        })
    }

    fn holders(&self) -> impl Iterator<Item = &Waiter> {
        self.waiters.iter().filter(|waiter| waiter.phase == Phase::Held)
    }

    pub(crate) fn has_holder(&self) -> bool {
        self.held_by_others().next().is_some() || self.holders().next().is_some()
    }

    pub(crate) fn waits(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.phase == Phase::Waiting)
    }

    /// Returns whether no two holders overlap, unless both are readers.
    pub(crate) fn holds_exclude_each_other(&self) -> bool {
        // A write and the read to which it is downgraded have the same owner.
        let mut others: Vec<Node> = self.held_by_others().collect();
        others.dedup_by_key(|node| *node <= READ);
        let others = others.into_iter().map(|node| self.mode(node));
        let modes: Vec<Mode> = self.holders().map(|waiter| waiter.mode).chain(others).collect();
        modes.len() <= 1 || modes.iter().all(|&mode| mode == Mode::Read)
    }
}
