//! The state of the world: the nodes, and the waiters with their connections.

use std::collections::VecDeque;
use std::mem;

use super::{Bounds, Broken, Mode, Opens};

/// A node by its position in the queue, which is also the order of creation.
pub(crate) type Node = u8;

/// The node of the first holder, or of the read in its place.
pub(crate) const WRITE: Node = 0;
const READ: Node = 1;
pub(crate) const FIRST_OF_WAITERS: Node = 2;
/// Stands for everybody behind the waiters.
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

    /// Returns false if the node did not exist.
    fn remove(&mut self, node: Node) -> bool {
        let was_there = self.contains(node);
        self.0 &= !(1 << node);
        was_there
    }

    pub(crate) fn iter(self) -> impl DoubleEndedIterator<Item = Node> {
        (0..16).filter(move |&node| self.contains(node))
    }
}

/// A request of a client to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Create,
    /// Sent by the thread.
    List,
    /// Sent by the reader, after an event of this node.
    ListBehind(Node),
    /// Sets a watch if the node exists.
    Read(Node),
}

/// A message from a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    Created(Node),
    Listed(Nodes),
    ListedBehind(Node, Nodes),
    Read(Node, bool),
    /// The event of a watched node: its end, or another change.
    Event(Node, bool),
}

impl Message {
    pub(crate) fn is_event(self) -> bool {
        matches!(self, Message::Event(..))
    }
}

/// A report of the reader to the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct News {
    node: Node,
    list: Option<Nodes>,
    /// `Some` for the expected end: whether nothing else has been expected since.
    pub(crate) opens: Option<bool>,
}

/// An end that would be a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Expected {
    pub(crate) node: Node,
    /// Whether it has the thread's last number.
    is_last: bool,
    /// Whether the session was not resumed since its nodes were watched.
    since_resume: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Setting {
    /// The nearest node ahead, and whether its end would be a grant.
    ahead: Node,
    opens: bool,
    /// The number of unanswered reads.
    pub(crate) left: u8,
    /// The nodes watched by the answered reads.
    watched: Nodes,
    /// Whether a node was missing.
    is_absent: bool,
}

/// The state of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Out,
    Looking,
    Deciding(Nodes),
    Setting(Setting),
    Waiting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Waiting,
    Held,
    /// Released, given up or lost.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Session {
    Live,
    /// Neither client nor thread knows of it.
    Expired,
    /// The client has another session, unknown to the thread.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    mode: Mode,
    pub(crate) phase: Phase,
    pub(crate) session: Session,
    pub(crate) connected: bool,
    /// Requests under way to the server, and messages under way to the client.
    pub(crate) outbox: VecDeque<Request>,
    pub(crate) inbox: VecDeque<Message>,
    /// Events from the time without a connection, which precede all others.
    pub(crate) missed: Nodes,
    /// The nodes that the server watches for this connection. The client sets them again on the next.
    told: Nodes,
    set: Nodes,

    // State shared by the reader and the thread.
    pub(crate) expected: Option<Expected>,
    pub(crate) news: VecDeque<News>,
    /// The number of events that the thread has not heard of.
    unheard: u8,
    /// Whether an event since the last look was not sent. The waiter does not know.
    pub(crate) was_not_told: bool,

    // State of the thread.
    pub(crate) step: Step,
    /// `None` if it is unknown: it may exist.
    pub(crate) own: Option<Node>,
    watched: Nodes,
    /// Whether that was since the session was resumed.
    since_resume: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) nodes: Nodes,
    /// The owners of the nodes, from the waiters' first one on.
    made: Vec<usize>,
    /// Whether a read was taken in the write's place.
    pub(crate) has_read: bool,
    /// Nodes that were first, but were deleted before their waiters noticed.
    pub(crate) overdue: Nodes,
    /// Nodes that are unreadable by now.
    hidden: Nodes,
    pub(crate) waiters: Vec<Waiter>,
    /// The rest of the bounds.
    pub(crate) left: Bounds,
}

/// The thread's side.
impl World {
    /// All waiters have created their nodes, and are about to look.
    pub(crate) fn new(bounds: Bounds) -> World {
        let mut world = World {
            nodes: Nodes::default(),
            made: Vec::new(),
            has_read: false,
            overdue: Nodes::default(),
            hidden: Nodes::default(),
            waiters: Vec::new(),
            left: bounds,
        };
        world.nodes.insert(WRITE);
        for (number, &mode) in bounds.waiters.iter().enumerate() {
            let own = Some(world.create(number));
            world.waiters.push(Waiter {
                mode,
                phase: Phase::Waiting,
                session: Session::Live,
                connected: true,
                outbox: VecDeque::new(),
                inbox: VecDeque::new(),
                missed: Nodes::default(),
                told: Nodes::default(),
                set: Nodes::default(),
                expected: None,
                news: VecDeque::new(),
                unheard: 0,
                was_not_told: false,
                step: Step::Out,
                own,
                watched: Nodes::default(),
                since_resume: true,
            });
        }
        for _ in 0..bounds.rivals {
            world.create(RIVAL);
        }
        world
    }

    /// Looks, or enters again after a change of the session.
    pub(crate) fn begin(&mut self, number: usize) {
        let waiter = &mut self.waiters[number];
        if waiter.session == Session::Other {
            (waiter.session, waiter.own, waiter.watched) = (Session::Live, None, Nodes::default());
            return waiter.enter();
        }
        // The list will show it.
        for News { node, .. } in mem::take(&mut waiter.news) {
            waiter.has_heard(node);
        }
        waiter.ask(Step::Looking, [Request::List]);
    }

    /// Finds the own node in a list, and the nodes ahead.
    pub(crate) fn decide(&mut self, number: usize, protocol: &Opens) {
        let Step::Deciding(list) = self.waiters[number].step else { return };
        let is_own = |&node: &Node| self.owner(node) == Some(number);
        let own = match self.waiters[number].own {
            Some(own) => Some(own).filter(|&own| list.contains(own)),
            None => list.iter().rfind(is_own),
        };
        self.waiters[number].own = own;
        let Some(own) = own else { return self.waiters[number].enter() };
        let mut before = list.iter().take_while(|&node| node < own).collect::<Vec<_>>();
        before.retain(|&node| self.exclude_each_other(node, own));
        let Some(ahead) = before.pop() else { return self.grant(number) };
        let second = before.pop();
        let may_go_on = ahead == WRITE
            && self.left.holder == Mode::Write
            && self.mode(own) != Mode::Read
            && !protocol.is(Broken::DowngradeIgnored);
        let opens = (second.is_none() || protocol.is(Broken::SecondIgnored)) && !may_go_on;

        let waiter = &mut self.waiters[number];
        if !mem::replace(&mut waiter.since_resume, true)
            && !protocol.is(Broken::WatchedBeforeResume)
        {
            waiter.watched = Nodes::default();
        }
        let own = Some(own).filter(|_| !protocol.is(Broken::OwnNotWatched));
        let wanted = [own, second, Some(ahead)].into_iter().flatten();
        let reads: Vec<Node> = wanted.filter(|&node| !waiter.watched.contains(node)).collect();
        let (left, watched) = (reads.len() as u8, Nodes::default());
        let setting = Setting { ahead, opens, left, watched, is_absent: false };
        waiter.ask(Step::Setting(setting), reads.into_iter().map(Request::Read));
    }

    /// Waits if all wanted nodes exist, and expects an end if that proves enough.
    pub(crate) fn settle(&mut self, number: usize, protocol: &Opens) {
        let waiter = &mut self.waiters[number];
        let Step::Setting(Setting { ahead, opens, watched, is_absent, .. }) = waiter.step else {
            return;
        };
        waiter.watched.0 |= watched.0;
        if is_absent {
            return waiter.step = Step::Out;
        }
        if opens || !protocol.is(Broken::NumberKept) {
            waiter.expected.iter_mut().for_each(|it| it.is_last = false);
            let opened = waiter.news.iter_mut().filter_map(|news| news.opens.as_mut());
            opened.for_each(|is_last| *is_last = false);
        }
        if opens {
            let has_heard = waiter.unheard == 0 || protocol.is(Broken::UnheardIgnored);
            let since_resume = waiter.since_resume;
            let expected = Expected { node: ahead, is_last: true, since_resume };
            waiter.expected = has_heard.then_some(expected);
        }
        waiter.step = Step::Waiting;
    }

    pub(crate) fn hear(&mut self, number: usize, protocol: &Opens) {
        let waiter = &mut self.waiters[number];
        let Some(News { node, list, opens }) = waiter.news.pop_front() else { return };
        waiter.has_heard(node);
        if protocol.is(Broken::HeardStaysWatched) {
            waiter.watched.insert(node);
        }
        if opens == Some(true) || (opens.is_some() && protocol.is(Broken::OldNumberBelieved)) {
            return self.grant(number);
        }
        let shows_own = |list: &Nodes| waiter.own.is_some_and(|own| list.contains(own));
        waiter.step = list.filter(shows_own).map_or(Step::Out, Step::Deciding);
    }

    /// Does nothing in an expired session.
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

    /// Ends a wait or a hold. The deletion takes no longer than the thread until then.
    pub(crate) fn leave(&mut self, number: usize) {
        let waiter = &mut self.waiters[number];
        waiter.phase = Phase::Over;
        waiter.end();
        if let Some(own) = waiter.own {
            self.delete(own);
        }
    }

    pub(crate) fn is_opened(waiter: &Waiter) -> bool {
        let opens = waiter.news.front().is_some_and(|news| news.opens == Some(true));
        waiter.step == Step::Waiting && opens
    }
}

impl Waiter {
    fn enter(&mut self) {
        self.ask(Step::Looking, [Request::Create, Request::List]);
    }

    /// Sends no request in an expired session.
    fn ask(&mut self, step: Step, requests: impl IntoIterator<Item = Request>) {
        let mut requests = requests.into_iter().peekable();
        if requests.peek().is_some() && self.session != Session::Live {
            return self.step = Step::Out;
        }
        self.step = step;
        self.outbox.extend(requests);
    }

    pub(crate) fn look_again(&mut self) {
        (self.step, self.was_not_told) = (Step::Out, false);
    }

    fn has_heard(&mut self, node: Node) {
        self.unheard -= 1;
        self.watched.remove(node);
    }

    /// Later messages to it do not matter.
    fn end(&mut self) {
        (self.outbox, self.inbox, self.news) = Default::default();
        (self.missed, self.told, self.set, self.watched) = Default::default();
        (self.expected, self.unheard) = (None, 0);
        self.look_again();
        (self.connected, self.since_resume) = (true, true);
    }

    /// Reports the expected end as such. For other events it asks for a list first.
    fn told_of(&mut self, node: Node, is_end: bool, protocol: &Opens) {
        if !self.set.remove(node) {
            return;
        }
        self.unheard += 1;
        let counts = |it: &Expected| it.since_resume || protocol.is(Broken::OutlivesResume);
        let ends = is_end || protocol.is(Broken::ChangeIsEnd);
        let is_it = |it: &Expected| ends && it.node == node && counts(it);
        let opens = self.expected.filter(is_it).map(|it| it.is_last);
        if opens.is_some() || !protocol.is(Broken::NothingForgotten) {
            self.expected = None;
        }
        match opens.is_none() {
            true => self.outbox.push_back(Request::ListBehind(node)),
            false => self.news.push_back(News { node, list: None, opens }),
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
            Message::ListedBehind(node, list) => {
                waiter.news.push_back(News { node, list: Some(list), opens: None });
            }
            Message::Read(node, is_there) => {
                if is_there {
                    waiter.set.insert(node);
                }
                if let Step::Setting(setting) = &mut waiter.step {
                    setting.left -= 1;
                    match is_there || protocol.is(Broken::AbsenceIgnored) {
                        true => setting.watched.insert(node),
                        false => setting.is_absent = true,
                    }
                }
            }
            Message::Event(node, is_end) => waiter.told_of(node, is_end, protocol),
        }
    }

    pub(crate) fn receive_missed(&mut self, number: usize, node: Node, protocol: &Opens) {
        let waiter = &mut self.waiters[number];
        waiter.missed.remove(node);
        waiter.told_of(node, true, protocol);
    }

    /// Messages under way are lost. Lists for the reader are reported as failed.
    pub(crate) fn cut(&mut self, number: usize) {
        self.left.cuts -= 1;
        let waiter = &mut self.waiters[number];
        (waiter.connected, waiter.told, waiter.missed) =
            (false, Nodes::default(), Nodes::default());
        let inbox = mem::take(&mut waiter.inbox).into_iter().filter_map(|it| match it {
            Message::ListedBehind(node, _) => Some(node),
            _ => None,
        });
        let outbox = mem::take(&mut waiter.outbox).into_iter().filter_map(|it| match it {
            Request::ListBehind(node) => Some(node),
            _ => None,
        });
        let failed = inbox.chain(outbox).map(|node| News { node, list: None, opens: None });
        waiter.news.extend(failed);
        waiter.breaks_off();
    }

    /// The resume is counted first. Watches are set again before any other request; those of another session
    /// have ended.
    pub(crate) fn resume(&mut self, number: usize) {
        let nodes = self.nodes;
        let waiter = &mut self.waiters[number];
        waiter.connected = true;
        if waiter.session == Session::Expired {
            waiter.session = Session::Other;
            waiter.outbox.clear();
            waiter.breaks_off();
            for node in mem::take(&mut waiter.set).iter() {
                (waiter.expected, waiter.unheard) = (None, waiter.unheard + 1);
                waiter.news.push_back(News { node, list: None, opens: None });
            }
            return;
        }
        waiter.since_resume = false;
        waiter.expected.iter_mut().for_each(|it| it.since_resume = false);
        waiter.told = Nodes(waiter.set.0 & nodes.0);
        waiter.missed = Nodes(waiter.set.0 & !nodes.0);
    }
}

impl Waiter {
    /// The thread gets an error instead of an answer.
    fn breaks_off(&mut self) {
        match self.step {
            Step::Looking => self.step = Step::Out,
            Step::Setting(setting) if setting.left > 0 => {
                self.watched.0 |= setting.watched.0;
                self.step = Step::Out;
            }
            _ => {}
        }
    }
}

/// The server's side.
impl World {
    pub(crate) fn serve(&mut self, number: usize) {
        let Some(request) = self.waiters[number].outbox.pop_front() else { return };
        let message = match request {
            Request::Create => Message::Created(self.create(number)),
            Request::List => Message::Listed(self.nodes),
            Request::ListBehind(node) => Message::ListedBehind(node, self.nodes),
            Request::Read(node) => Message::Read(node, self.nodes.contains(node)),
        };
        let waiter = &mut self.waiters[number];
        waiter.inbox.push_back(message);
        if let Message::Read(node, true) = message {
            waiter.told.insert(node);
        }
    }

    fn create(&mut self, owner: usize) -> Node {
        let node = FIRST_OF_WAITERS + self.made.len() as Node;
        self.made.push(owner);
        self.nodes.insert(node);
        node
    }

    /// If the node was first, its waiter's later grant was right, but the hold is already lost.
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

    /// Whether the node exists and no counting node is ahead.
    pub(crate) fn is_first(&self, node: Node) -> bool {
        let mut before = self.nodes.iter().take_while(|&other| other < node);
        self.nodes.contains(node) && !before.any(|other| self.exclude_each_other(other, node))
    }

    /// The nodes of the healthy holders. Rivals hold when they are first.
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

    /// No two holders overlap, except readers.
    pub(crate) fn holds_exclude_each_other(&self) -> bool {
        // A downgraded read has the owner of its write.
        let mut others: Vec<Node> = self.held_by_others().collect();
        others.dedup_by_key(|node| *node <= READ);
        let others = others.into_iter().map(|node| self.mode(node));
        let modes: Vec<Mode> = self.holders().map(|waiter| waiter.mode).chain(others).collect();
        modes.len() <= 1 || modes.iter().all(|&mode| mode == Mode::Read)
    }
}
