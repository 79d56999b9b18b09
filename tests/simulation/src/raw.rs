//! Programs that use the ZooKeeper client without locks. Their plans are drawn from the seed.

mod answers;
mod calls;
mod checker;
mod history;
mod program;
mod watches;

use std::time::Duration;

use fastrand::Rng;
use zookeeper::CreateMode;
use zookeeper_testing::ensemble::Settings;

pub(crate) use checker::{Rules, answered, committed, finish, greeted, reset, revealed};
pub(crate) use program::run;

use crate::plan::{
    Fault, FaultKind, Place, Plan, Step, TICK, Targets, Theme, ThreadPlan, draw_moves, ms,
};

pub(crate) const ROOT: &str = "/raw";
/// The number of nodes that all programs share, and the number of nodes that each program has for itself.
const SHARED: usize = 3;
const OWN: usize = 2;
/// The length of a path that exceeds what fits into one of the requests that set watches after a reconnect.
const LONG: usize = 66_000;

#[derive(Debug, Clone)]
pub(crate) struct RawPlan {
    pub(crate) timeout: Duration,
    /// The number of letters that are appended to each node's name.
    pub(crate) tail: usize,
    /// Whether the client is dropped, and not closed.
    pub(crate) is_dropped: bool,
    pub(crate) threads: Vec<ThreadPlan<RawWhat>>,
}

/// The next action of a program's thread: it submits calls in one write, begins or ends to keep the lease, renews the
/// lease, or reads it.
#[derive(Debug, Clone)]
pub(crate) enum RawWhat {
    Calls { calls: Vec<RawCall>, how: How, limit: Duration, session: Option<Whose> },
    Keep,
    LetGo,
    Renew,
    Look,
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Wait,
    Callback,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Present,
    Former,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Node {
    Shared(usize),
    Own(usize),
    /// A new child of a shared node.
    Child(usize),
    /// A child that this program has created or may have created.
    Made,
}

/// The transaction from which a watch reports changes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Since {
    /// The first transaction.
    Ever,
    /// The newest transaction that the session has seen, minus this many.
    Before(i64),
    /// A transaction in the future, with which only missing nodes are reported immediately.
    Future,
}

/// A request. Creates and deletes contain whether they may share a transaction, and reads whether they set a watch.
#[derive(Debug, Clone)]
pub(crate) enum RawCall {
    Create { node: Node, mode: CreateMode, is_shared: bool },
    Delete(Node, bool),
    DeleteEventually(Node),
    Set(Node),
    Get(Node, bool),
    Exists(Node, bool),
    Children(Node, bool),
    Watch(Vec<Node>, Since),
    Sync,
    Renew,
    Several(Vec<RawCall>),
}

/// Adds programs that use no locks to some plans, either beside the clients or instead of them.
pub(crate) fn add(plan: &mut Plan) {
    let random = &mut Rng::with_seed(plan.seed ^ 0x0c11e47);
    let is_alone = match random.u8(..8) {
        0 | 1 => true,
        2 => false,
        _ => return,
    };
    let mut timeout = plan.timeout();
    if is_alone {
        plan.clients.clear();
        plan.servers = if random.bool() { 3 } else { 1 };
        if random.bool() {
            timeout = Duration::from_secs(1);
        }
        plan.theme = [Theme::Mixed, Theme::Frames, Theme::Short][random.usize(..3)];
    }
    let tail = if random.u8(..100) == 0 { LONG } else { 0 };
    let count = random.usize(1..=3);
    plan.raw = (0..count).map(|_| RawPlan::draw(random, timeout, tail)).collect();
    let all = plan.clients.len() + count;
    if random.u8(..4) == 0 && is_alone {
        return move_about(plan, random);
    }
    let places: Vec<Place> = (0..3).map(Place).collect();
    let (theme, servers, places) = (plan.theme, plan.servers, &places[..]);
    plan.faults = Targets { theme, clients: all, servers, places, timeout }.draw(random);
    if is_alone {
        let (is_up, time) = (false, timeout * 5);
        let more = match random.u8(..8) {
            // Requests are executed, but until the sessions have expired, no answer arrives.
            0 => befall(random, all, |client| FaultKind::Deaf { client, is_up, time }),
            1 => befall(random, all, |client| FaultKind::Useless { client, time: timeout * 6 }),
            2 if plan.servers > 1 => fall_behind(random, all, plan.servers, timeout),
            3.. if plan.servers > 1 => fall_apart(random, plan),
            // Machines sleep for longer than a session timeout; if they are paused, their time since boot stops.
            2 => {
                let (time, is_paused) = (timeout * 2, random.bool());
                befall(random, all, |client| FaultKind::Sleep { client, time, is_paused })
            }
            _ => Vec::new(),
        };
        plan.faults.extend(more);
    }
}

/// Makes one server lag, and makes clients reconnect after they have seen transactions that it has not applied yet.
fn fall_behind(random: &mut Rng, clients: usize, servers: usize, timeout: Duration) -> Vec<Fault> {
    let lag = FaultKind::Lag { server: random.usize(..servers), time: timeout * 8 };
    let mut faults = vec![lag.at(ms(random, 1, 500))];
    for client in 0..clients {
        faults.extend((0..4).map(|_| FaultKind::Cut { client }.at(ms(random, 200, 12_000))));
    }
    faults
}

/// Lets servers run without a quorum for longer than a session timeout.
fn fall_apart(random: &mut Rng, plan: &mut Plan) -> Vec<Fault> {
    // If sessions are short, each tick is a larger part of the timeout.
    let timeout = TICK * 2;
    for raw in &mut plan.raw {
        raw.timeout = timeout;
        raw.threads[0].steps.insert(0, Step::at_once(RawWhat::Keep));
    }
    let clients = plan.clients.len()..plan.clients.len() + plan.raw.len();
    let mut faults = Vec::new();
    match random.u8(..5) {
        // Some clients connect to the deposed leader when their session has almost expired at the new leader.
        0 | 1 => {
            for round in 0..3 {
                let begin = ms(random, 500, 3_000) + Duration::from_secs(5) * round;
                faults.push(FaultKind::Depose.at(begin));
                // In some rounds, nothing passes to or from these clients after that.
                let is_last = random.bool();
                for client in clients.clone().chain(clients.clone()) {
                    let cut = begin + Duration::from_millis(random.u64(200..1_800));
                    let silence = FaultKind::BlackHole { client, time: timeout * 2 };
                    let silence = silence.at(cut + ms(random, 20, 300));
                    faults.push(FaultKind::Cut { client }.at(cut));
                    faults.extend(is_last.then_some(silence));
                }
            }
        }
        // The server that received a client's last requests cannot notify the leader that the client is alive.
        2 | 3 => {
            for round in 0..5 {
                let when = ms(random, 500, 3_000) + timeout * 4 * round;
                let (server, time) = (random.usize(..plan.servers), timeout * 2);
                faults.push(FaultKind::CutOffServer { server, time }.at(when));
                let silence = |client| FaultKind::BlackHole { client, time }.at(when);
                faults.extend(clients.clone().map(silence));
            }
        }
        _ => faults.extend((0..3).map(|_| {
            let (server, time) = (random.usize(..plan.servers), timeout * 3);
            FaultKind::CutOffServer { server, time }.at(ms(random, 100, 10_000))
        })),
    }
    faults
}

/// Draws the same fault for all clients, at a different time for each.
fn befall(random: &mut Rng, clients: usize, fault: impl Fn(usize) -> FaultKind) -> Vec<Fault> {
    (0..clients).map(|client| fault(client).at(ms(random, 500, 8_000))).collect()
}

/// Gives the servers names, and makes servers move. Some servers are down at first.
fn move_about(plan: &mut Plan, random: &mut Rng) {
    plan.has_names = true;
    plan.faults = draw_moves(random, plan.servers);
    if random.bool() {
        for server in 0..plan.servers {
            let time = ms(random, 100, 5_000);
            plan.faults.push(FaultKind::Crash { server, time }.at(Duration::ZERO));
        }
    }
    let cut = |client| FaultKind::Cut { client }.at(ms(random, 100, 8_000));
    plan.faults.extend((0..plan.raw.len()).map(cut));
}

pub(crate) fn settings(plan: &Plan, settings: Settings) -> Settings {
    if plan.raw.is_empty() {
        return settings;
    }
    let mut random = Rng::with_seed(plan.seed ^ 0x0005_e771);
    let throttle = [0.0, 0.0, 0.0, 0.05, 0.3][random.usize(..5)];
    Settings {
        overtaking: random.u8(..3) == 0,
        numbered_events: random.bool(),
        // Locks cannot cope with throttling.
        throttle: if plan.clients.is_empty() { throttle } else { 0.0 },
        ..settings
    }
}

/// Returns what the checker may expect of servers that have these faults.
pub(crate) fn rules(plan: &Plan) -> Rules {
    Rules {
        one_leader: plan.servers == 1 || !plan.unsettles_servers(),
        throttle: settings(plan, Settings::default()).throttle > 0.0,
        slowest: plan.latency * 20,
    }
}

/// Returns how long all calls of all programs may take, in total.
pub(crate) fn longest(plan: &Plan) -> Duration {
    let step = |step: &Step<RawWhat>| match &step.what {
        RawWhat::Calls { limit, .. } => step.rest + *limit,
        _ => step.rest + Duration::from_secs(10),
    };
    let threads = plan.raw.iter().flat_map(|raw| &raw.threads);
    let own: Duration = threads.flat_map(|thread| &thread.steps).map(step).sum();
    own + timeout(plan) * 20
}

pub(crate) fn timeout(plan: &Plan) -> Duration {
    plan.raw.iter().map(|raw| raw.timeout).max().unwrap_or_default()
}

impl RawPlan {
    fn draw(random: &mut Rng, timeout: Duration, tail: usize) -> RawPlan {
        let threads = (0..random.usize(1..=3)).map(|number| {
            let first = (number == 0 && random.u8(..3) > 0)
                .then(|| Step::at_once(RawWhat::create_all(timeout)));
            let steps = (0..random.usize(2..=14)).map(|_| {
                let rest = if random.bool() { Duration::ZERO } else { ms(random, 1, 3_000) };
                Step { rest, what: RawWhat::draw(random, timeout) }
            });
            let steps = first.into_iter().chain(steps).collect();
            ThreadPlan { begins: ms(random, 1, 1_000), steps }
        });
        RawPlan { timeout, tail, threads: threads.collect(), is_dropped: random.u8(..4) == 0 }
    }
}

impl RawWhat {
    fn create_all(timeout: Duration) -> RawWhat {
        let calls = (0..SHARED).map(|index| {
            let (node, mode) = (Node::Shared(index), CreateMode::Persistent);
            RawCall::Create { node, mode, is_shared: false }
        });
        let (how, limit) = (How::Wait, timeout);
        RawWhat::Calls { calls: calls.collect(), how, limit, session: None }
    }

    fn draw(random: &mut Rng, timeout: Duration) -> RawWhat {
        match random.u8(..32) {
            0 | 1 => RawWhat::Keep,
            2 => RawWhat::LetGo,
            3 => RawWhat::Renew,
            4 | 5 => RawWhat::Look,
            10 if random.u8(..8) == 0 => RawWhat::Close,
            _ => {
                let longest = timeout.as_millis() as u64 * 3 / 2;
                let limit = match random.u8(..4) {
                    0 => ms(random, 1, 40),
                    _ => ms(random, longest / 20, longest),
                };
                let session = match random.u8(..10) {
                    0 => Some(Whose::Former),
                    1 | 2 => Some(Whose::Present),
                    _ => None,
                };
                let how = match random.u8(..8) {
                    0 => How::Never,
                    1..4 => How::Callback,
                    _ => How::Wait,
                };
                let count = if random.bool() { 1 } else { random.usize(2..6) };
                let calls = (0..count).map(|_| RawCall::draw(random)).collect();
                RawWhat::Calls { calls, how, limit, session }
            }
        }
    }
}

impl Node {
    fn draw(random: &mut Rng) -> Node {
        match random.u8(..5) {
            0 => Node::Own(random.usize(..OWN)),
            _ => Node::Shared(random.usize(..SHARED)),
        }
    }
}

impl RawCall {
    fn draw(random: &mut Rng) -> RawCall {
        let node = Node::draw(random);
        let is_watched = random.u8(..5) < 3;
        match random.u8(..23) {
            0..3 => {
                let mode = mode(random.bool(), false);
                RawCall::Create { node, mode, is_shared: random.bool() }
            }
            3..5 | 19 => RawCall::child(random),
            5 => RawCall::Delete(node, random.bool()),
            6 => RawCall::Delete(Node::Made, random.bool()),
            7 | 20 => RawCall::DeleteEventually(Node::Made),
            8 | 9 => RawCall::Set(node),
            10..12 => RawCall::Exists(node, is_watched),
            12..14 => RawCall::Get(node, is_watched),
            14..16 => RawCall::Children(node, is_watched),
            16 => RawCall::Sync,
            17 => RawCall::Renew,
            21 | 22 => {
                let since = match random.u8(..4) {
                    0 => Since::Ever,
                    1 | 2 => Since::Before(random.i64(..20)),
                    _ => Since::Future,
                };
                let mut nodes = vec![node];
                nodes.extend((0..random.usize(..3)).map(|_| Node::draw(random)));
                RawCall::Watch(nodes, since)
            }
            _ => {
                let several = |random: &mut Rng| match random.u8(..4) {
                    0 => RawCall::Set(Node::draw(random)),
                    1 => RawCall::Delete(Node::Made, false),
                    _ => RawCall::child(random),
                };
                RawCall::Several((0..random.usize(1..4)).map(|_| several(random)).collect())
            }
        }
    }

    fn child(random: &mut Rng) -> RawCall {
        let node = Node::Child(random.usize(..SHARED));
        let mode = mode(random.bool(), random.u8(..3) == 0);
        RawCall::Create { node, mode, is_shared: random.bool() }
    }
}

fn mode(is_ephemeral: bool, is_sequential: bool) -> CreateMode {
    match (is_ephemeral, is_sequential) {
        (true, true) => CreateMode::EphemeralSequential,
        (true, false) => CreateMode::Ephemeral,
        (false, true) => CreateMode::PersistentSequential,
        (false, false) => CreateMode::Persistent,
    }
}
