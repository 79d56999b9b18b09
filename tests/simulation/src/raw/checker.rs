//! Tracks the programs, their calls and their watches. Checks that sessions last as long as the servers keep them, and
//! that leases do not last longer. Each call has one answer (`answers`), and each watch reports once (`watches`).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kernel::Process;
use zookeeper::{
    CreateMode, ErrorKind, Lease, OpResult, SessionEvent, SessionEventKind, Stat, ZooKeeper,
};
use zookeeper_testing::ensemble::Committed;

use super::history::History;
use super::watches::{ListenerLog, Watch};
use crate::client::has_stalled;
use crate::monitor::{monitor, violation};
use crate::network::Question;

/// A time that is longer than servers need to agree on a transaction.
const AGREED: Duration = Duration::from_millis(10);

/// What the checker may expect of the servers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rules {
    /// Whether no server takes itself for the leader when another one is.
    pub(super) one_leader: bool,
    /// Whether servers may refuse requests because they are too busy.
    pub(super) throttle: bool,
    pub(super) slowest: Duration,
}

/// What a call requests. A watch reports changes after the given transaction. Each part of a transaction is a call with
/// its own number.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    Create { path: String, mode: CreateMode },
    Delete { path: String, is_repeated: bool },
    Set(String),
    Get(String),
    Exists(String),
    Children(String),
    Watch { paths: Vec<String>, since: i64 },
    Several(Vec<usize>),
    Other,
    Sync,
}

#[derive(Debug)]
pub(super) enum Said {
    Done,
    Created(String, Stat),
    /// The result of a create that may have shared a transaction.
    CreatedBy(String, i64),
    Set(Stat),
    Data(Vec<u8>, Stat),
    Found(Option<Stat>),
    Names(BTreeSet<String>, Stat),
    Several(Vec<OpResult>),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    pub(super) process: Process,
    /// The number of the batch. Calls that are sent together have the same one.
    pub(super) batch: usize,
    /// The time within which the answer must arrive, if there is a limit.
    pub(super) limit: Option<Duration>,
    pub(super) wanted: Option<i64>,
    pub(super) is_unheard: bool,
    pub(super) is_shared: bool,
    pub(super) listener: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) made: Made,
    pub(super) asked: Asked,
    pub(super) session: i64,
    /// The newest transaction that the session had seen when the call was made.
    pub(super) seen: i64,
    /// The newest transaction of the servers when the call was made.
    pub(super) head: i64,
    pub(super) begun: Duration,
    pub(super) clock: Instant,
    /// Whether the call is a part of a transaction, which receives the answer.
    pub(super) is_part: bool,
    pub(super) outcome: Option<Result<(), ErrorKind>>,
}

#[derive(Default)]
pub(super) struct Program {
    pub(super) zk: Option<ZooKeeper>,
    pub(super) last: Option<SessionEventKind>,
    /// The current session, or 0 if there is none, and the previous session.
    pub(super) session: i64,
    pub(super) former: i64,
    pub(super) all: Vec<i64>,
    pub(super) lease_ended: bool,
    /// Whether a thread keeps the lease. If so, the lease was certainly valid when the thread began.
    pub(super) is_kept: bool,
    /// The newest term that was read from a lease, and whether the lease with that term was found to be over.
    pub(super) term: u64,
    pub(super) is_over: bool,
    /// The times at which connections were lost, and at which sessions ended.
    pub(super) lost: Vec<Duration>,
    pub(super) ended: Vec<Duration>,
    pub(super) lease_ends: u64,
    pub(super) seen: BTreeMap<i64, i64>,
    pub(super) is_closing: bool,
    /// Nodes that the program has created or may have created.
    pub(super) made: Vec<String>,
    /// The number of the program's client. To connect, a program may need several clients.
    pub(super) tries: usize,
    last_answer: Duration,
    greeted: Option<Duration>,
    timeout: Duration,
}

#[derive(Default)]
pub(super) struct Checker {
    pub(super) rules: Rules,
    pub(super) history: History,
    pub(super) programs: BTreeMap<Process, Program>,
    pub(super) calls: Vec<Call>,
    pub(super) watches: Vec<Watch>,
    pub(super) listeners: Vec<ListenerLog>,
    pub(super) batches: usize,
}

thread_local! {
    static CHECKER: RefCell<Checker> = RefCell::default();
}

pub(super) fn checker<T>(act: impl FnOnce(&mut Checker) -> T) -> T {
    CHECKER.with_borrow_mut(act)
}

pub(super) fn report(who: Process, problem: String) {
    violation(format!("client {}: {problem}", who.0));
}

pub(crate) fn reset(rules: Rules) {
    checker(|checker| *checker = Checker { rules, ..Checker::default() });
}

pub(super) fn is_sequential(mode: CreateMode) -> bool {
    matches!(mode, CreateMode::PersistentSequential | CreateMode::EphemeralSequential)
}

/// Records changes that the servers have applied, and checks that leases of ended sessions are over.
pub(crate) fn committed(one: &Committed) {
    let ending: Vec<(Process, ZooKeeper)> = checker(|checker| {
        checker.history.committed(one);
        let has = |program: &Program| program.session == one.session && !program.is_closing;
        let own = checker.programs.iter().filter(|(_, program)| one.is_close && has(program));
        own.filter_map(|(process, program)| Some((*process, program.zk.clone()?))).collect()
    });
    for (process, zk) in ending {
        let is_free =
            monitor(|monitor| monitor.expired.contains(&one.session) || kernel::is_dead(process));
        let lease = kernel::peek(process, || zk.lease());
        if let (Some(lease), false) = (lease, is_free)
            && lease.session_id == one.session
            && !lease.valid_for.is_zero()
        {
            let left = lease.valid_for;
            report(process, format!("its session ends, but its lease has {left:?} left"));
        }
    }
}

/// Checks the time between two handshakes.
pub(crate) fn greeted(process: Process) {
    let now = kernel::elapsed();
    let silence = checker(|checker| {
        let program = checker.programs.get_mut(&process)?;
        let before = program.greeted.replace(now)?;
        // When no answer has arrived for a session timeout, the pauses between handshakes grow.
        let idle = before.checked_sub(program.last_answer + program.timeout)?;
        kernel::count("raw: a handshake behind a timeout of silence");
        let apart = ((idle + program.timeout) / 16).min(Duration::from_secs(1)) * 9 / 10;
        let is_early = now - before + Duration::from_millis(5) < apart;
        (is_early && !has_stalled(process, program.last_answer)).then_some((now - before, idle))
    });
    if let Some((behind, idle)) = silence {
        report(process, format!("a handshake {behind:?} after the last, in silence for {idle:?}"));
    }
}

/// Checks a handshake with a stranger. The client must not make one once it can know that the server has moved.
pub(crate) fn revealed(process: Process, session: i64, question: Question) {
    let now = kernel::elapsed();
    let problem = checker(|checker| {
        let program = checker.programs.get(&process)?;
        if has_stalled(process, question.asked) {
            return None;
        }
        let Question { asked, answer: (at, is_found) } = question;
        // The client waits for a lookup for at least this long: a third of a twentieth of the session timeout.
        let patience = (program.timeout / 60).min(Duration::from_millis(250));
        if session == 0 {
            Some("is asked for a session".to_owned())
        } else if is_found && now > at + Duration::from_millis(20) {
            Some(format!("is shown a session, and the right address is known for {:?}", now - at))
        } else if now < at && now < asked + patience {
            Some(format!("is shown a session {:?} after the lookup of the name", now - asked))
        } else {
            None
        }
    });
    problem.into_iter().for_each(|problem| report(process, format!("a stranger {problem}")));
}

/// Checks that all sessions of a closed client have ended.
pub(super) fn sessions_are_over(process: Process, mut sessions: Vec<i64>) {
    monitor(|monitor| sessions.retain(|session| !monitor.closed.contains(session)));
    if !sessions.is_empty() {
        report(process, format!("it is closed, but its sessions live: {sessions:x?}"));
    }
}

pub(crate) fn answered(process: Process) {
    checker(|checker| {
        if let Some(program) = checker.programs.get_mut(&process) {
            program.last_answer = kernel::elapsed();
        }
    });
}

/// Checks a session event that one of a program's clients reports.
pub(super) fn session(process: Process, client: usize, event: SessionEvent) {
    kernel::note(|| format!("is notified {event:?}"));
    let SessionEvent { kind, session_id } = event;
    checker(|checker| {
        let own = checker.programs.get_mut(&process).filter(|program| program.tries == client);
        let Some(program) = own else { return };
        program.received(process, event);
        if kind == SessionEventKind::Expired && !program.is_closing && checker.rules.one_leader {
            // The servers may not have agreed yet that the session has ended.
            kernel::after(AGREED, move || {
                if !monitor(|monitor| monitor.closed.contains(&session_id)) {
                    report(process, format!("session {session_id:#x} is given up, but lives"));
                }
            });
        }
    });
    look(process);
}

pub(super) fn look(process: Process) {
    let zk = checker(|checker| checker.programs.get(&process)?.zk.clone());
    if let Some(lease) = zk.and_then(|zk| kernel::peek(process, || zk.lease())) {
        checker(|checker| checker.program(process).looked(process, lease));
    }
}

impl Program {
    pub(super) fn is_closed(&self) -> bool {
        self.last == Some(SessionEventKind::Closed)
    }

    /// Records and checks an event.
    pub(super) fn received(&mut self, process: Process, event: SessionEvent) {
        use SessionEventKind::{
            Closed, Connected, Expired, LeaseEnded, LeaseRenewed, Resumed, Suspended,
        };
        let SessionEvent { kind, session_id } = event;
        let (last, now) = (self.last, kernel::elapsed());
        let fail = |problem| report(process, format!("{kind:?} of {session_id:#x} {problem}"));
        let is_in_order = match kind {
            Connected => matches!(last, None | Some(Expired)),
            Suspended => matches!(last, Some(Connected | Resumed)),
            Resumed | Expired => last == Some(Suspended),
            Closed => last != Some(Closed),
            LeaseEnded => last.is_some(),
            LeaseRenewed => last.is_some() && self.lease_ended,
            _ => true,
        };
        if !is_in_order {
            fail(format!("behind {last:?}"));
        }
        if kind == Connected {
            self.session = session_id;
            self.lease_ended = false;
            self.all.push(session_id);
        }
        if session_id != self.session {
            fail(format!("and it has {:#x}", self.session));
        }
        match kind {
            LeaseEnded => {
                self.lease_ended = true;
                self.lease_ends += 1;
            }
            LeaseRenewed => self.lease_ended = false,
            Suspended => self.lost.push(now),
            Expired => {
                if self.is_kept && !self.lease_ended {
                    fail("with a kept lease whose end is not reported".to_owned());
                }
                self.ended.push(now);
                (self.former, self.session) = (self.session, 0);
            }
            Closed => {
                self.lost.push(now);
                self.ended.push(now);
            }
            _ => {}
        }
        if !matches!(kind, LeaseEnded | LeaseRenewed) {
            self.last = Some(kind);
        }
    }

    /// Checks the lease: its term never decreases, and a lease that is over stays over.
    pub(super) fn looked(&mut self, process: Process, lease: Lease) {
        let Lease { term, valid_for: left, session_id, .. } = lease;
        // The session may have changed after the lease was read.
        if session_id != self.session {
            return;
        }
        if term < self.term {
            report(process, format!("term {term} of the lease after {}", self.term));
        }
        if term > self.term {
            (self.term, self.is_over) = (term, false);
        }
        if self.is_over && !left.is_zero() {
            report(process, format!("the lease of term {term} was over, but has {left:?} left"));
        }
        self.is_over |= left.is_zero();
    }
}

impl Checker {
    /// Registers a client of a program, and returns the client's number.
    pub(super) fn enter(&mut self, process: Process, timeout: Duration) -> usize {
        let tries = self.programs.get(&process).map_or(0, |before| before.tries + 1);
        let last_answer = kernel::elapsed();
        let program = Program { tries, last_answer, timeout, ..Program::default() };
        self.programs.insert(process, program);
        tries
    }

    pub(super) fn program(&mut self, process: Process) -> &mut Program {
        self.programs.get_mut(&process).expect("it has entered")
    }

    pub(super) fn listener(&mut self, process: Process) -> usize {
        self.listeners.push(ListenerLog { process, ..ListenerLog::default() });
        self.listeners.len() - 1
    }

    pub(super) fn next(&self) -> usize {
        self.calls.len()
    }

    /// Returns the newest transaction that a program's current session has seen.
    pub(super) fn newest(&self, process: Process) -> i64 {
        let program = &self.programs[&process];
        program.seen.get(&program.session).copied().unwrap_or_default()
    }

    pub(super) fn begin(&mut self, made: Made, asked: Asked, is_part: bool) -> usize {
        let program = &self.programs[&made.process];
        let (session, seen) = (program.session, self.newest(made.process));
        self.calls.push(Call {
            made,
            asked,
            session,
            seen,
            head: self.history.zxid,
            begun: kernel::elapsed(),
            clock: kernel::now(),
            is_part,
            outcome: None,
        });
        self.calls.len() - 1
    }

    /// Returns whether the client repeats this call until it has succeeded.
    pub(super) fn is_repeated(&self, call: usize) -> bool {
        matches!(self.calls[call].asked, Asked::Delete { is_repeated: true, .. })
    }

    /// Returns how many unanswered calls a program has that a thread waits for.
    pub(super) fn open(&self, process: Process) -> usize {
        let is_open = |call: &&Call| {
            call.made.process == process
                && call.outcome.is_none()
                && !call.is_part
                && !call.made.is_unheard
        };
        self.calls.iter().filter(is_open).count()
    }
}

/// Ends the checks. If `is_whole` is true, every call and every program has finished, so also checks the whole run.
pub(crate) fn finish(is_whole: bool) {
    if is_whole {
        checker(|checker| checker.check_all());
    }
    // The clients are leaked, because their simulated world has ended.
    let programs = checker(|checker| std::mem::take(&mut checker.programs));
    programs.into_values().for_each(|program| std::mem::forget(program.zk));
}
