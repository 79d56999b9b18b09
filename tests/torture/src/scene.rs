//! A plan in progress: client processes, each behind its own proxies, and all below the root of the plan.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use zoolock_checker::{
    Carried, Findings, Linear, Linearized, Margins, Nanos, Outage, Rules, after, check,
};
use zoolock_test_support::{FaultProxy, Probe, Stat};

use crate::Outcome;
use crate::client::ClientOptions;
use crate::machine::Machine;
use crate::plan::{ClientPlan, Fault, ObjectPlan, Operation, Plan, Step, What};
use crate::protocol::{JOURNAL, Role, now};
use crate::recorder::{Recorder, State};
use crate::run::plan_of;
use crate::servers::{Servers, below, delete_if_there};

/// If a plan reports no event for this long, it hangs, because nothing in it takes so long.
const SILENCE: Duration = Duration::from_secs(90);
/// On a busy machine, shorter sessions expire even without faults.
const LEAST_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Scene<'a> {
    pub(crate) plan: Plan,
    pub(crate) servers: &'a Servers,
    pub(crate) may_disturb_servers: bool,
    pub(crate) recorder: Recorder,
    /// For each client, a proxy for each server.
    pub(crate) networks: Vec<Vec<FaultProxy>>,
    pub(crate) root: String,
    processes: Vec<Mutex<Child>>,
    /// Receives no message. It is disconnected when all faults have to end.
    is_over: Receiver<Infallible>,
}

/// The result of a plan.
#[derive(Default)]
pub(crate) struct Played {
    pub(crate) found: Findings,
    pub(crate) linearized: Linearized,
    pub(crate) faults: Vec<Fault>,
}

/// The name of the run's reaper's socket in the folder of the run. In one of `REAPED` plans, clients use it.
pub(crate) const REAPER: &str = "reaper";
const REAPED: u64 = 2;

/// Runs the plan of a seed, or its variant with guarded writes.
pub(crate) fn play(
    servers: &Servers,
    machine: &Machine,
    folder: &Path,
    (seed, guards): (u64, bool),
    may_disturb_servers: bool,
) -> Outcome<Played> {
    let plan = plan_of(seed, guards);
    let reaper = seed.is_multiple_of(REAPED).then(|| folder.join(REAPER));
    let root = format!("/{seed}{}", if guards { "g" } else { "" });
    servers.ask(|probe| {
        [JOURNAL, zoolock_simulation::DATA]
            .iter()
            .try_for_each(|node| probe.create_all(&format!("{root}{node}")))
    })?;
    let (over, is_over) = bounded(0);
    let addresses = servers.addresses();
    let network = |_| addresses.iter().map(|&address| FaultProxy::start(address)).collect();
    let networks = (0..plan.clients.len()).map(network).collect::<io::Result<Vec<Vec<_>>>>()?;
    let recorder = Recorder::new();
    let process = |(number, network): (usize, &Vec<FaultProxy>)| {
        let hosts: Vec<_> = network.iter().map(FaultProxy::connect_string).collect();
        let connect = format!("{}{root}", hosts.join(","));
        let (plan, reaper) = ((seed, guards), reaper.clone());
        let role = Role::Client(ClientOptions { plan, number, connect, reaper });
        role.start().map(Mutex::new)
    };
    let processes = networks.iter().enumerate().map(process).collect::<Outcome<Vec<_>>>()?;
    let scene =
        Scene { plan, servers, may_disturb_servers, recorder, networks, root, processes, is_over };
    let faults = scene.carry_out_all(over, guards);
    scene.check(machine, faults)
}

impl Scene<'_> {
    /// Runs the clients and the faults until all have ended. Returns the faults that occurred.
    fn carry_out_all(&self, over: Sender<Infallible>, guards: bool) -> Vec<Fault> {
        let act = |fault: Fault| match self.carry_out(fault) {
            Ok(has_happened) => has_happened.then_some(fault),
            Err(error) => {
                self.wrong(format!("{fault:?}: {error}"));
                None
            }
        };
        let act = &act;
        thread::scope(|scope| {
            for client in 0..self.processes.len() {
                let output = self.process(client).and_then(|mut process| process.stdout.take());
                let expire = move || drop(self.expire(client));
                scope.spawn(move || self.recorder.listen(output, expire));
            }
            let faults: Vec<_> =
                self.plan.faults.iter().map(|&fault| scope.spawn(move || act(fault))).collect();
            let stops = guards.then(|| {
                scope.spawn(|| {
                    self.stop_holders()
                        .unwrap_or_else(|error| self.wrong(format!("stops: {error}")));
                })
            });
            self.await_all(|state| state.idle);
            drop(over);
            let panicked = |_| panic!("a fault of plan {} panicked", self.plan.seed);
            let faults = faults.into_iter().map(|fault| fault.join().unwrap_or_else(panicked));
            let happened = faults.flatten().collect();
            drop(stops.map(ScopedJoinHandle::join));
            self.networks.iter().flatten().for_each(FaultProxy::restore);
            for client in 0..self.processes.len() {
                drop(self.process(client).and_then(|mut process| process.stdin.take()));
            }
            self.await_all(|state| state.gone);
            for client in 0..self.processes.len() {
                let status = self.process(client).map(|mut process| process.wait());
                let is_killed = self.recorder.state().history.deaths.contains_key(&client);
                if !is_killed && !matches!(&status, Some(Ok(status)) if status.success()) {
                    self.wrong(format!("client {client} ended by itself: {status:?}"));
                }
            }
            happened
        })
    }

    /// Waits until `count` includes all clients. If nothing happens for too long, kills all of them.
    fn await_all(&self, count: fn(&State) -> usize) {
        let are_done = |state: &State| count(state) >= self.processes.len();
        let events = || self.recorder.state().events;
        loop {
            let before = events();
            if self.recorder.wait(SILENCE, are_done) {
                return;
            }
            if events() == before {
                let open = self.recorder.state().open_calls();
                let nodes = self.servers.ask(|probe| below(probe, &self.root)).unwrap_or_default();
                let nodes: Vec<_> = nodes.into_iter().map(|(node, _)| node).collect();
                let text = format!("nothing happens for {SILENCE:?}: {open}; there are {nodes:?}");
                self.wrong(format!("hung: {text}"));
                let open = self.recorder.state().history.open.keys().map(|by| by.process).collect();
                self.show_last_frames(open);
                (0..self.processes.len()).for_each(|client| _ = self.kill(client));
            }
        }
    }

    /// Prints the last frames that passed the proxies of clients that hang.
    fn show_last_frames(&self, clients: BTreeSet<usize>) {
        for client in clients {
            for proxy in &self.networks[client] {
                println!("client {client}: {:#?}", proxy.log());
            }
        }
    }

    fn check(&self, machine: &Machine, faults: Vec<Fault>) -> Outcome<Played> {
        let timeout = self.plan.timeout();
        let carried_out = self.servers.ask(|probe| self.carried_out(probe))?;
        self.look_for_orphans(timeout)?;
        let mut state = self.recorder.state();
        state.finish(timeout);
        let history = &mut state.history;
        history.carried_out = carried_out;
        machine.add_to(history);
        let is_well = self.servers.were_well_since(history.begun)
            && self.costs_no_hold()
            && timeout >= LEAST_TIMEOUT;
        let rules = Rules {
            // If a client was stopped, its calls are late.
            punctual: history.doubts.iter().all(|doubt| doubt.path.is_some()),
            outage: if is_well { Outage::Short } else { Outage::Long },
        };
        let margins = Margins {
            overshoot: Duration::from_secs(1),
            machine_late: timeout / 20,
            let_in: Duration::MAX,
        };
        let locks = zoolock_simulation::locks();
        let mut linearized = Linear::new(&locks).check(history);
        let mut found = check(&locks, &margins, &rules, history);
        found.violations.append(&mut linearized.violations);
        Ok(Played { found, linearized, faults })
    }

    /// Returns whether nothing in the plan ends a hold, or disconnects a client for long.
    fn costs_no_hold(&self) -> bool {
        let prolongs = |step: &Step| match &step.what {
            What::Lock(acquisition) => acquisition
                .while_held
                .iter()
                .any(|operation| matches!(operation, Operation::Prolong(_))),
            _ => false,
        };
        let is_limited = |object: &ObjectPlan| {
            object.options.hold_at_most.is_some() || object.options.margin.is_some()
        };
        self.plan.is_gentle()
            && !self.plan.objects().any(is_limited)
            && !self.plan.clients.iter().flat_map(ClientPlan::steps).any(prolongs)
    }

    /// Returns the guarded writes that the servers have applied.
    fn carried_out(&self, probe: &Probe) -> io::Result<Vec<Carried>> {
        let all = below(probe, &format!("{}{JOURNAL}", self.root))?;
        let entry = |(node, stat): &(String, Stat)| {
            let name = node.rsplit('/').next().unwrap_or_default();
            let (path, token, hold, number) = serde_json::from_str(name)?;
            Ok(Carried { path, token, hold, number, zxid: stat.czxid })
        };
        all.iter().map(entry).collect()
    }

    /// Checks that no ephemeral node is left after all clients have closed or their sessions expired. Deletes the rest.
    fn look_for_orphans(&self, timeout: Duration) -> Outcome<()> {
        let mut begun = now();
        loop {
            // When a server restarts, the timeouts of all sessions begin again.
            if !self.servers.were_well_since(begun) {
                begun = now();
            }
            let all = self.servers.ask(|probe| below(probe, &self.root))?;
            let mut left =
                all.iter().filter(|(_, stat)| stat.ephemeral_owner > 0).map(|(node, _)| node);
            match left.next() {
                Some(node) if now() > after(begun, timeout * 3) => {
                    self.wrong(format!("orphan: {node}"))
                }
                Some(_) => {
                    thread::sleep(timeout / 20);
                    continue;
                }
                None => {}
            }
            self.servers.ask(|probe| {
                let below = below(probe, &self.root)?;
                below.iter().try_for_each(|(node, _)| delete_if_there(probe, node))?;
                delete_if_there(probe, &self.root)
            })?;
            return Ok(());
        }
    }

    fn wrong(&self, problem: String) {
        self.recorder.change(|state| state.history.unexpected.push(problem));
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.recorder.state().idle >= self.processes.len()
    }

    /// Waits for this time. Returns true early if all faults have to end.
    pub(crate) fn is_over_in(&self, time: Duration) -> bool {
        self.is_over.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
    }

    fn process(&self, client: usize) -> Option<MutexGuard<'_, Child>> {
        Some(self.processes.get(client)?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Kills a client with SIGKILL.
    pub(crate) fn kill(&self, client: usize) -> Outcome<bool> {
        let Some(mut process) = self.process(client) else { return Ok(false) };
        self.recorder.state().history.died(client, now());
        process.kill()?;
        Ok(true)
    }

    /// Sends SIGSTOP. Returns the time at which all threads had stopped, or `None` if the process has ended.
    pub(crate) fn stop(&self, client: usize) -> Outcome<Option<Nanos>> {
        let Some(mut process) = self.process(client) else { return Ok(None) };
        if process.try_wait()?.is_some() {
            return Ok(None);
        }
        let since = now();
        self.recorder.state().doubt(client, since, Nanos::MAX);
        let pid = Pid::from_child(&process);
        kill_process(pid, Signal::STOP)?;
        let change = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), change)?;
        Ok(Some(since))
    }

    /// Sends SIGCONT to a process that has been stopped since `since`.
    pub(crate) fn resume(&self, client: usize, since: Nanos) -> Outcome<()> {
        if let Some(process) = self.process(client) {
            kill_process(Pid::from_child(&process), Signal::CONT)?;
        }
        let mut state = self.recorder.state();
        let mut doubts = state.history.doubts.iter_mut();
        if let Some(doubt) = doubts.find(|doubt| doubt.process == client && doubt.begun == since) {
            doubt.over = now();
        }
        Ok(())
    }

    /// Records that the servers have deleted the client's nodes or session, which it will detect soon.
    pub(crate) fn doubt(&self, client: usize, begun: Nanos) {
        let timeout = self.plan.clients[client].timeout;
        self.recorder.state().doubt(client, begun, after(now(), timeout));
    }
}
