//! Faults of holders that guard writes: they are stopped, and continue after others have written.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use zoolock_judge::Overtaken;
use zoolock_test_support::{Hold, Op};

use crate::Outcome;
use crate::clock::{Nanos, now};
use crate::nemesis::tree::delete_if_there;
use crate::nemesis::{Nemesis, RIVAL_WITHIN};
use crate::paths::{self, lock_path};
use crate::protocol::HoldId;
use crate::settings::ANSWER_WITHIN;

/// The highest number of simultaneously stopped processes, so that one is left to take over.
const AT_ONCE: usize = 3;
/// The time in which the outcome of pending requests is known.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
const ON_THE_WAY_WITHIN: Duration = Duration::from_secs(10);
/// How long requests are held. Later nobody would wait for their answers.
const REQUESTS_WAIT: Duration = Duration::from_nanos(ANSWER_WITHIN.as_nanos() as u64 * 2 / 3);
/// Attempts without a client that wanted the lock.
const MOST_IN_VAIN: usize = 10;
const LOOK: Duration = Duration::from_millis(5);

/// Stops processes until this many holders have continued and had a write refused.
pub(crate) fn stop(nemesis: &mut Nemesis) -> Outcome<()> {
    let (mut refused, mut in_vain) = (0, 0);
    while refused < nemesis.stops {
        nemesis.pass(100, 500);
        let overtaken = stop_some(nemesis)?;
        in_vain = if overtaken.is_empty() { in_vain + 1 } else { 0 };
        if in_vain > MOST_IN_VAIN {
            return Err("nobody takes over from those who are stopped".into());
        }
        let answered = nemesis.recorder.wait(ANSWERED_WITHIN, |state| {
            let history = &state.history;
            let is_over = |&hold: &HoldId| history.was_refused(hold) || history.has_left(hold);
            overtaken.iter().all(is_over).then(|| {
                let refused = overtaken.iter().filter(|&&hold| history.was_refused(hold));
                // A worker may have held several locks for one write.
                refused.map(|hold| hold.by).collect::<HashSet<_>>().len()
            })
        });
        refused += answered.ok_or("a holder that had been stopped did not go on")?;
    }
    Ok(())
}

/// Returns the holds that another client took over.
fn stop_some(nemesis: &mut Nemesis) -> Outcome<Vec<HoldId>> {
    let mut processes: Vec<_> = (0..nemesis.processes.len()).collect();
    nemesis.rng.shuffle(&mut processes);
    processes.truncate(nemesis.rng.usize(1..=AT_ONCE));
    // Mostly with requests under way, which arrive when others have the locks.
    let on_the_way = nemesis.rng.u8(0..3) > 0;
    // After the servers have ended the session, its closed connection delivers none of them, so mostly an
    // operator deletes the nodes. Otherwise it is mostly the session that ends.
    let deleted = nemesis.rng.u8(0..10) < if on_the_way { 9 } else { 1 };
    let held = if on_the_way { hold_requests(nemesis, &processes)? } else { Vec::new() };
    nemesis.pass(0, 40);
    processes.iter().try_for_each(|&process| nemesis.processes.stop(process))?;
    let stopped = now();
    let holds = holds_of(nemesis, &processes);
    let vanished = if deleted { delete_nodes(nemesis, &holds)? } else { HashSet::new() };
    let within = if deleted { REQUESTS_WAIT } else { RIVAL_WITHIN };
    nemesis.recorder.wait(within, |state| {
        holds.iter().all(|&hold| state.history.is_overtaken(hold)).then_some(())
    });
    let overtaken = note_overtaken(nemesis, holds, stopped);
    drop(held);
    for process in processes {
        nemesis.processes.resume(process)?;
        vanished.iter().for_each(|&path| nemesis.doubt(process, Some(path), stopped));
    }
    Ok(overtaken)
}

/// Returns when it holds one request of each process.
fn hold_requests(nemesis: &Nemesis, processes: &[usize]) -> Outcome<Vec<Hold>> {
    let mut held = Vec::new();
    for &process in processes {
        let network = &nemesis.networks[process];
        let rules: Vec<_> = network.all().map(|proxy| proxy.hold_request(Op::Multi, 1)).collect();
        held.push(rules);
    }
    for rules in &held {
        let begun = Instant::now();
        while !rules.iter().any(|hold| hold.wait(LOOK)) {
            if begun.elapsed() > ON_THE_WAY_WITHIN {
                return Err("no write was on its way".into());
            }
        }
    }
    Ok(held.into_iter().flatten().collect())
}

/// The known holds that guard writes.
fn holds_of(nemesis: &Nemesis, processes: &[usize]) -> Vec<HoldId> {
    let state = nemesis.recorder.state();
    let open = state.history.open_holds().map(|record| record.grant.hold);
    open.filter(|hold| processes.contains(&hold.by.process)).collect()
}

/// Deletes the nodes of these holds, and those of waiters in the same sessions, which would block everybody
/// else. Returns their paths.
fn delete_nodes(nemesis: &Nemesis, holds: &[HoldId]) -> Outcome<HashSet<usize>> {
    let probe = nemesis.probe()?;
    let state = nemesis.recorder.state();
    let grants = holds.iter().filter_map(|&hold| state.history.grant(hold));
    let all = grants.filter_map(|grant| Some((grant.path, grant.nodes.first()?.clone())));
    let all: Vec<_> = all.collect();
    drop(state);
    let mut sessions = HashSet::new();
    for (path, name) in &all {
        let stat = probe.stat(&paths::at(*path).node(name))?;
        sessions.extend(stat.map(|stat| stat.ephemeral_owner));
    }
    for (path, _) in &all {
        for name in probe.children(&lock_path(*path))? {
            let node = paths::at(*path).node(&name);
            let stat = probe.stat(&node)?;
            if stat.is_some_and(|stat| sessions.contains(&stat.ephemeral_owner)) {
                delete_if_there(&probe, &node)?;
            }
        }
    }
    Ok(all.into_iter().map(|(path, _)| path).collect())
}

fn note_overtaken(nemesis: &Nemesis, mut holds: Vec<HoldId>, stopped: Nanos) -> Vec<HoldId> {
    let mut state = nemesis.recorder.state();
    let history = &mut state.history;
    history.guards_stopped += 1;
    holds.retain(|&hold| history.is_overtaken(hold));
    let overtaken = now();
    let all = holds.iter().map(|&hold| Overtaken { hold, stopped, overtaken });
    history.overtaken_guards.extend(all);
    holds
}
