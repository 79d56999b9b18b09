//! The model of the queue: which waiter waits for which on one path, across cuts, resumes and expiries. It
//! has no time: a slow step is one that others precede.
//!
//! Every server of an ensemble may lag. It shows a former state of the whole, and none older than the session
//! has seen, which is the same as a slow answer. So the model has one server, and a create that a lagging
//! server does not show is one that commits late.

mod properties;
mod server;
mod waiter;
mod world;

use stateright::{Model, Property};

pub(crate) use self::properties::{IN_ORDER, NO_STUCK_WAITER, NOTHING_LEFT, ONE_HOLDER};
use self::world::{Link, Name, Phase, Step, World};
use super::check::Checked;

/// The number of possible events. Every fault uses up one, so the graph of states is finite and has no
/// cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// The client of each waiter. A client has one session at a time.
    pub(crate) waiters: &'static [usize],
    pub(crate) cuts: u8,
    pub(crate) expiries: u8,
    pub(crate) give_ups: u8,
}

/// A rule broken on purpose, to prove that it is needed and that the check would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A waiter is granted though its lease may have ended. Its session expired after the list.
    GrantedWithoutLease,
    /// A hold outlives its lease: the client ignores its own clock.
    LeaseIgnored,
    /// The node of a lost hold stays. Its session lives, so nobody deletes it.
    LostNodeLeft,
    /// A woken waiter believes that it is first. The node ahead has gone, but the holder has not.
    WokenIsGranted,
    /// Other waiters of the same client are no rivals.
    ClientIsNoRival,
    /// A waiter takes its newest node as its position, and its others for another waiter's.
    BehindOneself,
    /// An unanswered create that was not found is forgotten. It comes late.
    NotRemembered,
    /// Remembered creates are searched only at the release. They come after that.
    SearchedOnce,
    /// A delete lost with its connection is not repeated.
    DeletedOnce,
    /// A waiter waits for a predecessor deleted between the list and the watch.
    AbsenceIgnored,
    /// Events missed without a connection are not replaced.
    WatchesLost,
}

/// The subject of the check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) bounds: Bounds,
    pub(crate) broken: Option<Broken>,
}

/// Waiters and clients by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    // Steps that clients and servers take on their own, sooner or later.
    Enter { waiter: usize },
    Look { waiter: usize },
    SetWatch { waiter: usize },
    Wake { waiter: usize },
    Grant { waiter: usize },
    Search { waiter: usize },
    Delete(Name),
    Apply(Name),
    Lose(Name),
    Cut { client: usize },
    Resume { client: usize },
    RenewLease { client: usize },

    // Steps that users and faults may take.
    Claim { waiter: usize },
    Release { waiter: usize },
    GiveUp { waiter: usize },
    CutOff { client: usize },
    EndLease { client: usize },
    Expire { client: usize },
}

impl Checked for Queue {}

impl Model for Queue {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.bounds)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.due(world, actions);
        self.optional(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Claim { waiter } | Action::Enter { waiter } => next.enter(waiter),
            Action::Look { waiter } => next.look(waiter, self),
            Action::SetWatch { waiter } => next.set_watch(waiter, self),
            Action::Wake { waiter } => next.wake(waiter, self),
            Action::Grant { waiter } => next.grant(waiter),
            Action::Search { waiter } => next.search(waiter),
            Action::Release { waiter } => next.waiters[waiter].leave(Phase::Released),
            Action::GiveUp { waiter } => next.give_up(waiter),
            Action::Delete(name) => next.delete(name),
            Action::Apply(name) => next.apply(name),
            Action::Lose(name) => next.lose(name),
            Action::CutOff { client } => next.cut_off(client),
            Action::Cut { client } => next.cut(client, self),
            Action::Resume { client } => next.resume(client, self),
            Action::RenewLease { client } => next.sessions[client].lease = true,
            Action::EndLease { client } => next.end_lease(client, self),
            Action::Expire { client } => next.expire(client),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Queue>> {
        properties::all(self)
    }
}

impl Queue {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// Steps that must happen in the end if no other does.
    fn due(&self, world: &World, actions: &mut Vec<Action>) {
        for (number, waiter) in world.waiters.iter().enumerate() {
            actions.extend(self.next_of_waiter(world, number));
            if world.session(waiter).link == Link::Alive {
                let searches = world.may_search(waiter, self);
                actions.extend(searches.then_some(Action::Search { waiter: number }));
                actions.extend(waiter.to_delete.iter().copied().map(Action::Delete));
            }
        }
        for &name in &world.in_flight {
            actions.push(Action::Apply(name));
            actions.extend(world.may_lose(name).then_some(Action::Lose(name)));
        }
        for (client, session) in world.sessions.iter().enumerate() {
            match session.link {
                Link::CutOff => actions.push(Action::Cut { client }),
                Link::Away => actions.push(Action::Resume { client }),
                Link::Alive if !session.lease => actions.push(Action::RenewLease { client }),
                Link::Alive => {}
            }
        }
    }

    /// A waiter takes one step after the other. On a cut-off connection it may still act on what it learned
    /// before.
    fn next_of_waiter(&self, world: &World, number: usize) -> Option<Action> {
        let waiter = &world.waiters[number];
        let session = world.session(waiter);
        if waiter.phase != Phase::Waiting || session.link == Link::Away {
            return None;
        }
        match waiter.step {
            Step::First if session.lease || self.is(Broken::GrantedWithoutLease) => {
                Some(Action::Grant { waiter: number })
            }
            _ if session.link == Link::CutOff => None,
            Step::Out => Some(Action::Enter { waiter: number }),
            Step::Entering if !world.has_node(waiter) => None,
            Step::Entering | Step::Unsure | Step::Placed => Some(Action::Look { waiter: number }),
            Step::SettingWatch(_) => Some(Action::SetWatch { waiter: number }),
            Step::Woken(_) => Some(Action::Wake { waiter: number }),
            Step::First | Step::Watching(_) => None,
        }
    }

    /// A client with nothing at stake meets no faults, which would only use up the bounds.
    fn optional(&self, world: &World, actions: &mut Vec<Action>) {
        for (number, waiter) in world.waiters.iter().enumerate() {
            let alive = world.session(waiter).link == Link::Alive;
            actions.extend(match waiter.phase {
                Phase::Idle if alive => Some(Action::Claim { waiter: number }),
                Phase::Waiting if world.left.give_ups > 0 => {
                    Some(Action::GiveUp { waiter: number })
                }
                Phase::Held => Some(Action::Release { waiter: number }),
                _ => None,
            });
        }
        for client in 0..world.sessions.len() {
            actions.extend(self.fault(world, client).filter(|_| world.is_at_stake(client)));
        }
    }

    /// First the leader stops hearing of a client, then its lease ends, and then its session may.
    fn fault(&self, world: &World, client: usize) -> Option<Action> {
        let session = world.sessions[client];
        match session.link {
            Link::Alive => (world.left.cuts > 0).then_some(Action::CutOff { client }),
            _ if session.lease => Some(Action::EndLease { client }),
            _ if session.expired => None,
            _ => (world.left.expiries > 0).then_some(Action::Expire { client }),
        }
    }
}
