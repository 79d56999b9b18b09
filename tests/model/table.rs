//! A model of the table of nodes: the library's own `Table`, calls that create nodes in one directory, and a server.
//! Calls may end at any time, connections may break, and a server that was paused executes creates late.
//!
//! Each connection keeps an order: the server executes its requests in order, and the client receives the answers in
//! that order. If it breaks, requests without an answer are lost, but their creates may still be executed: the server
//! of the broken connection may do so until a session timeout after the first answer on a later connection.
//!
//! Checked in each state: the table has an entry for each node that exists or may still appear; a node that a call owns
//! is not deleted, and no node is deleted twice; and if all calls ended now and no more faults occurred, no node and no
//! entry would be left in the end, except for nodes that the server refuses to delete.

use std::collections::{BTreeMap, BTreeSet};

use stateright::{Model, Property};

use super::check::Checked;
use super::nodes::{Key, Look, Table, Unanswered};

pub(crate) const ENTERED: &str = "each node that exists or may appear has an entry";
pub(crate) const OWNED: &str = "nothing is deleted that a call has, and nothing twice";
pub(crate) const CLEAN: &str = "in the end nothing is left";

/// The session timeout.
const T: u8 = 2;
/// The directory of all nodes.
const PLACE: u8 = 0;
/// Room for more nodes than there can be.
const ROOM: usize = 8;

/// A rule that the callers of the table follow, broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A create without an answer counts as refused.
    LossIsRefusal,
    /// A failed list counts as a list without nodes.
    FailureShowsNothing,
    /// A list counts for the connection on which its answer arrives, although the previous connection broke in between.
    LookMovesAlong,
    /// The last list is sent without `sync`, so a follower that lags may answer it.
    LastLookIsOld,
    /// The client does not list again when the time for late creates is over.
    TimeIgnored,
    /// When a call gives up its creates, it does not report them.
    KeptToItself,
}

/// The bounds, which make the graph of states finite.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nodes {
    pub(crate) calls: usize,
    pub(crate) cuts: u8,
    pub(crate) ticks: u8,
    /// How many creates, lists and deletions the server refuses.
    pub(crate) refusals: u8,
    pub(crate) broken: Option<Broken>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    table: Table<u8, u8>,
    now: u8,
    connection: u64,
    refusals: u8,
    is_look_refused: bool,
    calls: Vec<Call>,
    /// A list that has begun, and is about to be sent.
    begun: Option<Look<u8>>,
    requests: Vec<Request>,
    answers: Vec<Answer>,
    /// Creates that the server of an earlier connection may still execute, and the time until which it may.
    late: BTreeMap<usize, Option<u8>>,
    nodes: BTreeSet<usize>,
    /// The nodes that a lagging follower may show.
    before: BTreeSet<usize>,
    deleting: BTreeMap<usize, Key>,
    stuck: BTreeSet<usize>,
    is_wrong: bool,
}

/// The state of a call and its create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Call {
    Idle,
    /// The create is in the table, and about to be sent.
    Entered(Key, u64),
    Sent(Key, u64),
    /// The create has received no answer, and the call continues.
    Unanswered(Key),
    Owns(Key),
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Request {
    Create(usize),
    /// A list that a call sends.
    List(usize),
    /// A list that the table sends. The last one for an orphan shows the state of the leader.
    Look {
        is_last: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Answer {
    Created(usize),
    NotCreated(usize),
    Listed(usize, BTreeSet<usize>),
    Looked(BTreeSet<usize>),
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Enter(usize),
    Send(usize),
    List(usize),
    /// The call gives up, or releases its node.
    End(usize),
    SendLook,
    Serve,
    Refuse,
    Answer,
    CarryOutLate(usize),
    Delete(usize),
    RefuseDelete(usize),
    /// Another client deletes a node that could not be deleted, and a later list shows that the node is gone.
    Unstick(usize),
    Cut,
    /// The session ends.
    Expire,
    Tick,
}

impl Checked for Nodes {}

impl World {
    fn look_for(&mut self, is_wanted: impl Fn(&u8, u8) -> bool) {
        let looks = self.table.look_for(self.now, is_wanted);
        looks.into_iter().for_each(|(_, look)| self.begin(look));
    }

    fn begin(&mut self, look: Look<u8>) {
        self.is_wrong |= self.is_looking();
        self.begun = Some(look);
    }

    fn send_look(&mut self) {
        let look = self.begun.take().expect("a look");
        self.requests.push(Request::Look { is_last: look.is_last });
    }

    fn looked(&mut self, shown: Option<&BTreeSet<usize>>, is_answered: bool, connection: u64) {
        let shows = |id: &str| shown?.get(&id.parse().expect("a number")).copied();
        let shows = shown.is_some().then_some(shows);
        let times = [self.now, self.now + T];
        let (found, next) = self.table.looked(&PLACE, shows, is_answered, connection, times);
        for (key, call) in found {
            self.is_wrong |= self.calls[call] != Call::Over;
            self.is_wrong |= self.deleting.insert(call, key).is_some();
            self.is_wrong |=
                self.table.delete(key).is_some() || self.table.unanswered(key).is_some();
        }
        next.into_iter().for_each(|look| self.begin(look));
    }

    fn lost(&self, call: usize, sent_on: u64) -> Unanswered<u8> {
        Unanswered { id: call.to_string(), epoch: Some(sent_on), until: self.now + T }
    }

    fn end(&mut self, call: usize, broken: Option<Broken>) {
        match self.calls[call] {
            Call::Entered(key, _) => self.table.gone(key),
            Call::Sent(key, _) if broken == Some(Broken::LossIsRefusal) => self.table.gone(key),
            Call::Sent(key, sent_on) => {
                self.table.no_answer(key, self.lost(call, sent_on));
                self.give_up(key, broken);
                let waits = self.table.has_orphan_of(self.connection);
                self.is_wrong |= sent_on == self.connection && !waits && broken.is_none();
            }
            Call::Unanswered(key) => self.give_up(key, broken),
            Call::Owns(key) => {
                self.is_wrong |= self.table.delete(key).is_none();
                self.is_wrong |= self.table.delete(key).is_some();
                self.deleting.insert(call, key);
            }
            Call::Idle | Call::Over => {}
        }
        self.calls[call] = Call::Over;
    }

    fn give_up(&mut self, key: Key, broken: Option<Broken>) {
        if broken != Some(Broken::KeptToItself) && self.table.give_up(key).is_some() {
            self.look_for(|_, _| true);
        }
    }

    fn serve(&mut self, broken: Option<Broken>) {
        let answer = match self.requests.remove(0) {
            Request::Create(call) => {
                self.nodes.insert(call);
                // A client always reads the nodes that it has created.
                self.before.insert(call);
                Answer::Created(call)
            }
            Request::List(call) => Answer::Listed(call, self.before.clone()),
            Request::Look { is_last } => {
                if is_last && broken != Some(Broken::LastLookIsOld) {
                    self.before.clone_from(&self.nodes);
                }
                Answer::Looked(self.before.clone())
            }
        };
        self.answers.push(answer);
    }

    fn answer(&mut self, broken: Option<Broken>) {
        self.late.values_mut().for_each(|until| *until = until.or(Some(self.now + T)));
        match self.answers.remove(0) {
            Answer::Created(call) => {
                if let Call::Sent(key, _) = self.calls[call] {
                    self.calls[call] = Call::Owns(key);
                }
            }
            Answer::NotCreated(call) => {
                if let Call::Sent(key, _) = self.calls[call] {
                    self.table.gone(key);
                    self.calls[call] = Call::Over;
                }
            }
            Answer::Listed(call, shown) => {
                let Call::Unanswered(key) = self.calls[call] else { return };
                if shown.contains(&call) {
                    self.table.found(key);
                    self.calls[call] = Call::Owns(key);
                } else if self.table.unanswered(key).is_some_and(|lost| lost.until <= self.now) {
                    self.end(call, broken);
                }
            }
            Answer::Looked(shown) => self.looked(Some(&shown), true, self.connection),
            Answer::Refused => {
                let nothing = BTreeSet::new();
                let fails = broken == Some(Broken::FailureShowsNothing);
                self.looked(fails.then_some(&nothing), true, self.connection);
            }
        }
    }

    fn cut(&mut self, broken: Option<Broken>) {
        let before = self.connection;
        self.connection += 1;
        let is_looking = self.is_looking() && self.begun.is_none();
        for request in self.requests.drain(..) {
            if let Request::Create(call) = request {
                self.late.insert(call, None);
            }
        }
        self.answers.clear();
        for call in 0..self.calls.len() {
            if let Call::Sent(key, sent_on) = self.calls[call] {
                self.table.no_answer(key, self.lost(call, sent_on));
                self.calls[call] = Call::Unanswered(key);
            }
        }
        if is_looking {
            let moves = broken == Some(Broken::LookMovesAlong);
            let nothing = BTreeSet::new();
            self.looked(moves.then_some(&nothing), moves, before);
        }
        self.look_for(|_, _| true);
    }

    fn is_listing(&self, call: usize) -> bool {
        let listed = |answer: &Answer| matches!(answer, Answer::Listed(of, _) if *of == call);
        self.requests.contains(&Request::List(call)) || self.answers.iter().any(listed)
    }

    fn is_looking(&self) -> bool {
        let looks = |request: &Request| matches!(request, Request::Look { .. });
        let looked = |answer: &Answer| matches!(answer, Answer::Looked(_) | Answer::Refused);
        self.begun.is_some() || self.requests.iter().any(looks) || self.answers.iter().any(looked)
    }

    fn tick(&mut self, broken: Option<Broken>) {
        self.now += 1;
        let now = self.now;
        self.late.retain(|_, until| until.is_none_or(|until| now < until));
        let is_due = self.table.due().is_some_and(|due| due <= now);
        if is_due && broken != Some(Broken::TimeIgnored) {
            self.look_for(|_, due| due <= now);
        }
    }

    fn expire(&mut self) {
        self.table.forget(|place| *place == PLACE);
        self.is_wrong |= self.entries() > 0;
        self.calls.fill(Call::Over);
        (self.begun, self.requests, self.answers) = (None, Vec::new(), Vec::new());
        self.late.clear();
        self.nodes.clear();
        self.before.clear();
        self.deleting.clear();
        self.stuck.clear();
    }

    fn delete(&mut self, call: usize) {
        let key = self.deleting.remove(&call).expect("a deletion");
        self.nodes.remove(&call);
        self.before.remove(&call);
        self.table.gone(key);
    }

    /// Returns how many nodes exist or may appear.
    fn possible(&self) -> usize {
        let mut possible = self.nodes.clone();
        possible.extend(self.late.keys());
        possible.extend(self.requests.iter().filter_map(|request| match request {
            Request::Create(call) => Some(*call),
            _ => None,
        }));
        possible.len()
    }

    fn entries(&self) -> usize {
        let mut table = self.table.clone();
        let room = std::iter::from_fn(|| table.enter(&PLACE, 1, 1)).count();
        ROOM - room
    }

    /// Returns whether nothing is left if all calls end and nothing fails. `late` states whether late creates are
    /// carried out.
    fn ends_clean(&self, broken: Option<Broken>, late: bool) -> bool {
        let mut world = self.clone();
        (0..world.calls.len()).for_each(|call| world.end(call, broken));
        let appears = world.late.keys().copied().filter(|_| late).collect::<Vec<_>>();
        world.nodes.extend(appears);
        world.late.clear();
        for time in 0..4 * T {
            while world.is_looking() || !world.requests.is_empty() || !world.answers.is_empty() {
                match (world.begun, world.answers.is_empty()) {
                    (Some(_), _) => world.send_look(),
                    (None, true) => world.serve(broken),
                    (None, false) => world.answer(broken),
                }
            }
            // Deletions may need time only if a connection broke or a list was refused earlier.
            if time == 0 && !self.is_look_refused {
                let waits = world.table.has_orphan_of(self.connection);
                if waits || self.connection == 0 && world.table.leaving() > world.deleting.len() {
                    return false;
                }
            }
            let deleting: Vec<_> = world.deleting.keys().copied().collect();
            deleting.into_iter().for_each(|call| world.delete(call));
            world.tick(broken);
        }
        world.table.leaving() == 0
            && world.entries() == world.stuck.len()
            && world.nodes == world.stuck
    }
}

impl Model for Nodes {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            table: Table::new(ROOM),
            now: 0,
            connection: 0,
            refusals: 0,
            is_look_refused: false,
            calls: vec![Call::Idle; self.calls],
            begun: None,
            requests: Vec::new(),
            answers: Vec::new(),
            late: BTreeMap::new(),
            nodes: BTreeSet::new(),
            before: BTreeSet::new(),
            deleting: BTreeMap::new(),
            stuck: BTreeSet::new(),
            is_wrong: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (call, state) in world.calls.iter().enumerate() {
            match state {
                Call::Idle if !world.table.has_orphan_of(world.connection) => {
                    actions.push(Action::Enter(call));
                }
                Call::Idle | Call::Over => {}
                Call::Entered(..) => actions.extend([Action::Send(call), Action::End(call)]),
                Call::Unanswered(_) if !world.is_listing(call) => {
                    actions.extend([Action::List(call), Action::End(call)]);
                }
                _ => actions.push(Action::End(call)),
            }
        }
        actions.extend(world.begun.map(|_| Action::SendLook));
        let may_refuse = world.refusals < self.refusals;
        if let Some(request) = world.requests.first() {
            actions.push(Action::Serve);
            let is_list = matches!(request, Request::List(_));
            actions.extend((may_refuse && !is_list).then_some(Action::Refuse));
        }
        actions.extend((!world.answers.is_empty()).then_some(Action::Answer));
        actions.extend(world.late.keys().map(|call| Action::CarryOutLate(*call)));
        for call in world.deleting.keys() {
            actions.push(Action::Delete(*call));
            actions.extend(may_refuse.then_some(Action::RefuseDelete(*call)));
        }
        actions.extend(world.stuck.iter().map(|call| Action::Unstick(*call)));
        actions.extend((world.connection < self.cuts.into()).then_some(Action::Cut));
        let is_any = world.calls.iter().any(|call| *call != Call::Over);
        actions.extend(is_any.then_some(Action::Expire));
        actions.extend((world.now < self.ticks).then_some(Action::Tick));
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        match action {
            Action::Enter(call) => {
                let key = world.table.enter(&PLACE, 1, 1)?.start;
                world.calls[call] = Call::Entered(key, world.connection);
            }
            Action::Send(call) => {
                let Call::Entered(key, sent_on) = world.calls[call] else { return None };
                world.calls[call] = Call::Sent(key, sent_on);
                world.requests.push(Request::Create(call));
            }
            Action::List(call) => world.requests.push(Request::List(call)),
            Action::End(call) => world.end(call, self.broken),
            Action::SendLook => world.send_look(),
            Action::Serve => world.serve(self.broken),
            Action::Refuse => {
                world.refusals += 1;
                let refused = world.requests.remove(0);
                world.is_look_refused |= !matches!(refused, Request::Create(_));
                world.answers.push(match refused {
                    Request::Create(call) => Answer::NotCreated(call),
                    Request::List(_) | Request::Look { .. } => Answer::Refused,
                });
            }
            Action::Answer => world.answer(self.broken),
            Action::CarryOutLate(call) => {
                world.late.remove(&call);
                world.nodes.insert(call);
            }
            Action::Delete(call) => world.delete(call),
            Action::RefuseDelete(call) => {
                world.refusals += 1;
                let key = world.deleting.remove(&call)?;
                world.is_wrong |= !world.table.stays(key, &call.to_string());
                world.stuck.insert(call);
                world.is_wrong |= world.table.stuck(&PLACE).count() != world.stuck.len();
            }
            Action::Unstick(call) => {
                world.stuck.remove(&call);
                world.nodes.remove(&call);
                world.before.remove(&call);
                world.table.no_longer_stays(&PLACE, &call.to_string());
            }
            Action::Cut => world.cut(self.broken),
            Action::Expire => world.expire(),
            Action::Tick => world.tick(self.broken),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ENTERED, |_, world: &World| world.entries() >= world.possible()),
            Property::always(OWNED, |_, world: &World| !world.is_wrong),
            Property::always(CLEAN, |nodes: &Nodes, world: &World| {
                [false, true].into_iter().all(|late| world.ends_clean(nodes.broken, late))
            }),
        ]
    }
}
