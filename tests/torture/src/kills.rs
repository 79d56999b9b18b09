//! Kills holders one after another, in many ways, while a reaper runs. Measures how soon the next holder has the lock,
//! and checks that it is the only holder.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, abort, exit};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use zoolock::{Client, DistributedLock, Reaper};

use crate::Outcome;
use crate::protocol::Role;
use crate::servers::Servers;

const LOCK: &str = "/kills";
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many clients wait at the same time.
const WAITING: usize = 3;
/// The ways to die, and the signal that ends the process in each case.
const WAYS: [(&str, i32); 5] =
    [("SIGKILL", 9), ("SIGTERM", 15), ("SIGSEGV", 11), ("abort", 6), ("exit", 0)];

/// What a holder prints if it was able to lock the file as well.
const ALONE: &str = "alone";

/// The input of a holder.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Facts {
    connect: String,
    /// The socket of the reaper, and a file that each holder locks in addition.
    reaper: PathBuf,
    lock_file: PathBuf,
}

/// Kills this many holders. Returns false if two held the lock, or if a waiter had to wait for a session to expire.
pub(crate) fn run(ensemble: bool, count: usize) -> Outcome<bool> {
    let folder = tempfile::Builder::new().prefix("kills-").tempdir()?;
    let servers = Servers::start(ensemble)?;
    let connect: Vec<_> = servers.addresses().iter().map(ToString::to_string).collect();
    let [reaper, lock_file] = ["reaper", "lock_file"].map(|name| folder.path().join(name));
    let facts = Facts { connect: connect.join(","), reaper, lock_file };
    let _reaper = Reaper::start(&facts.reaper)?;
    File::create(&facts.lock_file)?;
    let looking = Client::connect(&facts.connect, TIMEOUT)?;
    let (say, said) = mpsc::channel();
    let mut living = BTreeMap::new();
    let (mut took, mut overlaps, mut last) = (BTreeMap::<_, Vec<_>>::new(), 0, None);
    for number in 0..=count {
        while living.len() <= WAITING {
            let holder = start(&facts, &say)?;
            living.insert(holder.id(), holder);
        }
        let (id, line, at) = said.recv_timeout(TIMEOUT * 3)?;
        if let Some((way, died)) = last {
            took.entry(way).or_default().push(at - died);
        }
        overlaps += usize::from(line != ALONE);
        while looking.contenders(LOCK)?.len() < 2 {
            thread::yield_now();
        }
        let mut holder = living.remove(&id).ok_or("a stranger has the lock")?;
        let (way, signal) = WAYS[number % WAYS.len()];
        last = Some((way, Instant::now()));
        writeln!(holder.stdin.as_mut().ok_or("a pipe is missing")?, "{signal}")?;
        let status = holder.wait()?;
        if status.signal().unwrap_or(0) != signal {
            return Err(format!("{way}: {status}").into());
        }
    }
    living.values_mut().try_for_each(Child::kill)?;
    let all: Vec<_> = took.values().flatten().copied().collect();
    for (way, mut times) in took.into_iter().chain([("all", all.clone())]) {
        times.sort();
        let [median, last, most] =
            [50, 99, 100].map(|share| times[(times.len() - 1) * share / 100]);
        println!("{way:>8}: median {median:.1?}, 99 % {last:.1?}, most {most:.1?}");
    }
    let late = all.iter().filter(|time| **time > TIMEOUT / 2).count();
    println!("{count} deaths: {late} waited for the servers, {overlaps} overlaps");
    Ok(late + overlaps == 0)
}

/// The main function of a holder's process.
pub(crate) fn hold(facts: Facts) -> Outcome<()> {
    let builder = Client::builder(&facts.connect).session_timeout(TIMEOUT);
    let client = builder.reaper(facts.reaper).connect()?;
    let lock = DistributedLock::new(&client, LOCK)?;
    // If the process died before it is registered, the reaper would not end its session.
    while !client.stats().is_registered {
        thread::yield_now();
    }
    lock.lock()?;
    // The system unlocks the file when the process ends.
    let lock_file = File::open(facts.lock_file)?;
    println!("{}", if lock_file.try_lock().is_ok() { ALONE } else { "overlap" });
    let mut signal = String::new();
    io::stdin().read_line(&mut signal)?;
    match signal.trim().parse()? {
        0 => exit(0),
        6 => abort(),
        // Sends the signal repeatedly, because on the first SIGSEGV the runtime only checks for a stack overflow.
        signal => loop {
            kill_process(getpid(), Signal::from_named_raw(signal).ok_or("no signal")?)?;
        },
    }
}

/// Starts a process that waits for the lock, holds it, and dies on request.
fn start(facts: &Facts, say: &Sender<(u32, String, Instant)>) -> Outcome<Child> {
    let mut process = Role::Holder(facts.clone()).start()?;
    let output = process.stdout.take().ok_or("a pipe is missing")?;
    let (id, say) = (process.id(), say.clone());
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = say.send((id, line, Instant::now()));
        }
    });
    Ok(process)
}
