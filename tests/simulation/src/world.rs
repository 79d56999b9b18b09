//! Carries out a run: the servers, the links, the clients and the faults.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;
use kernel::{Machine, Process, thread};
use zookeeper::ErrorKind;
use zookeeper::{Acl, Permissions, ZooKeeper};
use zookeeper_testing::ensemble::{Ensemble, Refused, Settings};
use zoolock_checker::Linearized;

use crate::client::{self, Board, board, stands_still};
use crate::coverage;
use crate::histories;
use crate::monitor::{self, DATA, FOLDER, monitor, mutexes, violation};
use crate::network::{self, SLOW_NAME, hosts, serve};
use crate::plan::{
    AcquisitionPlan, ClientPlan, Fault, FaultKind, Kind, ObjectPlan, Place, Plan, Plant, TICK,
    Wait, What,
};
use crate::raw;
use crate::recording;

/// The maximum number of steps of the scheduler. No run without a bug reaches it.
const STEPS: u64 = 3_000_000;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The violated promises.
    pub violations: Vec<String>,
    /// What the linearizability checker found in the history.
    pub linearized: Linearized,
    /// A hash of the run, with which two runs can be compared.
    pub hash: u64,
    /// How often each event occurred.
    pub counts: BTreeMap<&'static str, u64>,
    /// The readable trace of the run. Empty unless the run was traced.
    pub trace: Vec<String>,
}

/// Runs a plan.
pub fn run(plan: &Plan, is_traced: bool) -> Outcome {
    monitor::reset();
    histories::reset();
    raw::reset(raw::rules(plan));
    board(|board| *board = Board::default());
    let plan = plan.clone();
    kernel::run(
        plan.seed,
        is_traced,
        STEPS,
        move || live(&plan),
        |end| {
            end.err().into_iter().for_each(violation);
            for name in kernel::panicked() {
                violation(format!("{name} has panicked"));
            }
            let (found, linearized) = histories::verdict();
            found.iter().chain(&linearized.violations).cloned().for_each(violation);
            raw::finish(!monitor::has_violations());
            // The remaining clients are leaked. They cannot be dropped, because their simulated world ends here.
            std::mem::forget(board(|board| std::mem::take(&mut board.sessions)));
            Outcome {
                violations: monitor::finish(),
                linearized,
                hash: kernel::hash(),
                counts: kernel::counts(),
                trace: kernel::take_trace(),
            }
        },
    )
}

fn live(plan: &Plan) {
    coverage::count_options(plan);
    let mut random = Rng::with_seed(plan.seed ^ 0xfeed);
    let settings = Settings {
        servers: plan.servers,
        tick: TICK,
        containers: Duration::from_secs(random.u64(2..30)),
        numbered_events: random.bool(),
        ..Settings::default()
    };
    let settings = recording::settings(raw::settings(plan, settings));
    let ensemble = Ensemble::new(settings, random.u64(..), kernel::instant());
    network::begin(ensemble, random.fork(), plan.latency, plan.servers);
    for path in
        [raw::ROOT, DATA, FOLDER, &format!("{FOLDER}/leases"), &format!("{FOLDER}/leases/x")]
    {
        serve(|servers, now| servers.create(path, b"", now)).expect("a first node");
    }
    if let Some((number, places)) = &plan.used {
        for place in places.iter().filter(|place| has_queue(plan, **place)) {
            let path = place.path();
            let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
            for end in ends {
                // The node may already exist, because another place may have the same beginning.
                let _ = serve(|servers, now| servers.create(&path[..end], b"", now));
            }
            kernel::count("option: a directory that was used before");
            serve(|servers, _| servers.count_from(path, *number));
        }
    }
    monitor(|monitor| {
        monitor.is_well = plan.is_well();
        monitor.is_gentle = plan.is_gentle();
        monitor.timeout = plan.timeout();
        monitor.is_steady = plan.is_steady();
        monitor.is_undisturbed = plan.faults.is_empty();
        monitor.slowest = plan.latency * 20;
        let is_behind = plan.disturbs_servers();
        monitor.lag = if is_behind { plan.timeout() * 4 } else { monitor.slowest };
        monitor.is_quick = plan.latency <= Duration::from_millis(2);
        // Each thread may have an unanswered create, and each object may keep a node.
        let most = plan.clients.iter().map(|client| client.threads.len() + client.objects.len());
        let each = if plan.has(Kind::Semaphore) { 3 } else { 1 };
        monitor.most_creates = (most.max().unwrap_or_default() + 1) * each;
    });
    let count = plan.clients.len() + plan.raw.len();
    let processes: Vec<Process> = (0..count).map(|_| kernel::process()).collect();
    // Only if there are no programs, because their checker expects answers immediately.
    if plan.raw.is_empty() && random.u8(..3) == 0 {
        let is_busy = |machine: &mut Machine| machine.is_busy = true;
        processes.iter().for_each(|process| kernel::machine(*process, is_busy));
    }
    for fault in &plan.faults {
        if let Fault::Frame { client, is_up, of, nth, what } = *fault {
            network::act(|world| {
                world.machine(processes[client]).faults.push((is_up, of, nth, what))
            });
        }
    }
    if plan.always_lists {
        kernel::count("run: no shortcuts");
    }
    kernel::configure(if plan.hides_something() { 1 } else { 1_000 }, !plan.always_lists);
    let hosts = hosts(plan);
    for (number, (client, &process)) in plan.clients.iter().zip(&processes).enumerate() {
        let (client, hosts) = (client.clone(), hosts.clone());
        thread::spawn_in(process, "main", move || client::run(number + 1, &client, &hosts));
    }
    for (number, raw) in plan.raw.iter().enumerate() {
        let (process, raw, hosts) =
            (processes[plan.clients.len() + number], raw.clone(), hosts.clone());
        thread::spawn_in(process, "main", move || raw::run(number, &raw, &hosts));
    }
    let mut faults: Vec<(Duration, FaultKind)> = plan.timed_faults().collect();
    faults.sort_by_key(|(when, _)| *when);
    for (when, fault) in faults {
        thread::sleep(when.saturating_sub(kernel::elapsed()));
        make(plan, &processes, fault);
    }
    thread::sleep(Duration::from_secs(2));
    heal(&processes);
    let are_done = || board(|board| board.operators == 0);
    kernel::block("what operators have to give back", None, Some(&are_done));
    // By this time, all calls that have begun must have returned.
    let longest = longest(plan) + raw::longest(plan);
    let is_over = |what: &str, so_far: fn(&Board) -> &BTreeSet<Process>| {
        let end = kernel::elapsed() + longest;
        let is_over = |process: &Process| {
            board(|board| so_far(board).contains(process)) || kernel::is_dead(*process)
        };
        while !processes.iter().all(is_over) {
            if kernel::elapsed() > end {
                let who = processes.iter().map(|process| (process.0, kernel::tasks(*process)));
                let (who, holders) =
                    (who.collect::<Vec<_>>(), monitor(|monitor| monitor.holders()));
                violation(format!("{what} {longest:?} without a fault: {who:?}; {holders:?}"));
                kernel::stop();
                return false;
            }
            thread::sleep(Duration::from_millis(50));
        }
        true
    };
    if !is_over("not over after", |board| &board.done) {
        return;
    }
    // By this time, paused machines have resumed, and abandoned sessions have expired.
    let awake = board(|board| board.stalls.iter().map(|(_, _, until)| *until).max());
    let timeout = plan.timeout().max(raw::timeout(plan));
    // A program that abandons its session waits for one and a half timeouts and a second before it requests a new one.
    // A leadership pauses for a third of the timeout after a failure, and becomes healthy with its next call, which
    // takes up to another third. A lookup of a name may have begun just before the faults ended.
    let asked = if plan.has_names { SLOW_NAME } else { Duration::ZERO };
    let settled = timeout * 5 / 2 + Duration::from_secs(1) + asked;
    thread::sleep(awake.unwrap_or_default().saturating_sub(kernel::elapsed()) + settled);
    board(|board| board.are_healed = true);
    if !is_over("clients do not end in", |board| &board.closed) {
        return;
    }
    // By then, the sessions of killed clients, and sessions that clients could not close, have expired.
    thread::sleep(timeout * 2 + TICK * 2);
    let left = monitor(|monitor| monitor.left_behind());
    if !left.is_empty() {
        violation(format!("left behind: {left:?}"));
    }
    for &process in &processes {
        let left = kernel::tasks(process);
        if !left.is_empty() && !kernel::is_dead(process) {
            violation(format!("client {} has threads left: {left:?}", process.0));
        }
    }
    mutexes::violations().for_each(violation);
    kernel::stop();
}

/// Returns whether locks at this place can have a queue, which means that no `EphemeralLock` is at or above it.
fn has_queue(plan: &Plan, place: Place) -> bool {
    let is_above =
        |one: &ObjectPlan| one.kind == Kind::Single && place.path().starts_with(one.place.path());
    !plan.objects().any(is_above)
}

fn fail_spawns(process: Process, probability: f64) {
    kernel::machine(process, |machine| machine.fails_spawns = probability);
}

fn heal(processes: &[Process]) {
    kernel::note(|| "== all is well from now on".to_owned());
    monitor(|monitor| monitor.healed_at = Some(kernel::elapsed()));
    processes.iter().for_each(|process| fail_spawns(*process, 0.0));
    network::act(|world| {
        world.heal();
        world.ensemble.heal(kernel::instant());
    });
}

/// Returns a time within which all calls of a plan return, even if every one of them is granted.
fn longest(plan: &Plan) -> Duration {
    let mut longest = plan.timeout() * 12 + Duration::from_secs(30);
    for client in &plan.clients {
        for object in &client.objects {
            longest += object.options.hold_at_least.unwrap_or_default();
        }
        for step in client.steps() {
            longest += step.rest;
            match &step.what {
                What::Acquisitions { count, .. } => longest += Duration::from_secs(2) * *count,
                What::Lock(AcquisitionPlan { wait, while_held, object, .. }) => {
                    // Each operation takes less than this.
                    longest += Duration::from_secs(10) * while_held.len() as u32;
                    longest += client.objects[*object].options.hold_at_least.unwrap_or_default();
                    if let Wait::For(time) | Wait::Connected(Some(time), _) = wait {
                        longest += *time;
                    }
                }
                What::Odd { .. } => longest += Duration::from_secs(30),
                _ => {}
            }
        }
    }
    longest
}

fn make(plan: &Plan, processes: &[Process], fault: FaultKind) {
    kernel::note(|| format!("== {fault:?}"));
    coverage::count_variant("fault", &fault);
    let now = kernel::elapsed();
    match fault {
        FaultKind::Cut { client } => network::act(|world| world.cut(processes[client])),
        FaultKind::BlackHole { client, time } => network::act(|world| {
            for is_up in [true, false] {
                world.silence(processes[client], is_up, time);
            }
        }),
        FaultKind::Deaf { client, is_up, time } => {
            network::act(|world| world.silence(processes[client], is_up, time));
            is_deaf(plan, processes, client, time);
        }
        FaultKind::Useless { client, time } => {
            network::act(|world| world.machine(processes[client]).useless_until = now + time);
            is_deaf(plan, processes, client, time);
        }
        FaultKind::Refuse { client, time } => network::act(|world| {
            world.machine(processes[client]).refused_until = now + time;
            world.cut(processes[client]);
        }),
        FaultKind::Sleep { client, time, is_paused } => {
            stands_still(processes[client], time);
            if is_paused {
                kernel::count("fault: a virtual machine is paused");
            }
            kernel::machine_sleeps(processes[client], time, is_paused);
        }
        FaultKind::Stall { client, time } if client < plan.clients.len() => {
            stands_still(processes[client], time);
            kernel::stall(processes[client], time);
        }
        FaultKind::Freeze { client, time } | FaultKind::Stall { client, time } => {
            stands_still(processes[client], time);
            kernel::freeze(processes[client], time);
        }
        FaultKind::ClockStep { client, milliseconds } => {
            kernel::machine(processes[client], |machine| machine.ahead += milliseconds * 1_000_000);
            stands_still(processes[client], Duration::ZERO);
        }
        FaultKind::Full { client, time } => network::act(|world| {
            world.machine(processes[client]).full_until = now + time;
        }),
        FaultKind::NoThreads { client, time } => {
            let process = processes[client];
            fail_spawns(process, 0.5);
            kernel::after(time, move || fail_spawns(process, 0.0));
        }
        FaultKind::Kill { client } => {
            // The client may be dead already.
            if let Some(client_plan) =
                plan.clients.get(client).filter(|_| !kernel::is_dead(processes[client]))
            {
                reap(plan.seed, client_plan, processes[client]);
            }
            histories::died(processes[client]);
            kernel::kill(processes[client]);
        }
        FaultKind::Expire { client } => {
            let sessions = network::with(|world| world.ensemble.sessions());
            if let Some(&session) = sessions.get(client % sessions.len().max(1)) {
                monitor::expires(session);
                let is_at_once = kernel::with_random(|random| random.bool());
                serve(|servers, now| match is_at_once {
                    true => servers.expire(session, now),
                    false => servers.time_out(session, now),
                });
            }
        }
        FaultKind::Crash { server, time } => {
            serve(|servers, now| servers.crash(server, now));
            kernel::after(time, move || serve(|servers, now| servers.start(server, now)));
        }
        FaultKind::FreezeServer { server, time } => {
            serve(|servers, now| servers.freeze(server, now + time, now));
        }
        FaultKind::CutOffServer { server, time } => {
            serve(|servers, now| servers.cut_off(server, now + time, now));
        }
        FaultKind::Lag { server, time } => {
            serve(|servers, now| servers.lag(server, time / 4, now));
        }
        FaultKind::Depose => _ = serve(Ensemble::depose),
        FaultKind::Move { server } if plan.has_names => {
            network::act(|world| world.move_away(server))
        }
        // If clients connect by address, they would not find a server that has moved.
        FaultKind::Move { .. } => {}
        FaultKind::NoName { server, time, hangs } => {
            network::act(|world| world.forget_name(server, time, hangs));
        }
        FaultKind::Delete { place, nth } => {
            let node = monitor(|monitor| monitor.below(place, nth));
            // If the node has children, the deletion fails.
            node.map(|node| serve(|servers, now| servers.delete(&node, now)));
        }
        FaultKind::Clear { place, pause } => clear(place, pause),
        FaultKind::Rob => monitor(|monitor| monitor.robberies += 1),
        FaultKind::Hide { place, nth, time, is_deleted } => {
            if let Some(node) = monitor(|monitor| monitor.below(place, nth)) {
                restrict(&hosts(plan), node, Permissions::READ, time, is_deleted);
            }
        }
        FaultKind::HideDirectory { place, time } => {
            restrict(&hosts(plan), place.path().to_owned(), Permissions::READ, time, false);
        }
        FaultKind::Forbid { place, below, time } => {
            let node = format!("{place}{below}");
            restrict(&hosts(plan), node, Permissions::DELETE, time, false);
        }
        FaultKind::Plant { place, what, time } => {
            // The number that the servers will append to the next name.
            let number = network::with(|world| {
                let stat = world.ensemble.node(place.path()).map(|(stat, _)| stat);
                stat.map_or(0, |stat| (stat.cversion + stat.num_children) / 2)
            });
            let name = match what {
                Plant::Exclusive => format!("_c_{:032x}-lock-{:010}", plan.seed, number),
                Plant::Write => format!("_c_{:032x}-__WRIT__{:010}", plan.seed, number),
                Plant::Past => format!("_c_{:032x}-lock-{}", plan.seed, i32::MIN),
                Plant::Foreign => format!("note-{number}"),
                Plant::Lookalike => format!("b-{:010}", number + 3),
            };
            let path = format!("{}/{name}", place.path());
            monitor(|monitor| monitor.has_strangers = true);
            if serve(|servers, now| servers.create(&path, b"", now)).is_ok() {
                monitor(|monitor| monitor.planted.insert(path.clone()));
                kernel::after(time, move || take_away(path));
            }
        }
        FaultKind::Scribble { place, nth, is_request } => {
            let node = monitor(|monitor| monitor.below(place, nth));
            // No revocation can be requested for an `EphemeralLock`'s node, because its data identify the owner.
            if let Some(node) = node.filter(|node| node.contains("/_c_")) {
                let data: &[u8] = if is_request { b"__REVOKE__" } else { b"hello" };
                let _ = serve(|servers, now| servers.set_data(&node, data, now));
            }
        }
    }
}

/// Notifies the monitor that a client receives no answers for `time`, if that is long enough for its session to end. If
/// servers have faults, this is skipped, because these may delay the end of the session.
fn is_deaf(plan: &Plan, processes: &[Process], client: usize, time: Duration) {
    let own = plan.clients.iter().map(|client| client.timeout);
    let timeout = own.chain(plan.raw.iter().map(|raw| raw.timeout)).nth(client);
    if let Some(end) = timeout.map(|timeout| timeout * 5).filter(|end| time >= *end)
        && !plan.disturbs_servers()
    {
        monitor::is_deaf(processes[client], end);
    }
}

/// Lets a reaper end the session of a client that dies now: soon, late or never. The reaper itself may die as well.
fn reap(seed: u64, plan: &ClientPlan, dead: Process) {
    let registration = board(|board| {
        let client = board.sessions.get(&dead)?;
        kernel::peek(dead, || client.registration())
    });
    let Some(registration) = registration.flatten() else { return };
    // A client may die twice in a run, each time with a different session.
    let random = &mut Rng::with_seed(seed ^ registration.session_id().cast_unsigned());
    let noticed = match random.u8(..4) {
        0 => return,
        1 => plan.timeout.mul_f64(random.f64() * 3.0),
        _ => Duration::from_millis(random.u64(..20)),
    };
    kernel::count("fault: the session of a process that died is ended");
    let margins = plan.objects.iter().filter_map(|object| object.options.margin);
    let margin = margins.max().unwrap_or_default();
    let (reaper, until) = (kernel::process(), kernel::elapsed() + margin);
    monitor(|monitor| monitor.margins.insert(reaper, until));
    if random.u8(..8) == 0 {
        kernel::after(noticed + Duration::from_millis(random.u64(..20)), move || {
            kernel::kill(reaper)
        });
    }
    thread::spawn_in(reaper, "reaper", move || {
        thread::sleep(noticed);
        // Nobody asks the reaper to stop.
        let (_going_on, over) = zoolock::crossbeam_channel::bounded(0);
        registration.end_session_after(margin, &over);
    });
}

/// Deletes a node. Retries until the servers have a leader.
fn take_away(path: String) {
    let deleted = serve(|servers, now| servers.delete(&path, now));
    if deleted.is_err_and(|refused| refused != Refused::NO_NODE) {
        kernel::after(Duration::from_millis(100), move || take_away(path));
    }
}

/// Deletes the ephemeral nodes at a place, one after another.
fn clear(place: Place, pause: Duration) {
    let nodes = monitor(|monitor| monitor.sessions_nodes(place.path()));
    for (number, node) in nodes.into_iter().enumerate() {
        kernel::after(pause * number as u32, move || {
            // Another may have deleted the node already.
            let _ = serve(|servers, now| servers.delete(&node, now));
        });
    }
}

/// Starts an operator that revokes a permission of all clients for a while, and may delete the node meanwhile.
pub(crate) fn restrict(hosts: &str, node: String, right: Permissions, time: Duration, ends: bool) {
    let hosts = hosts.to_owned();
    let (read, delete) = (Permissions::READ, Permissions::DELETE);
    monitor(|monitor| {
        monitor.has_hidden = true;
        monitor.hidden.extend((right == read).then(|| node.clone()));
    });
    let others = Permissions::WRITE | Permissions::CREATE | Permissions::ADMIN;
    let others = others | if right == read { delete } else { read };
    board(|board| board.operators += 1);
    thread::spawn_in(kernel::process(), "operator", move || {
        let is_set = set_acl(&hosts, &node, &[Acl::new(others, "world", "anyone")]);
        kernel::note(|| format!("takes {right:?} of {node}: {is_set}"));
        if is_set {
            if ends {
                let _ = serve(|servers, now| servers.delete(&node, now));
            }
            thread::sleep(time);
            set_acl(&hosts, &node, &Acl::open());
            kernel::note(|| format!("gives {right:?} of {node} back"));
            // Nodes that clients could not delete remain until an operator deletes them.
            if right == delete {
                let nodes = monitor(|monitor| monitor.sessions_nodes(&node));
                nodes.into_iter().for_each(take_away);
            }
        }
        board(|board| board.operators -= 1);
    });
}

/// Sets an ACL. Retries until that succeeds. Returns false if the node does not exist.
fn set_acl(hosts: &str, node: &str, acl: &[Acl]) -> bool {
    loop {
        if let Ok(operator) = ZooKeeper::connect(hosts, Duration::from_secs(10)) {
            let set = operator.set_acl(node, acl, None);
            let _ = operator.close();
            match set {
                Ok(_) => return true,
                Err(error) if error.kind() == ErrorKind::NoNode => return false,
                Err(_) => {}
            }
        }
        thread::sleep(Duration::from_millis(500));
    }
}
