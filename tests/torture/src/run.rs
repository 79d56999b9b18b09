//! The run, from the parent's side: starts everything, walks through the phases, and sums up.

use std::env;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::Outcome;
use crate::cli::Plan;
use crate::crew::{Crew, Launch};
use crate::field::{Field, Network};
use crate::hub::Hub;
use crate::kinds::Kinds;
use crate::message::{Answer, Command};
use crate::orphans;
use crate::phases::{Phase, phases};
use crate::places::PATHS;
use crate::report::{End, Summary};
use crate::seed;
use crate::servers::Servers;
use crate::setting::{PROCESSES, TIMEOUT};
use crate::tables::{HEADING, KINDS_HEADING, Row, kind_line, kinds};
use crate::usher;
use crate::verdict::Judge;
use crate::witness::Witness;

/// The nemesis among those who make choices; the others are numbered from 0.
const NEMESIS: u64 = u64::MAX;
const STARTED_WITHIN: Duration = Duration::from_secs(60);
/// After so many acquisitions the faults begin again.
const ROUND: u64 = 200_000;
/// When all faults are over, somebody gets a lock in this time.
const PROGRESS_WITHIN: Duration = Duration::from_secs(20);
/// And in this time every call has returned: sessions of the dead have ended, clients are back, and
/// the queues are worked off.
const DRAINED_WITHIN: Duration = Duration::from_secs(25);
const FINISHED_WITHIN: Duration = TIMEOUT.saturating_mul(3);
const CLEAN_WITHIN: Duration = TIMEOUT.saturating_mul(4);
const SHOW_EVERY: Duration = Duration::from_secs(5);

/// False if anything is wrong with zoolock; what is wrong with another library is only told.
pub(crate) fn run(plan: &Plan) -> Outcome<bool> {
    let seed = plan.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    let phases = phases(plan.ensemble, plan.only.as_deref().unwrap_or_default());
    if phases.is_empty() {
        return Err("there is no such phase".into());
    }
    let begun = Instant::now();
    let folder = tempfile::Builder::new().prefix("torture-").tempdir()?;
    let (field, all_gone) = open(plan, seed, folder.path())?;
    let mut run = Run {
        field,
        judge: Judge::new(plan.peer),
        rows: Vec::new(),
        violations: Vec::new(),
        hung: 0,
        is_stuck: false,
    };
    println!("{HEADING}");
    let usher = usher::start(&run.field);
    for round in 0.. {
        let missing = plan.acquisitions.saturating_sub(run.acquisitions());
        run.round(&phases, missing.min(ROUND), seed, round)?;
        let done = run.acquisitions() >= plan.acquisitions && begun.elapsed() >= plan.duration();
        if done || run.hung > 0 {
            break;
        }
    }
    drop(usher);
    let orphans = run.close(&all_gone)?;
    let end = End {
        peer: plan.peer,
        seed,
        ensemble: plan.ensemble,
        took: begun.elapsed(),
        counts: run.field.hub.state().counts(),
        orphans,
        hung: run.hung,
        violations: run.violations.len(),
    };
    run.report(&end)
}

fn open(plan: &Plan, seed: u64, folder: &Path) -> Outcome<(Field, Receiver<()>)> {
    for path in 0..PATHS {
        Witness::prepare(folder, path)?;
    }
    let servers = Servers::start(plan.ensemble)?;
    orphans::prepare(&servers.probe()?)?;
    let (kinds, command) = match plan.peer {
        None => (plan.kinds.clone(), vec![env::current_exe()?.into()]),
        Some(peer) => (peer.kinds(&plan.kinds)?, peer.build(folder)?),
    };
    let (kinds, threads) = (Kinds::new(&kinds), plan.threads as usize);
    let networks = (0..PROCESSES).map(|_| Network::start(&servers));
    let networks: Vec<_> = networks.collect::<Result<_, _>>()?;
    let (hub, gone) = Hub::open(folder, PROCESSES * threads)?;
    let launch = Launch {
        command,
        seed,
        folder: folder.to_owned(),
        kinds: kinds.clone(),
        threads,
        connect: networks.iter().map(Network::connect_string).collect(),
    };
    let (crew, all_gone) = Crew::start(launch, &hub, gone)?;
    let started = hub.wait(STARTED_WITHIN, |state| state.is_at_rest().then_some(()));
    started.ok_or("the clients did not start")?;
    let field = Field {
        servers,
        networks,
        hub,
        crew,
        kinds,
        peer: plan.peer,
        rng: seed::rng(seed, &[NEMESIS]),
    };
    Ok((field, all_gone))
}

struct Run {
    field: Field,
    judge: Judge,
    /// One for each phase, over all rounds.
    rows: Vec<Row>,
    violations: Vec<String>,
    /// Calls that did not come back after a phase.
    hung: usize,
    /// Some of them may still hang.
    is_stuck: bool,
}

impl Run {
    fn acquisitions(&self) -> u64 {
        let acquired = |row: &Row| row.found.acquisitions as u64;
        self.rows.iter().map(acquired).sum()
    }

    /// All phases once, with so many acquisitions at least.
    fn round(
        &mut self,
        phases: &[&'static Phase],
        acquisitions: u64,
        seed: u64,
        round: u64,
    ) -> Outcome<()> {
        let share = acquisitions.div_ceil(phases.len() as u64) as usize;
        for (number, phase) in (round * phases.len() as u64 + 1..).zip(phases) {
            self.field.rng = seed::rng(seed, &[NEMESIS, number]);
            self.phase(phase, number as u32, share)?;
            if self.is_stuck {
                break;
            }
        }
        Ok(())
    }

    fn phase(&mut self, phase: &'static Phase, number: u32, share: usize) -> Outcome<()> {
        let begun = Instant::now();
        let progress = show_progress(&self.field.hub, phase.name);
        let deaths = phase.rules.allow_deaths();
        let turn = Answer::Turn { phase: number, deaths };
        self.field.hub.begin(turn);
        let script = (phase.script)(&mut self.field);
        self.field.restore_networks();
        self.spare(number);
        let mut wrongs: Vec<_> = script.err().map(|error| error.to_string()).into_iter().collect();
        wrongs.extend(self.await_share(share));
        wrongs.extend(self.drain(number));
        drop(progress);
        let mut evidence = self.field.hub.state().take_evidence();
        evidence.wrongs.extend(wrongs);
        let found = self.judge.judge(phase, &evidence);
        let took = begun.elapsed();
        self.violations.extend(found.violations.iter().cloned());
        let row = Row::new(phase, took, found);
        println!("{}", row.line());
        match self.rows.iter_mut().find(|row| row.phase.name == phase.name) {
            Some(sum) => sum.add(row),
            None => self.rows.push(row),
        }
        if self.is_stuck && self.field.peer.is_some() {
            self.start_over()?;
        }
        Ok(())
    }

    /// Another library's clients get another chance in the next phase when they hang. Of zoolock's
    /// nothing more is to be learnt.
    fn start_over(&mut self) -> Outcome<()> {
        let Field { crew, hub, .. } = &self.field;
        (0..crew.len()).try_for_each(|process| crew.kill(process))?;
        let started = hub.wait(STARTED_WITHIN, |state| state.is_at_rest().then_some(()));
        started.ok_or("the clients did not start again")?;
        // How they ended says nothing of the next phase.
        drop(hub.state().take_evidence());
        self.is_stuck = false;
        Ok(())
    }

    /// Who dies keeps the others out for a session timeout: after the faults that would be most of
    /// the time.
    fn spare(&self, phase: u32) {
        self.field.hub.spare();
        self.field.crew.tell_all(&Command::Spare { phase });
    }

    /// What is wrong if the acquisitions do not come.
    fn await_share(&self, share: usize) -> Option<String> {
        let mut count = 0;
        while count < share {
            let more = self.field.hub.wait(PROGRESS_WITHIN, |state| {
                let now = state.evidence.acquisitions;
                (now > count).then_some(now)
            });
            let Some(more) = more else {
                return Some(format!(
                    "no progress: nobody got a lock for {PROGRESS_WITHIN:?} ({count} of {share})"
                ));
            };
            count = more;
        }
        None
    }

    /// Ends the phase for all workers; what they are at if they do not come back.
    fn drain(&mut self, phase: u32) -> Vec<String> {
        self.field.hub.end();
        self.field.crew.tell_all(&Command::Drain { phase });
        let at_rest = self.field.hub.wait(DRAINED_WITHIN, |state| state.is_at_rest().then_some(()));
        if at_rest.is_some() {
            return Vec::new();
        }
        let busy = self.field.hub.state().busy();
        self.hung += busy.len();
        self.is_stuck = true;
        let text = |who: &String| format!("hung {DRAINED_WITHIN:?} after all faults: {who}");
        busy.iter().map(text).collect()
    }

    /// Sends everybody home. How many nodes are left.
    fn close(&mut self, all_gone: &Receiver<()>) -> Outcome<usize> {
        self.field.hub.finish();
        let late = self.field.crew.dismiss(all_gone, FINISHED_WITHIN);
        if late > 0 {
            let text = format!("{late} processes did not end within {FINISHED_WITHIN:?}");
            self.violations.push(text);
        }
        self.violations.extend(self.field.hub.state().take_evidence().wrongs);
        let orphans = orphans::find(&self.field.probe()?, CLEAN_WITHIN)?;
        let found = orphans.iter().map(|node| format!("orphan: {node}"));
        self.violations.extend(found);
        Ok(orphans.len())
    }

    fn report(&self, end: &End) -> Outcome<bool> {
        println!("\n{HEADING}");
        self.rows.iter().for_each(|row| println!("{}", row.line()));
        println!("\n{KINDS_HEADING}");
        for (kind, tally) in kinds(&self.rows) {
            println!("{}", kind_line(kind, &tally));
        }
        for violation in &self.violations {
            println!("violation: {violation}");
        }
        let summary = Summary::of(&self.rows, end);
        println!("{}", serde_json::to_string(&summary)?);
        Ok(self.violations.is_empty() || end.peer.is_some())
    }
}

/// Until the result is dropped.
fn show_progress(hub: &Arc<Hub>, phase: &'static str) -> Sender<()> {
    let (stop, stopped) = bounded(0);
    let hub = Arc::clone(hub);
    let begun = Instant::now();
    thread::spawn(move || {
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(SHOW_EVERY) {
            let acquired = hub.state().evidence.acquisitions;
            let seconds = begun.elapsed().as_secs();
            eprintln!("{phase}: {acquired} acquisitions, {seconds} s");
        }
    });
    stop
}
