//! The steps from one state to the next: which are possible, and which of them must happen.

use stateright::{Model, Property};

use super::names::{CLIENTS, CONNECTIONS, Name, Names};
use super::properties;
use super::rules::Protocol;
use super::world::{Link, Phase, Step, World};

/// Seats, clients and connections by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    // What clients and servers do by themselves, sooner or later.
    Enter { seat: usize },
    LookUp { seat: usize },
    Look { seat: usize },
    Grant { seat: usize },
    BeginMove { seat: usize },
    AskForOld { seat: usize },
    ConcludeMove { seat: usize },
    Apply(Name),
    Delete(Name),
    EndLease { client: usize, connection: usize },
    Close { client: usize, connection: usize },
    Expire { client: usize, connection: usize },

    // What users and faults may do, or not.
    Claim { seat: usize },
    Release { seat: usize },
    GiveUp { seat: usize },
    Connect { client: usize, connection: usize },
    Die { client: usize, connection: usize },
    RemoveDirectory,
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.bounds)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.due(world, actions);
        self.optional(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.perform(action, self);
        next.settle();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        properties::all(self)
    }
}

impl Protocol {
    /// What must happen in the end, if nothing else does.
    pub(crate) fn due(&self, world: &World, actions: &mut Vec<Action>) {
        for seat in 0..self.bounds.seats.len() {
            actions.extend(self.next_of_seat(world, seat));
        }
        actions.extend(world.server.in_flight.iter().map(Action::Apply));
        let garbage = world.garbage.and(world.server.nodes);
        actions.extend(garbage.iter().map(Action::Delete));
        for client in 0..CLIENTS {
            for connection in 0..CONNECTIONS {
                self.ends_of_session(world, client, connection, actions);
            }
        }
    }

    /// A seat does one thing after the other, and everything on the live connection.
    fn next_of_seat(&self, world: &World, seat: usize) -> Option<Action> {
        let connection = world.live_for(seat)?;
        let waiting = match world.seats[seat].phase {
            Phase::Idle | Phase::Lost | Phase::Released => return None,
            Phase::Waiting => true,
            Phase::Held => false,
        };
        if world.may_move(seat, connection) {
            return Some(Action::BeginMove { seat });
        }
        match world.seats[seat].step {
            Step::Moving if world.may_ask(seat) => Some(Action::AskForOld { seat }),
            Step::Asked { .. } => Some(Action::ConcludeMove { seat }),
            Step::Rest if waiting => Some(Action::Enter { seat }),
            Step::Unsure => Some(Action::LookUp { seat }),
            Step::First => Some(Action::Grant { seat }),
            _ if world.may_look(seat) => Some(Action::Look { seat }),
            _ => None,
        }
    }

    fn ends_of_session(
        &self,
        world: &World,
        client: usize,
        connection: usize,
        actions: &mut Vec<Action>,
    ) {
        if world.links[client][connection] == Link::Suspended {
            actions.push(Action::EndLease { client, connection });
        }
        if world.may_close(client, connection, self) {
            actions.push(Action::Close { client, connection });
        }
        if world.may_expire(client, connection, self) {
            actions.push(Action::Expire { client, connection });
        }
    }

    fn optional(&self, world: &World, actions: &mut Vec<Action>) {
        for seat in 0..self.bounds.seats.len() {
            let connected = world.live_for(seat).is_some();
            match world.seats[seat].phase {
                Phase::Idle if connected => actions.push(Action::Claim { seat }),
                Phase::Waiting if world.left.give_ups > 0 => actions.push(Action::GiveUp { seat }),
                Phase::Held => actions.push(Action::Release { seat }),
                _ => {}
            }
        }
        for client in 0..CLIENTS {
            actions.extend(self.change_of_connection(world, client));
        }
        let server = &world.server;
        if world.left.removals > 0 && server.directory && server.nodes.is_empty() {
            actions.push(Action::RemoveDirectory);
        }
    }

    /// A client with nothing at stake neither loses its connection nor opens one: that would only
    /// spend the bounds.
    fn change_of_connection(&self, world: &World, client: usize) -> Option<Action> {
        if let Some(connection) = world.live(client) {
            let at_stake =
                world.is_used(client) || !world.of_session(client, connection).is_empty();
            return at_stake.then_some(Action::Die { client, connection });
        }
        let each = self.bounds.sessions_each;
        let unopened = world.links[client].iter().take(each);
        let connection = unopened.clone().position(|&link| link == Link::Unopened)?;
        (world.left.sessions > 0 && world.is_wanted(client))
            .then_some(Action::Connect { client, connection })
    }
}

impl World {
    /// Does anybody wait or hold with this client?
    fn is_used(&self, client: usize) -> bool {
        self.has_seat(client, |phase| matches!(phase, Phase::Waiting | Phase::Held))
    }

    /// Would a connection of this client be of any use?
    fn is_wanted(&self, client: usize) -> bool {
        let garbage = |seat| !self.garbage.and(Names::of_seat(seat)).is_empty();
        self.is_used(client)
            || self.has_seat(client, |phase| phase == Phase::Idle)
            || self.seats_of(client).any(garbage)
    }

    fn has_seat(&self, client: usize, is: impl Fn(Phase) -> bool) -> bool {
        self.seats_of(client).any(|seat| is(self.seats[seat].phase))
    }

    fn perform(&mut self, action: Action, protocol: &Protocol) {
        match action {
            Action::Claim { seat } | Action::Enter { seat } => self.enter(seat),
            Action::LookUp { seat } => self.look_up(seat, protocol),
            Action::Look { seat } => self.look(seat, protocol),
            Action::Grant { seat } => self.grant(seat),
            Action::BeginMove { seat } => self.begin_move(seat, protocol),
            Action::AskForOld { seat } => self.ask(seat, protocol),
            Action::ConcludeMove { seat } => self.conclude(seat, protocol),
            Action::Apply(name) => self.apply(name),
            Action::Delete(name) => self.delete(name),
            Action::EndLease { client, connection } => self.end_lease(client, connection, protocol),
            Action::Close { client, connection } => self.close(client, connection),
            Action::Expire { client, connection } => self.expire(client, connection),
            Action::Release { seat } => self.end_seat(seat, Phase::Released, protocol),
            Action::GiveUp { seat } => {
                self.left.give_ups -= 1;
                self.end_seat(seat, Phase::Released, protocol);
            }
            Action::Connect { client, connection } => self.connect(client, connection),
            Action::Die { client, connection } => self.die(client, connection, protocol),
            Action::RemoveDirectory => self.remove_directory(),
        }
    }
}
