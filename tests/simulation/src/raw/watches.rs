//! Checks the events of watches: each watch reports once, and before any answer that reveals the change.

use std::time::Duration;

use kernel::Process;
use zookeeper::{ErrorKind, EventType, SessionEventKind, WatchedEvent};

use super::checker::{Asked, Call, Checker, Said, checker, report};
use crate::client::has_stalled;
use crate::coverage::count_variant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchKind {
    Data,
    Exist,
    Child,
}

#[derive(Debug)]
pub(super) struct Watch {
    listener: usize,
    kind: WatchKind,
    path: String,
    session: i64,
    /// The read returned a state between these two transactions.
    since: i64,
    from: i64,
    begun: Duration,
}

#[derive(Debug, Default)]
pub(super) struct ListenerLog {
    pub(super) process: Process,
    pub(super) events: Vec<(EventType, String, Duration)>,
}

pub(super) fn received(listener: usize, event: &WatchedEvent) {
    let WatchedEvent { event_type: what, path, .. } = event;
    kernel::note(|| format!("listener {listener} is notified {what:?} of {path}"));
    let problem = checker(|checker| {
        let log = checker.listeners.get_mut(listener)?;
        let program = checker.programs.get(&log.process)?;
        log.events.push((*what, path.clone(), kernel::elapsed()));
        let may_end = program.last == Some(SessionEventKind::Expired) || program.is_closing;
        let is_early = *what == EventType::WatchEnded && !may_end;
        is_early.then(|| format!("listener {listener} is notified too early that {path} ended"))
    });
    problem.into_iter().for_each(|problem| report(kernel::own_process(), problem));
}

impl Checker {
    pub(super) fn watch(&mut self, number: usize, asked: &Asked, said: &Said) {
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
        let (begun, path) = (self.calls[number].begun, path.clone());
        count_variant("raw", &kind);
        self.watches.push(Watch { listener, kind, path, session, since, from, begun });
    }

    /// Handles the answer to a call that watches several nodes. Nodes that are missing must have been reported already.
    pub(super) fn watch_each(&mut self, number: usize, asked: &Asked) {
        let (Asked::Watch { paths, since }, Some(session), Some(listener)) =
            (asked, self.session_of(number), self.calls[number].made.listener)
        else {
            return;
        };
        let Call { begun, seen, .. } = self.calls[number];
        for path in paths {
            kernel::count("raw: a watch beside others");
            // The server has set the watch by now.
            let (kind, from) = (WatchKind::Data, (*since).min(self.history.zxid));
            let (since, path) = (from.min(seen), path.clone());
            let watch = Watch { listener, kind, path, session, since, from, begun };
            let was_there = self.history.may_be(&watch.path, seen, |_| true);
            if !was_there {
                kernel::count("raw: a watch of a missing node beside others");
            }
            if !was_there && !self.has_told(&watch) {
                let problem =
                    format!("call {number} is answered, and nothing was reported: {watch:?}");
                report(self.listeners[listener].process, problem);
            }
            self.watches.push(watch);
        }
    }

    /// Returns the transaction that a watch must report, if there is one.
    fn due(&self, watch: &Watch) -> Option<i64> {
        let history = &self.history;
        match watch.kind {
            WatchKind::Data | WatchKind::Exist => history.nodes.changed(&watch.path, watch.from),
            WatchKind::Child => history.children.changed(&watch.path, watch.from),
        }
    }

    fn has_told(&self, watch: &Watch) -> bool {
        self.listeners[watch.listener].events.iter().any(|(event, path, at)| {
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

    /// Returns whether a watch for a missing node may have missed changes because the connection was lost.
    fn may_miss(&self, watch: &Watch) -> bool {
        let program = &self.programs[&self.listeners[watch.listener].process];
        watch.kind == WatchKind::Exist && program.lost.iter().any(|lost| *lost >= watch.begun)
    }

    fn heard_in(&self, session: i64) -> impl Iterator<Item = &Watch> {
        self.watches.iter().filter(move |watch| watch.session == session)
    }

    /// Checks that all changes up to the transaction that an answer reveals have been reported.
    pub(super) fn check_watches(&self, number: usize, zxid: i64) {
        let own = self.session_of(number).into_iter().flat_map(|session| self.heard_in(session));
        for watch in own.filter(|watch| !self.may_miss(watch) && !self.has_told(watch)) {
            if let Some(due) = self.due(watch).filter(|due| *due <= zxid) {
                let what = format!("call {number} shows {zxid:#x}, and {due:#x} was not reported");
                report(self.calls[number].made.process, format!("{what}: {watch:?}"));
            }
        }
    }

    /// Checks, long after the last fault, that no event is missing.
    pub(super) fn check_events(&self, process: Process) {
        for watch in self.heard_in(self.programs[&process].session) {
            let is_sure = !self.may_miss(watch) || self.history.is_there(&watch.path);
            if self.due(watch).is_some() && is_sure && !self.has_told(watch) {
                report(process, format!("never reported: {watch:?}"));
            }
        }
    }

    /// Returns whether this event may have happened to a node after the transaction `since`.
    fn happened(&self, event: EventType, path: &str, since: i64) -> bool {
        let history = &self.history;
        match event {
            EventType::NodeCreated => history.was_created_behind(path, since),
            EventType::NodeDeleted => history.may_be_absent(path, since).is_some(),
            EventType::NodeDataChanged => history.nodes.changed(path, since).is_some(),
            EventType::NodeChildrenChanged => history.children.changed(path, since).is_some(),
            _ => true,
        }
    }

    /// Returns whether a call that watches several nodes may have caused an event. All listeners receive such events.
    fn is_reported_to_all(
        &self,
        process: Process,
        event: EventType,
        path: &str,
        at: Duration,
    ) -> bool {
        self.calls.iter().any(|call| match &call.asked {
            Asked::Watch { paths, since } if paths.iter().any(|own| own == path) => {
                let is_true = self.happened(event, path, (*since).min(call.seen));
                call.made.process == process && call.begun <= at && is_true
            }
            _ => false,
        })
    }

    /// Checks that each of a listener's watches reports once.
    pub(super) fn check_listener(&self, listener: usize, log: &ListenerLog) {
        let fail =
            |problem| report(log.process, format!("listener {listener} is notified {problem}"));
        let may_watch = |call: &&Call| {
            let may_be_set = match call.outcome {
                // A call has no outcome if no thread waits for its answer, or if its process was killed, perhaps after
                // the answer had arrived.
                Some(Ok(())) | None => true,
                // If the process was paused, a call may have given up just before its answer was read.
                Some(Err(ErrorKind::Timeout)) => has_stalled(call.made.process, call.begun),
                Some(_) => false,
            };
            // The event may arrive even if the answer is lost.
            let may_be_early = matches!(call.asked, Asked::Watch { .. });
            call.made.listener == Some(listener) && (may_be_set || may_be_early)
        };
        let watching: Vec<&Call> = self.calls.iter().filter(may_watch).collect();
        for (event, path, at) in &log.events {
            let is_its = |call: &&&Call| match &call.asked {
                Asked::Get(own) | Asked::Exists(own) | Asked::Children(own) => own == path,
                Asked::Watch { paths, .. } => paths.contains(path),
                _ => false,
            };
            let times = log.events.iter().filter(|(_, other, _)| other == path).count();
            let calls = watching.iter().filter(is_its).count();
            let is_reported_to_all = || self.is_reported_to_all(log.process, *event, path, *at);
            if times > calls && !is_reported_to_all() {
                fail(format!("of {path} {times} times for {calls} watches"));
            }
            let own = self.watches.iter().filter(|watch| {
                watch.listener == listener && watch.path == *path && watch.begun <= *at
            });
            // If all watches are known, the event must belong to one of them.
            let is_known = own.clone().count() == calls;
            let is_true = own.clone().any(|watch| self.happened(*event, path, watch.since));
            if is_known && !is_true && !is_reported_to_all() {
                fail(format!("{event:?} of {path}, which was not"));
            }
        }
        let must_be_notified =
            !kernel::is_dead(log.process) && self.programs[&log.process].is_closed();
        let own =
            self.watches.iter().filter(|watch| must_be_notified && watch.listener == listener);
        for watch in own.filter(|watch| !self.has_told(watch)) {
            fail(format!("of nothing, not even its end: {watch:?}"));
        }
    }
}
