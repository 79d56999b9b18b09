//! What is to be done in a run, drawn from its seed: who locks what and how, and what goes wrong when. A plan is
//! data, so that a run can be made again with less of it.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;

use crate::raw::{self, RawPlan};

/// So much of everything at the most.
const CLIENTS: usize = 4;
const THREADS: usize = 4;
const STEPS: usize = 8;
const OBJECTS: usize = 5;
/// Threads where there is a crowd.
const CROWD: usize = 8;
/// Clients in a long queue, and objects of each of them.
const HERD: usize = 8;
const QUEUE: usize = 2;
/// Behind this number a directory has no more of them.
const LAST: i32 = i32::MAX;

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
    /// A lock at a path that has a contender's name in it.
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
    Sleep {
        client: usize,
        time: Duration,
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

pub(crate) fn ms(random: &mut Rng, from: u64, to: u64) -> Duration {
    // More short times than long ones.
    let span = (to.max(from + 1) / from.max(1)).max(2) as f64;
    let share = span.powf(random.f64());
    Duration::from_micros((from.max(1) as f64 * 1000.0 * share) as u64)
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Plan {
        let mut random = Rng::with_seed(seed ^ 0x5eed);
        let random = &mut random;
        let theme = Theme::draw(random);
        let servers = if theme == Theme::Behind || random.u8(..4) == 0 { 3 } else { 1 };
        let clients = match theme {
            Theme::Crowd => random.usize(1..=2),
            Theme::Herd => HERD,
            Theme::Visitors => random.usize(1..=3),
            Theme::Numbers | Theme::Kept | Theme::Behind => random.usize(2..=3),
            Theme::Weeding => random.usize(2..=CLIENTS),
            Theme::Asked | Theme::Groups => random.usize(2..CLIENTS),
            Theme::Impatient | Theme::Stuck => 1 + random.usize(..3) / 2,
            _ => random.usize(1..=CLIENTS),
        };
        let timeouts = [1_000, 2_000, 4_000, 10_000];
        let tick = Duration::from_millis(500);
        let timeout = match theme {
            Theme::Short | Theme::Hidden | Theme::Kept | Theme::Weeding => 1_000,
            Theme::Stuck | Theme::Groups => 1_000,
            Theme::Impatient => 10_000,
            Theme::Outages => timeouts[random.usize(..2)],
            _ => timeouts[random.usize(..timeouts.len())],
        };
        let timeout = Duration::from_millis(timeout);
        // Few places, so that they meet.
        let places: Vec<Place> = match theme {
            Theme::Numbers => (5..Place::ALL.len()).map(Place).collect(),
            _ if theme.has_one_place() => vec![Place(random.usize(..Place::ALL.len()))],
            Theme::Asked | Theme::Impatient => vec![Place(random.usize(..Place::ALL.len()))],
            Theme::Groups => vec![Place(0), Place(5)],
            _ => {
                let count = random.usize(1..=if theme == Theme::Gentle { 2 } else { 3 });
                (0..count).map(|_| Place(random.usize(..Place::ALL.len()))).collect()
            }
        };
        let kinds: Vec<Kind> = match theme {
            Theme::Numbers => vec![Kind::Exclusive, Kind::Single],
            Theme::Herd => vec![Kind::Exclusive],
            Theme::Visitors => {
                let first = if random.bool() { Kind::Exclusive } else { Kind::Reentrant };
                vec![first, Kind::Write, Kind::Read, Kind::Read]
            }
            Theme::Kept | Theme::Behind => vec![Kind::Exclusive, Kind::Reentrant],
            Theme::Weeding | Theme::Outages | Theme::Hidden => {
                let kinds = [Kind::Exclusive, Kind::Reentrant, Kind::Write, Kind::Read];
                (0..2).map(|_| kinds[random.usize(..kinds.len())]).collect()
            }
            Theme::Crowd if random.u8(..3) == 0 => vec![Kind::Semaphore],
            Theme::Asked if random.u8(..3) == 0 => vec![Kind::Semaphore],
            Theme::Asked => vec![Kind::Single],
            Theme::Groups => vec![Kind::Several, Kind::Exclusive],
            Theme::Impatient | Theme::Stuck => {
                let kinds = [Kind::Exclusive, Kind::Write, Kind::Single, Kind::Semaphore];
                vec![kinds[random.usize(..kinds.len())]]
            }
            _ => {
                let count = random.usize(1..=4);
                (0..count).map(|_| Kind::ALL[random.usize(..Kind::ALL.len())]).collect()
            }
        };
        let is_uniform = random.bool() || theme.has_one_place();
        let fixed = match theme {
            Theme::Herd | Theme::Visitors | Theme::Behind => Options::default(),
            Theme::Kept => {
                Options { keep_idle: Some(ms(random, 3_000, 30_000)), ..Options::default() }
            }
            Theme::Weeding => Options { observes_queue: random.bool(), ..Options::default() },
            Theme::Outages => Options {
                local_handoffs: random.u32(1..4),
                observes_queue: random.bool(),
                ..Options::default()
            },
            Theme::Crowd if random.bool() => {
                Options { local_handoffs: random.u32(1..4), ..Options::default() }
            }
            Theme::Asked | Theme::Impatient | Theme::Stuck | Theme::Groups if random.bool() => {
                Options::default()
            }
            Theme::Short if random.bool() => Options { observes_queue: true, ..Options::default() },
            _ => Options::draw(random),
        };
        let mut clients: Vec<ClientPlan> = (0..clients)
            .map(|_| {
                let (objects, threads) = match theme {
                    Theme::Crowd => (random.usize(1..=2), random.usize(3..=CROWD)),
                    Theme::Herd => (QUEUE, QUEUE),
                    Theme::Impatient => (1 + random.usize(..3) / 2, random.usize(2..=CROWD)),
                    Theme::Stuck => (random.usize(1..=3), random.usize(1..=3)),
                    Theme::Weeding | Theme::Outages => (random.usize(1..=3), random.usize(2..=5)),
                    Theme::Visitors => (4, random.usize(1..=2)),
                    Theme::Kept | Theme::Behind => (1, random.usize(1..=2)),
                    _ => (random.usize(1..=OBJECTS), random.usize(1..=THREADS)),
                };
                let objects: Vec<ObjectPlan> = (0..objects)
                    .map(|_| {
                        let kind = kinds[random.usize(..kinds.len())];
                        let place = random.usize(..places.len());
                        let kind = match theme {
                            Theme::Numbers if place == 0 => Kind::Exclusive,
                            Theme::Numbers => Kind::Single,
                            _ => kind,
                        };
                        let place = places[place];
                        let options =
                            if is_uniform { fixed.clone() } else { Options::draw(random) };
                        ObjectPlan { kind, place, options }
                    })
                    .collect();
                let threads = (0..threads)
                    .map(|_| ThreadPlan::draw(random, theme, &objects, &places))
                    .collect();
                let is_observed = random.u8(..5) == 0;
                ClientPlan { timeout, is_observed, objects, threads }
            })
            .collect();
        if matches!(theme, Theme::Numbers | Theme::Visitors) {
            let is_alone = clients.len() == 1;
            for (number, client) in clients.iter_mut().enumerate() {
                client.visit(random, theme, number == 0 && !is_alone, is_alone);
            }
        }
        let mut faults = Fault::draw_all(random, theme, clients.len(), servers, &places, timeout);
        if servers > 1 && !matches!(theme, Theme::Gentle | Theme::Herd) && random.u8(..3) == 0 {
            // It knows less than the others all the time, and people look.
            for thread in clients.iter_mut().flat_map(|client| &mut client.threads) {
                for _ in 0..2 {
                    let what = What::Contenders(places[random.usize(..places.len())]);
                    let step = Step { rest: ms(random, 1, 1_000), what };
                    thread.steps.insert(random.usize(..=thread.steps.len()), step);
                }
            }
            let what =
                Trouble::Lag { server: random.usize(..servers), time: ms(random, 1_000, 16_000) };
            faults.push(Fault::At { when: ms(random, 1, 500), what });
        }
        let is_used = theme != Theme::Herd && random.u8(..16) == 0;
        let used = is_used.then(|| (LAST - random.i32(0..12), places.clone()));
        let latency = match theme {
            Theme::Impatient => ms(random, 2, 40),
            _ => ms(random, 1, 20) / 10,
        };
        let raw = Vec::new();
        let has_names = false;
        let mut plan =
            Plan { seed, theme, servers, tick, latency, has_names, used, clients, raw, faults };
        // Whoever judges programs without locks takes answers at their word.
        if !plan.add_oddities(&places) {
            raw::add(&mut plan);
        }
        plan
    }

    /// What is rare, in some of all plans and beside everything else. Returns whether it is in this one.
    fn add_oddities(&mut self, places: &[Place]) -> bool {
        let random = &mut Rng::with_seed(self.seed ^ 0x0dd);
        if self.theme == Theme::Herd || random.u8(..3) > 0 {
            return false;
        }
        self.has_names = random.u8(..4) == 0;
        if self.has_names && self.theme != Theme::Gentle && random.bool() {
            self.faults.extend(Fault::draw_moves(random, self.servers));
        }
        for _ in 0..random.usize(1..5) {
            let client = random.usize(..self.clients.len());
            match random.u8(..4) {
                0 | 1 => self.add_deed(random, client),
                2 => self.clients[client].add_odd(random),
                _ if self.theme != Theme::Gentle => {
                    let time = ms(random, 5, 3_000);
                    self.faults.push(Fault::draw_odd(random, client, places, time));
                }
                _ => {}
            }
        }
        true
    }

    fn add_deed(&mut self, random: &mut Rng, client: usize) {
        let is_gentle = self.theme == Theme::Gentle;
        let threads = &mut self.clients[client].threads;
        let thread = random.usize(..threads.len());
        let locks = threads[thread].steps.iter_mut().filter_map(|step| match &mut step.what {
            What::Lock { while_held, .. } => Some(while_held),
            _ => None,
        });
        for deeds in locks {
            let odd = match random.u8(..12) {
                0..3 => Deed::ReadAndWrite(ms(random, 1, 300)),
                3 => Deed::CreateAgain,
                4..6 => Deed::WriteLate(ms(random, 1, 400)),
                6 | 7 => Deed::Second { is_behind: random.bool() },
                8 if !is_gentle => {
                    // Entered again, and lost meanwhile.
                    let time = ms(random, 1, 500);
                    deeds.insert(0, Deed::EnterAgain(2, time * 2));
                    deeds.insert(0, Deed::Expire(time));
                    continue;
                }
                _ => continue,
            };
            deeds.insert(random.usize(..=deeds.len()), odd);
        }
    }

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

impl Theme {
    fn draw(random: &mut Rng) -> Theme {
        match random.u8(..29) {
            16 | 17 => Theme::Visitors,
            18 => Theme::Kept,
            19 => Theme::Weeding,
            20 | 21 => Theme::Outages,
            22 => Theme::Behind,
            23 => Theme::Numbers,
            0..5 => Theme::Mixed,
            5 | 6 => Theme::Frames,
            7..10 => Theme::Gentle,
            10 => Theme::Crowd,
            11 if random.bool() => Theme::Crowd,
            11 => Theme::Herd,
            12 => Theme::Numbers,
            13 => Theme::Short,
            14 => Theme::Hidden,
            15 => Theme::Meddlers,
            24 | 25 => Theme::Asked,
            26 => Theme::Impatient,
            27 => Theme::Stuck,
            _ => Theme::Groups,
        }
    }

    /// All locks are at the same path, and have the same options.
    fn has_one_place(self) -> bool {
        matches!(
            self,
            Theme::Crowd
                | Theme::Herd
                | Theme::Visitors
                | Theme::Kept
                | Theme::Weeding
                | Theme::Hidden
                | Theme::Behind
                | Theme::Outages
                | Theme::Stuck
        )
    }
}

impl ClientPlan {
    /// Makes it one that stays for long, or one that comes and goes.
    fn visit(&mut self, random: &mut Rng, theme: Theme, stays: bool, is_alone: bool) {
        let is_numbers = theme == Theme::Numbers;
        if is_numbers {
            // The single nodes in the order of their names, and the queue in whose directory they are.
            let first = random.usize(6..8);
            let places = if stays { 5..6 } else { first..Place::ALL.len() };
            let object = |place: usize| ObjectPlan {
                kind: if place == 5 { Kind::Exclusive } else { Kind::Single },
                place: Place(place),
                options: Options::default(),
            };
            let queue = (!stays).then(|| object(5));
            self.objects = places.map(object).chain(queue).collect();
            if !stays && random.bool() {
                // The last of them is left out.
                self.objects.swap_remove(self.objects.len() - 2);
            }
        }
        let count = self.objects.len();
        self.is_observed &= !is_alone;
        self.threads.truncate(if is_numbers || is_alone { 1 } else { 2 });
        for thread in &mut self.threads {
            thread.begins = if stays { ms(random, 1, 50) } else { ms(random, 50, 2_000) };
            let step = |number: usize| {
                let object = if is_numbers { number % count } else { random.usize(..count) };
                if is_alone && random.u8(..3) == 0 {
                    let turns = What::Turns { object, count: random.u32(6..12) };
                    return Step { rest: Duration::ZERO, what: turns };
                }
                let wait = match stays {
                    true => Wait::Forever,
                    false => Wait::For(ms(random, 20, 1_000)),
                };
                let time = if stays { ms(random, 500, 4_000) } else { ms(random, 1, 5) };
                let (while_held, end) = (vec![Deed::Work(time)], End::Unlock);
                let rest = if random.bool() { Duration::ZERO } else { ms(random, 1, 100) };
                let what = What::Lock { object, wait, permits: 1, while_held, end };
                Step { rest, what }
            };
            thread.steps = (0..if stays { 3 } else { 2 * STEPS }).map(step).collect();
        }
    }

    fn add_odd(&mut self, random: &mut Rng) {
        let thread = random.usize(..self.threads.len());
        let object = random.usize(..self.objects.len());
        let odd = match random.u8(..10) {
            0 | 1 => Odd::Unlock,
            2 | 3 => Odd::DropHeld,
            4 => Odd::LongPaths { are_stuck: random.bool() },
            5 => Odd::Visit { is_cut: random.bool() },
            6 | 7 => Odd::Health,
            _ => Odd::Resign { waits: random.bool() },
        };
        let steps = &mut self.threads[thread].steps;
        let what = What::Odd { object, odd, time: ms(random, 1, 1_000) };
        let step = Step { rest: ms(random, 1, 1_000), what };
        steps.insert(random.usize(..=steps.len()), step);
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

    fn draw(random: &mut Rng) -> Options {
        Options {
            local_handoffs: if random.u8(..3) == 0 { random.u32(1..4) } else { 0 },
            keep_idle: (random.u8(..3) == 0).then(|| ms(random, 10, 20_000)),
            background_release: random.u8(..3) == 0,
            hold_at_least: (random.u8(..6) == 0).then(|| ms(random, 10, 2_000)),
            observes_queue: random.u8(..6) == 0,
        }
    }
}

impl ThreadPlan {
    fn draw(
        random: &mut Rng,
        theme: Theme,
        objects: &[ObjectPlan],
        places: &[Place],
    ) -> ThreadPlan {
        let begins = match theme {
            Theme::Crowd | Theme::Herd | Theme::Weeding | Theme::Hidden => 50,
            Theme::Asked | Theme::Impatient | Theme::Stuck | Theme::Groups => 300,
            _ => 2_000,
        };
        let begins = ms(random, 1, begins);
        // Who is let in seldom may call more often.
        let most = if matches!(theme, Theme::Impatient | Theme::Stuck) { STEPS * 2 } else { STEPS };
        let steps = (0..random.usize(1..=most)).map(|_| Step::draw(random, theme, objects, places));
        ThreadPlan { begins, steps: steps.collect() }
    }
}

impl Step {
    fn draw(random: &mut Rng, theme: Theme, objects: &[ObjectPlan], places: &[Place]) -> Step {
        let rest = match theme {
            Theme::Herd | Theme::Weeding | Theme::Behind => Duration::ZERO,
            _ if random.bool() => Duration::ZERO,
            Theme::Asked | Theme::Impatient | Theme::Stuck | Theme::Groups => ms(random, 1, 100),
            _ => ms(random, 1, 3_000),
        };
        let place = places[random.usize(..places.len())];
        let object = random.usize(..objects.len());
        let of = if theme == Theme::Meddlers { 16 } else { 48 };
        let what = match random.u8(..of) {
            _ if theme == Theme::Herd => Step::lock(random, theme, objects),
            _ if theme == Theme::Asked && random.u8(..4) == 0 => What::Revoke(place),
            0 => What::Contenders(place),
            1 | 2 => What::Revoke(place),
            3 if theme != Theme::Gentle => What::BreakLock(place),
            4 => What::CancelWaiters { object },
            5 => What::Narrow { object, time: ms(random, 1, 1_000) },
            6 => What::LocksBelow,
            7 if random.u8(..4) == 0 => What::BadName(place),
            7 if random.u8(..4) == 0 && theme != Theme::Gentle => What::Close,
            _ => Step::lock(random, theme, objects),
        };
        Step { rest, what }
    }

    fn lock(random: &mut Rng, theme: Theme, objects: &[ObjectPlan]) -> What {
        let object = random.usize(..objects.len());
        let wait = match random.u8(..4) {
            0 if !matches!(theme, Theme::Herd | Theme::Impatient | Theme::Groups) => Wait::Try,
            0 | 1 if theme == Theme::Asked => Wait::For(ms(random, 1, 1_000)),
            _ if theme == Theme::Impatient => Wait::For(ms(random, 1, 300)),
            0..3 if theme == Theme::Groups => Wait::For(ms(random, 300, 4_000)),
            1 => Wait::For(ms(random, 1, 8_000)),
            _ => Wait::Forever,
        };
        let end = match random.u8(..12) {
            0 => End::Drop,
            1 => End::Panic,
            2 | 3 => End::Release,
            4 | 5 => End::Downgrade,
            _ => End::Unlock,
        };
        let count = if theme == Theme::Behind { 1 } else { random.usize(..4) };
        let deeds = (0..count).map(|_| match theme {
            Theme::Herd | Theme::Impatient => Deed::Work(ms(random, 1, 100)),
            Theme::Stuck => Deed::Work(ms(random, 1, 1_000)),
            Theme::Groups if random.bool() => Deed::Work(ms(random, 100, 2_000)),
            Theme::Behind => Deed::ReadAndWrite(ms(random, 10, 400)),
            Theme::Hidden | Theme::Weeding if random.bool() => Deed::Work(ms(random, 500, 9_000)),
            Theme::Outages if random.bool() => Deed::Write,
            Theme::Outages if random.bool() => Deed::Work(ms(random, 200, 2_000)),
            _ => Deed::draw(random, theme, objects),
        });
        let while_held = deeds.collect();
        What::Lock { object, wait, permits: random.u32(1..=3), while_held, end }
    }
}

impl Deed {
    fn draw(random: &mut Rng, theme: Theme, objects: &[ObjectPlan]) -> Deed {
        match random.u8(..12) {
            7.. if matches!(theme, Theme::Meddlers | Theme::Hidden) => {
                Deed::UntilAsked(ms(random, 1, 4_000))
            }
            5.. if theme == Theme::Asked => Deed::UntilAsked(ms(random, 1, 1_000)),
            0 => Deed::UntilAsked(ms(random, 1, 4_000)),
            1 => Deed::EnterAgain(random.u32(1..3), ms(random, 1, 2_000)),
            2 => Deed::ReadBelow,
            3 => Deed::Verify,
            4 | 5 => Deed::Write,
            6 => Deed::Also { object: random.usize(..objects.len()), wait: ms(random, 1, 1_000) },
            _ => Deed::Work(ms(random, 1, 1_000)),
        }
    }
}

impl Trouble {
    fn forbid(random: &mut Rng, place: Place, time: Duration) -> Trouble {
        let below = ["", "/locks", "/leases"][random.usize(..3)];
        Trouble::Forbid { place, below, time }
    }
}

impl Fault {
    fn draw_odd(random: &mut Rng, client: usize, places: &[Place], time: Duration) -> Fault {
        let place = places[random.usize(..places.len())];
        let what = match random.u8(..12) {
            0..6 => {
                let what = match random.bool() {
                    true => FrameFault::Garble,
                    false => FrameFault::Swap,
                };
                let nth = random.u32(1..60);
                return Fault::Frame { client, is_up: false, of: Of::Any, nth, what };
            }
            6 | 7 => Trouble::Full { client, time },
            8 | 9 => Trouble::forbid(random, place, time),
            10 => Trouble::Plant { place, what: Plant::Past, time },
            _ => {
                let what = Trouble::NoThreads { client, time };
                return Fault::At { when: Duration::ZERO, what };
            }
        };
        Fault::At { when: ms(random, 10, 10_000), what }
    }

    /// Requests that come late or meet others, and answers that are lost.
    fn draw_meetings(
        random: &mut Rng,
        clients: usize,
        place: Place,
        timeout: Duration,
    ) -> Vec<Fault> {
        let longest = timeout.as_millis() as u64 / 2;
        let mut faults = Vec::new();
        for _ in 0..random.usize(2..12) {
            let client = random.usize(..clients);
            let time = ms(random, 5, longest);
            let ahead = if random.bool() { Duration::ZERO } else { ms(random, 1, 50) };
            let (late, away) = (FrameFault::Delay(time), FrameFault::Away(time));
            let asks = FrameFault::Meets(Meddling::Asks, ahead);
            let deletes = FrameFault::Meets(Meddling::Deletes, ahead);
            let (is_up, of, what) = match random.u8(..18) {
                0 | 1 => (true, Of::Create, away),
                2..5 => (false, Of::Create, away),
                5 | 6 => (false, Of::Delete, away),
                7..10 => (true, Of::Write, late),
                10 => (true, Of::Write, deletes),
                11 => (true, Of::Read, late),
                12..14 => (true, Of::Read, asks),
                14 | 15 => (true, Of::Create, asks),
                16 => (true, Of::Read, deletes),
                _ => {
                    let what = match random.u8(..3) {
                        0 => Trouble::Scribble { place, nth: random.usize(..2), is_request: true },
                        1 => Trouble::Delete { place, nth: random.usize(..2) },
                        _ => Trouble::Refuse { client, time: ms(random, 5, longest) },
                    };
                    faults.push(Fault::At { when: ms(random, 10, 5_000), what });
                    continue;
                }
            };
            let nth = random.u32(1..if of == Of::Write { 5 } else { 10 });
            faults.push(Fault::Frame { client, is_up, of, nth, what });
        }
        faults
    }

    /// Servers get other addresses while their names cannot always be resolved.
    pub(crate) fn draw_moves(random: &mut Rng, servers: usize) -> Vec<Fault> {
        let mut faults = Vec::new();
        for _ in 0..random.usize(1..5) {
            let (server, when) = (random.usize(..servers), ms(random, 50, 8_000));
            let (time, hangs) = (ms(random, 20, 3_000), random.bool());
            if random.u8(..3) > 0 {
                faults.push(Fault::At { when, what: Trouble::NoName { server, time, hangs } });
            }
            let when = when + time.mul_f64(random.f64() / 2.0);
            faults.push(Fault::At { when, what: Trouble::Move { server } });
        }
        faults
    }

    /// Nothing passes for a while, on connections that stay.
    fn draw_stalls(random: &mut Rng, clients: usize, servers: usize) -> Vec<Fault> {
        let count = random.usize(..4);
        let stall = |_| {
            let (client, time) = (random.usize(..clients), ms(random, 200, 6_000));
            let what = match random.u8(..4) {
                0 => Trouble::BlackHole { client, time },
                1 => Trouble::Deaf { client, is_up: random.bool(), time },
                2 => Trouble::FreezeServer { server: random.usize(..servers), time },
                _ => Trouble::Cut { client },
            };
            Fault::At { when: ms(random, 50, 3_000), what }
        };
        (0..count).map(stall).collect()
    }

    /// An operator forbids deletions, or deletes, and nothing else goes wrong.
    fn draw_bans(random: &mut Rng, place: Place, timeout: Duration) -> Vec<Fault> {
        let forbids = random.bool();
        let count = random.u32(2..if forbids { 6 } else { 12 });
        let ban = |_| {
            let (time, nth) = (timeout * random.u32(2..8), random.usize(..8));
            let what = match forbids {
                true => Trouble::forbid(random, place, time),
                false => Trouble::Delete { place, nth },
            };
            Fault::At { when: ms(random, 10, 2_000), what }
        };
        (0..count).map(ban).collect()
    }

    pub(crate) fn draw_all(
        random: &mut Rng,
        theme: Theme,
        clients: usize,
        servers: usize,
        places: &[Place],
        timeout: Duration,
    ) -> Vec<Fault> {
        let count = match random.u8(..4) {
            _ if theme == Theme::Behind => random.usize(8..24),
            _ if matches!(theme, Theme::Outages | Theme::Weeding | Theme::Hidden) => {
                random.usize(4..16)
            }
            0 => 0,
            1 if theme != Theme::Herd => random.usize(1..3),
            _ if matches!(theme, Theme::Herd | Theme::Numbers | Theme::Visitors) => 0,
            _ if theme == Theme::Gentle => random.usize(1..5),
            _ => random.usize(1..12),
        };
        match theme {
            Theme::Asked => return Fault::draw_meetings(random, clients, places[0], timeout),
            Theme::Stuck => return Fault::draw_bans(random, places[0], timeout),
            Theme::Impatient => return Fault::draw_stalls(random, clients, servers),
            Theme::Groups if random.bool() => return Vec::new(),
            _ => {}
        }
        // Who is careful with operators' means finds what else is wrong.
        let has_operators = random.u8(..3) == 0;
        let longest = timeout.as_millis() as u64 * if theme == Theme::Short { 12 } else { 5 } / 2;
        let mut faults = Vec::new();
        if theme == Theme::Behind {
            let time = ms(random, 40, 1_600);
            let what = Trouble::Lag { server: random.usize(..servers), time };
            faults.push(Fault::At { when: ms(random, 1, 500), what });
        }
        let mut last = Duration::ZERO;
        for _ in 0..count {
            // Trouble seldom comes alone.
            last = match random.u8(..3) {
                0 => last + ms(random, 1, 50),
                _ => ms(random, 10, if theme.has_one_place() { 6_000 } else { 15_000 }),
            };
            let when = last;
            let client = random.usize(..clients);
            let server = random.usize(..servers);
            let place = places[random.usize(..places.len())];
            // What counts is about as long as a session lives.
            let time = match random.u8(..if theme == Theme::Outages { 4 } else { 12 }) {
                0..3 => timeout.mul_f64(0.2 + random.f64()),
                _ => ms(random, 5, longest),
            };
            if let Some(what) = Trouble::of(random, theme, (client, place), time) {
                let soon = when + ms(random, 1, 50) / 10;
                match (theme, &what) {
                    // Some hear of it only on their next connection, or while they look.
                    (Theme::Gentle, Trouble::Scribble { .. }) => {
                        let cut = Trouble::Cut { client };
                        let next = if random.bool() { cut } else { what.clone() };
                        faults.push(Fault::At { when: soon, what: next });
                    }
                    // What a thread has been told is not true any more when it goes on.
                    (Theme::Outages, Trouble::Expire { .. }) => {
                        faults.push(Fault::At {
                            when,
                            what: Trouble::Stall { client, time: timeout },
                        });
                        let later = when + timeout.mul_f64(random.f64() * 0.8);
                        faults.push(Fault::At { when: later, what });
                        continue;
                    }
                    _ => {}
                }
                faults.push(Fault::At { when, what });
                continue;
            }
            if random.bool() || matches!(theme, Theme::Frames | Theme::Gentle | Theme::Behind) {
                let what = match random.u8(..if theme == Theme::Gentle { 5 } else { 6 }) {
                    // Just behind what lets somebody in.
                    _ if theme == Theme::Behind => FrameFault::CutBehind,
                    0 | 1 => FrameFault::CutBefore,
                    2 | 3 => FrameFault::CutBehind,
                    4 => FrameFault::Tear,
                    _ => FrameFault::Delay(time),
                };
                let (of, nth) = match random.u8(..4) {
                    0 => (Of::Create, random.u32(1..8)),
                    _ => (Of::Any, random.u32(1..if theme == Theme::Frames { 40 } else { 120 })),
                };
                let is_up = theme != Theme::Behind && random.bool();
                faults.push(Fault::Frame { client, is_up, of, nth, what });
                continue;
            }
            if theme == Theme::Short && random.u8(..4) == 0 {
                let time = timeout * 6;
                let what = match random.bool() {
                    true => Trouble::Deaf { client, is_up: false, time },
                    false => Trouble::Useless { client, time },
                };
                faults.push(Fault::At { when: ms(random, 100, 5_000), what });
                continue;
            }
            let what = match random.u8(..if has_operators { 26 } else { 19 }) {
                0 | 1 => Trouble::Cut { client },
                2 => Trouble::BlackHole { client, time },
                3 => Trouble::Deaf { client, is_up: random.bool(), time },
                4 => Trouble::Refuse { client, time },
                5 => Trouble::Freeze { client, time },
                6 => Trouble::Stall { client, time },
                // Longer than a session lives, or not.
                7 => {
                    Trouble::Sleep { client, time: if random.bool() { timeout * 2 } else { time } }
                }
                8 => Trouble::ClockStep { client, milliseconds: random.i64(-5_000..20_000) },
                9 => Trouble::NoThreads { client, time },
                10 => Trouble::Kill { client },
                11 | 12 => Trouble::Crash { server, time },
                13 => Trouble::FreezeServer { server, time },
                14 => Trouble::CutOffServer { server, time },
                15 => Trouble::Lag { server, time },
                16 => Trouble::Depose,
                17 => Trouble::Plant { place, what: Plant::Exclusive, time },
                18 => Trouble::Plant { place, what: Plant::Write, time },
                19 => Trouble::Expire { client },
                20 | 21 => Trouble::Delete { place, nth: random.usize(..5) },
                22 => Trouble::Plant { place, what: Plant::Foreign, time },
                23 => Trouble::Plant { place, what: Plant::Lookalike, time },
                _ => Trouble::Scribble { place, nth: random.usize(..5), is_request: random.bool() },
            };
            faults.push(Fault::At { when, what });
        }
        faults
    }
}

impl Trouble {
    /// What a theme has more of than others.
    fn of(
        random: &mut Rng,
        theme: Theme,
        (client, place): (usize, Place),
        time: Duration,
    ) -> Option<Trouble> {
        let nth = random.usize(..4);
        let choice = random.u8(..12);
        Some(match (theme, choice) {
            (Theme::Gentle, 0..3) | (Theme::Kept, 0..6) => Trouble::Cut { client },
            (Theme::Gentle, 3..9) => Trouble::Scribble { place, nth, is_request: true },
            (Theme::Kept, 6..9) => Trouble::HideDirectory { place, time: time * 2 },
            (Theme::Weeding, 0..6) => Trouble::Delete { place, nth },
            (Theme::Weeding, 6..8) => Trouble::Clear { place, pause: ms(random, 1, 20) },
            (Theme::Hidden, 0..2) => Trouble::Delete { place, nth },
            (Theme::Hidden, 2..8) => {
                Trouble::Hide { place, nth, time: time * 3, is_deleted: random.bool() }
            }
            (Theme::Outages, 0 | 1) => Trouble::Freeze { client, time },
            (Theme::Outages, 2 | 3) => Trouble::Stall { client, time },
            (Theme::Outages, 4 | 10 | 11) => Trouble::Expire { client },
            (Theme::Outages, 5 | 6) => Trouble::Deaf { client, is_up: true, time },
            (Theme::Outages, 8 | 9) => Trouble::Deaf { client, is_up: true, time: time * 3 },
            (Theme::Outages, 7) => Trouble::BlackHole { client, time },
            _ => return None,
        })
    }
}
