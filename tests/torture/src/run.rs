//! Runs many plans, several at a time, and sums up the results.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::Reaper;
use zoolock_checker::{Findings, Linearized};

use crate::machine::Machine;
use crate::plan::{Fault, FaultKind, Plan};
use crate::scene::{Played, REAPER, play};
use crate::servers::Servers;
use crate::{Options, Outcome, stops};

/// How many plans run at the same time.
const AT_ONCE: usize = 24;
/// The same for plans of guarded writes, which keep the machine busy.
const GUARDS_AT_ONCE: usize = 6;
/// One in this many plans has guarded writes.
const GUARDED: u64 = 12;
/// How many of a plan's violations are shown.
const SHOWN: usize = 20;
/// In one of this many plans, a client is killed. Plans do not contain this, as simulated processes cannot be killed.
const KILLED: u64 = 3;
/// The latest time at which a client is killed, in milliseconds.
const LATEST_KILL: u64 = 20_000;
/// How many plans belong to one seed of the run.
const PLANS: u64 = 1_000_000;
/// Pauses, work and the times of faults are divided by this, which saves time.
const SHARE: u32 = 4;

/// Returns the plan of a seed, or its variant with guarded writes.
pub(crate) fn plan_of(seed: u64, guards: bool) -> Plan {
    let mut plan = Plan::of(seed);
    if guards {
        stops::guard(&mut plan);
    } else if seed.is_multiple_of(KILLED) {
        let random = &mut fastrand::Rng::with_seed(seed);
        // A plan may have no clients, but only programs that do not use locks.
        if let Some(client) = random.choice(0..plan.clients.len()) {
            let when = Duration::from_millis(random.u64(..LATEST_KILL));
            plan.faults.push(Fault::At { when, what: FaultKind::Kill { client } });
        }
    }
    plan
}

/// Shortens the time for which simulated threads would pause or work.
pub(crate) fn shortened(time: Duration) -> Duration {
    time / SHARE
}

#[derive(Default)]
struct Total {
    begun: u64,
    played: usize,
    found: Findings,
    linearized: Linearized,
    faults: BTreeMap<String, usize>,
}

/// Returns false if it finds an error in zoolock.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("seed {seed}");
    let begun = Instant::now();
    let folder = tempfile::Builder::new().prefix("torture-").tempdir()?;
    let servers = Servers::start(options.ensemble)?;
    let _reaper = Reaper::start(folder.path().join(REAPER))?;
    let machine = Machine::watch(servers.addresses()[0]);
    let total = Mutex::new(Total::default());
    let lock = || total.lock().unwrap_or_else(PoisonError::into_inner);
    let play_next = || {
        let mut sums = lock();
        let has_enough = match (options.plan, options.stops) {
            (Some(_), _) => sums.begun > 0,
            (None, Some(stops)) => sums.found.guarded.refused() >= stops,
            (None, None) => sums.found.acquisitions >= options.acquisitions,
        };
        if has_enough || !sums.found.violations.is_empty() {
            return false;
        }
        let plan = options.plan.unwrap_or(seed * PLANS + sums.begun);
        let guards = options.stops.is_some()
            || options.plan.is_none() && sums.begun % GUARDED == GUARDED - 1;
        // While no server has been disturbed, faults of servers cannot excuse a lost hold.
        let may_disturb_servers =
            options.plan.is_some() || sums.found.acquisitions >= options.acquisitions / 4;
        sums.begun += 1;
        drop(sums);
        let played = play(&servers, &machine, folder.path(), (plan, guards), may_disturb_servers);
        lock().add(plan, played);
        true
    };
    let at_once = match (options.plan, options.stops) {
        (Some(_), _) => 1,
        (None, Some(_)) => GUARDS_AT_ONCE,
        (None, None) => AT_ONCE,
    };
    thread::scope(|scope| {
        (0..at_once).for_each(|_| drop(scope.spawn(|| while play_next() {})));
    });
    let total = lock();
    total.report(begun.elapsed());
    Ok(total.found.violations.is_empty())
}

impl Total {
    fn add(&mut self, plan: u64, played: Outcome<Played>) {
        self.played += 1;
        let Played { found, linearized, faults } = played.unwrap_or_else(|error| {
            let violations = vec![format!("it could not be run: {error}")];
            Played { found: Findings { violations, ..Default::default() }, ..Default::default() }
        });
        for violation in found.violations.iter().take(SHOWN) {
            println!("violation: plan {plan}: {violation}");
        }
        for fault in faults {
            *self.faults.entry(name(fault)).or_default() += 1;
        }
        self.found.add(found);
        self.linearized.add(linearized);
        if self.played.is_multiple_of(AT_ONCE) {
            eprintln!("{} plans, {} acquisitions", self.played, self.found.acquisitions);
        }
    }

    fn report(&self, took: Duration) {
        println!("faults: {:?}", self.faults);
        println!("of holders that were stopped: {:?}", self.found.guarded);
        let Linearized { operations, open, undecided, .. } = self.linearized;
        println!(
            "linearizable: {operations} operations, {open} without an answer; {undecided} pieces undecided"
        );
        println!(
            "{} plans in {} s: {} acquisitions, {} holds lost, {} overlaps that no lock can prevent, {} violations",
            self.played,
            took.as_secs(),
            self.found.acquisitions,
            self.found.losses,
            self.found.overlaps_expected,
            self.found.violations.len()
        );
    }
}

/// Returns the name of a fault's variant.
fn name(fault: Fault) -> String {
    let text = match fault {
        Fault::Frame { what, .. } => format!("Frame::{what:?}"),
        Fault::At { what, .. } => format!("{what:?}"),
    };
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}
