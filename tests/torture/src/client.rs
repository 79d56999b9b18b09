//! The life of a client process: one client, some workers, a heartbeat to the parent, and a thread
//! that only sleeps, to show what the machine adds to every deadline.

use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, set_parent_process_death_signal};
use zoolock::Client;
use zoolock::crossbeam_channel::{Receiver, bounded};

use crate::Outcome;
use crate::cli::Job;
use crate::clock::{after, now};
use crate::gate::Gate;
use crate::kinds::Kinds;
use crate::locks::Locks;
use crate::message::{Command, Counts, Said, ThreadId, receive};
use crate::mouth::Mouth;
use crate::setting::{BEAT, TIMEOUT, socket};
use crate::worker::{Shared, Worker};

pub(crate) fn run(job: &Job) -> Outcome<()> {
    // Also when this process is stopped and cannot notice.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let (naps, wanted) = bounded(1);
    let client = connect(job);
    let shared = &*Box::leak(Box::new(Shared {
        locks: Locks::all(&client, job.process)?,
        kinds: Kinds::new(&job.kinds),
        gate: Gate::new(),
        armed: AtomicBool::new(false),
        spared: AtomicU32::new(0),
        calls: (0..job.threads).map(|_| Mutex::new(None)).collect(),
        naps,
    }));
    let mouth = introduce(job)?;
    start_side_threads(&client, shared, wanted, &mouth);
    thread::scope(|scope| {
        let start = |thread| {
            let (process, life) = (job.process, job.life);
            let me = ThreadId { process, life, thread };
            let work = move || Worker::new(me, job.seed, &job.folder, shared)?.work();
            scope.spawn(move || work().map_err(|error: crate::Failure| error.to_string()))
        };
        let threads: Vec<_> = (0..job.threads).map(start).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(_) => Err("a worker panicked".to_owned()),
        })
    })?;
    // A break that it still has to clean up after is no fault.
    let closed = client.close();
    mouth.say(&beat(&client, shared));
    match closed {
        Err(error) if !error.is_retryable() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The faults may be at work already.
fn connect(job: &Job) -> Client {
    loop {
        match Client::connect(&job.connect, TIMEOUT) {
            Ok(client) => return client,
            Err(_) => thread::sleep(TIMEOUT / 20),
        }
    }
}

fn introduce(job: &Job) -> io::Result<Mouth> {
    let mouth = Mouth::new(UnixStream::connect(socket(&job.folder))?);
    let (process, life) = (job.process, job.life);
    mouth.say(&Said::Process { process, life });
    Ok(mouth)
}

fn start_side_threads(
    client: &Client,
    shared: &'static Shared,
    naps: Receiver<Duration>,
    mouth: &Mouth,
) {
    thread::spawn(move || obey(shared));
    let (client, to_parent) = (client.clone(), mouth.clone());
    thread::spawn(move || {
        loop {
            to_parent.say(&beat(&client, shared));
            thread::sleep(BEAT);
        }
    });
    let mouth = mouth.clone();
    thread::spawn(move || {
        for nap in naps {
            let since = now();
            let deadline = after(since, nap);
            thread::sleep(nap);
            let late = now().saturating_sub(deadline);
            mouth.say(&Said::Slept { since, late });
        }
    });
}

/// The end of the input means that the parent is gone, however that came about.
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

fn beat(client: &Client, shared: &Shared) -> Said {
    let slots = shared.calls.iter();
    let calls =
        slots.filter_map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).clone());
    let stats = client.stats();
    Said::Beat {
        at: now(),
        calls: calls.collect(),
        counts: Counts {
            connections: stats.connections,
            resumed: stats.resumed,
            holds_lost: stats.holds_lost,
        },
    }
}
