//! The model of the lease. One client holds, and sends any requests at any time. The next in the queue is
//! granted at the instant when the holder's node is deleted.
//!
//! It needs no bounds: only ages matter, and none exceeds the session timeout.

use stateright::{Model, Property};

use super::check::Checked;

pub(crate) const ONE_HOLDER: &str = "never two holders";

/// A rule broken on purpose, to prove that it is needed and that the check would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A resume renews the lease by itself, without a write answered after it. The resume was at a deposed
    /// leader, and the quorum's leader expires the session.
    ResumeCertifies,
    /// Every answer certifies, not only that of a write.
    ReadsCertify,
    /// A sample answered just before the write was sent counts too. Its follower was cut off before it
    /// reported the session.
    NoQuarter,
    /// The certified sample is chosen at the answer of the write, not at its sending.
    ChosenLate,
    /// A sample counts from its answer, not from its sending.
    CountedFromAnswer,
    /// A lease renewed after its end brings the hold back, whose node has been deleted.
    HoldComesBack,
}

/// The subject of the check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    pub(crate) broken: Option<Broken>,
}

/// An age in steps of the clock, at most `T`.
type Age = u8;

/// The session timeout. A step of the clock is a quarter of it, and half a tick of the servers, which give no
/// timeout under two ticks. (Behind an `ObserverMaster`, where reports take a whole tick, the timeout must be
/// four.) Within a step events come in any order.
const T: Age = 4;

/// The client's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Server {
    /// It follows the quorum's leader, which alone expires sessions.
    Following,
    /// It has lost that leader without knowing: it answers reads, and accepts no session.
    CutOff,
    /// It is or follows a deposed leader without knowing: it accepts sessions.
    Deposed,
}

/// An answered request that serves as a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sample {
    sent: Age,
    /// Whether a write sent now would certify it. A quarter of T must lie between, and so a report.
    settled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Request {
    sent: Age,
    write: bool,
    /// The sending time of the sample that the answer certifies.
    certifies: Option<Age>,
    /// The server, and for a write the quorum, has done it. The answer is under way.
    done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// The sending time of the newest certified sample. The lease ends `T` after it.
    certified: Age,
    /// Whether the hold has ended for good.
    lost: bool,
    /// The sending time of the unanswered ConnectRequest.
    asked: Option<Age>,
    server: Option<Server>,
    sample: Option<Sample>,
    request: Option<Request>,
    /// Whether the server has heard of the client since its last report to its leader.
    unreported: bool,
    /// The time when the quorum's leader last heard of the session. It may expire the session `T` later. A
    /// new leader starts again, which only gives more time.
    heard: Age,
    session: bool,
    /// Whether the hold's node exists.
    node: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    Expire,
    CutOff,
    Cut,
    Connect,
    Resume(Server),
    Read,
    Write,
    Done,
    /// The client chooses which answers serve as samples.
    Answer {
        sample: bool,
    },
    /// The client deletes the node of a lost hold.
    Delete,
}

impl Checked for Lease {}

impl Model for Lease {
    type State = World;
    type Action = Action;

    /// The quorum has just created a session, and its client holds.
    fn init_states(&self) -> Vec<World> {
        vec![World {
            certified: 0,
            lost: false,
            asked: None,
            server: Some(Server::Following),
            sample: None,
            request: None,
            unreported: false,
            heard: 0,
            session: true,
            node: true,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let led = world.server == Some(Server::Following);
        actions.push(Action::Tick);
        actions.extend((world.session && world.heard == T).then_some(Action::Expire));
        actions.extend(led.then_some(Action::CutOff));
        actions.extend((led && world.node && !world.believes()).then_some(Action::Delete));
        actions.push(match (world.server, world.asked) {
            (None, None) => Action::Connect,
            _ => Action::Cut,
        });
        if world.asked.is_some() {
            actions.extend([Server::Following, Server::Deposed].map(Action::Resume));
        }
        match world.request {
            None if world.server.is_some() => actions.extend([Action::Read, Action::Write]),
            None => {}
            Some(Request { done: true, .. }) => {
                actions.extend([true, false].map(|sample| Action::Answer { sample }));
            }
            Some(Request { write, .. }) => {
                actions.extend((!write || led && world.session).then_some(Action::Done));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = *world;
        match action {
            Action::Tick => next.tick(self),
            Action::Expire => (next.session, next.node) = (false, false),
            Action::CutOff => next.server = Some(Server::CutOff),
            Action::Cut => next.cut(),
            Action::Connect => next.asked = Some(0),
            Action::Resume(server) => next.resume(server, self),
            Action::Read => next.send(false, self),
            Action::Write => next.send(true, self),
            Action::Done => next.done(),
            Action::Answer { sample } => next.answer(sample, self),
            Action::Delete => next.node = false,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Lease>> {
        let one_holder = |_: &Lease, world: &World| world.node || !world.believes();
        let mut all = vec![Property::always(ONE_HOLDER, one_holder)];
        if self.broken.is_none() {
            all.extend(sightings());
        }
        all
    }
}

/// Each must occur in some state, so that the properties of all states mean something.
fn sightings() -> [Property<Lease>; 5] {
    [
        Property::sometimes("a hold is resumed at a deposed leader", |_, world: &World| {
            world.believes() && world.server == Some(Server::Deposed)
        }),
        Property::sometimes("the lease of a hold is about to be renewed", |_, world: &World| {
            let sent = world.request.filter(|request| request.done).and_then(|it| it.certifies);
            world.believes() && sent.is_some_and(|sent| sent < world.certified)
        }),
        Property::sometimes("a hold is lost, and its session is resumed", |_, world: &World| {
            world.lost && world.session && world.server == Some(Server::Following)
        }),
        Property::sometimes("the lease runs again, the hold is lost", |_, world: &World| {
            world.lost && world.certified < T
        }),
        // No lease could be longer.
        Property::sometimes("a hold ends with the patience of the leader", |_, world: &World| {
            world.believes() && world.certified == T - 1 && world.heard == T - 1
        }),
    ]
}

impl Lease {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }
}

impl World {
    /// Whether the client believes in its hold.
    fn believes(&self) -> bool {
        !self.lost && self.certified < T
    }

    /// A step of the clock. Followers report before it ends.
    fn tick(&mut self, protocol: &Lease) {
        if self.unreported && self.server == Some(Server::Following) {
            (self.heard, self.unreported) = (0, false);
        }
        let pass = |age: &mut Age| *age = T.min(*age + 1);
        [&mut self.certified, &mut self.heard].into_iter().chain(&mut self.asked).for_each(pass);
        if let Some(sample) = &mut self.sample {
            pass(&mut sample.sent);
            sample.settled = true;
        }
        if let Some(request) = &mut self.request {
            [&mut request.sent].into_iter().chain(&mut request.certifies).for_each(pass);
        }
        self.lost |= self.certified == T && !protocol.is(Broken::HoldComesBack);
    }

    /// The certified time stays. The sample goes: the next ConnectRequest will be newer.
    fn cut(&mut self) {
        (self.asked, self.server) = (None, None);
        (self.sample, self.request, self.unreported) = (None, None, false);
    }

    /// The ConnectRequest is answered. A follower asks its leader first, which so hears of the session. No
    /// report is due, and the sample is settled at once.
    fn resume(&mut self, server: Server, protocol: &Lease) {
        let Some(sent) = self.asked.take() else { return };
        if server == Server::Following {
            if !self.session {
                self.lost = true;
                return;
            }
            self.heard = 0;
        }
        self.server = Some(server);
        self.sample = Some(Sample { sent, settled: true });
        if protocol.is(Broken::ResumeCertifies) {
            self.certify(Some(sent));
        }
    }

    fn send(&mut self, write: bool, protocol: &Lease) {
        let certifies = self.settled().filter(|_| write || protocol.is(Broken::ReadsCertify));
        self.request = Some(Request { sent: 0, write, certifies, done: false });
    }

    /// The sending time of the sample, if it is settled.
    fn settled(&self) -> Option<Age> {
        self.sample.filter(|sample| sample.settled).map(|sample| sample.sent)
    }

    /// The server hears of the client. Its leader does not, though it applies the write.
    fn done(&mut self) {
        self.unreported = true;
        self.request.iter_mut().for_each(|request| request.done = true);
    }

    fn answer(&mut self, sample: bool, protocol: &Lease) {
        let Some(request) = self.request.take() else { return };
        let late = request.write && protocol.is(Broken::ChosenLate);
        self.certify(if late { self.settled() } else { request.certifies });
        if sample {
            let sent = if protocol.is(Broken::CountedFromAnswer) { 0 } else { request.sent };
            self.sample = Some(Sample { sent, settled: protocol.is(Broken::NoQuarter) });
        }
    }

    fn certify(&mut self, sample: Option<Age>) {
        self.certified = self.certified.min(sample.unwrap_or(T));
    }
}
