//! The state of the world: the nodes, the clients' sessions, and the waiters.

use std::collections::BTreeSet;

use super::Bounds;

/// A node, by the unique uuid of its create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) waiter: usize,
    pub(crate) create: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Link {
    /// Requests are answered, and the leader hears of the session.
    Alive,
    /// The server has lost its leader, or follows a deposed one, without knowing.
    CutOff,
    /// The client has no connection.
    Away,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    pub(crate) link: Link,
    /// Whether the session cannot have expired by the client's clock.
    pub(crate) lease: bool,
    /// The client learns of it at the resume.
    pub(crate) expired: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Waiting,
    Held,
    /// The lease of the hold has ended.
    Lost,
    Released,
}

/// The pending step of a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Step {
    /// It has no node.
    #[default]
    Out,
    /// It has sent a create and a list.
    Entering,
    /// The answer to that create was lost with its connection.
    Unsure,
    /// It has a node, and does not know which nodes are ahead.
    Placed,
    /// The list showed no lower node.
    First,
    /// The list showed this node as the next lower one.
    SettingWatch(Name),
    Watching(Name),
    /// The watched node is gone, and the event is under way to the client.
    Woken(Name),
}

/// One claim of the lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Waiter {
    pub(crate) client: usize,
    pub(crate) phase: Phase,
    pub(crate) step: Step,
    /// The number of creates sent.
    pub(crate) creates: u8,
    /// Its position in the queue: the node with which it waits or holds. While `Entering` and `Unsure` the
    /// node may not exist.
    pub(crate) own: Option<Name>,
    /// Nodes that may still appear, since their creates were not answered.
    pub(crate) remembered: BTreeSet<Name>,
    /// Nodes whose delete is due, for the first time or again until it is answered.
    pub(crate) to_delete: BTreeSet<Name>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// In order of creation, which is that of their sequences and their tokens.
    pub(crate) nodes: Vec<Name>,
    /// Creates that were sent and not applied yet.
    pub(crate) in_flight: BTreeSet<Name>,
    pub(crate) sessions: Vec<Session>,
    pub(crate) waiters: Vec<Waiter>,
    /// Nodes that must not be granted any more: a higher one was, or they are deleted.
    pub(crate) overtaken: BTreeSet<Name>,
    /// The rest of the bounds.
    pub(crate) left: Bounds,
}

impl World {
    /// All clients are connected, and nobody waits yet.
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
