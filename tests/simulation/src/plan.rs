//! Draws the plan of a run from its seed: the steps of every thread, and the faults. A plan is data, so a run can be
//! repeated with some parts of the plan left out.

mod additions;
mod draw;
mod faults;
mod rare;
mod theme;

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

pub(crate) use draw::ms;
pub(crate) use faults::{Targets, draw_moves};
use kernel::thread;
pub(crate) use theme::Theme;

use crate::raw::RawPlan;

#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub(crate) theme: Theme,
    pub servers: usize,
    /// The shortest delay of a frame between client and server, one way; the longest is ten times as long.
    pub latency: Duration,
    /// Whether clients connect to the servers by name instead of by address.
    pub(crate) has_names: bool,
    /// Whether locks take no shortcuts.
    pub(crate) always_lists: bool,
    /// Directories where the next node gets this number, as if many nodes had been created there before.
    pub(crate) used: Option<(i32, Vec<Place>)>,
    pub clients: Vec<ClientPlan>,
    /// Programs without locks. Faults number them after the clients.
    pub(crate) raw: Vec<RawPlan>,
    pub faults: Vec<Fault>,
}

/// The servers' tick.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// A client on a machine of its own.
#[derive(Debug, Clone)]
pub struct ClientPlan {
    pub timeout: Duration,
    /// Whether the client has an observer, which calls the client.
    pub is_observed: bool,
    pub is_lazy: bool,
    pub objects: Vec<ObjectPlan>,
    pub threads: Vec<ThreadPlan>,
}

/// A thread of a client, or of a program without locks.
#[derive(Debug, Clone)]
pub struct ThreadPlan<W = What> {
    pub begins: Duration,
    pub steps: Vec<Step<W>>,
}

/// A lock object that the threads of a client share.
#[derive(Debug, Clone)]
pub struct ObjectPlan {
    pub kind: Kind,
    pub place: Place,
    pub options: Options,
}

/// The path of a lock. Places overlap: some lie below others, and some names resemble a contender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Exclusive,
    Reentrant,
    Read,
    Write,
    Single,
    Semaphore,
    Several,
    Leadership,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// The number of the identity. Several objects may have the same one.
    pub identity: Option<u8>,
    pub local_handoffs: u32,
    pub background_release: bool,
    pub hold_at_least: Option<Duration>,
    pub hold_at_most: Option<Duration>,
    pub margin: Option<Duration>,
}

#[derive(Debug, Clone)]
pub struct Step<W = What> {
    pub rest: Duration,
    pub what: W,
}

/// The next action of a thread; `client/steps.rs` carries it out. Apart from acquisitions, the thread queries locks
/// from outside, interferes as an operator, or does something unusual: `Close` closes twice at the same time.
#[derive(Debug, Clone)]
pub enum What {
    Lock(AcquisitionPlan),
    Contenders(Place),
    Revoke(Place),
    BreakLock(Place),
    CancelWaiters { object: usize },
    Acquisitions { object: usize, count: u32 },
    Narrow { object: usize, time: Duration },
    PathsBelow,
    Odd { object: usize, odd: Odd, time: Duration },
    Close,
}

#[derive(Debug, Clone)]
pub struct AcquisitionPlan {
    pub object: usize,
    /// Whether the call uses an object of its own, like the shared one with this number.
    pub is_fresh: bool,
    pub wait: Wait,
    pub permits: u32,
    pub while_held: Vec<Operation>,
    pub end: End,
}

/// Unusual actions, on locks of their own where needed.
#[derive(Debug, Clone, Copy)]
pub enum Odd {
    /// Unlocks a lock that the client does not hold.
    Unlock,
    /// Drops all handles of a held lock.
    DropHeld,
    /// Acquires many locks whose paths together exceed the quota; some may not be deletable.
    LongPaths { are_stuck: bool },
    /// Ends a leadership, and may wait until it has ended.
    Resign { waits: bool },
}

#[derive(Debug, Clone, Copy)]
pub enum Wait {
    Forever,
    Try,
    For(Duration),
    /// Like the first or the third, but without a connection for no longer than the second duration.
    Connected(Option<Duration>, Duration),
}

/// An operation while a lock is held; `client/operations.rs` carries it out. `Prolong` makes the hold last for this
/// time from now on, `UntilDue` works until its options end it, `Second` acquires a second object of the same lock,
/// alone or behind another thread, and `Expire` ends the session after this time.
#[derive(Debug, Clone)]
pub enum Operation {
    Work(Duration),
    Prolong(Duration),
    UntilDue,
    UntilAsked(Duration),
    EnterAgain(u32, Duration),
    ReadBelow,
    Also { object: usize, wait: Duration },
    Write,
    Verify,
    ReadAndWrite(Duration),
    WriteLate(Duration),
    Second { is_behind: bool },
    Expire(Duration),
}

#[derive(Debug, Clone, Copy)]
pub enum End {
    Unlock,
    Release,
    Drop,
    Panic,
    Downgrade,
}

/// A fault at a time, or at the `nth` matching frame that a client sends or receives.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    Frame { client: usize, is_up: bool, of: Of, nth: u32, what: FrameFault },
    At { when: Duration, what: FaultKind },
}

/// Requests of a kind, and their answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    Any,
    Create,
    Delete,
    Write,
    Read,
    List,
    Transaction,
    Event,
}

#[derive(Debug, Clone, Copy)]
pub enum FrameFault {
    CutBefore,
    /// The connection ends right after the frame: the result of a request remains unknown, or the next frame is lost.
    CutBehind,
    /// The connection ends before the frame arrives, and for this time, new connections are refused.
    Away(Duration),
    /// Only half of the frame arrives.
    Tear,
    Delay(Duration),
    /// The process is paused while it handles the frame.
    Freezes(Duration),
    /// Another client changes the request's node; the request arrives this long afterwards.
    Meets(Meddling, Duration),
}

/// How another client changes a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meddling {
    Asks,
    Deletes,
    /// Writes into the node's directory.
    Furnishes,
    /// Creates a node in the directory.
    Joins,
    /// Creates the directory.
    Makes,
}

/// A fault at a time; `world.rs` carries it out.
///
/// In the network, a `BlackHole` blocks frames in both directions without an error, `Deaf` does so in one direction,
/// `Useless` lets only handshakes pass, and `Full` sockets accept only part of what is sent. `Freeze` pauses all
/// threads of a client, `Stall` one thread, and `NoThreads` makes half of its attempts to start threads fail; a paused
/// `Sleep` also stops the time since boot. A frozen server keeps its connections, and one with a `Lag` applies the
/// others' transactions late. A server that moves leaves its address to a stranger. Operators delete the `nth` node
/// below a place, all of them (`Clear`), or those of a multi-lock as it is released (`Rob`); they revoke the right to
/// read nodes, so that their deletion is not reported (`Hide`), or to delete them (`Forbid`). Strangers create nodes
/// (`Plant`) and write into others.
#[derive(Debug, Clone, Copy)]
pub enum FaultKind {
    Cut { client: usize },
    BlackHole { client: usize, time: Duration },
    Deaf { client: usize, is_up: bool, time: Duration },
    Refuse { client: usize, time: Duration },
    Freeze { client: usize, time: Duration },
    Stall { client: usize, time: Duration },
    Sleep { client: usize, time: Duration, is_paused: bool },
    ClockStep { client: usize, milliseconds: i64 },
    Full { client: usize, time: Duration },
    NoThreads { client: usize, time: Duration },
    Useless { client: usize, time: Duration },
    Kill { client: usize },
    Expire { client: usize },
    Crash { server: usize, time: Duration },
    FreezeServer { server: usize, time: Duration },
    CutOffServer { server: usize, time: Duration },
    Lag { server: usize, time: Duration },
    Depose,
    Move { server: usize },
    NoName { server: usize, time: Duration, hangs: bool },
    Delete { place: Place, nth: usize },
    Clear { place: Place, pause: Duration },
    Rob,
    Hide { place: Place, nth: usize, time: Duration, is_deleted: bool },
    HideDirectory { place: Place, time: Duration },
    Forbid { place: Place, below: &'static str, time: Duration },
    Plant { place: Place, what: Plant, time: Duration },
    Scribble { place: Place, nth: usize, is_request: bool },
}

#[derive(Debug, Clone, Copy)]
pub enum Plant {
    /// A node as Curator's mutex creates it, which waits for no other.
    Exclusive,
    Write,
    /// A number above the last valid one.
    Past,
    /// A name that means nothing to locks.
    Foreign,
    /// A name that contains a contender's number but is not a contender's.
    Lookalike,
}

impl Place {
    /// The number of places that many acquisitions share. Each of the other places is used for few acquisitions.
    pub(crate) const SHARED: usize = 9;

    pub const ALL: [&'static str; 21] = [
        "/a",
        "/a/b",
        "/a/single",
        "/a/b/lease",
        "/q/12-0000000003x",
        "/q",
        "/q/n0000000001",
        "/q/n0000000002",
        "/q/n0000000003",
        "/o/0",
        "/o/1",
        "/o/2",
        "/o/3",
        "/o/4",
        "/o/5",
        "/o/6",
        "/o/7",
        "/o/8",
        "/o/9",
        "/o/10",
        "/o/11",
    ];

    pub fn path(self) -> &'static str {
        Place::ALL[self.0]
    }
}

impl Kind {
    pub(crate) const ALL: [Kind; 8] = {
        use Kind::{Exclusive, Leadership, Read, Reentrant, Semaphore, Several, Single, Write};
        [Exclusive, Reentrant, Read, Write, Single, Semaphore, Several, Leadership]
    };

    pub fn members(self) -> u32 {
        if self == Kind::Several { 3 } else { 1 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

impl Plan {
    /// Returns whether no fault causes the loss of a hold, unless a client is closed or the lock's release is
    /// requested.
    pub fn is_gentle(&self) -> bool {
        let is_gentle = |fault: &Fault| match fault {
            Fault::Frame { what, .. } => {
                matches!(what, FrameFault::CutBefore | FrameFault::CutBehind | FrameFault::Tear)
            }
            Fault::At { what, .. } => {
                matches!(what, FaultKind::Cut { .. } | FaultKind::Scribble { is_request: true, .. })
            }
        };
        self.theme == Theme::Gentle && self.faults.iter().all(is_gentle)
    }

    /// Returns whether no fault causes delays.
    pub(crate) fn is_well(&self) -> bool {
        let mut all = self.faults.iter();
        all.all(|fault| matches!(fault, Fault::At { what: FaultKind::Scribble { .. }, .. }))
    }

    /// Returns the longest session timeout of the clients with locks.
    pub fn timeout(&self) -> Duration {
        self.clients.iter().map(|client| client.timeout).max().unwrap_or_default()
    }

    pub(crate) fn timed_faults(&self) -> impl Iterator<Item = (Duration, FaultKind)> {
        self.faults.iter().filter_map(|fault| match *fault {
            Fault::At { when, what } => Some((when, what)),
            Fault::Frame { .. } => None,
        })
    }

    pub fn objects(&self) -> impl Iterator<Item = &ObjectPlan> {
        self.clients.iter().flat_map(|client| &client.objects)
    }

    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.objects().any(|object| object.kind == kind)
    }

    /// Returns whether a fault revokes the right to read a node, so that servers send no event for it.
    pub(crate) fn hides_something(&self) -> bool {
        self.meets(|what| matches!(what, FaultKind::Hide { .. } | FaultKind::HideDirectory { .. }))
    }

    /// Returns whether a server has a fault other than a lag.
    pub(crate) fn unsettles_servers(&self) -> bool {
        use FaultKind::{Crash, CutOffServer, Depose, FreezeServer};
        self.meets(|what| {
            matches!(what, Crash { .. } | FreezeServer { .. } | CutOffServer { .. } | Depose)
        })
    }

    /// Returns whether a server has a fault.
    pub(crate) fn disturbs_servers(&self) -> bool {
        self.unsettles_servers() || self.meets(|what| matches!(what, FaultKind::Lag { .. }))
    }

    fn meets(&self, is_it: impl Fn(FaultKind) -> bool) -> bool {
        self.timed_faults().any(|(_, what)| is_it(what))
    }

    /// Returns whether all faults are actions of operators, so that no client is disconnected.
    pub(crate) fn is_steady(&self) -> bool {
        self.faults.iter().all(Fault::is_of_operators)
    }

    /// Returns the number of parts that can be left out.
    pub fn parts(&self) -> usize {
        let parts = Cell::new(0);
        self.without(|part| {
            parts.set(part + 1);
            false
        });
        parts.get()
    }

    /// Returns the plan without these parts. The numbers of objects and clients do not change.
    pub fn without(&self, is_out: impl Fn(usize) -> bool) -> Plan {
        let mut plan = self.clone();
        let mut number = 0;
        let mut is_in = || {
            number += 1;
            !is_out(number - 1)
        };
        plan.faults.retain(|_| is_in());
        for thread in plan.clients.iter_mut().flat_map(|client| &mut client.threads) {
            thread.steps.retain(|_| is_in());
        }
        for thread in plan.raw.iter_mut().flat_map(|raw| &mut raw.threads) {
            thread.steps.retain(|_| is_in());
        }
        plan
    }
}

impl ClientPlan {
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.threads.iter().flat_map(|thread| &thread.steps)
    }

    pub(crate) fn has(&self, is_it: impl Fn(&What) -> bool) -> bool {
        self.steps().any(|step| is_it(&step.what))
    }

    fn acquisitions_mut(&mut self) -> impl Iterator<Item = &mut AcquisitionPlan> {
        self.threads.iter_mut().flat_map(ThreadPlan::acquisitions_mut)
    }
}

impl ThreadPlan {
    fn acquisitions_mut(&mut self) -> impl Iterator<Item = &mut AcquisitionPlan> {
        self.steps.iter_mut().filter_map(|step| match &mut step.what {
            What::Lock(acquisition) => Some(acquisition),
            _ => None,
        })
    }
}

impl AcquisitionPlan {
    /// An acquisition with an object that threads share, without operations while the lock is held.
    pub fn plain(object: usize, wait: Wait) -> AcquisitionPlan {
        let (while_held, end) = (Vec::new(), End::Unlock);
        AcquisitionPlan { object, is_fresh: false, wait, permits: 1, while_held, end }
    }
}

impl<W> ThreadPlan<W> {
    /// Carries out the steps, each after its pause.
    pub(crate) fn carry_out(&self, mut act: impl FnMut(&W)) {
        thread::sleep(self.begins);
        for step in &self.steps {
            if !step.rest.is_zero() {
                thread::sleep(step.rest);
            }
            act(&step.what);
        }
    }
}

impl<W> Step<W> {
    pub(crate) fn at_once(what: W) -> Self {
        Step { rest: Duration::ZERO, what }
    }
}

impl FaultKind {
    pub(crate) fn at(self, when: Duration) -> Fault {
        Fault::At { when, what: self }
    }
}

impl Fault {
    fn is_of_operators(&self) -> bool {
        use FaultKind::{Delete, Forbid, Hide, Plant, Rob, Scribble};
        let Fault::At { what, .. } = self else { return false };
        matches!(what, Hide { .. } | Forbid { .. } | Delete { .. } | Rob)
            || matches!(what, Plant { .. } | Scribble { .. })
    }
}

impl Options {
    /// Returns whether an unlock deletes its node and waits for the answer.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Options { identity: self.identity, ..Options::default() }
    }
}
