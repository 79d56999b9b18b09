//! The process of a contestant, and the measurement of a case on it.

use std::time::Duration;

use zoolock_interop::Peer;
use zoolock_test_support::poll;

use crate::contestant::Contestant;
use crate::figures::{
    EVENTS, Figures, KIB_PER_WAITER, OWN_REQUESTS, REQUESTS, SYNCS, THREADS, TRANSACTIONS,
};
use crate::servers::{Counters, Servers};
use crate::session::Outcome;
use crate::sleepers::sleepers;
use crate::status::status;
use crate::workload::{Case, Workload};

/// The longest wait: enough for a thousand waiters of the slowest contestant, on a busy machine.
const LONGEST: Duration = Duration::from_secs(120);
/// The warm-up before a round, as a part of the round. It is not counted.
const WARM_UP: f64 = 0.25;

pub(crate) struct Running<'a> {
    pub(crate) contestant: Contestant,
    servers: &'a Servers,
    peer: Peer,
    threads_at_first: f64,
    /// The versions of the client.
    pub(crate) version: String,
}

impl<'a> Running<'a> {
    /// Starts a contestant. Returns `None`, after a message, if the contestant or its server is not
    /// installed.
    pub(crate) fn start(contestant: Contestant, servers: &'a Servers) -> Outcome<Option<Self>> {
        let name = contestant.name;
        let Some(server) = servers.address(contestant.server)? else {
            eprintln!(
                "skipped: the server of {name} is missing; tests/setup.sh --bench installs it"
            );
            return Ok(None);
        };
        let Some(command) = contestant.command(&server)? else {
            return Ok(None);
        };
        let mut peer = Peer::spawn(name.to_owned(), command);
        peer.result_within(LONGEST)?;
        let threads_at_first = status(peer.process_id(), "Threads")?;
        let version = contestant.version();
        let mut running =
            Running { contestant, servers, peer, threads_at_first, version: String::new() };
        running.version = match version {
            Some(version) => version,
            None => running.ask("version")?.trim().to_owned(),
        };
        Ok(Some(running))
    }

    /// Warms the program up, so that just-in-time compilers do their work.
    pub(crate) fn warm_up(&mut self, seconds: f64) -> Outcome<()> {
        self.ask("sessions 1")?;
        let path = format!("/bench/warm-up/{}", self.contestant.name);
        self.ask(&format!("bench own 4 {seconds} {path}"))?;
        self.ask("sessions 0")?;
        Ok(())
    }

    /// Replaces the process after a round that failed, because the process may still be busy with it.
    pub(crate) fn restart(&mut self, warm_up: f64) -> Outcome<()> {
        let new = Running::start(self.contestant, self.servers)?;
        *self = new.ok_or("it can no longer be started")?;
        self.warm_up(warm_up)
    }

    /// Runs one round of a case.
    pub(crate) fn measure(&mut self, case: Case, seconds: f64) -> Outcome<Figures> {
        // The sessions of a process that was replaced may still have nodes.
        let (name, process) = (self.contestant.name, self.peer.process_id());
        let path = format!("/bench/{}/{name}-{process}", case.name());
        let figures = match case.workload {
            Workload::Queue => self.queue(case.size, &path)?,
            _ => self.repeat(case, seconds, &path)?,
        };
        self.ask("sessions 0")?;
        Ok(figures)
    }

    fn repeat(&mut self, case: Case, seconds: f64, path: &str) -> Outcome<Figures> {
        let size = case.size;
        let (sessions, what, threads) = match case.workload {
            Workload::Uncontended => (1, "one", 1),
            Workload::Many => (1, "own", size),
            Workload::Fresh => (1, "new", size),
            Workload::Local => (1, "one", size),
            Workload::Object => (1, "object", size),
            Workload::Handoff => (size, "one", 1),
            Workload::TryBusy => (1, "try", 1),
            Workload::Rw => (size, "read-write", 1),
            Workload::Queue | Workload::Recover => {
                return Err("it is not repeated".into());
            }
        };
        self.ask(&format!("sessions {sessions}"))?;
        let busy = case.workload == Workload::TryBusy;
        if busy {
            self.ask(&format!("hold {path}"))?;
        }
        let bench = |seconds: f64| format!("bench {what} {threads} {seconds} {path}");
        self.ask(&bench(seconds * WARM_UP))?;
        let threads = status(self.peer.process_id(), "Threads")? - self.threads_at_first;
        let before = self.counters()?;
        let answer = self.ask(&bench(seconds))?;
        let after = self.counters()?;
        if busy {
            self.ask("release")?;
        }
        let (mut figures, operations) = Figures::of_times(&answer)?;
        figures.set(THREADS, threads);
        Self::count(&mut figures, operations, before, after);
        Ok(figures)
    }

    fn queue(&mut self, count: usize, path: &str) -> Outcome<Figures> {
        self.ask("sessions 1")?;
        self.ask(&format!("hold {path}"))?;
        self.ask(&format!("waiters {count} {path}"))?;
        let mut look = self.servers.queue_at(self.contestant.server, path)?;
        let process = self.peer.process_id();
        let parked = status(process, "VmRSS")?;
        let before = self.counters()?;
        self.ask("queue")?;
        // The count includes the holder. The threads of a client of this library queue in the process.
        let nodes = if self.contestant.queues_in_the_process() { 1 } else { count };
        wait(&format!("{count} wait at {path}"), || Ok(look()? > nodes))?;
        wait(&format!("{count} threads sleep"), || Ok(sleepers(process)? >= count))?;
        let waiting = status(process, "VmRSS")?;
        let threads = status(process, "Threads")? - self.threads_at_first - count as f64;
        let answer = self.ask("release")?;
        let after = self.counters()?;
        let (mut figures, operations) = Figures::of_times(&answer)?;
        figures.set(KIB_PER_WAITER, (waiting - parked) / count as f64);
        figures.set(THREADS, threads);
        Self::count(&mut figures, operations, before, after);
        Ok(figures)
    }

    /// Returns the counts of the server and of the client.
    fn counters(&mut self) -> Outcome<(Option<Counters>, Option<u64>)> {
        let own = self.ask("requests")?;
        let own = match own.trim() {
            "" => None,
            count => Some(count.parse()?),
        };
        Ok((self.servers.counters(self.contestant.server)?, own))
    }

    fn count(
        figures: &mut Figures,
        operations: f64,
        before: (Option<Counters>, Option<u64>),
        after: (Option<Counters>, Option<u64>),
    ) {
        if let (Some(before), Some(after)) = (before.0, after.0) {
            let mut set = |name, count: fn(&Counters) -> u64| {
                figures.set(name, (count(&after) - count(&before)) as f64 / operations);
            };
            set(REQUESTS, |it| it.requests);
            set(EVENTS, |it| it.events);
            set(TRANSACTIONS, |it| it.transactions);
            set(SYNCS, |it| it.syncs);
        }
        if let (Some(before), Some(after)) = (before.1, after.1) {
            figures.set(OWN_REQUESTS, (after - before) as f64 / operations);
        }
    }

    fn ask(&mut self, line: &str) -> Outcome<String> {
        self.peer.tell(line);
        let answer = self.peer.result_within(LONGEST);
        Ok(answer
            .map_err(|reason| format!("{}, asked to `{line}`: {reason}", self.contestant.name))?)
    }
}

fn wait(what: &str, mut is_so: impl FnMut() -> Outcome<bool>) -> Outcome<()> {
    let found = poll(LONGEST, || is_so().map(|is_so| is_so.then_some(())).transpose());
    found.unwrap_or_else(|| Err(format!("waited {LONGEST:?} in vain until {what}").into()))
}
