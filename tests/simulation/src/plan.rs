//! What is to be done in a run, drawn from its seed: who locks what and how, and what goes wrong when. A plan is
//! data, so that a run can be made again with less of it.

mod draw;

use std::fmt;
use std::time::Duration;

pub(crate) use draw::ms;

use crate::raw::RawPlan;

/// A run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) seed: u64,
    pub(crate) theme: Theme,
    pub(crate) servers: usize,
    pub(crate) tick: Duration,
    /// Between a client and a server, one way: at least this, at most ten times as much.
    pub(crate) latency: Duration,
    /// Clients are given names of servers.
    pub(crate) has_names: bool,
    /// Directories that were used so often before that their next node has this number.
    pub(crate) used: Option<(i32, Vec<Place>)>,
    pub(crate) clients: Vec<ClientPlan>,
    /// Programs without locks. Faults count them behind the others.
    pub(crate) raw: Vec<RawPlan>,
    pub(crate) faults: Vec<Fault>,
}

/// What a run has more of than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    /// A bit of everything.
    Mixed,
    /// Frames that are lost, many of them among the first.
    Frames,
    /// Nothing that could cost a hold: connections break and come back.
    Gentle,
    /// Many threads want one thing.
    Crowd,
    /// A long queue, and nothing goes wrong.
    Herd,
    /// Single nodes whose names end in numbers, in the directory of a queue.
    Numbers,
    /// Some come and go, one turn after the other, while others stay for long.
    Visitors,
    /// Locks that are kept for the next thread.
    Kept,
    /// Operators delete what holds and what waits.
    Weeding,
    /// A server is behind the others, and connections move.
    Behind,
    /// What takes about as long as a session lives, where threads hand on to each other.
    Outages,
    /// Short sessions, and long faults.
    Short,
    /// What may not be read, so that it is not told.
    Hidden,
    /// People who look, ask, break and cancel.
    Meddlers,
    /// Requests to let go that come late, and answers that are lost.
    Asked,
    /// Calls that wait for less than an answer takes.
    Impatient,
    /// Nodes may be made and not deleted.
    Stuck,
    /// Several locks at once, for long.
    Groups,
}

/// A program on a machine of its own.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub timeout: Duration,
    /// It has an observer, which uses the client.
    pub is_observed: bool,
    pub objects: Vec<ObjectPlan>,
    pub threads: Vec<ThreadPlan>,
}

/// One of its threads.
#[derive(Debug, Clone)]
pub(crate) struct ThreadPlan {
    pub begins: Duration,
    pub steps: Vec<Step>,
}

/// A lock object that the threads of a client share.
#[derive(Debug, Clone)]
pub(crate) struct ObjectPlan {
    pub kind: Kind,
    pub place: Place,
    pub options: Options,
}

/// Where locks are. They overlap: some are below others, and some have names that look like a contender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(pub usize);

/// The kinds of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Exclusive,
    Reentrant,
    Read,
    Write,
    Single,
    Semaphore,
    Several,
    Leadership,
}

/// `LockOptions`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub local_handoffs: u32,
    pub keep_idle: Option<Duration>,
    pub background_release: bool,
    pub hold_at_least: Option<Duration>,
    pub observes_queue: bool,
}

/// What a thread does next.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub rest: Duration,
    pub what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    /// Takes a lock, does this with it, and gives it back.
    Lock {
        object: usize,
        wait: Wait,
        permits: u32,
        while_held: Vec<Deed>,
        end: End,
    },
    Contenders(Place),
    Revoke(Place),
    BreakLock(Place),
    CancelWaiters {
        object: usize,
    },
    /// So many turns in a row, with nothing between them.
    Turns {
        object: usize,
        count: u32,
    },
    /// Fewer permits for a while.
    Narrow {
        object: usize,
        time: Duration,
    },
    /// All locks there are.
    LocksBelow,
    /// What few programs do.
    Odd {
        object: usize,
        odd: Odd,
        time: Duration,
    },
    /// A lock at a path that has a contender's name in it, and one whose place is to be told without a pause.
    BadName(Place),
    Close,
}

/// What few programs do, with locks of their own where that is needed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Odd {
    /// Gives back what it does not have.
    Unlock,
    /// Drops all handles of a lock that it holds.
    DropHeld,
    /// Many locks whose paths are too long for all of them at a time, some of which may not be deleted.
    LongPaths { are_stuck: bool },
    /// Another client, which is dropped, and maybe cut off just then.
    Visit { is_cut: bool },
    /// Asks how the contests stand.
    Health,
    /// Ends a contest, and waits for that or not.
    Resign { waits: bool },
}

/// How long a call may wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    Forever,
    Try,
    For(Duration),
}

/// What is done with a lock.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    Work(Duration),
    /// Until somebody asks for it or it is lost, or so long.
    UntilAsked(Duration),
    /// So many times more, for so long.
    EnterAgain(u32, Duration),
    /// A read under the own write.
    ReadBelow,
    /// Another object, for so long.
    Also {
        object: usize,
        wait: Duration,
    },
    Write,
    Verify,
    /// Reads, rests, and writes if nobody else has written.
    ReadAndWrite(Duration),
    /// Creates what is there.
    CreateAgain,
    /// A clone of the hold writes then in another thread, whatever has become of the hold.
    WriteLate(Duration),
    /// A second object of the same lock, which would wait for the first: in the same thread, or behind another one
    /// that waits for it already.
    Second {
        is_behind: bool,
    },
    /// Its session ends so much later.
    Expire(Duration),
}

/// How a lock is given back.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Unlock,
    /// By the guard.
    Release,
    /// The permits, or the guard, are dropped.
    Drop,
    /// By a panic.
    Panic,
    /// A write goes on as a read.
    Downgrade,
}

/// Something that goes wrong.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// At a frame of a client's: the so-many-th of these that it sends or is sent.
    Frame { client: usize, is_up: bool, of: Of, nth: u32, what: FrameFault },
    /// At a time.
    At { when: Duration, what: Trouble },
}

/// Requests of a kind, and the answers to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Of {
    /// All frames that there are.
    Any,
    Create,
    Delete,
    Write,
    Read,
    List,
    Transaction,
    /// What a watch tells.
    Event,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FrameFault {
    /// The connection ends before it arrives.
    CutBefore,
    /// The connection ends behind it: what it brings about is not known, or known and the next is not.
    CutBehind,
    /// The connection ends before it arrives, and none comes into being for so long.
    Away(Duration),
    /// Half of it arrives.
    Tear,
    Delay(Duration),
    /// An answer lacks its end.
    Garble,
    /// An answer comes behind the next one.
    Swap,
    /// Somebody is faster with the node that a request is about, by so much.
    Meets(Meddling, Duration),
}

/// What somebody does with a node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Meddling {
    Asks,
    Deletes,
}

#[derive(Debug, Clone)]
pub(crate) enum Trouble {
    Cut {
        client: usize,
    },
    /// Nothing passes, and nobody says so.
    BlackHole {
        client: usize,
        time: Duration,
    },
    /// One direction only.
    Deaf {
        client: usize,
        is_up: bool,
        time: Duration,
    },
    /// New connections are refused.
    Refuse {
        client: usize,
        time: Duration,
    },
    Freeze {
        client: usize,
        time: Duration,
    },
    /// One of its threads does not run.
    Stall {
        client: usize,
        time: Duration,
    },
    /// A machine is suspended, or its host pauses it, so that its time since boot stands still as well.
    Sleep {
        client: usize,
        time: Duration,
        is_paused: bool,
    },
    ClockStep {
        client: usize,
        milliseconds: i64,
    },
    /// A socket takes a part of what is sent, or nothing.
    Full {
        client: usize,
        time: Duration,
    },
    NoThreads {
        client: usize,
        time: Duration,
    },
    /// Handshakes pass, and nothing else that a client sends.
    Useless {
        client: usize,
        time: Duration,
    },
    Kill {
        client: usize,
    },
    Expire {
        client: usize,
    },
    /// A server goes, and comes back.
    Crash {
        server: usize,
        time: Duration,
    },
    FreezeServer {
        server: usize,
        time: Duration,
    },
    CutOffServer {
        server: usize,
        time: Duration,
    },
    Lag {
        server: usize,
        time: Duration,
    },
    Depose,
    /// A server gets another address, and a stranger the one that it had.
    Move {
        server: usize,
    },
    /// Nobody can tell the address of a server, or says so only behind this time.
    NoName {
        server: usize,
        time: Duration,
        hangs: bool,
    },
    /// An operator deletes a node below here, the so-many-th.
    Delete {
        place: Place,
        nth: usize,
    },
    /// An operator deletes all nodes below here, one after the other.
    Clear {
        place: Place,
        pause: Duration,
    },
    /// Nobody may read a node for a while, so that nobody is told of its end, which may come meanwhile.
    Hide {
        place: Place,
        nth: usize,
        time: Duration,
        is_deleted: bool,
    },
    /// Nobody may read a directory for a while, so that nobody is told who comes.
    HideDirectory {
        place: Place,
        time: Duration,
    },
    /// Nobody may delete what is in a directory for a while.
    Forbid {
        place: Place,
        /// What parts of a semaphore are called.
        below: &'static str,
        time: Duration,
    },
    /// A node that nobody of ours has made.
    Plant {
        place: Place,
        what: Plant,
        time: Duration,
    },
    /// Somebody writes into a node.
    Scribble {
        place: Place,
        nth: usize,
        is_request: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Plant {
    /// As Curator's mutex does, and waits for nobody.
    Exclusive,
    Write,
    /// With a number behind the last one.
    Past,
    /// A name that means nothing.
    Foreign,
    /// A contender's number, but a child of something else.
    Lookalike,
}

impl Place {
    /// All of them.
    pub(crate) const ALL: [&'static str; 9] = [
        "/a",
        "/a/b",
        "/a/single",
        "/a/b/lease",
        "/q/12-0000000003x",
        "/q",
        "/q/n0000000001",
        "/q/n0000000002",
        "/q/n0000000003",
    ];

    pub(crate) fn path(self) -> &'static str {
        Place::ALL[self.0]
    }
}

impl Kind {
    pub(crate) const ALL: [Kind; 8] = [
        Kind::Exclusive,
        Kind::Reentrant,
        Kind::Read,
        Kind::Write,
        Kind::Single,
        Kind::Semaphore,
        Kind::Several,
        Kind::Leadership,
    ];

    /// How many locks it has.
    pub(crate) fn members(self) -> u32 {
        if self == Kind::Several { 2 } else { 1 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

impl Plan {
    /// Does nothing in it cost a hold, as long as nobody closes or asks?
    pub fn is_gentle(&self) -> bool {
        let is_gentle = |fault: &Fault| match fault {
            Fault::Frame { what, .. } => {
                matches!(what, FrameFault::CutBefore | FrameFault::CutBehind | FrameFault::Tear)
            }
            Fault::At { what, .. } => {
                matches!(what, Trouble::Cut { .. } | Trouble::Scribble { is_request: true, .. })
            }
        };
        self.theme == Theme::Gentle && self.faults.iter().all(is_gentle)
    }

    /// Does nothing in it keep anybody from going on at once?
    pub(crate) fn is_well(&self) -> bool {
        let is_harmless =
            |fault: &Fault| matches!(fault, Fault::At { what: Trouble::Scribble { .. }, .. });
        self.faults.iter().all(is_harmless)
    }

    /// The longest session timeout of those that have locks.
    pub(crate) fn timeout(&self) -> Duration {
        self.clients.iter().map(|client| client.timeout).max().unwrap_or_default()
    }

    /// Is there anything that nobody may read for a while, so that nobody is told of it?
    pub(crate) fn hides_something(&self) -> bool {
        let hides = |fault: &Fault| match fault {
            Fault::At { what, .. } => {
                matches!(what, Trouble::Hide { .. } | Trouble::HideDirectory { .. })
            }
            Fault::Frame { .. } => false,
        };
        self.faults.iter().any(hides)
    }

    /// Does anything happen to a server?
    pub(crate) fn troubles_servers(&self) -> bool {
        let is_one = |fault: &Fault| match fault {
            Fault::At { what, .. } => matches!(
                what,
                Trouble::Crash { .. }
                    | Trouble::FreezeServer { .. }
                    | Trouble::CutOffServer { .. }
                    | Trouble::Lag { .. }
                    | Trouble::Depose
            ),
            Fault::Frame { .. } => false,
        };
        self.faults.iter().any(is_one)
    }

    /// Do only operators do anything, so that nobody is cut off?
    pub(crate) fn is_steady(&self) -> bool {
        let is_operators = |fault: &Fault| match fault {
            Fault::At { what, .. } => matches!(
                what,
                Trouble::Delete { .. }
                    | Trouble::Hide { .. }
                    | Trouble::Forbid { .. }
                    | Trouble::Plant { .. }
                    | Trouble::Scribble { .. }
            ),
            Fault::Frame { .. } => false,
        };
        self.faults.iter().all(is_operators)
    }

    /// How many parts can be left out.
    pub fn parts(&self) -> usize {
        let steps = |client: &ClientPlan| -> usize {
            client.threads.iter().map(|thread| thread.steps.len()).sum()
        };
        let raw = self.raw.iter().flat_map(|raw| &raw.threads).map(|thread| thread.steps.len());
        self.faults.len() + self.clients.iter().map(steps).sum::<usize>() + raw.sum::<usize>()
    }

    /// The same without these parts. What is left has its place: objects and clients keep their numbers.
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

impl Options {
    /// Does an unlock delete its node, and wait for the answer?
    pub(crate) fn is_plain(&self) -> bool {
        self.local_handoffs == 0
            && self.keep_idle.is_none()
            && !self.background_release
            && self.hold_at_least.is_none()
    }
}
