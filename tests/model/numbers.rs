//! The model of the numbers: when a node is granted without a list. It has no time, and one directory, which
//! the servers delete when empty.
//!
//! A directory gives each create the next number. A client whose node has held and been deleted knows that no
//! node up to that number is left. If its next node has the next number, that node is alone. This is true
//! within one directory, and a watch tells whether it is still the same. The client hears from the servers in
//! the order in which they send.
//!
//! A directory counts every create. Single nodes have names chosen by users: they raise the count, and their
//! names say nothing about it.
//!
//! A request is applied when it is sent: a slower one is one sent later. Late creates belong to the queue;
//! here they are ordinary creates.

mod world;

use stateright::{Model, Property};

use self::world::{Message, Phase, RIVAL, World};
use super::check::Checked;
use super::queue::ONE_HOLDER;

/// A rule broken on purpose, to prove that it is needed and that the check would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The directory is not watched. It is created again, and others bring it to the same number.
    NotWatched,
    /// The read that sets the watch is sent after the deletion. By then it is another directory.
    WatchedBehind,
    /// A deletion sent without a watch is noted. It was in the directory before the watched one.
    NotedUnwatched,
    /// Every higher number counts as the next. Other nodes have the numbers between.
    GapAccepted,
    /// A number is noted at the grant of its node, which still exists and holds.
    NotedAtGrant,
    /// The number of an abandoned node is noted. Other nodes were before it.
    NotedGivenUp,
    /// A note is accepted despite events since the deletion, although it is of the previous directory.
    NotedLate,
    /// The watch is not set again on the next connection. The removal was missed.
    NotSetAgain,
    /// Answers overtake events.
    EventsOvertaken,
    /// Known facts outlive the session, but the watch does not.
    KeptOverSession,
    /// The name of a single node is read as a number, though its user chose it.
    NamesBelieved,
}

/// The number of possible events, which makes the graph of states finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// Waiters of the client.
    pub(crate) waiters: usize,
    /// Creates of the waiters.
    pub(crate) claims: u8,
    /// Creates of the rival.
    pub(crate) rivals: u8,
    /// Single nodes that the client creates and deletes, with names that look like numbers.
    pub(crate) singles: u8,
    pub(crate) give_ups: u8,
    pub(crate) cuts: u8,
    pub(crate) expiries: u8,
}

/// The subject of the check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) bounds: Bounds,
    pub(crate) broken: Option<Broken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Claim {
        waiter: usize,
    },
    /// No node is ahead, and none will be, however long the list takes.
    GrantListed {
        waiter: usize,
    },
    GrantUnlisted {
        waiter: usize,
    },
    GiveUp {
        waiter: usize,
    },
    Release {
        waiter: usize,
        watch: bool,
    },
    Delete {
        waiter: usize,
    },
    TakeNote {
        waiter: usize,
    },
    Receive {
        place: usize,
    },
    /// A single node whose name ends in this is created and deleted.
    Single {
        looks_like: u8,
    },
    RivalClaims,
    RivalIsGranted,
    RivalReleases,
    Remove,
    Cut,
    Resume,
    Expire,
}

impl Checked for Numbers {}

impl Model for Numbers {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.bounds)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for waiter in 0..world.waiters.len() {
            self.of_waiter(world, waiter, actions);
        }
        actions.extend(match world.rival {
            Phase::Idle => (world.left.rivals > 0).then_some(Action::RivalClaims),
            Phase::Held => Some(Action::RivalReleases),
            _ => world.is_first(RIVAL).then_some(Action::RivalIsGranted),
        });
        if world.connected && world.left.singles > 0 {
            let numbers = 0..=world.directory.as_ref().map_or(0, |it| it.next + 1);
            actions.extend(numbers.map(|looks_like| Action::Single { looks_like }));
        }
        let is_empty = world.directory.as_ref().is_some_and(|it| it.nodes.is_empty());
        actions.extend(is_empty.then_some(Action::Remove));
        if world.connected {
            let is_answer = |message: &Message| *message != Message::Removed;
            let answer = world.inbox.iter().position(is_answer).filter(|&place| place > 0);
            let overtakes = answer.filter(|_| self.is(Broken::EventsOvertaken));
            let first = (!world.inbox.is_empty()).then_some(0);
            let places = first.into_iter().chain(overtakes);
            actions.extend(places.map(|place| Action::Receive { place }));
            actions.extend((world.left.cuts > 0).then_some(Action::Cut));
        } else {
            actions.push(Action::Resume);
            actions.extend((world.left.expiries > 0).then_some(Action::Expire));
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Claim { waiter } => next.claim(waiter),
            Action::GrantListed { waiter } | Action::GrantUnlisted { waiter } => {
                next.grant(waiter, self);
            }
            Action::GiveUp { waiter } => next.give_up(waiter, self),
            Action::Release { waiter, watch } => next.release(waiter, watch, self),
            Action::Delete { waiter } => next.delete(waiter, self),
            Action::TakeNote { waiter } => next.take_note(waiter, self),
            Action::Receive { place } => next.receive(place),
            Action::Single { looks_like } => next.single(looks_like, self),
            Action::RivalClaims => {
                next.left.rivals -= 1;
                next.create(RIVAL);
                next.rival = Phase::Unsure;
            }
            Action::RivalIsGranted => next.rival = Phase::Held,
            Action::RivalReleases => {
                next.remove_node(RIVAL);
                next.rival = Phase::Idle;
            }
            Action::Remove => next.remove(),
            Action::Cut => next.cut(),
            Action::Resume => next.resume(self),
            Action::Expire => next.expire(self),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Numbers>> {
        let mut all = vec![Property::always(ONE_HOLDER, |_, world: &World| world.holders() <= 1)];
        if self.broken.is_none() {
            all.extend(sightings());
        }
        all
    }
}

/// Each must occur in some state, so that the properties of all states mean something.
fn sightings() -> [Property<Numbers>; 5] {
    [
        Property::sometimes(
            "a node is about to be granted without a list",
            |protocol, world: &World| {
                protocol.created(world).any(|number| protocol.is_alone(world, number))
            },
        ),
        Property::sometimes(
            "a number is not the next, and a list is needed",
            |protocol, world: &World| {
                let is_known = world.known.watched.and(world.known.number).is_some();
                is_known && protocol.created(world).any(|number| !protocol.is_alone(world, number))
            },
        ),
        Property::sometimes("a removal is noticed", |protocol, world: &World| {
            world.known.begun > 0 && world.left.expiries == protocol.bounds.expiries
        }),
        Property::sometimes("another directory has come to the next number", |_, world: &World| {
            world.directory.as_ref().is_some_and(|directory| {
                world.known.watched.is_some_and(|watched| watched != directory.made)
                    && world.known.number.is_some_and(|last| last + 1 == directory.next)
                    && !directory.nodes.is_empty()
            })
        }),
        Property::sometimes("a note comes too late", |_, world: &World| {
            let begun = world.known.begun;
            let is_late = |it: &Phase| matches!(it, Phase::Noting(note) if note.begun != begun);
            world.waiters.iter().any(is_late)
        }),
    ]
}

impl Numbers {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn of_waiter(&self, world: &World, waiter: usize, actions: &mut Vec<Action>) {
        let phase = world.waiters[waiter];
        match phase {
            Phase::Created(number) if self.is_alone(world, number) => {
                actions.push(Action::GrantUnlisted { waiter });
            }
            Phase::Noting(_) => actions.push(Action::TakeNote { waiter }),
            _ if !world.connected => {}
            // A waiter that is not first waits for a reason to list.
            Phase::Created(_) | Phase::Unsure if world.is_first(waiter) => {
                actions.push(Action::GrantListed { waiter });
            }
            Phase::Idle if world.left.claims > 0 => actions.push(Action::Claim { waiter }),
            Phase::Held => {
                let may_watch = world.known.watched.is_none() && !self.is(Broken::NotWatched);
                let choices = [Some(false), may_watch.then_some(true)].into_iter().flatten();
                actions.extend(choices.map(|watch| Action::Release { waiter, watch }));
            }
            Phase::Leaving(_) => actions.push(Action::Delete { waiter }),
            _ => {}
        }
        let waits = world.connected && matches!(phase, Phase::Created(_) | Phase::Unsure);
        let may_give_up = waits && world.left.give_ups > 0;
        actions.extend(may_give_up.then_some(Action::GiveUp { waiter }));
    }

    /// The numbers of nodes that are neither listed nor granted.
    fn created(&self, world: &World) -> impl Iterator<Item = u8> {
        world.waiters.iter().filter_map(|phase| match phase {
            Phase::Created(number) => Some(*number),
            _ => None,
        })
    }

    /// The rule under test.
    fn is_alone(&self, world: &World, number: u8) -> bool {
        let watched = world.known.watched.is_some() || self.is(Broken::NotWatched);
        let gap = self.is(Broken::GapAccepted);
        let is_next = |last: u8| last + 1 == number || (gap && last < number);
        watched && world.known.number.is_some_and(is_next)
    }
}
