//! A client process: one client, some workers, a heartbeat to the coordinator, and a thread that only sleeps,
//! to measure the machine's delays.

mod granted;
mod guarding;
mod hold;
mod locks;
mod mix;
mod operations;
pub(crate) mod witness;
mod worker;

use std::convert::Infallible;
use std::io::{self, BufReader};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::process::{Signal, set_parent_process_death_signal};
use zoolock::Client;
use zoolock::crossbeam_channel::{Receiver, Sender, bounded};

use crate::Outcome;
use crate::clock::{after, now};
use crate::kinds::Kinds;
use crate::options::ClientOptions;
use crate::protocol::{Command, Counts, Event, InFlight, Reporter, WorkerId, receive};
use crate::settings::{BEAT, NAP, TIMEOUT};

use locks::Locks;
use worker::Worker;

/// State shared by the threads of a process.
pub(crate) struct Shared {
    pub(crate) locks: Vec<Locks>,
    pub(crate) kinds: Kinds,
    pub(crate) gate: Gate,
    /// Whether the next holder has to ask before it writes.
    pub(crate) armed: AtomicBool,
    /// The phase in which nobody may kill the process any more.
    pub(crate) spared: AtomicU32,
    pub(crate) calls: Vec<Mutex<Option<InFlight>>>,
}

/// Never carries a message; it disconnects when the phase ends.
pub(crate) type Drained = Receiver<Infallible>;

/// Admits the workers of a process to a phase, and tells them when it ends.
#[derive(Debug)]
pub(crate) struct Gate(Mutex<GateState>);

#[derive(Debug)]
struct GateState {
    /// This phase and all earlier ones have ended.
    closed: u32,
    /// Kept only for its end.
    _open: Sender<Infallible>,
    drained: Drained,
}

impl Gate {
    /// Phases count from 1.
    pub(crate) fn new() -> Gate {
        Gate(Mutex::new(GateState::after(0)))
    }

    /// `None` if the phase has ended.
    pub(crate) fn enter(&self, phase: u32) -> Option<Drained> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (phase > state.closed).then(|| state.drained.clone())
    }

    pub(crate) fn close(&self, phase: u32) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = GateState::after(phase);
    }
}

impl GateState {
    fn after(closed: u32) -> GateState {
        let (open, drained) = bounded(0);
        GateState { closed, _open: open, drained }
    }
}

pub(crate) fn run(options: &ClientOptions) -> Outcome<()> {
    // This also covers a process that is stopped and cannot notice.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let client = connect(options);
    let shared = &*Box::leak(Box::new(Shared {
        locks: Locks::all(&client, options.process)?,
        kinds: Kinds::new(&options.kinds),
        gate: Gate::new(),
        armed: AtomicBool::new(false),
        spared: AtomicU32::new(0),
        calls: (0..options.threads).map(|_| Mutex::new(None)).collect(),
    }));
    let reporter = introduce(options)?;
    start_side_threads(&client, shared, &reporter);
    thread::scope(|scope| {
        let start = |thread| {
            let (process, incarnation) = (options.process, options.incarnation);
            let me = WorkerId { process, incarnation, thread };
            let work = move || Worker::new(me, options.seed, &options.folder, shared)?.work();
            scope.spawn(move || work().map_err(|error: crate::Failure| error.to_string()))
        };
        let threads: Vec<_> = (0..options.threads).map(start).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => Err("a worker panicked".to_owned()),
        })
    })?;
    // A break that still needs cleaning up is no fault.
    let closed = client.close();
    reporter.report(&beat(&client, shared));
    match closed {
        Err(error) if !error.is_retryable() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Faults may already be under way.
fn connect(options: &ClientOptions) -> Client {
    loop {
        match Client::connect(&options.connect, TIMEOUT) {
            Ok(client) => return client,
            Err(_) => thread::sleep(TIMEOUT / 20),
        }
    }
}

fn introduce(options: &ClientOptions) -> io::Result<Reporter> {
    let reporter = Reporter::connect(&options.folder)?;
    let (process, incarnation) = (options.process, options.incarnation);
    reporter.report(&Event::Process { process, incarnation });
    Ok(reporter)
}

fn start_side_threads(client: &Client, shared: &'static Shared, reporter: &Reporter) {
    thread::spawn(move || obey(shared));
    let (client, to_coordinator) = (client.clone(), reporter.clone());
    thread::spawn(move || {
        loop {
            to_coordinator.report(&beat(&client, shared));
            thread::sleep(BEAT);
        }
    });
    let reporter = reporter.clone();
    thread::spawn(move || {
        loop {
            let since = now();
            let deadline = after(since, NAP);
            thread::sleep(NAP);
            let late = now().saturating_sub(deadline);
            reporter.report(&Event::Slept { since, late });
        }
    });
}

/// The end of the input means that the coordinator is gone for any reason.
fn obey(shared: &Shared) {
    let mut input = BufReader::new(io::stdin());
    while let Ok(Some(command)) = receive(&mut input) {
        match command {
            Command::Drain { phase } => shared.gate.close(phase),
            Command::Spare { phase } => shared.spared.store(phase, Ordering::SeqCst),
            Command::Arm => shared.armed.store(true, Ordering::SeqCst),
        }
    }
    process::exit(1);
}

fn beat(client: &Client, shared: &Shared) -> Event {
    let slots = shared.calls.iter();
    let calls =
        slots.filter_map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).clone());
    let stats = client.stats();
    Event::Beat {
        at: now(),
        calls: calls.collect(),
        counts: Counts {
            connections: stats.connections,
            resumed: stats.resumed,
            holds_lost: stats.holds_lost,
        },
    }
}
