//! Plans of guarded writes: writing holders are stopped, and resumed when others have acquired their locks and written.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use fastrand::Rng;
use zoolock_checker::{HoldId, Overtaken};
use zoolock_test_support::{Hold, Op, Probe};

use crate::Outcome;
use crate::plan::{
    AcquisitionPlan, ClientPlan, Kind, ObjectPlan, Operation, Place, Plan, Step, ThreadPlan, Wait,
    What,
};
use crate::protocol::now;
use crate::scene::Scene;
use crate::servers::below;

const CLIENTS: usize = 4;
const THREADS: usize = 2;
const ACQUISITIONS: usize = 60;
const WRITES: usize = 20;
const TIMEOUT: Duration = Duration::from_secs(2);
/// How many clients are stopped at a time, at most, so that at least one is left to take over.
const AT_ONCE: usize = 3;
/// The limit for others to take over a stopped client's lock. Its session expires after a timeout and a tick.
const RIVAL_WITHIN: Duration = TIMEOUT.saturating_mul(3);
/// How long requests are delayed. After that, their clients would no longer wait for the answers.
const REQUESTS_WAIT: Duration = Duration::from_millis(TIMEOUT.as_millis() as u64 * 2 / 9);
const ON_THE_WAY_WITHIN: Duration = Duration::from_secs(1);
const PLACE: Place = Place(5);

/// Changes a plan so that all clients make guarded writes at the same place, and do nothing else.
pub(crate) fn guard(plan: &mut Plan) {
    let random = &mut Rng::with_seed(plan.seed);
    let kinds = [Kind::Exclusive, Kind::Reentrant, Kind::Write, Kind::Several];
    let object = |kind| ObjectPlan { kind, place: PLACE, options: Default::default() };
    let mut acquisition = || {
        let pause = Operation::Work(Duration::from_millis(random.u64(1..10)));
        let writes = (0..random.usize(1..=WRITES)).flat_map(|_| [Operation::Write, pause.clone()]);
        let while_held = writes.collect();
        let wait = Wait::For(Duration::from_millis(random.u64(1..1_000)));
        let plain = AcquisitionPlan::plain(random.usize(..kinds.len()), wait);
        let what = What::Lock(AcquisitionPlan { while_held, ..plain });
        Step { rest: Duration::from_millis(random.u64(..100)), what }
    };
    let mut thread = || ThreadPlan {
        begins: Duration::ZERO,
        steps: (0..ACQUISITIONS).map(|_| acquisition()).collect(),
    };
    let mut client = || ClientPlan {
        timeout: TIMEOUT,
        is_observed: false,
        is_lazy: false,
        objects: kinds.map(object).to_vec(),
        threads: (0..THREADS).map(|_| thread()).collect(),
    };
    plan.clients = (0..CLIENTS).map(|_| client()).collect();
    plan.faults.clear();
}

impl Scene<'_> {
    /// Stops clients again and again, until all of them have completed their steps.
    pub(crate) fn stop_holders(&self) -> Outcome<()> {
        let random = &mut Rng::with_seed(self.plan.seed);
        while !self.is_over_in(Duration::from_millis(random.u64(100..500))) && !self.is_idle() {
            self.stop_some(random)?;
        }
        Ok(())
    }

    fn stop_some(&self, random: &mut Rng) -> Outcome<()> {
        let mut clients: Vec<usize> = (0..CLIENTS).collect();
        random.shuffle(&mut clients);
        clients.truncate(random.usize(1..=AT_ONCE));
        // In most cases, requests are in flight, and arrive after others have acquired the locks.
        let are_on_the_way = random.u8(..3) > 0;
        // If a session ends, the servers close its connection, so they do not receive requests in flight. Therefore, in
        // most cases, an operator deletes the nodes if requests are in flight; otherwise, the session ends.
        let are_deleted = random.u8(..10) < if are_on_the_way { 9 } else { 1 };
        let held = if are_on_the_way { self.hold_requests(&clients) } else { Vec::new() };
        self.is_over_in(Duration::from_millis(random.u64(..40)));
        let mut stopped = Vec::new();
        for &client in &clients {
            stopped.extend(self.stop(client)?.map(|since| (client, since)));
        }
        let since = now();
        let holds = self.holds_of(&clients);
        if are_deleted {
            self.servers.ask(|probe| self.delete_nodes(probe, &holds))?;
        }
        let within = if are_deleted { REQUESTS_WAIT } else { RIVAL_WITHIN };
        self.recorder
            .wait(within, |state| holds.iter().all(|&hold| state.history.is_overtaken(hold)));
        let mut state = self.recorder.state();
        let history = &mut state.history;
        history.guards_stopped += 1;
        for hold in holds {
            if history.is_overtaken(hold) {
                history.overtaken_guards.push(Overtaken { hold, stopped: since, overtaken: now() });
            }
        }
        drop(state);
        drop(held);
        stopped.into_iter().try_for_each(|(client, since)| self.resume(client, since))
    }

    /// Delays a request of each client. Gives up after a while, because some clients may not be writing.
    fn hold_requests(&self, clients: &[usize]) -> Vec<Hold> {
        let of = |&client: &usize| {
            self.networks[client].iter().map(|proxy| proxy.hold_request(Op::Multi, 1)).collect()
        };
        let held: Vec<Vec<Hold>> = clients.iter().map(of).collect();
        let begun = Instant::now();
        let is_held =
            |rules: &Vec<Hold>| rules.iter().any(|hold| hold.wait(Duration::from_millis(5)));
        while !held.iter().all(is_held) && begun.elapsed() < ON_THE_WAY_WITHIN {}
        held.into_iter().flatten().collect()
    }

    fn holds_of(&self, clients: &[usize]) -> Vec<HoldId> {
        let state = self.recorder.state();
        let open = state.history.open_holds().map(|record| record.grant.hold);
        open.filter(|hold| clients.contains(&hold.by.process)).collect()
    }

    /// Deletes the nodes of these holds, and the nodes of waiters in the same sessions, which would block all others.
    fn delete_nodes(&self, probe: &Probe, holds: &[HoldId]) -> std::io::Result<()> {
        let state = self.recorder.state();
        let grants = holds.iter().filter_map(|&hold| state.history.grant(hold));
        let names: Vec<String> = grants.flat_map(|grant| grant.nodes.clone()).collect();
        drop(state);
        let all = below(probe, &format!("{}{PLACE}", self.root))?;
        let is_held = |node: &str| names.iter().any(|name| node.ends_with(name.as_str()));
        let held = all.iter().filter(|(node, _)| is_held(node));
        let sessions: HashSet<i64> = held.map(|(_, stat)| stat.ephemeral_owner).collect();
        for (node, _) in all.iter().filter(|(_, stat)| sessions.contains(&stat.ephemeral_owner)) {
            self.delete(probe, node)?;
        }
        Ok(())
    }
}
