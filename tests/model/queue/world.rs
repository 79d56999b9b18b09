//! The state of the world: the nodes, the sessions of the clients, and the waiters.

use std::collections::BTreeSet;

use super::Bounds;

/// A node, by the uuid of the create that makes it: no two creates have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) waiter: usize,
    pub(crate) create: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Link {
    /// Requests are answered, and the leader hears of the session.
    Alive,
    /// The server has lost its leader, or follows a deposed one, and does not know it.
    CutOff,
    /// There is no connection.
    Away,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    pub(crate) link: Link,
    /// By the client's clock the session cannot have expired.
    pub(crate) lease: bool,
    /// The client learns of it when it resumes.
    pub(crate) expired: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Waiting,
    Held,
    /// The lease of the hold ran out.
    Lost,
    Released,
}

/// What is under way for a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Step {
    /// It has no node.
    #[default]
    Out,
    /// A create has been sent, with a list behind it.
    Entering,
    /// The answer to that create was lost with its connection.
    Unsure,
    /// It has a node, and does not know who is before it.
    Placed,
    /// In the list, nothing was lower.
    First,
    /// In the list, this node was the next lower.
    SettingWatch(Name),
    Watching(Name),
    /// The watched node is gone, and the event is on its way to the client.
    Woken(Name),
}

/// One claim of the lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Waiter {
    pub(crate) client: usize,
    pub(crate) phase: Phase,
    pub(crate) step: Step,
    /// How many creates it has sent.
    pub(crate) creates: u8,
    /// Its place in the queue: the node that it waits or holds with. While `Entering` and `Unsure`
    /// it may not exist.
    pub(crate) own: Option<Name>,
    /// Nodes that may yet appear: their creates were not answered.
    pub(crate) remembered: BTreeSet<Name>,
    /// Nodes whose delete has to be sent, or to be sent again until it is answered.
    pub(crate) to_delete: BTreeSet<Name>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// In the order in which they were created: that of their sequences and of their tokens.
    pub(crate) nodes: Vec<Name>,
    /// Creates that were sent and have not been applied.
    pub(crate) in_flight: BTreeSet<Name>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) waiters: Vec<Waiter>,
    /// What must not be granted any more: a higher node has been, or it is gone.
    pub(crate) overtaken: BTreeSet<Name>,
    /// What is left of the bounds.
    pub(crate) left: Bounds,
}

impl World {
    /// All clients are connected. Nobody waits yet.
    pub(crate) fn new(bounds: Bounds) -> World {
        let clients = bounds.waiters.iter().max().map_or(0, |last| last + 1);
        let waiter = |&client| Waiter { client, ..Waiter::default() };
        World {
            nodes: Vec::new(),
            in_flight: BTreeSet::new(),
            sessions: vec![Session::NEW; clients],
            waiters: bounds.waiters.iter().map(waiter).collect(),
            overtaken: BTreeSet::new(),
            left: bounds,
        }
    }

    pub(crate) fn session(&self, waiter: &Waiter) -> Session {
        self.sessions[waiter.client]
    }

    pub(crate) fn waiters_of(&mut self, client: usize) -> impl Iterator<Item = &mut Waiter> {
        self.waiters.iter_mut().filter(move |waiter| waiter.client == client)
    }

    pub(crate) fn exists(&self, name: Name) -> bool {
        self.nodes.contains(&name)
    }

    pub(crate) fn has_node(&self, waiter: &Waiter) -> bool {
        waiter.own.is_some_and(|own| self.exists(own))
    }

    pub(crate) fn lower_than(&self, place: Name) -> impl Iterator<Item = Name> {
        self.nodes.iter().copied().take_while(move |&name| name != place)
    }

    pub(crate) fn is_at_stake(&self, client: usize) -> bool {
        let is_at_stake = |waiter: &Waiter| {
            matches!(waiter.phase, Phase::Waiting | Phase::Held)
                || !waiter.remembered.is_empty()
                || !waiter.to_delete.is_empty()
        };
        self.waiters.iter().any(|waiter| waiter.client == client && is_at_stake(waiter))
    }
}

impl Session {
    pub(crate) const NEW: Session = Session { link: Link::Alive, lease: true, expired: false };
}
