//! The model of the lease: one client holds, and asks its server for what it likes, whenever it
//! likes. The next in the queue is granted in the instant in which the holder's node is gone.
//!
//! Nothing bounds it: only the ages of things matter, and none is older than the session timeout.

use stateright::{Model, Property};

use super::check::Checked;

pub(crate) const ONE_HOLDER: &str = "never two holders";

/// A rule that is broken on purpose, to see that it is needed and that the check would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A resume renews the lease as it is, without a write that is answered after it. It was at a
    /// deposed leader; the one that the quorum follows expires the session.
    ResumeCertifies,
    /// Whatever is answered certifies, not only writes.
    ReadsCertify,
    /// What was answered just before the write was sent counts, too. The follower was cut off
    /// before it reported it.
    NoQuarter,
    /// What counts is chosen when the write has been answered, not when it is sent.
    ChosenLate,
    /// A sign of life counts from its answer, not from its sending.
    CountedFromAnswer,
    /// A lease that is renewed after it ran out brings the hold back, whose node has been deleted.
    HoldComesBack,
}

/// What is being checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    pub(crate) broken: Option<Broken>,
}

/// How long ago something was, in steps of the clock, at most `T`.
type Age = u8;

/// The session timeout. A step of the clock is a quarter of it, and half a tick of the servers,
/// which give no timeout under two ticks. (Where reports take a whole tick, behind an
/// `ObserverMaster`, the timeout has to be four.) Within a step everything may come in any order.
const T: Age = 4;

/// The server that the client is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Server {
    /// It follows the leader of the quorum, which alone expires sessions.
    Following,
    /// It has lost that leader and does not know it: it answers reads, and takes nobody in.
    CutOff,
    /// It is, or follows, a leader that was deposed and does not know it: it takes sessions in.
    Deposed,
}

/// A request that was answered, as a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sample {
    sent: Age,
    /// Would a write that is sent now certify it? T/4 must lie between, and so a report.
    settled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Request {
    sent: Age,
    write: bool,
    /// When the sample was sent that the answer certifies.
    certifies: Option<Age>,
    /// The server, and for a write the quorum, has done it. The answer is under way.
    done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// When the newest certified sign of life was sent. The lease runs until that is `T` ago.
    certified: Age,
    /// The hold is over, for ever.
    lost: bool,
    /// When the ConnectRequest was sent that has no answer yet.
    asked: Option<Age>,
    server: Option<Server>,
    sample: Option<Sample>,
    request: Option<Request>,
    /// The server has heard of the client since it last reported to its leader.
    unreported: bool,
    /// When the leader of the quorum last heard of the session. It may expire it when that is `T`
    /// ago. A new leader begins anew, which only gives more time.
    heard: Age,
    session: bool,
    /// Is the node of the hold there?
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
    /// The answer may serve as a sample, or not: which ones do is the client's choice.
    Answer {
        sample: bool,
    },
    /// The client deletes the node of a hold that it has lost.
    Delete,
}

impl Checked for Lease {}

impl Model for Lease {
    type State = World;
    type Action = Action;

    /// A session has just been made, which the quorum took part in, and its client holds.
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

/// What must be seen in some state, so that what is true in every one means something.
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
        // The lease could not be longer.
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
    /// Does the client believe that it holds?
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

    /// What is certified stays. The sample goes: the next ConnectRequest will be newer than it is.
    fn cut(&mut self) {
        (self.asked, self.server) = (None, None);
        (self.sample, self.request, self.unreported) = (None, None, false);
    }

    /// The ConnectRequest is answered. A follower asks its leader first, which thereby hears of the
    /// session: no report is to be waited for, so that the sample is settled at once.
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

    /// When the sample was sent, if it is settled.
    fn settled(&self) -> Option<Age> {
        self.sample.filter(|sample| sample.settled).map(|sample| sample.sent)
    }

    /// The server hears of the client. Its leader does not, though it does the write.
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
