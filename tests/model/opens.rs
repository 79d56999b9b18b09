//! The model of the end that opens: when the deletion of the only node ahead is a grant, without another
//! list. It has no time, one lock, a client for each waiter, and others with sessions of their own
//! that are always well: one holds at the beginning, and rivals stand behind the waiters.
//!
//! A waiter takes a list, has its own node and the two nearest before it watched, and if only one is before
//! it that cannot be held on to in the same place, expects its end. What a list has shown once is true for
//! ever, since nothing comes before a node that is there: but for a read that the holder of a write takes in
//! the write's place. So the end of the only one ahead proves that the waiter's node is first, if that node
//! was there at that instant. An operator may have deleted it, or its session may have expired.
//!
//! Three run side by side for each client. The server carries out its requests one after the other, and sends
//! answers and events in that order. The client's reader takes what has come, tells of an event at once, or
//! asks for a list first and tells of both. The waiter's thread takes its time: for any of its steps others
//! come before.
//!
//! A grant is right if the node is first at the server, or has been: then an operator deleted it since, and
//! the hold is one that was lost like any other whose node is deleted. How that is noticed is not checked
//! here, nor whether a lease runs: a hold ends in the instant in which its node is deleted, and the sessions
//! of holds meet no faults. Whoever is granted without having been first holds with nothing, until it
//! releases.
//!
//! Nobody is told of a node that may not be read by then. A waiter looks again in the end, so that it is let in all
//! the same. That holds for the nodes of others. Whoever takes a waiter's own node from its sight and deletes it
//! lets it in without a node: that is a hold whose node is deleted, which is noticed as such.
//!
//! Left out: creates that are carried out long after their connection has broken, which are the queue's
//! (their numbers are higher than that of any node that was there when they could have been seen); what
//! is changed in a node while its watcher has no connection; several waiters of one client.

mod world;

use stateright::{Model, Property};

use self::world::{News, Node, Phase, Step, WRITE, World};
use super::check::Checked;
use super::queue::{NO_STUCK_WAITER, ONE_HOLDER};

pub(crate) const FIRST: &str = "whoever holds is first";

/// A rule that is broken on purpose, to see that it is needed and that the check would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The own node is not watched. It was deleted before the one ahead.
    OwnNotWatched,
    /// An end is expected although an event has come that the thread has not heard of: the end of its own
    /// node.
    UnheardIgnored,
    /// What was watched before a resume counts as watched since. What was missed comes in any order.
    WatchedBeforeResume,
    /// What was expected before a resume is expected behind it.
    OutlivesResume,
    /// An end counts also if another one was expected since. It opened for a node that has gone.
    OldNumberBelieved,
    /// What was expected before is out of date only when an end is expected again, not when the thread waits
    /// again without expecting any. It opened for a node that has gone.
    NumberKept,
    /// An end is expected although somebody else is before it.
    SecondIgnored,
    /// That of a write, whose holder goes on as a reader.
    DowngradeIgnored,
    /// A node that was not there when it was to be watched is taken for watched.
    AbsenceIgnored,
    /// Other events leave the expectation as it is. The own node's end was one.
    NothingForgotten,
    /// Whatever becomes of the node ahead is taken for its end.
    ChangeIsEnd,
    /// Events overtake each other.
    EventsOvertaken,
    /// A node is taken for watched after it was heard of.
    HeardStaysWatched,
    /// A waiter rests on events alone. It is told of none of a node that it may not read.
    NeverLooksAgain,
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// Alone. Not to be changed for anything.
    Exclusive,
    /// Alone. A read may be taken in its place.
    Write,
    /// Together with others that read.
    Read,
}

/// How much may happen. With that the graph of states is finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// Of who holds first.
    pub(crate) holder: Mode,
    pub(crate) waiters: &'static [Mode],
    /// Behind all of these, with sessions of their own that are always well.
    pub(crate) rivals: u8,
    /// What the operator deletes.
    pub(crate) deletions: u8,
    /// What is written into nodes.
    pub(crate) changes: u8,
    pub(crate) give_ups: u8,
    pub(crate) cuts: u8,
    pub(crate) expiries: u8,
    /// Waiters that look again without having heard of anything.
    pub(crate) looks: u8,
    /// Nodes of others that are watched, and may not be read from then on.
    pub(crate) hides: u8,
}

impl Bounds {
    /// With deletions, changes, give-ups, cuts, expiries and looks.
    pub(crate) fn new(
        holder: Mode,
        (waiters, rivals): (&'static [Mode], u8),
        [deletions, changes, give_ups, cuts, expiries, looks]: [u8; 6],
    ) -> Bounds {
        let hides = 0;
        Bounds {
            holder,
            waiters,
            rivals,
            deletions,
            changes,
            give_ups,
            cuts,
            expiries,
            looks,
            hides,
        }
    }

    pub(crate) fn with_hides(self, hides: u8) -> Bounds {
        Bounds { hides, ..self }
    }
}

/// What is being checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opens {
    pub(crate) bounds: Bounds,
    pub(crate) broken: Option<Broken>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    // What clients and servers do by themselves, sooner or later.
    /// The thread begins anew, with a list or a node.
    Begin {
        waiter: usize,
    },
    /// It makes up its mind about a list.
    Decide {
        waiter: usize,
    },
    /// All that it wanted to have watched is answered.
    Settle {
        waiter: usize,
    },
    /// It waits, and hears of something.
    Hear {
        waiter: usize,
    },
    /// The server carries out the next request.
    Serve {
        waiter: usize,
    },
    /// The reader takes what has come.
    Receive {
        waiter: usize,
        place: usize,
    },
    /// It has waited for long. Only where an event was not told it makes a difference.
    Look {
        waiter: usize,
    },
    /// One of the events that were missed.
    ReceiveMissed {
        waiter: usize,
        node: Node,
    },
    Resume {
        waiter: usize,
    },

    // What users, operators and faults may do, or not.
    LookAgain {
        waiter: usize,
    },
    Release {
        waiter: usize,
    },
    GiveUp {
        waiter: usize,
    },
    HolderReads,
    HolderReleases {
        node: Node,
    },
    OperatorDeletes {
        node: Node,
    },
    Change {
        node: Node,
    },
    Hide {
        node: Node,
    },
    Cut {
        waiter: usize,
    },
    Expire {
        waiter: usize,
    },
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
            Action::Begin { waiter } => next.begin(waiter),
            Action::Decide { waiter } => next.decide(waiter, self),
            Action::Settle { waiter } => next.settle(waiter, self),
            Action::Hear { waiter } => next.hear(waiter, self),
            Action::Serve { waiter } => next.serve(waiter),
            Action::Receive { waiter, place } => next.receive(waiter, place, self),
            Action::ReceiveMissed { waiter, node } => next.receive_missed(waiter, node, self),
            Action::Resume { waiter } => next.resume(waiter),
            Action::Look { waiter } => next.waiters[waiter].look_again(),
            Action::LookAgain { waiter } => {
                next.left.looks -= 1;
                next.waiters[waiter].look_again();
            }
            Action::Release { waiter } => next.leave(waiter),
            Action::GiveUp { waiter } => {
                next.left.give_ups -= 1;
                next.leave(waiter);
            }
            Action::HolderReads => next.holder_reads(),
            Action::HolderReleases { node } => next.delete(node),
            Action::OperatorDeletes { node } => {
                next.left.deletions -= 1;
                next.delete(node);
            }
            Action::Change { node } => {
                next.left.changes -= 1;
                next.tell_of(node, false);
            }
            Action::Hide { node } => next.hide(node),
            Action::Cut { waiter } => next.cut(waiter),
            Action::Expire { waiter } => next.expire(waiter),
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
            Step::Out if waiter.connected => Some(Action::Begin { waiter: number }),
            Step::Deciding(_) => Some(Action::Decide { waiter: number }),
            Step::Setting(setting) if setting.left == 0 => Some(Action::Settle { waiter: number }),
            Step::Waiting if !waiter.news.is_empty() => Some(Action::Hear { waiter: number }),
            Step::Waiting if waiter.was_not_told && !self.is(Broken::NeverLooksAgain) => {
                Some(Action::Look { waiter: number })
            }
            _ => None,
        });
        if !waiter.connected {
            return actions.push(Action::Resume { waiter: number });
        }
        let missed = waiter.missed.iter();
        actions.extend(missed.map(|node| Action::ReceiveMissed { waiter: number, node }));
        if waiter.missed.is_empty() {
            let serves = !waiter.outbox.is_empty();
            actions.extend(serves.then_some(Action::Serve { waiter: number }));
            let places = 0..waiter.inbox.len();
            let is_next = |place: &usize| {
                let overtakes = self.is(Broken::EventsOvertaken) && waiter.inbox[*place].is_event();
                *place == 0 || overtakes
            };
            let places = places.filter(is_next);
            actions.extend(places.map(|place| Action::Receive { waiter: number, place }));
        }
    }

    fn optional(&self, world: &World, actions: &mut Vec<Action>) {
        let left = world.left;
        for (number, waiter) in world.waiters.iter().enumerate() {
            match waiter.phase {
                Phase::Held => actions.push(Action::Release { waiter: number }),
                Phase::Waiting => {
                    let looks = left.looks > 0 && waiter.step == Step::Waiting;
                    actions.extend(looks.then_some(Action::LookAgain { waiter: number }));
                    let leaves = left.give_ups > 0 && waiter.connected && waiter.own.is_some();
                    actions.extend(leaves.then_some(Action::GiveUp { waiter: number }));
                    actions.extend(match waiter.connected {
                        true => (left.cuts > 0).then_some(Action::Cut { waiter: number }),
                        false => (left.expiries > 0 && waiter.session == world::Session::Live)
                            .then_some(Action::Expire { waiter: number }),
                    });
                }
                Phase::Over => {}
            }
        }
        let may_read = world.left.holder == Mode::Write && world.nodes.contains(WRITE);
        actions.extend((may_read && !world.has_read).then_some(Action::HolderReads));
        actions.extend(world.held_by_others().map(|node| Action::HolderReleases { node }));
        if left.deletions > 0 {
            let all = world.nodes.iter();
            actions.extend(all.map(|node| Action::OperatorDeletes { node }));
        }
        if left.hides > 0 {
            let of_others = world.of_others().filter(|&node| world.is_watched(node));
            actions.extend(of_others.map(|node| Action::Hide { node }));
        }
        if left.changes > 0 {
            let watched = world.nodes.iter().filter(|&node| world.is_watched(node));
            actions.extend(watched.map(|node| Action::Change { node }));
        }
    }

    /// Nothing happens any more without a user, an operator or a fault.
    fn is_at_rest(&self, world: &World) -> bool {
        let mut actions = Vec::new();
        (0..world.waiters.len()).for_each(|waiter| self.due(world, waiter, &mut actions));
        actions.is_empty()
    }

    /// What must be seen in some state, so that what is true in every one means something.
    fn sightings(&self) -> Vec<Property<Opens>> {
        let Bounds { waiters, deletions, cuts, looks, hides, .. } = self.bounds;
        let mut all = vec![
            Property::sometimes("an end is about to be a grant", |_, world: &World| {
                world.waiters.iter().any(World::is_opened)
            }),
            Property::sometimes(
                "at rest, somebody waits for a holder",
                |protocol: &Opens, world: &World| world.waits() && protocol.is_at_rest(world),
            ),
        ];
        if waiters.len() > 1 {
            all.push(Property::sometimes(
                "two were before it, and an end is about to be a grant",
                |_, world: &World| {
                    let second = &world.waiters[1];
                    World::is_opened(second) && second.own == Some(world::FIRST_OF_WAITERS + 1)
                },
            ));
        }
        if self.bounds.holder == Mode::Write {
            all.push(Property::sometimes(
                "a read is left, and its end is expected",
                |_, world: &World| {
                    let expects = |waiter: &world::Waiter| waiter.expected.is_some();
                    !world.nodes.contains(WRITE) && world.waiters.iter().any(expects)
                },
            ));
        }
        if deletions > 0 {
            all.push(Property::sometimes(
                "what has been first, and is gone, is granted",
                |_, world: &World| {
                    let gone = |waiter: &world::Waiter| {
                        waiter.own.is_some_and(|own| world.overdue.contains(own))
                    };
                    let mut waiters = world.waiters.iter();
                    waiters.any(|waiter| World::is_opened(waiter) && gone(waiter))
                },
            ));
        }
        if cuts > 0 {
            all.push(Property::sometimes(
                "the end is missed that was expected",
                |_, world: &World| {
                    let missed = |waiter: &world::Waiter| {
                        waiter.expected.is_some_and(|it| waiter.missed.contains(it.node))
                    };
                    world.waiters.iter().any(missed)
                },
            ));
        }
        if hides > 0 {
            all.push(Property::sometimes(
                "nobody is ahead of a waiter, which was not told",
                |_, world: &World| {
                    let is_first = |own: Option<Node>| own.is_some_and(|own| world.is_first(own));
                    let mut waiters = world.waiters.iter();
                    waiters.any(|waiter| waiter.was_not_told && is_first(waiter.own))
                },
            ));
        }
        if looks > 0 {
            all.push(Property::sometimes(
                "an end comes that was expected before",
                |_, world: &World| {
                    let is_old = |news: &News| news.opens == Some(false);
                    world.waiters.iter().any(|waiter| waiter.news.iter().any(is_old))
                },
            ));
        }
        all
    }
}
