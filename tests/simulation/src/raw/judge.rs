//! Checks the client's answers and events. Each call gets one answer, by its deadline, that fits what the servers have
//! done. Each watch reports once, before any answer that shows its change. Sessions last as long as the servers keep
//! them, and leases no longer.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kernel::Process;
use zookeeper::testing::ensemble::Committed;
use zookeeper::{ErrorKind, EventType, OpResult, SessionEvent, Stat, WatchedEvent, ZooKeeper};

use super::history::{Done, History};
use super::session::Story;
use crate::client::{SLACK, board};
use crate::network::Question;
use crate::witness::{violation, witness};

/// What the judge may expect of the servers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rules {
    /// No server wrongly takes itself for the leader.
    pub(super) one_leader: bool,
    /// Connections end only because of silence.
    pub(super) only_silence: bool,
    /// Servers may be too busy to answer.
    pub(super) throttle: bool,
    /// Longest delay from a client to a server, or back.
    pub(super) slowest: Duration,
}

/// The request of a call.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    Create {
        path: String,
        is_sequential: bool,
    },
    Delete {
        path: String,
        is_repeated: bool,
    },
    Set(String),
    Get(String),
    Exists(String),
    Children(String),
    /// Watches of several nodes, which report changes after this transaction.
    Watch {
        paths: Vec<String>,
        since: i64,
    },
    /// A transaction of the calls with these numbers.
    Several(Vec<usize>),
    Secret {
        is_known: bool,
    },
    /// A request without a visible effect.
    Other,
    Sync,
}

/// The answer of a call.
#[derive(Debug)]
pub(super) enum Said {
    Done,
    Created(String, Stat),
    /// The answer to a create that may share a transaction.
    CreatedBy(String, i64),
    Set(Stat),
    Data(Vec<u8>, Stat),
    Found(Option<Stat>),
    Names(BTreeSet<String>, Stat),
    Several(Vec<OpResult>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    Failed(ErrorKind),
}

/// How a call was made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    pub(super) process: Process,
    /// Calls that were sent together share a batch.
    pub(super) batch: usize,
    /// Time in which an answer has to come, if there is a limit.
    pub(super) limit: Option<Duration>,
    /// The session that the call is for.
    pub(super) wanted: Option<i64>,
    /// Nobody waits for the answer.
    pub(super) is_unheard: bool,
    /// It may share a transaction with others.
    pub(super) is_shared: bool,
    pub(super) listener: Option<usize>,
}

#[derive(Debug)]
struct Call {
    made: Made,
    asked: Asked,
    session: i64,
    /// The newest transaction that the session had seen.
    seen: i64,
    /// The newest transaction of the servers.
    head: i64,
    begun: Duration,
    clock: Instant,
    /// The call is part of a transaction, which has the answer.
    is_part: bool,
    outcome: Option<Outcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchKind {
    Data,
    Exist,
    Child,
}

#[derive(Debug)]
struct Watch {
    process: Process,
    listener: usize,
    kind: WatchKind,
    path: String,
    session: i64,
    /// The earliest and the latest transaction that the read may have shown.
    since: i64,
    from: i64,
    begun: Duration,
}

#[derive(Debug, Default)]
struct Ear {
    told: Vec<(EventType, String, Duration)>,
    is_dropped: bool,
}

/// A program.
pub(super) struct Program {
    zk: Option<ZooKeeper>,
    pub(super) story: Story,
    seen: BTreeMap<i64, i64>,
    pub(super) is_closing: bool,
    /// Nodes that it has created, or may have.
    pub(super) made: Vec<String>,
    /// Number of its client; connecting may take several.
    pub(super) tries: usize,
    /// When somebody last started to keep the lease.
    pub(super) kept_since: Duration,
    heard: Duration,
    greeted: Option<Duration>,
    timeout: Duration,
}

#[derive(Default)]
pub(super) struct Judge {
    pub(super) rules: Rules,
    pub(super) history: History,
    programs: BTreeMap<Process, Program>,
    calls: Vec<Call>,
    watches: Vec<Watch>,
    ears: Vec<Ear>,
    batches: usize,
}

thread_local! {
    static JUDGE: RefCell<Judge> = RefCell::default();
}

pub(super) fn judge<T>(act: impl FnOnce(&mut Judge) -> T) -> T {
    JUDGE.with_borrow_mut(act)
}

/// Reports problems. The judge must not be borrowed.
pub(super) fn report(who: Process, problems: Vec<String>) {
    for problem in problems {
        violation(format!("client {}: {problem}", who.0));
    }
}

pub(crate) fn reset(rules: Rules) {
    // Clients are leaked because their world has ended.
    let mut before = JUDGE.take();
    forget(&mut before);
    judge(|judge| judge.rules = rules);
}

fn forget(judge: &mut Judge) {
    for program in judge.programs.values_mut() {
        std::mem::forget(program.zk.take());
    }
}

/// Returns how long the machine has stood still since then.
pub(super) fn stalled(process: Process, since: Duration) -> Duration {
    board(|board| board.stalled(process, since))
}

// ---- events

/// Records changes that the servers have carried out, and checks the leases of sessions that end.
pub(crate) fn committed(one: &Committed) {
    let ending: Vec<(Process, ZooKeeper)> = judge(|judge| {
        judge.history.committed(one);
        let has = |program: &Program| program.story.session == one.session && !program.is_closing;
        let own = judge.programs.iter().filter(|(_, program)| one.is_close && has(program));
        own.filter_map(|(process, program)| Some((*process, program.zk.clone()?))).collect()
    });
    for (process, zk) in ending {
        let is_free = witness(|witness| {
            witness.expired.contains(&one.session) || witness.dead.contains(&process)
        });
        let lease = kernel::peek(process, || zk.lease());
        if let (Some(lease), false) = (lease, is_free)
            && lease.session_id == one.session
            && !lease.valid_for.is_zero()
        {
            let left = lease.valid_for;
            report(process, vec![format!("its session ends, and its lease has {left:?} left")]);
        }
    }
}

/// Checks the pause before a handshake.
pub(crate) fn greeted(process: Process) {
    let now = kernel::elapsed();
    let problem = judge(|judge| {
        let program = judge.programs.get_mut(&process)?;
        let before = program.greeted.replace(now)?;
        // After a session timeout without an answer, handshakes are further and further apart.
        let idle = before.checked_sub(program.heard + program.timeout)?;
        kernel::count("raw: a handshake behind a timeout of silence");
        let apart = ((idle + program.timeout) / 16).min(Duration::from_secs(1)) * 9 / 10;
        let is_early = now - before + Duration::from_millis(5) < apart;
        (is_early && stalled(process, program.heard).is_zero()).then(|| {
            format!("a handshake {:?} behind the last, silent for {idle:?} more", now - before)
        })
    });
    report(process, problem.into_iter().collect());
}

/// Checks a handshake with a stranger, which the client must not make when it could know that the server has moved.
pub(crate) fn revealed(process: Process, session: i64, question: Question) {
    let now = kernel::elapsed();
    let problem = judge(|judge| {
        let program = judge.programs.get(&process)?;
        if !stalled(process, question.asked).is_zero() {
            return None;
        }
        let Question { asked, answer: (told, is_found) } = question;
        // A client has at least this long to resolve a name: a third of a twentieth of the session timeout.
        let patience = (program.timeout / 60).min(Duration::from_millis(250));
        if session == 0 {
            Some("is asked for a session".to_owned())
        } else if is_found && now > told + Duration::from_millis(20) {
            Some(format!("is shown a session, and the right address is known for {:?}", now - told))
        } else if now < told && now < asked + patience {
            Some(format!("is shown a session {:?} behind the question for the name", now - asked))
        } else {
            None
        }
    });
    report(process, problem.map(|problem| format!("a stranger {problem}")).into_iter().collect());
}

/// Checks that a program that gets no answers has lost its session after five timeouts.
pub(crate) fn is_deaf(process: Process) {
    let (session, timeout) = judge(|judge| {
        let program = judge.programs.get(&process);
        program.map_or((0, Duration::ZERO), |program| (program.story.session, program.timeout))
    });
    kernel::after(timeout * 5, move || {
        let is_healed = witness(|witness| witness.healed_at.is_some());
        let is_over = judge(|judge| session == 0 || judge.history.closed.contains(&session));
        if !is_healed && !is_over {
            report(process, vec![format!("session {session:#x} lives, and hears nothing")]);
        }
    });
}

/// Checks that the sessions of a closed client have ended.
pub(super) fn sessions_are_over(process: Process, mut sessions: Vec<i64>) {
    judge(|judge| sessions.retain(|session| !judge.history.closed.contains(session)));
    if !sessions.is_empty() {
        report(process, vec![format!("it is closed, and its sessions live: {sessions:x?}")]);
    }
}

/// Records an answer of a server, other than to a handshake.
pub(crate) fn heard(process: Process) {
    judge(|judge| {
        if let Some(program) = judge.programs.get_mut(&process) {
            program.heard = kernel::elapsed();
        }
    });
}

/// Checks an event of a session of one of a program's clients.
pub(super) fn session(process: Process, client: usize, event: SessionEvent) {
    kernel::note(|| format!("is told {event:?}"));
    let problems = judge(|judge| {
        let own = judge.programs.get_mut(&process).filter(|program| program.tries == client);
        let Some(program) = own else {
            return Vec::new();
        };
        let mut problems = program.story.told(event);
        // The servers may be about to end the session.
        let is_over = program.is_closing || judge.history.closed.contains(&event.session_id);
        if event.kind == zookeeper::SessionEventKind::Expired && !is_over && judge.rules.one_leader
        {
            problems.push(format!("session {:#x} is given up, and lives", event.session_id));
        }
        problems
    });
    report(process, problems);
    look(process);
    if event.kind == zookeeper::SessionEventKind::Suspended {
        fell_silent(process);
    }
}

/// Checks a program's lease.
fn look(process: Process) {
    let zk = judge(|judge| judge.programs.get(&process)?.zk.clone());
    let lease = zk.and_then(|zk| kernel::peek(process, || zk.lease()));
    let problems = lease.map(|lease| judge(|judge| judge.program(process).story.looked(lease)));
    report(process, problems.unwrap_or_default());
}

/// Checks after a silence of a server that a kept lease leaves the time to find another server.
fn fell_silent(process: Process) {
    let kept = judge(|judge| {
        let (rules, now) = (judge.rules, kernel::elapsed());
        let program = judge.programs.get(&process).filter(|_| rules.only_silence)?;
        let is_kept = program.story.is_kept && !program.is_closing && !rules.throttle;
        let is_settled = now > program.kept_since + program.timeout * 2;
        let promised = (program.timeout / 5).saturating_sub(rules.slowest * 2 + SLACK / 5);
        (is_kept && is_settled).then_some((program.zk.clone()?, promised))
    });
    let Some((zk, promised)) = kept else {
        return;
    };
    kernel::count("raw: a server falls silent for whoever has its lease kept");
    let left = zk.valid_for();
    if left < promised {
        report(
            process,
            vec![format!("the server was silent, and the lease has only {left:?} left")],
        );
    }
}

/// Checks an event of a listener.
pub(super) fn told(process: Process, listener: usize, event: &WatchedEvent) {
    kernel::note(|| {
        format!("listener {listener} is told {:?} of {}", event.event_type, event.path)
    });
    let problem = judge(|judge| {
        let program = judge.programs.get(&process)?;
        let ear = &mut judge.ears[listener];
        ear.told.push((event.event_type, event.path.clone(), kernel::elapsed()));
        if ear.is_dropped {
            return Some(format!("listener {listener} is told of {} and was dropped", event.path));
        }
        let may_end = program.story.has_ended() || program.is_closing;
        (event.event_type == EventType::WatchEnded && !may_end)
            .then(|| format!("listener {listener} is told the end of {}, too early", event.path))
    });
    report(process, problem.into_iter().collect());
}

// ---- acts of programs

impl Judge {
    /// Registers a client of a program. Returns its number.
    pub(super) fn enter(&mut self, process: Process, timeout: Duration) -> usize {
        let tries = self.programs.get(&process).map_or(0, |before| before.tries + 1);
        let program = Program {
            tries,
            zk: None,
            story: Story::default(),
            seen: BTreeMap::new(),
            is_closing: false,
            made: Vec::new(),
            kept_since: Duration::ZERO,
            heard: kernel::elapsed(),
            greeted: None,
            timeout,
        };
        self.programs.insert(process, program);
        tries
    }

    pub(super) fn program(&mut self, process: Process) -> &mut Program {
        self.programs.get_mut(&process).expect("it has entered")
    }

    pub(super) fn connected(&mut self, process: Process, zk: ZooKeeper) {
        self.program(process).zk = Some(zk);
    }

    /// Removes the client from the judge. The caller drops it, outside of the judge's borrow.
    pub(super) fn leave(&mut self, process: Process) -> Option<ZooKeeper> {
        self.program(process).zk.take()
    }

    pub(super) fn listener(&mut self) -> usize {
        self.ears.push(Ear::default());
        self.ears.len() - 1
    }

    pub(super) fn dropped(&mut self, listener: usize) {
        self.ears[listener].is_dropped = true;
    }

    pub(super) fn batch(&mut self) -> usize {
        self.batches += 1;
        self.batches
    }

    /// Returns the number of the next call.
    pub(super) fn next(&self) -> usize {
        self.calls.len()
    }

    /// Registers a call. Returns its number.
    pub(super) fn begin(&mut self, made: Made, asked: Asked, is_part: bool) -> usize {
        let program = &self.programs[&made.process];
        let session = program.story.session;
        let seen = program.seen.get(&session).copied().unwrap_or_default();
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

    /// Returns whether a call is sent again until it is done.
    pub(super) fn is_repeated(&self, call: usize) -> bool {
        matches!(self.calls[call].asked, Asked::Delete { is_repeated: true, .. })
    }

    /// Returns the number of calls without an answer that somebody waits for.
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

/// Checks the answer of a call. `is_in_order` says that the client delivers answers here in their order.
pub(super) fn answered(
    number: usize,
    result: zookeeper::Result<Said>,
    is_in_order: bool,
) -> Option<ErrorKind> {
    let kind = result.as_ref().err().map(zookeeper::Error::kind);
    kernel::note(|| match &result {
        Ok(said) => format!("call {number}: {said:?}"),
        Err(error) => format!("call {number}: {error}"),
    });
    let (process, problems) = judge(|judge| {
        let process = judge.calls[number].made.process;
        (process, judge.answered(number, result, is_in_order))
    });
    report(process, problems);
    if number.is_multiple_of(2) {
        look(process);
    }
    kind
}

impl Judge {
    fn answered(
        &mut self,
        number: usize,
        result: zookeeper::Result<Said>,
        is_in_order: bool,
    ) -> Vec<String> {
        let is_late = self.check_time(number, result.as_ref().err());
        let mut problems = Vec::from_iter(is_late);
        let outcome = match &result {
            Ok(_) => Outcome::Done,
            Err(error) => Outcome::Failed(error.kind()),
        };
        let call = &mut self.calls[number];
        let before = call.outcome.replace(outcome);
        if before.is_some() {
            problems.push(format!("call {number} is answered twice, {before:?} and {outcome:?}"));
        }
        let by_server = match outcome {
            Outcome::Done => true,
            Outcome::Failed(kind) => is_answer(kind),
        };
        if by_server && is_in_order {
            problems.extend(self.check_order(number));
        }
        let (asked, process) = (self.calls[number].asked.clone(), self.calls[number].made.process);
        match &result {
            Ok(said) => {
                let problem = self.check_said(number, &asked, said);
                problems
                    .extend(problem.map(|problem| format!("call {number}, {asked:?}: {problem}")));
                self.watch(number, &asked, said);
                problems.extend(self.watch_each(number, &asked));
                if let Some(zxid) = shown(said) {
                    problems.extend(self.check_watches(process, number, zxid));
                    self.see(number, zxid);
                }
                if matches!(asked, Asked::Sync) && self.rules.one_leader {
                    self.see(number, self.calls[number].head);
                }
            }
            Err(error) => {
                let problem = self.check_error(number, &asked, error);
                problems
                    .extend(problem.map(|problem| format!("call {number}, {asked:?}: {problem}")));
            }
        }
        if let Asked::Several(parts) = asked {
            parts.iter().for_each(|part| self.calls[*part].outcome = Some(outcome));
        }
        problems
    }

    /// Checks that an answer is in time and that no call is given up early. The client's own clock may stand still.
    fn check_time(&self, number: usize, error: Option<&zookeeper::Error>) -> Option<String> {
        let call = &self.calls[number];
        let limit = call.made.limit?;
        let took = kernel::elapsed() - call.begun;
        if took > limit + stalled(call.made.process, call.begun) + SLACK {
            return Some(format!("call {number} took {took:?} instead of {limit:?}"));
        }
        let passed = kernel::now().saturating_duration_since(call.clock);
        let is_late = error.is_some_and(|error| {
            matches!(error.kind(), ErrorKind::Timeout | ErrorKind::NoConnection)
        });
        (is_late && passed < limit)
            .then(|| format!("call {number} has no answer by {limit:?}, at {passed:?}"))
    }

    /// Returns whether both calls may share transactions, and so be answered in any order.
    pub(super) fn are_shared(&self, calls: [usize; 2]) -> bool {
        calls.iter().all(|call| self.calls[*call].made.is_shared)
    }

    /// Checks that calls of a batch are answered in their order, except for calls past their deadline.
    fn check_order(&self, number: usize) -> Option<String> {
        let batch = self.calls[number].made.batch;
        let earlier = self.calls[..number].iter().enumerate().rev();
        let mut own = earlier.take_while(|(_, call)| call.made.batch == batch);
        let left = own.find(|(other, call)| {
            let is_repeated = matches!(call.asked, Asked::Delete { is_repeated: true, .. });
            let passed = kernel::now().saturating_duration_since(call.clock);
            let is_late = call.made.limit.is_some_and(|limit| passed >= limit);
            let may_wait = is_repeated || is_late || self.are_shared([number, *other]);
            call.outcome.is_none() && !call.is_part && !may_wait
        });
        left.map(|(left, _)| format!("call {number} is answered before {left}"))
    }

    /// Returns the session of a call, if it has been the same all the time.
    fn session_of(&self, number: usize) -> Option<i64> {
        let call = &self.calls[number];
        let now = self.programs[&call.made.process].story.session;
        (now != 0 && now == call.session).then_some(now)
    }

    /// Returns the newest transaction that the session had seen at the call, with the writes before
    /// it in its batch. Writes that share transactions come in any order.
    fn seen(&self, number: usize) -> i64 {
        let call = &self.calls[number];
        let before = self.calls[..number].iter().enumerate().rev();
        let before = before.take_while(|(_, other)| other.made.batch == call.made.batch);
        let done = before.filter(|(_, other)| other.outcome == Some(Outcome::Done));
        let done = done.filter(|(_, other)| !(other.made.is_shared && call.made.is_shared));
        let done = done.filter_map(|(other, _)| Some(self.history.done.get(&other)?.last()?.zxid));
        self.session_of(number).map_or(0, |_| done.fold(call.seen, i64::max))
    }

    /// Records a transaction that the session has seen.
    fn see(&mut self, number: usize, zxid: i64) {
        if let Some(session) = self.session_of(number) {
            let process = self.calls[number].made.process;
            let seen = self.program(process).seen.entry(session).or_default();
            *seen = (*seen).max(zxid);
        }
    }

    fn check_said(&mut self, number: usize, asked: &Asked, said: &Said) -> Option<String> {
        let seen = self.seen(number);
        let history = &self.history;
        let done = history.done.get(&number).map_or(&[][..], Vec::as_slice);
        let is_done = |zxid: i64| done.iter().any(|done| done.zxid == zxid);
        match (asked, said) {
            (Asked::Create { path, is_sequential }, Said::Created(made, stat)) => {
                let rest = made.strip_prefix(path.as_str());
                let digits = if *is_sequential { 10 } else { 0 };
                let is_its = rest.is_some_and(|rest| {
                    rest.len() == digits && rest.bytes().all(|digit| digit.is_ascii_digit())
                });
                let fits = is_its && is_done(stat.czxid) && history.fits(made, 0, stat, None);
                (!fits).then(|| format!("no such node was made: {made}, {stat:?}, {done:?}"))
            }
            (Asked::Create { path, .. }, Said::CreatedBy(made, czxid)) => {
                let fits = made.starts_with(path.as_str()) && is_done(*czxid);
                (!fits).then(|| format!("no such node was made: {made}, {czxid:#x}, {done:?}"))
            }
            (Asked::Set(path), Said::Set(stat)) => {
                let fits = is_done(stat.mzxid) && history.fits(path, 0, stat, None);
                (!fits).then(|| format!("it was not written so: {stat:?}, {done:?}"))
            }
            (Asked::Get(path), Said::Data(data, stat)) => {
                let fits = history.fits(path, seen, stat, Some(data));
                (!fits).then(|| format!("it was never so behind {seen:#x}: {stat:?}"))
            }
            (Asked::Exists(path), Said::Found(Some(stat))) => {
                let fits = history.fits(path, seen, stat, None)
                    && history.has_children(path, 0, stat, None);
                (!fits).then(|| format!("it was never so behind {seen:#x}: {stat:?}"))
            }
            (Asked::Exists(path), Said::Found(None)) => {
                let fits = history.may_be_absent(path, seen).is_some();
                (!fits).then(|| format!("it was always there behind {seen:#x}"))
            }
            (Asked::Children(path), Said::Names(names, stat)) => {
                let fits = history.has_children(path, seen, stat, Some(names));
                (!fits).then(|| format!("it never had these behind {seen:#x}: {names:?}, {stat:?}"))
            }
            (Asked::Several(parts), Said::Several(results)) => {
                (parts.len() != results.len()).then(|| format!("{results:?}"))
            }
            (
                Asked::Delete { .. } | Asked::Watch { .. } | Asked::Sync | Asked::Other,
                Said::Done,
            ) => None,
            (Asked::Secret { .. }, Said::Created(..) | Said::Data(..)) => None,
            _ => Some(format!("the answer of another call: {said:?}")),
        }
    }

    fn check_error(
        &self,
        number: usize,
        asked: &Asked,
        error: &zookeeper::Error,
    ) -> Option<String> {
        let call = &self.calls[number];
        let program = &self.programs[&call.made.process];
        let seen = self.seen(number);
        let history = &self.history;
        let begun = call.begun;
        let is_since = |times: &[Duration]| times.iter().any(|time| *time >= begun);
        let is_absent = |path: &str| history.may_be_absent(path, seen).is_some();
        let parent = |path: &str| path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
        let fits = match (error.kind(), asked) {
            (ErrorKind::NoNode, Asked::Create { path, .. }) => {
                parent(path).is_some_and(|parent| is_absent(&parent))
            }
            (
                ErrorKind::NoNode,
                Asked::Delete { path, is_repeated: false }
                | Asked::Set(path)
                | Asked::Get(path)
                | Asked::Children(path),
            ) => is_absent(path),
            (ErrorKind::NodeExists, Asked::Create { path, is_sequential: false }) => {
                history.may_be(path, seen, |_| true)
            }
            (ErrorKind::NoChildrenForEphemerals, Asked::Create { path, .. }) => parent(path)
                .is_some_and(|parent| history.may_be(&parent, seen, |state| state.owner != 0)),
            (ErrorKind::NotEmpty, Asked::Delete { .. }) => true,
            (kind, Asked::Several(parts)) if is_answer(kind) && kind != BUSY => {
                error.failed_op().is_some_and(|failed| failed < parts.len())
            }
            (ErrorKind::NoAuth, Asked::Secret { is_known }) => !is_known,
            (
                ErrorKind::NoNode | ErrorKind::NodeExists | ErrorKind::InvalidAcl,
                Asked::Secret { .. },
            ) => true,
            (BUSY, Asked::Delete { is_repeated: true, .. }) => false,
            (BUSY, _) => self.rules.throttle,
            (ErrorKind::ConnectionLoss, Asked::Delete { is_repeated: true, .. }) => {
                program.is_closing || is_since(&program.story.ended)
            }
            // Another thread may report the event at the same time, so `finish` checks it.
            (ErrorKind::ConnectionLoss | ErrorKind::Timeout | ErrorKind::NoConnection, _) => {
                !matches!(asked, Asked::Delete { is_repeated: true, .. })
            }
            (ErrorKind::SessionExpired, _) => match call.made.wanted {
                Some(wanted) => wanted != call.session || self.session_of(number).is_none(),
                None => true,
            },
            (ErrorKind::Closed, _) => program.is_closing,
            _ => false,
        };
        (!fits).then(|| format!("it was never so behind {seen:#x}: {error}"))
    }

    // ---- watches

    fn watch(&mut self, number: usize, asked: &Asked, said: &Said) {
        let (Some(listener), Some(session)) =
            (self.calls[number].made.listener, self.session_of(number))
        else {
            return;
        };
        let seen = self.seen(number);
        let (kind, path, (since, from)) = match (asked, said) {
            (Asked::Exists(path), Said::Found(None)) => {
                let from = self.history.may_be_absent(path, seen).unwrap_or_default();
                (WatchKind::Exist, path, from)
            }
            (Asked::Exists(path), Said::Found(Some(stat)))
            | (Asked::Get(path), Said::Data(_, stat)) => {
                (WatchKind::Data, path, (stat.mzxid, stat.mzxid))
            }
            (Asked::Children(path), Said::Names(_, stat)) => {
                (WatchKind::Child, path, (stat.pzxid, stat.pzxid))
            }
            _ => return,
        };
        let call = &self.calls[number];
        let (process, begun, path) = (call.made.process, call.begun, path.clone());
        kernel::count(match kind {
            WatchKind::Data => "raw: a watch of data",
            WatchKind::Exist => "raw: a watch of a node that is not there",
            WatchKind::Child => "raw: a watch of children",
        });
        self.watches.push(Watch { process, listener, kind, path, session, since, from, begun });
    }

    /// Takes the answer to a call that watches several nodes. Returns those that are missing and were not reported.
    fn watch_each(&mut self, number: usize, asked: &Asked) -> Vec<String> {
        let (Asked::Watch { paths, since }, Some(session), Some(listener)) =
            (asked, self.session_of(number), self.calls[number].made.listener)
        else {
            return Vec::new();
        };
        let Call { made: Made { process, .. }, begun, seen, .. } = self.calls[number];
        let mut problems = Vec::new();
        for path in paths {
            kernel::count("raw: a watch beside others");
            // The server has set it by now.
            let (kind, from) = (WatchKind::Data, (*since).min(self.history.zxid));
            let (since, path) = (from.min(seen), path.clone());
            let watch = Watch { process, listener, kind, path, session, since, from, begun };
            let was_there = self.history.may_be(&watch.path, seen, |_| true);
            if !was_there {
                kernel::count("raw: a watch of a missing node beside others");
            }
            if !was_there && !self.ears[listener].is_dropped && !self.has_told(&watch) {
                problems.push(format!("call {number} is answered, and told nothing: {watch:?}"));
            }
            self.watches.push(watch);
        }
        problems
    }

    /// Returns the newest transaction that the session of a program has seen.
    pub(super) fn newest(&self, process: Process) -> i64 {
        let program = &self.programs[&process];
        program.seen.get(&program.story.session).copied().unwrap_or_default()
    }

    /// Returns the transaction that a watch has to report, if there was one.
    fn due(&self, watch: &Watch) -> Option<i64> {
        match watch.kind {
            WatchKind::Data | WatchKind::Exist => self.history.changed(&watch.path, watch.from),
            WatchKind::Child => self.history.children_changed(&watch.path, watch.from),
        }
    }

    fn has_told(&self, watch: &Watch) -> bool {
        self.ears[watch.listener].told.iter().any(|(event, path, at)| {
            let is_its = match event {
                EventType::NodeCreated | EventType::NodeDataChanged => {
                    watch.kind != WatchKind::Child
                }
                EventType::NodeChildrenChanged => watch.kind == WatchKind::Child,
                _ => true,
            };
            is_its && *path == watch.path && *at >= watch.begun
        })
    }

    /// Returns whether a watch for a missing node may miss changes, because the connection was lost meanwhile.
    fn may_miss(&self, watch: &Watch) -> bool {
        watch.kind == WatchKind::Exist
            && self.programs[&watch.process].story.lost.iter().any(|lost| *lost >= watch.begun)
    }

    /// Checks that all changes up to a transaction that an answer shows have been reported.
    fn check_watches(&self, process: Process, number: usize, zxid: i64) -> Vec<String> {
        let Some(session) = self.session_of(number) else {
            return Vec::new();
        };
        let own = self.watches.iter().filter(|watch| {
            watch.process == process
                && watch.session == session
                && !self.ears[watch.listener].is_dropped
                && !self.may_miss(watch)
        });
        own.filter_map(|watch| {
            let due = self.due(watch).filter(|due| *due <= zxid)?;
            (!self.has_told(watch)).then(|| {
                format!("call {number} shows {zxid:#x}, and {due:#x} was not told: {watch:?}")
            })
        })
        .collect()
    }

    /// Checks long after the last fault that no event is missing.
    pub(super) fn check_told(&self, process: Process) -> Vec<String> {
        let session = self.programs[&process].story.session;
        let own = self.watches.iter().filter(|watch| {
            watch.process == process
                && watch.session == session
                && !self.ears[watch.listener].is_dropped
                && self.due(watch).is_some()
        });
        let untold = own.filter(|watch| {
            let is_sure = !self.may_miss(watch) || self.history.is_there(&watch.path);
            is_sure && !self.has_told(watch)
        });
        untold.map(|watch| format!("never told: {watch:?}")).collect()
    }

    // ---- at the end of the run

    fn check_all(&self) -> Vec<(Process, String)> {
        let mut problems = Vec::new();
        for (number, call) in self.calls.iter().enumerate() {
            problems.extend(self.check_call(number, call).map(|text| (call.made.process, text)));
        }
        for (listener, ear) in self.ears.iter().enumerate() {
            problems.extend(self.check_listener(listener, ear));
        }
        problems.extend(self.check_deletions());
        problems
    }

    /// Compares what the servers have done for a call with its answer.
    fn check_call(&self, number: usize, call: &Call) -> Option<String> {
        let process = call.made.process;
        let is_dead = witness(|witness| witness.dead.contains(&process));
        let asked = &call.asked;
        if call.outcome.is_none() && !is_dead && !call.is_part && !call.made.is_unheard {
            return Some(format!("call {number}, {asked:?}, is never answered"));
        }
        if call.outcome == Some(Outcome::Failed(ErrorKind::ConnectionLoss)) && !call.is_part {
            let story = &self.programs[&process].story;
            // A call that waits for others first may begin just after the connection was lost.
            if !story.lost.iter().any(|lost| *lost + SLACK >= call.begun) {
                return Some(format!("call {number} fails with a connection that was never lost"));
            }
        }
        if !matches!(asked, Asked::Create { .. } | Asked::Set(_)) {
            return None;
        }
        let done = self.history.done.get(&number).map_or(&[][..], Vec::as_slice);
        let wrong = |one: &&Done| call.made.wanted.is_some_and(|wanted| wanted != one.session);
        if let Some(one) = done.iter().find(wrong) {
            return Some(format!("call {number} was done in {:#x}: {:?}", one.session, call.made));
        }
        let fits = match call.outcome {
            Some(Outcome::Done) => done.len() == 1,
            Some(Outcome::Failed(ErrorKind::ConnectionLoss | ErrorKind::Timeout)) => {
                if !done.is_empty() {
                    kernel::count("raw: done, though its answer was lost");
                }
                done.len() <= 1
            }
            None => done.len() <= 1,
            Some(Outcome::Failed(_)) => done.is_empty(),
        };
        (!fits).then(|| {
            format!("call {number}, {asked:?}: {:?}, and it was done {done:?}", call.outcome)
        })
    }

    /// Counts deletions for each client, because they carry no marks.
    fn check_deletions(&self) -> Vec<(Process, String)> {
        let mut asked: BTreeMap<(Process, &str), [usize; 2]> = BTreeMap::new();
        for call in &self.calls {
            let Asked::Delete { path, is_repeated } = &call.asked else {
                continue;
            };
            let [least, most] = asked.entry((call.made.process, path)).or_default();
            match call.outcome {
                Some(Outcome::Done) if !is_repeated => (*least, *most) = (*least + 1, *most + 1),
                // The client repeats a deletion whose first result is unknown.
                Some(Outcome::Done) | None => *most += 1 + 9 * usize::from(*is_repeated),
                Some(Outcome::Failed(ErrorKind::ConnectionLoss | ErrorKind::Timeout)) => {
                    *most += 1 + 9 * usize::from(*is_repeated);
                }
                Some(Outcome::Failed(_)) => {}
            }
        }
        let mut problems = Vec::new();
        let all: BTreeSet<&str> = self.history.deleted.keys().map(String::as_str).collect();
        let paths = asked.keys().map(|(_, path)| *path).chain(all);
        for path in paths.collect::<BTreeSet<_>>() {
            for (process, program) in &self.programs {
                let done = self.history.deleted.get(path).map_or(&[][..], Vec::as_slice);
                let own = done.iter().filter(|done| program.story.all.contains(&done.session));
                let own = own.count();
                let [least, most] = asked.get(&(*process, path)).copied().unwrap_or_default();
                if own < least || own > most {
                    let text = format!("{path} was deleted {own} times, not {least} to {most}");
                    problems.push((*process, text));
                }
            }
        }
        problems
    }

    /// Returns whether a call that watches several nodes may have caused an event, which goes to all listeners.
    fn is_told_to_all(&self, process: Process, event: EventType, path: &str, at: Duration) -> bool {
        self.calls.iter().any(|call| match &call.asked {
            Asked::Watch { paths, since } if paths.iter().any(|own| own == path) => {
                let since = (*since).min(call.seen);
                let is_true = match event {
                    EventType::NodeDeleted => self.history.may_be_absent(path, since).is_some(),
                    _ => self.history.changed(path, since).is_some(),
                };
                call.made.process == process && call.begun <= at && is_true
            }
            _ => false,
        })
    }

    /// Checks that each watch reports once.
    fn check_listener(&self, listener: usize, ear: &Ear) -> Vec<(Process, String)> {
        let may_watch = |call: &&Call| {
            let may_be_set = match call.outcome {
                // Without an outcome, nobody waits for it, or its process was killed, maybe behind the answer.
                Some(Outcome::Done) | None => true,
                // In a process that stood still, a call may give up just before its answer is read.
                Some(Outcome::Failed(ErrorKind::Timeout)) => {
                    !stalled(call.made.process, call.begun).is_zero()
                }
                Some(_) => false,
            };
            // An event may come before the answer that is lost.
            let may_be_early = matches!(call.asked, Asked::Watch { .. });
            call.made.listener == Some(listener) && (may_be_set || may_be_early)
        };
        let watching: Vec<&Call> = self.calls.iter().filter(may_watch).collect();
        let mut problems = Vec::new();
        for (event, path, at) in &ear.told {
            let is_its = |call: &&&Call| match &call.asked {
                Asked::Get(own) | Asked::Exists(own) | Asked::Children(own) => own == path,
                Asked::Watch { paths, .. } => paths.contains(path),
                _ => false,
            };
            let told = ear.told.iter().filter(|(_, other, _)| other == path).count();
            let calls = watching.iter().filter(is_its).count();
            let process = self.calls.iter().find(|call| call.made.listener == Some(listener));
            let process = process.map_or(Process(0), |call| call.made.process);
            if told > calls && !self.is_told_to_all(process, *event, path, *at) {
                let text = format!(
                    "listener {listener} is told of {path} {told} times for {calls} watches"
                );
                problems.push((process, text));
            }
            let own = self.watches.iter().filter(|watch| {
                watch.listener == listener && watch.path == *path && watch.begun <= *at
            });
            // Every watch is known.
            let is_known = own.clone().count() == calls;
            let is_true = own.clone().any(|watch| match event {
                EventType::NodeCreated => self.history.was_created_behind(path, watch.since),
                EventType::NodeDeleted => self.history.may_be_absent(path, watch.since).is_some(),
                EventType::NodeDataChanged => self.history.changed(path, watch.since).is_some(),
                EventType::NodeChildrenChanged => {
                    self.history.children_changed(path, watch.since).is_some()
                }
                _ => true,
            });
            if is_known && !is_true && !self.is_told_to_all(process, *event, path, *at) {
                let text =
                    format!("listener {listener} is told {event:?} of {path}, which was not");
                problems.push((process, text));
            }
        }
        let process = |watch: &&Watch| {
            let is_dead = witness(|witness| witness.dead.contains(&watch.process));
            !is_dead && self.programs[&watch.process].story.is_closed()
        };
        let own = self.watches.iter().filter(|watch| watch.listener == listener && !ear.is_dropped);
        for watch in own.filter(process).filter(|watch| !self.has_told(watch)) {
            problems.push((watch.process, format!("told of nothing, not even its end: {watch:?}")));
        }
        problems
    }
}

const BUSY: ErrorKind = ErrorKind::Server(-127);

/// Returns whether an error is a server's answer, so that nothing was done.
fn is_answer(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::ConnectionLoss
            | ErrorKind::Timeout
            | ErrorKind::NoConnection
            | ErrorKind::SessionExpired
            | ErrorKind::Closed
            | ErrorKind::BadArguments
            | ErrorKind::WouldBlock
    )
}

/// Returns the newest transaction that an answer shows.
fn shown(said: &Said) -> Option<i64> {
    match said {
        Said::Created(_, stat) => Some(stat.czxid),
        Said::CreatedBy(_, czxid) => Some(*czxid),
        Said::Set(stat) | Said::Data(_, stat) | Said::Found(Some(stat)) | Said::Names(_, stat) => {
            Some(stat.czxid.max(stat.mzxid).max(stat.pzxid))
        }
        _ => None,
    }
}

/// Checks the whole run, if `is_whole` says that nothing was left under way.
pub(crate) fn finish(is_whole: bool) {
    let problems = judge(|judge| match is_whole {
        true => judge.check_all(),
        false => Vec::new(),
    });
    problems.into_iter().for_each(|(process, problem)| report(process, vec![problem]));
    judge(forget);
}
