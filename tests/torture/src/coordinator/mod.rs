//! The coordinator: starts everything, runs the phases, has each judged, and reports.

mod hung;
mod orphans;
pub(crate) mod processes;
mod queue_watcher;
pub(crate) mod recorder;
mod server_watcher;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use zoolock_judge::{Judge, Linear, Linearized};

use crate::Outcome;
use crate::client::witness::Witness;
use crate::journal;
use crate::kinds::Kinds;
use crate::nemesis::network::Network;
use crate::nemesis::servers::Servers;
use crate::nemesis::{Nemesis, Phase, phases};
use crate::options::RunOptions;
use crate::paths::{self, PATHS};
use crate::protocol::{Command, Reply, Task};
use crate::report::{self, Row, Totals};
use crate::settings::{self, PROCESSES, TIMEOUT};

use processes::{Launch, Processes};
use recorder::Recorder;

/// The nemesis among the sources of random choices; the others are numbered from 0.
const NEMESIS: u64 = u64::MAX;
const STARTED_WITHIN: Duration = Duration::from_secs(60);
/// The number of acquisitions after which the faults start again.
const ROUND: u64 = 200_000;
/// The time after the end of all faults in which somebody gets a lock.
const PROGRESS_WITHIN: Duration = Duration::from_secs(20);
/// The time in which every call has returned: dead clients' sessions have ended, clients are back, and the
/// queues are empty.
const DRAINED_WITHIN: Duration = Duration::from_secs(25);
const FINISHED_WITHIN: Duration = TIMEOUT.saturating_mul(3);
const CLEAN_WITHIN: Duration = TIMEOUT.saturating_mul(4);
const SHOW_EVERY: Duration = Duration::from_secs(5);

/// False if anything is wrong with zoolock. Faults of another library are only reported.
pub(crate) fn run(options: &RunOptions) -> Outcome<bool> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let phases = phases(options);
    if phases.is_empty() {
        return Err("there is no such phase".into());
    }
    let begun = Instant::now();
    let folder = tempfile::Builder::new().prefix("torture-").tempdir()?;
    let (nemesis, all_gone) = open(options, seed, folder.path())?;
    let mut run = Run {
        seed,
        nemesis,
        judge: Judge::new(paths::judged(), settings::MARGINS),
        linear: Linear::new(&paths::judged()),
        linearized: Linearized::default(),
        rows: Vec::new(),
        violations: Vec::new(),
        hung: 0,
    };
    println!("{}", report::PHASES_HEADING);
    let watchers = (queue_watcher::start(&run.nemesis), server_watcher::start(&run.nemesis));
    for round in 0.. {
        let missing = options.acquisitions.saturating_sub(run.acquisitions());
        run.round(&phases, missing.min(ROUND), round)?;
        let counts = phases.iter().any(|phase| phase.task == Task::Locks);
        let enough = !counts || run.acquisitions() >= options.acquisitions;
        if enough && begun.elapsed() >= options.duration() || run.hung > 0 {
            break;
        }
    }
    drop(watchers);
    let orphans = run.close(&all_gone)?;
    let totals = Totals {
        seed,
        ensemble: options.ensemble,
        took: begun.elapsed(),
        counts: run.nemesis.recorder.state().counts(),
        orphans,
        hung: run.hung,
        linearized: run.linearized,
    };
    report::print(&run.rows, &run.violations, &totals);
    Ok(run.violations.is_empty())
}

fn open(options: &RunOptions, seed: u64, folder: &Path) -> Outcome<(Nemesis, Receiver<()>)> {
    for path in 0..PATHS {
        Witness::prepare(folder, path)?;
    }
    let servers = Servers::start(options.ensemble)?;
    let probe = servers.probe()?;
    orphans::prepare(&probe)?;
    journal::prepare(&probe)?;
    let (kinds, threads) = (Kinds::new(&options.kinds), options.threads as usize);
    let networks = (0..PROCESSES).map(|_| Network::start(&servers));
    let networks: Vec<_> = networks.collect::<Result<_, _>>()?;
    let (recorder, gone) = Recorder::open(folder, PROCESSES * threads)?;
    let launch = Launch {
        seed,
        folder: folder.to_owned(),
        kinds: kinds.clone(),
        threads,
        connect: networks.iter().map(Network::connect_string).collect(),
    };
    let (processes, all_gone) = Processes::start(launch, &recorder, gone)?;
    let started = recorder.wait(STARTED_WITHIN, |state| state.is_at_rest().then_some(()));
    started.ok_or("the clients did not start")?;
    let nemesis = Nemesis {
        servers,
        networks,
        recorder,
        processes,
        kinds,
        stops: options.stops as usize,
        rng: settings::rng(seed, &[NEMESIS]),
    };
    Ok((nemesis, all_gone))
}

struct Run {
    seed: u64,
    nemesis: Nemesis,
    judge: Judge,
    linear: Linear,
    linearized: Linearized,
    /// One for each phase, over all rounds.
    rows: Vec<Row>,
    violations: Vec<String>,
    /// Calls that did not return after a phase.
    hung: usize,
}

impl Run {
    fn acquisitions(&self) -> u64 {
        let acquired = |row: &Row| row.found.sum(|tally| tally.acquisitions) as u64;
        self.rows.iter().map(acquired).sum()
    }

    /// Runs all phases once, with at least this many acquisitions.
    fn round(&mut self, phases: &[&'static Phase], acquisitions: u64, round: u64) -> Outcome<()> {
        let with_locks = phases.iter().filter(|phase| phase.task == Task::Locks).count();
        let acquisitions = acquisitions.div_ceil(with_locks.max(1) as u64) as usize;
        for (number, phase) in (round * phases.len() as u64 + 1..).zip(phases) {
            self.nemesis.rng = settings::rng(self.seed, &[NEMESIS, number]);
            self.phase(phase, number as u32, acquisitions)?;
            if self.hung > 0 {
                break;
            }
        }
        Ok(())
    }

    fn phase(&mut self, phase: &'static Phase, number: u32, acquisitions: usize) -> Outcome<()> {
        let begun = Instant::now();
        let progress = show_progress(&self.nemesis.recorder, phase.name);
        let deaths = phase.rules.allow_deaths();
        let begin = Reply::Begin { phase: number, deaths, task: phase.task };
        self.nemesis.recorder.begin(begin);
        let faults = (phase.faults)(&mut self.nemesis);
        self.nemesis.restore_networks();
        self.spare(number);
        let mut unexpected: Vec<_> =
            faults.err().map(|error| error.to_string()).into_iter().collect();
        if phase.task == Task::Locks {
            unexpected.extend(self.await_acquisitions(acquisitions));
        }
        unexpected.extend(self.drain(number));
        drop(progress);
        let mut history = self.nemesis.recorder.state().take_history();
        history.unexpected.extend(unexpected);
        history.carried_out = journal::take(&self.nemesis.probe()?)?;
        let mut found = self.judge.judge(&phase.judged(), &history);
        let linearized = self.linear.check(&history);
        found.violations.extend(linearized.violations.iter().cloned());
        self.linearized.add(linearized);
        for violation in &mut found.violations {
            *violation = format!("[{}] {violation}", phase.name);
        }
        let took = begun.elapsed();
        self.violations.extend(found.violations.iter().cloned());
        let row = Row::new(phase, took, found);
        println!("{}", row.line());
        match self.rows.iter_mut().find(|row| row.phase.name == phase.name) {
            Some(sum) => sum.add(row),
            None => self.rows.push(row),
        }
        Ok(())
    }

    /// A dead process blocks the others for a session timeout, which would be most of the time after the
    /// faults.
    fn spare(&self, phase: u32) {
        self.nemesis.recorder.spare();
        self.nemesis.processes.tell_all(&Command::Spare { phase });
    }

    /// The problem, if the acquisitions do not come.
    fn await_acquisitions(&self, acquisitions: usize) -> Option<String> {
        let mut count = 0;
        while count < acquisitions {
            let more = self.nemesis.recorder.wait(PROGRESS_WITHIN, |state| {
                let now = state.history.acquisitions;
                (now > count).then_some(now)
            });
            let Some(more) = more else {
                return Some(format!(
                    "no progress: nobody got a lock for {PROGRESS_WITHIN:?} ({count} of {acquisitions})"
                ));
            };
            count = more;
        }
        None
    }

    /// Ends the phase for all workers. Returns what they are doing if they do not return.
    fn drain(&mut self, phase: u32) -> Vec<String> {
        self.nemesis.recorder.end();
        self.nemesis.processes.tell_all(&Command::Drain { phase });
        let at_rest =
            self.nemesis.recorder.wait(DRAINED_WITHIN, |state| state.is_at_rest().then_some(()));
        if at_rest.is_some() {
            return Vec::new();
        }
        let busy = self.nemesis.recorder.state().busy();
        self.hung += busy.len();
        let text = |who: &String| format!("hung {DRAINED_WITHIN:?} after all faults: {who}");
        busy.iter().map(text).collect()
    }

    /// Ends all processes, and returns the number of leftover nodes.
    fn close(&mut self, all_gone: &Receiver<()>) -> Outcome<usize> {
        self.nemesis.recorder.finish();
        let late = self.nemesis.processes.dismiss(all_gone, FINISHED_WITHIN);
        if late > 0 {
            let text = format!("{late} processes did not end within {FINISHED_WITHIN:?}");
            self.violations.push(text);
        }
        self.violations.extend(self.nemesis.recorder.state().take_history().unexpected);
        let orphans = orphans::find(&self.nemesis.probe()?, CLEAN_WITHIN)?;
        let found = orphans.iter().map(|node| format!("orphan: {node}"));
        self.violations.extend(found);
        Ok(orphans.len())
    }
}

/// Runs until the result is dropped.
fn show_progress(recorder: &Arc<Recorder>, phase: &'static str) -> Sender<()> {
    let (stop, stopped) = bounded(0);
    let recorder = Arc::clone(recorder);
    let begun = Instant::now();
    thread::spawn(move || {
        while !is_over(&stopped, SHOW_EVERY) {
            let acquired = recorder.state().history.acquisitions;
            let seconds = begun.elapsed().as_secs();
            eprintln!("{phase}: {acquired} acquisitions, {seconds} s");
        }
    });
    stop
}

/// Waits, and returns whether the end came meanwhile.
fn is_over(stopped: &Receiver<()>, pause: Duration) -> bool {
    !matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout))
}
