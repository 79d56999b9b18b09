//! Checks that each answer is in time, in order, and consistent with what the servers did. At the end of a run, checks
//! that each call was answered, and that the servers did what the answer states.

use kernel::Process;
use zookeeper::{Error, ErrorKind, Result};

use super::checker::{Asked, Call, Checker, Said, checker, is_sequential, look, report};
use super::history::Done;
use crate::client::{SLACK, stalled};
use crate::monitor::parent;

/// Checks the answer to a call. If `is_in_order` is true, the client has to deliver this answer in order.
pub(super) fn answered(
    number: usize,
    result: Result<Said>,
    is_in_order: bool,
) -> Option<ErrorKind> {
    let kind = result.as_ref().err().map(Error::kind);
    kernel::note(|| match &result {
        Ok(said) => format!("call {number}: {said:?}"),
        Err(error) => format!("call {number}: {error}"),
    });
    let process = checker(|checker| checker.answered(number, result, is_in_order));
    if number.is_multiple_of(2) {
        look(process);
    }
    kind
}

impl Checker {
    /// Records and checks the answer. Returns the process of the call.
    fn answered(&mut self, number: usize, result: Result<Said>, is_in_order: bool) -> Process {
        let process = self.calls[number].made.process;
        let fail = |problem| report(process, problem);
        self.check_time(number, result.as_ref().err()).into_iter().for_each(fail);
        let outcome = result.as_ref().map(drop).map_err(Error::kind);
        let before = self.calls[number].outcome.replace(outcome);
        if before.is_some() {
            fail(format!("call {number} is answered twice, {before:?} and {outcome:?}"));
        }
        if outcome.map_or_else(is_answer, |()| true) && is_in_order {
            self.check_order(number).into_iter().for_each(fail);
        }
        let asked = self.calls[number].asked.clone();
        let problem = match &result {
            Ok(said) => self.check_said(number, &asked, said),
            Err(error) => self.check_error(number, &asked, error),
        };
        problem.map(|problem| format!("call {number}, {asked:?}: {problem}")).map(fail);
        if let Ok(said) = &result {
            self.watch(number, &asked, said);
            self.watch_each(number, &asked);
            if let Some(zxid) = shown(said) {
                self.check_watches(number, zxid);
                self.see(number, zxid);
            }
            if matches!(asked, Asked::Sync) && self.rules.one_leader {
                self.see(number, self.calls[number].head);
            }
        }
        if let Asked::Several(parts) = asked {
            parts.iter().for_each(|part| self.calls[*part].outcome = Some(outcome));
        }
        process
    }

    /// Checks that an answer is in time, and that the client has not given up too early. The client's clock may have
    /// been stopped for a while.
    fn check_time(&self, number: usize, error: Option<&Error>) -> Option<String> {
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

    /// Returns whether both calls may share transactions. If so, their answers may arrive in any order.
    pub(super) fn are_shared(&self, calls: [usize; 2]) -> bool {
        calls.iter().all(|call| self.calls[*call].made.is_shared)
    }

    /// Checks that the calls of a batch are answered in order, apart from calls whose deadlines have passed.
    fn check_order(&self, number: usize) -> Option<String> {
        let batch = self.calls[number].made.batch;
        let earlier = self.calls[..number].iter().enumerate().rev();
        let mut own = earlier.take_while(|(_, call)| call.made.batch == batch);
        let left = own.find(|(other, call)| {
            let is_repeated = self.is_repeated(*other);
            let passed = kernel::now().saturating_duration_since(call.clock);
            let is_late = call.made.limit.is_some_and(|limit| passed >= limit);
            let may_wait = is_repeated || is_late || self.are_shared([number, *other]);
            call.outcome.is_none() && !call.is_part && !may_wait
        });
        left.map(|(left, _)| format!("call {number} is answered before {left}"))
    }

    /// Returns the session in which a call was made, if it is still the current one.
    pub(super) fn session_of(&self, number: usize) -> Option<i64> {
        let call = &self.calls[number];
        let now = self.programs[&call.made.process].session;
        (now != 0 && now == call.session).then_some(now)
    }

    /// Returns the newest transaction that the session had seen when the call was executed, including earlier writes in
    /// the batch. Writes that may share transactions can be executed in any order.
    pub(super) fn seen(&self, number: usize) -> i64 {
        let call = &self.calls[number];
        let before = self.calls[..number].iter().enumerate().rev();
        let before = before.take_while(|(_, other)| other.made.batch == call.made.batch);
        let done = before.filter(|(_, other)| other.outcome == Some(Ok(())));
        let done = done.filter(|(_, other)| !(other.made.is_shared && call.made.is_shared));
        let done = done.filter_map(|(other, _)| Some(self.history.done.get(&other)?.last()?.zxid));
        self.session_of(number).map_or(0, |_| done.fold(call.seen, i64::max))
    }

    fn see(&mut self, number: usize, zxid: i64) {
        if let Some(session) = self.session_of(number) {
            let process = self.calls[number].made.process;
            let seen = self.program(process).seen.entry(session).or_default();
            *seen = (*seen).max(zxid);
        }
    }

    fn check_said(&self, number: usize, asked: &Asked, said: &Said) -> Option<String> {
        use Asked::{Children, Create, Delete, Exists, Get, Other, Set, Sync, Watch};
        let (seen, history) = (self.seen(number), &self.history);
        let done = history.done_for(number);
        let is_done = |zxid: i64| done.iter().any(|done| done.zxid == zxid);
        let fits = match (asked, said) {
            (Create { path, mode }, Said::Created(made, stat)) => {
                let digits = if is_sequential(*mode) { 10 } else { 0 };
                let is_its = made.strip_prefix(path.as_str()).is_some_and(|rest| {
                    rest.len() == digits && rest.bytes().all(|digit| digit.is_ascii_digit())
                });
                is_its && is_done(stat.czxid) && history.fits(made, 0, stat, None)
            }
            (Create { path, .. }, Said::CreatedBy(made, czxid)) => {
                made.starts_with(path.as_str()) && is_done(*czxid)
            }
            (Set(path), Said::Set(stat)) if !is_done(stat.mzxid) => false,
            (Set(path), Said::Set(stat)) => history.fits(path, 0, stat, None),
            (Get(path), Said::Data(data, stat)) => history.fits(path, seen, stat, Some(data)),
            (Exists(path), Said::Found(Some(stat))) => {
                history.fits(path, seen, stat, None) && history.has_children(path, 0, stat, None)
            }
            (Exists(path), Said::Found(None)) => history.may_be_absent(path, seen).is_some(),
            (Children(path), Said::Names(names, stat)) => {
                history.has_children(path, seen, stat, Some(names))
            }
            (Asked::Several(parts), Said::Several(results)) => parts.len() == results.len(),
            (Delete { .. } | Watch { .. } | Sync | Other, Said::Done) => true,
            _ => false,
        };
        (!fits).then(|| format!("it was never so after {seen:#x}: {said:?}; done: {done:?}"))
    }

    fn check_error(&self, number: usize, asked: &Asked, error: &Error) -> Option<String> {
        use Asked::{Children, Create, Delete, Get, Set, Several};
        use ErrorKind::{
            Closed, ConnectionLoss, NoChildrenForEphemerals, NoConnection, NoNode, NodeExists,
            NotEmpty, SessionExpired, Timeout,
        };
        let call = &self.calls[number];
        let program = &self.programs[&call.made.process];
        let (seen, history) = (self.seen(number), &self.history);
        let is_absent = |path: &str| history.may_be_absent(path, seen).is_some();
        let fits = match (error.kind(), asked) {
            (NoNode, Create { path, .. }) => is_absent(parent(path)),
            (
                NoNode,
                Delete { path, is_repeated: false } | Set(path) | Get(path) | Children(path),
            ) => is_absent(path),
            (NodeExists, Create { path, mode }) => {
                !is_sequential(*mode) && history.may_be(path, seen, |_| true)
            }
            (NoChildrenForEphemerals, Create { path, .. }) => {
                history.may_be(parent(path), seen, |state| state.owner != 0)
            }
            (NotEmpty, Delete { .. }) => true,
            (kind, Several(parts)) if is_answer(kind) && kind != BUSY => {
                error.failed_op().is_some_and(|failed| failed < parts.len())
            }
            (BUSY, Delete { is_repeated: true, .. }) => false,
            (BUSY, _) => self.rules.throttle,
            (ConnectionLoss, Delete { is_repeated: true, .. }) => {
                program.is_closing || program.ended.iter().any(|time| *time >= call.begun)
            }
            // Another thread may just be reporting the loss of the connection, so `finish` checks this error.
            (ConnectionLoss | Timeout | NoConnection, _) => {
                !matches!(asked, Delete { is_repeated: true, .. })
            }
            (SessionExpired, _) => call
                .made
                .wanted
                .is_none_or(|wanted| wanted != call.session || self.session_of(number).is_none()),
            (Closed, _) => program.is_closing,
            _ => false,
        };
        (!fits).then(|| format!("it was never so after {seen:#x}: {error}"))
    }

    // ---- at the end of the run

    pub(super) fn check_all(&self) {
        for (number, call) in self.calls.iter().enumerate() {
            let problem = self.check_call(number, call);
            problem.into_iter().for_each(|problem| report(call.made.process, problem));
        }
        for (listener, log) in self.listeners.iter().enumerate() {
            self.check_listener(listener, log);
        }
    }

    /// Compares the answer to a call with what the servers did for it.
    fn check_call(&self, number: usize, call: &Call) -> Option<String> {
        let process = call.made.process;
        let asked = &call.asked;
        if call.outcome.is_none()
            && !kernel::is_dead(process)
            && !call.is_part
            && !call.made.is_unheard
        {
            return Some(format!("call {number}, {asked:?}, is never answered"));
        }
        if call.outcome == Some(Err(ErrorKind::ConnectionLoss)) && !call.is_part {
            let program = &self.programs[&process];
            // A call that first waits for other calls may be sent right after the connection was lost.
            if !program.lost.iter().any(|lost| *lost + SLACK >= call.begun) {
                return Some(format!("call {number} fails with a connection that was never lost"));
            }
        }
        if !matches!(asked, Asked::Create { .. } | Asked::Set(_)) {
            return None;
        }
        let done = self.history.done_for(number);
        let wrong = |one: &&Done| call.made.wanted.is_some_and(|wanted| wanted != one.session);
        if let Some(one) = done.iter().find(wrong) {
            return Some(format!("call {number} was done in {:#x}: {:?}", one.session, call.made));
        }
        let fits = match call.outcome {
            Some(Ok(())) => done.len() == 1,
            Some(Err(ErrorKind::ConnectionLoss | ErrorKind::Timeout)) => {
                if !done.is_empty() {
                    kernel::count("raw: done, though its answer was lost");
                }
                done.len() <= 1
            }
            None => done.len() <= 1,
            Some(Err(_)) => done.is_empty(),
        };
        (!fits).then(|| {
            format!("call {number}, {asked:?}: {:?}, and it was done {done:?}", call.outcome)
        })
    }
}

const BUSY: ErrorKind = ErrorKind::Server(-127);

/// Returns whether an error is an answer from a server, which means that the request had no effect.
fn is_answer(kind: ErrorKind) -> bool {
    use ErrorKind::{BadArguments, Closed, ConnectionLoss, NoConnection, SessionExpired};
    let is_lost = matches!(kind, ConnectionLoss | NoConnection | SessionExpired | Closed);
    !is_lost && !matches!(kind, ErrorKind::Timeout | BadArguments | ErrorKind::WouldBlock)
}

/// Returns the newest transaction that an answer reveals.
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
