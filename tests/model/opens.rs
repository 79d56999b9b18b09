//! A model of waiting in a queue: when is the deletion of the only node ahead a grant, without another list? It has one
//! lock, no time, and a client for each waiter. All other contenders have their own sessions, which always stay alive:
//! the first holder, and rivals behind the waiters.
//!
//! A waiter lists the nodes, and watches its own node and the two nearest ahead. If only one node is ahead, and its
//! holder cannot downgrade it in place, its deletion is the grant. The waiter's state is the library's own `Stay`. What
//! a list shows ahead of a node stays valid, because a new node never comes before an existing one, except that a
//! downgraded read takes the position of its write. Therefore, when the only node ahead is deleted, the waiter's node
//! is first, provided that it existed at that instant: an operator may have deleted it, or its session expired.
//!
//! For each client, three parts run concurrently. The server applies the client's requests in order, and sends answers
//! and events in that order. The client's reader processes each message: it reports an event at once, or lists first
//! and reports both. The waiter's thread may be arbitrarily slow: other steps may come before its next one.
//!
//! A grant is correct if the node is first on the server, or was first earlier. If it no longer is, an operator has
//! deleted it since, and the hold is lost like any hold whose node was deleted. This model checks neither leases nor
//! how losses are detected: a hold ends when its node is deleted, and faults never affect the sessions of holders. A
//! waiter that is granted without having been first is a holder without a node until it releases.
//!
//! A client receives no event for a node that it may not read at that time. If this is another client's node, the
//! waiter lists again later, and is granted then. If an operator hides and deletes a waiter's own node, the waiter may
//! be granted without a node; its hold is one whose node was deleted, and is detected as such.
//!
//! Not modelled: creates that are applied long after their connection broke (their numbers are higher than those of all
//! nodes that could have been listed; the tests of the queue cover them); changes of a node while its watcher has no
//! connection; and several waiters of one client.

mod world;

use stateright::{Model, Property};

use self::world::{Node, Phase, Step, WRITE, World};
use super::check::Checked;

pub(crate) const ONE_HOLDER: &str = "never two holders";
pub(crate) const FIRST: &str = "whoever holds is first";
pub(crate) const NO_STUCK_WAITER: &str = "at rest, whoever waits waits for a holder";

/// A rule that is broken on purpose, to prove that it is needed and that the check detects the violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The waiter does not watch its own node, which was deleted before the node ahead.
    OwnNotWatched,
    /// Watches set before the session was resumed count as uninterrupted. The events missed arrive in any order.
    WatchedBeforeResume,
    /// What a waiter expects before its session is resumed remains valid afterwards.
    OutlivesResume,
    /// The deletion of the nearest node is expected to be a grant although a second node is ahead.
    SecondIgnored,
    /// The deletion of a write is expected to be a grant although its holder may continue as a reader.
    DowngradeIgnored,
    /// When a client sets a watch, the server does not report that the node is missing.
    AbsenceIgnored,
    /// No other event changes what the waiter expects, not even the deletion of the waiter's own node.
    NothingForgotten,
    /// Every event of the node ahead counts as its deletion.
    ChangeIsEnd,
    /// Events may overtake other messages.
    EventsOvertaken,
    /// Nodes count as watched although the server refused the watch.
    RefusedIsWatched,
    /// A waiter relies on events alone, although it receives none for a node that it may not read.
    NeverLooksAgain,
}

/// The mode of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Mode {
    /// Held alone, and never downgraded.
    #[default]
    Exclusive,
    /// Held alone. A read may replace it.
    Write,
    /// Shared with other readers.
    Read,
}

/// How many of each event may happen, which keeps the graph of states finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Bounds {
    /// The mode of the first holder.
    pub(crate) holder: Mode,
    pub(crate) waiters: &'static [Mode],
    /// Rivals behind all waiters, with their own sessions, which always stay alive.
    pub(crate) rivals: u8,
    /// Nodes that the operator deletes.
    pub(crate) deletions: u8,
    /// Changes of the data of nodes.
    pub(crate) changes: u8,
    pub(crate) give_ups: u8,
    pub(crate) cuts: u8,
    pub(crate) expiries: u8,
    /// How often waiters list without an event.
    pub(crate) looks: u8,
    /// How many nodes become unreadable for the other clients that watch them.
    pub(crate) hides: u8,
    /// How many requests to watch a busy server refuses.
    pub(crate) refusals: u8,
}

impl Bounds {
    /// The array contains, in this order: deletions, changes, give-ups, cuts, expiries, and lists without an event.
    pub(crate) fn new(
        holder: Mode,
        (waiters, rivals): (&'static [Mode], u8),
        [deletions, changes, give_ups, cuts, expiries, looks]: [u8; 6],
    ) -> Bounds {
        let faults = Bounds { deletions, changes, give_ups, cuts, expiries, ..Bounds::default() };
        Bounds { holder, waiters, rivals, looks, ..faults }
    }
}

/// The model to be checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opens {
    pub(crate) bounds: Bounds,
    pub(crate) broken: Option<Broken>,
}

/// A step, with the number of a waiter or with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    // Steps that threads, readers and servers take by themselves sooner or later.
    /// The thread starts over: it lists, or creates a new node.
    Begin(usize),
    /// The thread decides what to do, based on a list.
    Decide(usize),
    /// The waiting thread is notified of an event.
    Hear(usize),
    /// The server applies the next request.
    Serve(usize),
    /// The reader processes the message at this position.
    Receive(usize, usize),
    /// The thread has waited for a long time, and lists again. This only matters if an event was not sent.
    Look(usize),
    /// One of the events missed while disconnected arrives.
    ReceiveMissed(usize, Node),
    Resume(usize),

    // Steps that users, operators and faults may take.
    LookAgain(usize),
    Release(usize),
    GiveUp(usize),
    HolderReads,
    HolderReleases(Node),
    OperatorDeletes(Node),
    Change(Node),
    Hide(Node),
    Cut(usize),
    Refuse(usize),
    Expire(usize),
}

impl Checked for Opens {}

impl Model for Opens {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.bounds)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for waiter in 0..world.waiters.len() {
            self.due(world, waiter, actions);
        }
        self.optional(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Begin(waiter) => next.begin(waiter),
            Action::Decide(waiter) => next.decide(waiter, self),
            Action::Hear(waiter) => next.hear(waiter),
            Action::Serve(waiter) => next.serve(waiter, self),
            Action::Receive(waiter, place) => next.receive(waiter, place, self),
            Action::ReceiveMissed(waiter, node) => next.receive_missed(waiter, node, self),
            Action::Resume(waiter) => next.resume(waiter),
            Action::Look(waiter) => next.waiters[waiter].look_again(),
            Action::LookAgain(waiter) => {
                next.left.looks -= 1;
                next.waiters[waiter].look_again();
            }
            Action::Release(waiter) => next.leave(waiter),
            Action::GiveUp(waiter) => {
                next.left.give_ups -= 1;
                next.leave(waiter);
            }
            Action::HolderReads => next.holder_reads(),
            Action::HolderReleases(node) => next.delete(node),
            Action::OperatorDeletes(node) => {
                next.left.deletions -= 1;
                next.delete(node);
            }
            Action::Change(node) => {
                next.left.changes -= 1;
                next.tell_of(node, false);
            }
            Action::Hide(node) => next.hide(node),
            Action::Cut(waiter) => next.cut(waiter),
            Action::Refuse(waiter) => next.refuse(waiter),
            Action::Expire(waiter) => next.expire(waiter),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Opens>> {
        let mut all = vec![
            Property::always(ONE_HOLDER, |_, world: &World| world.holds_exclude_each_other()),
            Property::always(FIRST, |_, world: &World| {
                let holders = world.waiters.iter().filter(|waiter| waiter.phase == Phase::Held);
                let mut nodes = holders.map(|waiter| waiter.own);
                nodes.all(|own| own.is_some_and(|own| world.is_first(own)))
            }),
            Property::always(NO_STUCK_WAITER, |protocol: &Opens, world: &World| {
                !world.waits() || world.has_holder() || !protocol.is_at_rest(world)
            }),
        ];
        if self.broken.is_none() {
            all.extend(self.sightings());
        }
        all
    }
}

/// Whether these bounds make it possible, its name, and whether a state shows it.
type Sighting = (bool, &'static str, fn(&Opens, &World) -> bool);

impl Opens {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn due(&self, world: &World, number: usize, actions: &mut Vec<Action>) {
        let waiter = &world.waiters[number];
        if waiter.phase != Phase::Waiting {
            return;
        }
        actions.extend(match waiter.step {
            Step::Out if waiter.connected => Some(Action::Begin(number)),
            Step::Deciding(_) => Some(Action::Decide(number)),
            Step::Waiting if waiter.is_woken => Some(Action::Hear(number)),
            Step::Waiting if waiter.was_not_told && !self.is(Broken::NeverLooksAgain) => {
                Some(Action::Look(number))
            }
            _ => None,
        });
        if !waiter.connected {
            return actions.push(Action::Resume(number));
        }
        let missed = waiter.missed.iter();
        actions.extend(missed.map(|node| Action::ReceiveMissed(number, node)));
        if waiter.missed.is_empty() {
            let serves = !waiter.outbox.is_empty();
            actions.extend(serves.then_some(Action::Serve(number)));
            let overtakes = self.is(Broken::EventsOvertaken);
            let inbox = waiter.inbox.iter().enumerate();
            let next = inbox.filter(|(at, it)| *at == 0 || overtakes && it.is_event());
            actions.extend(next.map(|(at, _)| Action::Receive(number, at)));
        }
    }

    fn optional(&self, world: &World, actions: &mut Vec<Action>) {
        let left = world.left;
        for (number, waiter) in world.waiters.iter().enumerate() {
            match waiter.phase {
                Phase::Held => actions.push(Action::Release(number)),
                Phase::Waiting => {
                    let looks = left.looks > 0 && waiter.step == Step::Waiting;
                    actions.extend(looks.then_some(Action::LookAgain(number)));
                    let watches = matches!(waiter.outbox.front(), Some(world::Request::Watch(_)));
                    let refuses = left.refusals > 0 && watches;
                    actions.extend(refuses.then_some(Action::Refuse(number)));
                    let leaves = left.give_ups > 0 && waiter.connected && waiter.own.is_some();
                    actions.extend(leaves.then_some(Action::GiveUp(number)));
                    actions.extend(match waiter.connected {
                        true => (left.cuts > 0).then_some(Action::Cut(number)),
                        false => (left.expiries > 0 && waiter.session == world::Session::Live)
                            .then_some(Action::Expire(number)),
                    });
                }
                Phase::Over => {}
            }
        }
        let may_read = world.left.holder == Mode::Write && world.nodes.contains(WRITE);
        actions.extend((may_read && !world.has_read).then_some(Action::HolderReads));
        actions.extend(world.held_by_others().map(Action::HolderReleases));
        if left.deletions > 0 {
            actions.extend(world.nodes.iter().map(Action::OperatorDeletes));
        }
        if left.hides > 0 {
            let of_others = world.of_others().filter(|&node| world.is_watched(node));
            actions.extend(of_others.map(Action::Hide));
        }
        if left.changes > 0 {
            let watched = world.nodes.iter().filter(|&node| world.is_watched(node));
            actions.extend(watched.map(Action::Change));
        }
    }

    /// Returns whether nothing more happens without an action of a user or an operator, or a fault.
    fn is_at_rest(&self, world: &World) -> bool {
        let mut actions = Vec::new();
        (0..world.waiters.len()).for_each(|waiter| self.due(world, waiter, &mut actions));
        actions.is_empty()
    }

    /// Situations that must each occur in some state. If they did not, the checked properties would prove little.
    fn sightings(&self) -> impl Iterator<Item = Property<Opens>> {
        let Bounds { holder, waiters, deletions, cuts, hides, .. } = self.bounds;
        let all: [Sighting; 7] = [
            (true, "an end is about to be a grant", |_, world| {
                world.waiters.iter().any(World::is_opened)
            }),
            (true, "at rest, somebody waits for a holder", |protocol, world| {
                world.waits() && protocol.is_at_rest(world)
            }),
            (
                waiters.len() > 1,
                "two were before it, and an end is about to be a grant",
                |_, world| {
                    let second = &world.waiters[1];
                    World::is_opened(second) && second.own == Some(world::FIRST_OF_WAITERS + 1)
                },
            ),
            (holder == Mode::Write, "a read is left, and its end is expected", |_, world| {
                let mut expected = world.waiters.iter().filter_map(|waiter| waiter.expected());
                !world.nodes.contains(WRITE) && expected.next().is_some()
            }),
            (deletions > 0, "what has been first, and is gone, is granted", |_, world| {
                let is_gone =
                    |own: Option<Node>| own.is_some_and(|own| world.overdue.contains(own));
                let mut waiters = world.waiters.iter();
                waiters.any(|waiter| World::is_opened(waiter) && is_gone(waiter.own))
            }),
            (cuts > 0, "the end is missed that was expected", |_, world| {
                let is_missed = |waiter: &world::Waiter| {
                    waiter.expected().is_some_and(|node| waiter.missed.contains(node))
                };
                world.waiters.iter().any(is_missed)
            }),
            (hides > 0, "nobody is ahead of a waiter, which was not told", |_, world| {
                let is_first = |own: Option<Node>| own.is_some_and(|own| world.is_first(own));
                let mut waiters = world.waiters.iter();
                waiters.any(|waiter| waiter.was_not_told && is_first(waiter.own))
            }),
        ];
        let due = all.into_iter().filter(|(is_due, ..)| *is_due);
        due.map(|(_, name, condition)| Property::sometimes(name, condition))
    }
}
