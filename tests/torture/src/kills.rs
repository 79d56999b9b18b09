//! Holders that die in many ways, one after the other, beside a reaper: how soon the next has the lock, and whether
//! it is alone.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio, abort, exit};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use zoolock::{Client, DistributedLock, Reaper};

use crate::Outcome;
use crate::servers::Servers;

const LOCK: &str = "/kills";
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many wait at a time.
const WAITING: usize = 3;
/// The ways to die.
const WAYS: [&str; 5] = ["SIGKILL", "SIGTERM", "SIGSEGV", "abort", "exit"];

/// What a holder says that has the lock and the file.
const ALONE: &str = "alone";

/// What a holder has to know.
#[derive(Debug, Serialize, Deserialize)]
struct Facts {
    connect: String,
    /// The socket of the reaper, and the file that a holder locks.
    reaper: PathBuf,
    witness: PathBuf,
}

/// A process that waits for the lock, holds it, and dies as it is told.
struct Holder {
    process: Child,
    input: ChildStdin,
}

/// Kills so many holders. Returns false if two had the lock, or if somebody waited until the servers ended a session.
pub(crate) fn run(ensemble: bool, count: usize) -> Outcome<bool> {
    let folder = tempfile::Builder::new().prefix("kills-").tempdir()?;
    let servers = Servers::start(ensemble)?;
    let connect: Vec<_> = servers.addresses().iter().map(ToString::to_string).collect();
    let [reaper, witness] = ["reaper", "witness"].map(|name| folder.path().join(name));
    let facts = Facts { connect: connect.join(","), reaper, witness };
    let _reaper = Reaper::start(&facts.reaper)?;
    File::create(&facts.witness)?;
    let looking = Client::connect(&facts.connect, TIMEOUT)?;
    let (say, said) = mpsc::channel();
    let mut living = BTreeMap::new();
    let (mut took, mut overlaps, mut last) = (BTreeMap::<_, Vec<_>>::new(), 0, None);
    for number in 0..=count {
        while living.len() <= WAITING {
            let holder = Holder::start(&facts, &say)?;
            living.insert(holder.process.id(), holder);
        }
        let (id, line, heard) = said.recv_timeout(TIMEOUT * 3)?;
        if let Some((way, died)) = last {
            took.entry(way).or_default().push(heard - died);
        }
        overlaps += usize::from(line != ALONE);
        while looking.contenders(LOCK)?.len() < 2 {
            thread::yield_now();
        }
        let mut holder = living.remove(&id).ok_or("a stranger has the lock")?;
        let way = WAYS[number % WAYS.len()];
        last = Some((way, Instant::now()));
        holder.die(way)?;
    }
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

/// The process of a holder.
pub(crate) fn hold(facts: &str) -> Outcome<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let facts: Facts = serde_json::from_str(facts)?;
    let builder = Client::builder(&facts.connect).session_timeout(TIMEOUT);
    let client = builder.reaper(facts.reaper).connect()?;
    let lock = DistributedLock::new(&client, LOCK)?;
    // A death before would be one without a reaper.
    while !client.stats().is_registered {
        thread::yield_now();
    }
    lock.lock()?;
    // The system ends it with the process.
    let witness = File::open(facts.witness)?;
    println!("{}", if witness.try_lock().is_ok() { ALONE } else { "overlap" });
    let mut said = String::new();
    io::stdin().read_line(&mut said)?;
    match said.trim() {
        "abort" => abort(),
        _ => exit(0),
    }
}

impl Holder {
    fn start(facts: &Facts, say: &Sender<(u32, String, Instant)>) -> Outcome<Holder> {
        let mut command = Command::new(env::current_exe()?);
        command.arg("--holder").arg(serde_json::to_string(facts)?);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or("a pipe is missing")?;
        let (id, say) = (process.id(), say.clone());
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = say.send((id, line, Instant::now()));
            }
        });
        Ok(Holder { process, input })
    }

    fn die(&mut self, way: &str) -> Outcome<()> {
        let pid = Pid::from_child(&self.process);
        match way {
            "SIGKILL" => kill_process(pid, Signal::KILL)?,
            "SIGTERM" => kill_process(pid, Signal::TERM)?,
            // The first time, its runtime looks for an overflow of a stack.
            "SIGSEGV" => {
                while self.process.try_wait()?.is_none() {
                    kill_process(pid, Signal::SEGV)?;
                }
            }
            way => writeln!(self.input, "{way}")?,
        }
        Ok(())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
