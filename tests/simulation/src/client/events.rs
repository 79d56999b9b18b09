//! A program that follows the events of all locks, as a dashboard does, on a machine of its own.

use std::time::Duration;

use fastrand::Rng;
use kernel::{Process, thread};
use zoolock::{Client, ClientState, Error, LockEvents};

use super::{Board, board};
use crate::plan::{ClientPlan, Plan, Theme, Trouble, What, ms};
use crate::witness::events::{self, Stream};
use crate::witness::{is_dead, violation, witness};

/// A server that answers and a client that is not stopped need this long for a few looks, beside the network.
const SOON: Duration = Duration::from_secs(2);

/// Plan of the program.
#[derive(Debug, Clone)]
pub(crate) struct Dashboard {
    timeout: Duration,
    interval: Duration,
    /// Longest delay of a frame.
    slowest: Duration,
    /// The program drops the stream and begins another one after this many events.
    patience: u32,
    /// What happens to its machine.
    pub(crate) troubles: Vec<(Duration, Trouble)>,
    seed: u64,
}

/// Draws the program of some runs, and has the witness note the state of all locks for it. Its troubles hit the machine behind all others.
pub(crate) fn draw(plan: &Plan) -> Option<Dashboard> {
    let mut random = Rng::with_seed(plan.seed ^ 0xe7e27);
    if plan.clients.is_empty() || random.u8(..4) > 0 {
        // A herd is judged by the events that its clients get.
        let follows = random.u8(..4) == 0 && plan.theme != Theme::Herd;
        witness(|witness| witness.follows = follows.then(|| random.u64(..)));
        if follows {
            events::watched();
        }
        return None;
    }
    events::watched();
    let client = plan.clients.len() + plan.raw.len();
    let trouble = |random: &mut Rng| {
        let (when, time) = (ms(random, 100, 20_000), ms(random, 10, 5_000));
        let what = match random.u8(..5) {
            0..3 => Trouble::Cut { client },
            3 => Trouble::Refuse { client, time },
            _ => Trouble::BlackHole { client, time },
        };
        (when, what)
    };
    let troubles = (0..random.usize(..6)).map(|_| trouble(&mut random)).collect();
    Some(Dashboard {
        timeout: plan.timeout(),
        interval: ms(&mut random, 50, 2_000),
        slowest: plan.latency * 20,
        patience: if random.bool() { u32::MAX } else { random.u32(5..50) },
        troubles,
        seed: random.u64(..),
    })
}

/// Runs the program until all others are over.
pub(crate) fn run(plan: &Dashboard, hosts: &str, others: Vec<Process>) {
    let process = kernel::own_process();
    board(|board| board.done.insert(process));
    if let Some(client) = connect(plan, hosts) {
        board(|board| board.sessions.push((process, client.clone())));
        follow(&client, plan, &others);
        board(|board| board.sessions.retain(|(one, _)| *one != process));
        let _ = client.close();
    }
    board(Board::is_over);
}

/// Follows the events in another thread of some clients with locks, until the client is closed: its watch must not
/// disturb those of the locks.
pub(super) fn follow_beside(client: &Client, number: usize, plan: &ClientPlan) {
    let is_followed =
        witness(|witness| witness.follows.is_some_and(|seed| (seed >> number) & 3 == 0));
    // The requests of turns in a row are counted.
    let has_turns = plan.steps().any(|step| matches!(step.what, What::Turns { .. }));
    if !is_followed || has_turns {
        return;
    }
    kernel::count("events: followed beside locks");
    let events = client.events_below("/").expect("a path");
    thread::spawn_in(kernel::own_process(), "events", move || {
        let mut stream = events::stream(format!("client {number}"));
        for event in events {
            match event {
                Ok(event) => stream.judge(event),
                Err(Error::Denied { .. }) if witness(|witness| witness.has_hidden) => {}
                Err(error) => violation(format!("events of client {number}: {error}")),
            }
        }
    });
}

fn connect(plan: &Dashboard, hosts: &str) -> Option<Client> {
    for _ in 0..100 {
        match Client::builder(hosts).session_timeout(plan.timeout).connect() {
            Ok(client) => return Some(client),
            Err(Error::Connect { .. } | Error::Thread { .. }) => {}
            Err(error) => violation(format!("connect of a dashboard: {error}")),
        }
        thread::sleep(Duration::from_secs(1));
    }
    None
}

fn follow(client: &Client, plan: &Dashboard, others: &[Process]) {
    let mut random = Rng::with_seed(plan.seed);
    let begin = || client.events_below("/").expect("a path").interval(plan.interval);
    let (mut events, mut stream) = (begin(), events::stream("the dashboard".to_owned()));
    let (mut told, mut quiet) = (0, kernel::elapsed());
    loop {
        if told > plan.patience && random.bool() {
            kernel::count("events: another stream");
            drop(events);
            (events, stream, told) = (begin(), events::stream("the next dashboard".to_owned()), 0);
            quiet = kernel::elapsed();
        }
        let is_told = take(&mut events, &mut stream, ms(&mut random, 1, 1_000));
        told += u32::from(is_told);
        // Without a connection it may be behind for long.
        if is_told || client.state() != ClientState::Connected {
            quiet = kernel::elapsed();
        }
        if is_told {
            if random.u8(..8) == 0 {
                thread::sleep(ms(&mut random, 1, 500));
            }
            continue;
        }
        if kernel::elapsed() - quiet > plan.lag() {
            judge_quiet(&stream, plan);
        }
        if are_dead_or_over(others) {
            return judge_end(&mut events, &mut stream, plan);
        }
    }
}

fn are_dead_or_over(others: &[Process]) -> bool {
    let is_closed = |process: &Process| board(|board| board.closed.contains(process));
    others.iter().all(|other| is_dead(*other) || is_closed(other))
}

/// Takes the next event. Returns false if there is none in time.
fn take(events: &mut LockEvents, stream: &mut Stream, limit: Duration) -> bool {
    match events.next_within(limit) {
        Ok(Some(event)) => stream.judge(event),
        Ok(None) => return false,
        Err(Error::Denied { .. }) if witness(|witness| witness.has_hidden) => {
            kernel::count("events: denied");
        }
        Err(error) => violation(format!("a stream of events: {error}")),
    }
    true
}

impl Dashboard {
    /// Returns how long a stream may be behind when nothing goes wrong.
    fn lag(&self) -> Duration {
        SOON + self.interval + self.slowest * 60
    }
}

/// Checks a stream that tells nothing while nothing goes wrong.
fn judge_quiet(stream: &Stream, plan: &Dashboard) {
    let is_well = witness(|witness| {
        let settled = witness.healed_at.map(|healed| healed + plan.timeout * 2);
        settled.is_some_and(|settled| settled < kernel::elapsed()) && !witness.has_hidden
    });
    if is_well {
        kernel::count("events: compared while all is well");
        stream.difference(plan.lag()).into_iter().for_each(violation);
    }
}

/// Checks that the last state of a stream is that of the servers.
fn judge_end(events: &mut LockEvents, stream: &mut Stream, plan: &Dashboard) {
    kernel::count("events: compared at the end");
    // What could not be read is looked at from time to time. The sessions of dead clients end meanwhile.
    let end = kernel::elapsed() + plan.timeout * 7 + plan.lag();
    loop {
        let is_told = take(events, stream, Duration::from_millis(500));
        let difference = stream.difference(Duration::ZERO);
        match difference {
            None if !is_told => return,
            Some(difference) if kernel::elapsed() > end => return violation(difference),
            _ => {}
        }
    }
}
