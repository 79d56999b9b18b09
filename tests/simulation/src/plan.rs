//! Draws the plan of a run from its seed: the steps of all threads, and the faults. A plan is data, so a run can be
//! repeated without some parts of its plan.

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
    /// The shortest time that a frame takes between client and server, in one direction. The longest is ten times that.
    pub latency: Duration,
    /// Whether clients connect to servers by their names, and not by their addresses.
    pub(crate) has_names: bool,
    /// Whether locks may not take shortcuts.
    pub(crate) always_lists: bool,
    /// Directories in which the next node has this number, as if many nodes had been created in them before.
    pub(crate) used: Option<(i32, Vec<Place>)>,
    pub clients: Vec<ClientPlan>,
    /// Programs that use no locks. In the numbers that faults use, they follow the clients.
    pub(crate) raw: Vec<RawPlan>,
    pub faults: Vec<Fault>,
}

/// The tick of the servers.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// A client on its own machine.
#[derive(Debug, Clone)]
pub struct ClientPlan {
    pub timeout: Duration,
    /// Whether the client has an observer, which in turn calls the client.
    pub is_observed: bool,
    pub is_lazy: bool,
    pub objects: Vec<ObjectPlan>,
    pub threads: Vec<ThreadPlan>,
}

/// A thread of a client, or of a program that uses no locks.
#[derive(Debug, Clone)]
pub struct ThreadPlan<W = What> {
    pub begins: Duration,
    pub steps: Vec<Step<W>>,
}

/// A lock object that all threads of a client share.
#[derive(Debug, Clone)]
pub struct ObjectPlan {
    pub kind: Kind,
    pub place: Place,
    pub options: Options,
}

/// The path of a lock. Places overlap: some are below other places, and some have names that resemble a contender's.
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
    /// The number of the identity, which several objects may share.
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

/// The next action of a thread, carried out by `client/steps.rs`. Apart from acquiring locks, a thread may query them,
/// act as an operator, or do something unusual. `Close` closes the client twice at the same time.
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
    /// Whether the call uses a new object, created like the shared one with this number.
    pub is_fresh: bool,
    pub wait: Wait,
    pub permits: u32,
    pub while_held: Vec<Operation>,
    pub end: End,
}

/// Unusual actions. If they need a lock, it is a separate one.
#[derive(Debug, Clone, Copy)]
pub enum Odd {
    /// Unlocks a lock that the client does not hold.
    Unlock,
    /// Drops all handles to a held lock.
    DropHeld,
    /// Acquires many locks whose paths exceed the quota together. It may not be possible to delete some of their nodes.
    LongPaths { are_stuck: bool },
    /// Ends a leadership, and may wait until it has ended.
    Resign { waits: bool },
}

#[derive(Debug, Clone, Copy)]
pub enum Wait {
    Forever,
    Try,
    For(Duration),
    /// Like `Forever`, or like `For` with the first duration, but waits for a connection only for the second duration.
    Connected(Option<Duration>, Duration),
}

/// An operation while a lock is held, carried out by `client/operations.rs`. `Prolong` makes the hold end this time
/// from now, `UntilDue` works until the lock's options end the hold, `Second` acquires the same lock with a second
/// object, alone or behind another thread, and `Expire` ends the session after this time.
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

/// A fault at a given time, or at the `nth` matching frame that a client sends or receives.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    Frame { client: usize, is_up: bool, of: Of, nth: u32, what: FrameFault },
    At { when: Duration, what: FaultKind },
}

/// The kind of a request and of its answer.
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
    /// The connection ends right after this frame: the result of a request stays unknown, or the next answer is lost.
    CutBehind,
    /// The connection ends before the frame arrives. New connections are refused for this time.
    Away(Duration),
    /// Only half of the frame arrives before the connection ends.
    Tear,
    Delay(Duration),
    /// The process is paused while it handles the frame.
    Freezes(Duration),
    /// Another client changes the request's node. The request arrives this long after that.
    Meets(Meddling, Duration),
}

/// How another client changes a node or its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meddling {
    Asks,
    Deletes,
    /// Writes data into the node's directory.
    Furnishes,
    /// Creates another node in the directory.
    Joins,
    /// Creates the directory.
    Makes,
}

/// A fault at a given time, carried out by `world.rs`.
///
/// In the network, a `BlackHole` blocks frames in both directions without an error, `Deaf` blocks one direction,
/// `Useless` lets only handshakes pass, and `Full` sockets accept only some of the bytes. `Freeze` pauses all threads
/// of a client, `Stall` pauses one thread, and with `NoThreads`, half of its attempts to start threads fail. During a
/// paused `Sleep`, the time since boot stops as well. A frozen server keeps its connections, and a server with a `Lag`
/// applies other servers' transactions late. A server that moves leaves its address to a stranger. Operators delete the
/// `nth` node below a place, all nodes (`Clear`), or the nodes of a multi-lock that is being released (`Rob`). They
/// revoke permission to read nodes, so that their deletion is not reported (`Hide`), or to delete nodes (`Forbid`).
/// Strangers create nodes (`Plant`), or write into others' nodes.
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
    /// A node like that of Curator's mutex. Its creator does not wait for others.
    Exclusive,
    Write,
    /// A node with a number above the last valid one.
    Past,
    /// A node with a name that has no meaning for locks.
    Foreign,
    /// A node whose name contains a contender's number, although it is not a contender's name.
    Lookalike,
}

impl Place {
    /// The number of places at which many acquisitions are made. Each other place is used for only a few.
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
    /// Returns whether no fault makes a client lose a hold, unless a client is closed or a lock's revocation is
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

    /// Returns whether a fault revokes permission to read a node, whose events servers then do not send.
    pub(crate) fn hides_something(&self) -> bool {
        self.meets(|what| matches!(what, FaultKind::Hide { .. } | FaultKind::HideDirectory { .. }))
    }

    /// Returns whether a server has a fault other than a `Lag`.
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

    /// Returns whether all faults are actions of operators, none of which disconnects a client.
    pub(crate) fn is_steady(&self) -> bool {
        self.faults.iter().all(Fault::is_of_operators)
    }

    /// Returns the number of parts of the plan that can be left out.
    pub fn parts(&self) -> usize {
        let parts = Cell::new(0);
        self.without(|part| {
            parts.set(part + 1);
            false
        });
        parts.get()
    }

    /// Returns the plan without these parts. Objects and clients keep their numbers.
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
    /// Acquires a shared object, and unlocks it without any operations in between.
    pub fn plain(object: usize, wait: Wait) -> AcquisitionPlan {
        let (while_held, end) = (Vec::new(), End::Unlock);
        AcquisitionPlan { object, is_fresh: false, wait, permits: 1, while_held, end }
    }
}

impl<W> ThreadPlan<W> {
    /// Carries out all steps, each after its pause.
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
    /// Returns whether an unlock deletes the node and waits for the answer.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Options { identity: self.identity, ..Options::default() }
    }
}
