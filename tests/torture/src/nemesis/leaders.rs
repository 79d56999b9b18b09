//! Faults of leaders, of their networks and of the servers. Each is recorded, with the time at
//! which there has to be a leader again.

use std::io;
use std::time::Duration;

use zoolock_judge::Fault;
use zoolock_test_support::{Direction, FaultProxy};

use crate::Outcome;
use crate::clock::{Nanos, now};
use crate::nemesis::tree::delete_if_there;
use crate::nemesis::{Nemesis, RIVAL_WITHIN};
use crate::paths::{self, LED};
use crate::protocol::HoldId;
use crate::settings::TIMEOUT;

const LEADER_WITHIN: Duration = Duration::from_secs(10);
const ALL_PATHS: [usize; LED] = [0, 1, 2, 3];
/// What is written to a node to ask for its lock.
const REVOKE: &[u8] = b"__REVOKE__";
const CUTS: u32 = 10;

struct Kind {
    name: &'static str,
    make: fn(&mut Nemesis, HoldId) -> Outcome<()>,
    whom: Whom,
    /// Nobody can lead before it is over.
    allows_no_leader: bool,
    breaks_leases: bool,
    answers_nobody: bool,
}

/// Whom a fault is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    Leader,
    Process,
    Everybody,
}

use Whom::{Everybody, Leader, Process};

#[rustfmt::skip]
const KINDS: &[Kind] = &[
    kind("killed",             Process,   kill),
    kind("stopped",            Process,   stop),
    kind("unheard",            Process,   |nemesis, term| black_hole(nemesis, term, Direction::ToServer)),
    kind("cut off",            Process,   |nemesis, term| black_hole(nemesis, term, Direction::Both)),
    // Its session goes on as long as the servers hear of it.
    kind("deaf",               Process,   |nemesis, term| black_hole(nemesis, term, Direction::ToClient)).allows_no_leader(),
    kind("cuts",               Process,   cut),
    kind("session expired",    Process,   |nemesis, term| Ok(nemesis.networks[term.by.process].expire_sessions()?)).breaks_leases(),
    kind("node deleted",       Leader,    delete).breaks_leases(),
    kind("asked to let go",    Leader,    revoke),
    kind("server restarted",   Everybody, restart_server).allows_no_leader(),
    kind("server stood still", Everybody, pause_server).allows_no_leader().answers_nobody(),
];

const fn kind(
    name: &'static str,
    whom: Whom,
    make: fn(&mut Nemesis, HoldId) -> Outcome<()>,
) -> Kind {
    Kind { name, make, whom, allows_no_leader: false, breaks_leases: false, answers_nobody: false }
}

impl Kind {
    const fn allows_no_leader(self) -> Kind {
        Kind { allows_no_leader: true, ..self }
    }

    const fn breaks_leases(self) -> Kind {
        Kind { breaks_leases: true, ..self }
    }

    const fn answers_nobody(self) -> Kind {
        Kind { answers_nobody: true, ..self }
    }
}

/// Each once, in some order.
pub(crate) fn all(nemesis: &mut Nemesis) -> Outcome<()> {
    let mut kinds: Vec<&Kind> = KINDS.iter().collect();
    nemesis.rng.shuffle(&mut kinds);
    for kind in kinds {
        await_leaders(nemesis, now())?;
        nemesis.pass(100, 600);
        one(nemesis, kind)?;
    }
    await_leaders(nemesis, now())
}

fn one(nemesis: &mut Nemesis, kind: &Kind) -> Outcome<()> {
    let path = nemesis.rng.usize(0..LED);
    let since = now();
    let act = nemesis.recorder.wait(LEADER_WITHIN, |state| state.history.act_since(path, since));
    let term = act.ok_or("nobody leads")?.term;
    let process = term.by.process;
    let paths = match kind.whom {
        Leader => vec![path],
        Process => led_by(nemesis, process),
        Everybody => ALL_PATHS.to_vec(),
    };
    let begun = now();
    (kind.make)(nemesis, term)?;
    let over = now();
    nemesis.recorder.state().history.faults.push(Fault {
        name: kind.name,
        process: (kind.whom != Everybody).then_some(process),
        paths,
        begun,
        over,
        counts_from: if kind.allows_no_leader { over } else { begun },
        breaks_leases: kind.breaks_leases,
        answers_nobody: kind.answers_nobody,
    });
    Ok(())
}

fn await_leaders(nemesis: &Nemesis, since: Nanos) -> Outcome<()> {
    let leaders = nemesis.recorder.wait(LEADER_WITHIN, |state| {
        let leads = |&path: &usize| state.history.act_since(path, since).is_some();
        ALL_PATHS.iter().all(leads).then_some(())
    });
    leaders.ok_or_else(|| format!("somewhere nobody leads for {LEADER_WITHIN:?}").into())
}

/// Where this process leads now.
fn led_by(nemesis: &Nemesis, process: usize) -> Vec<usize> {
    let state = nemesis.recorder.state();
    let open = state.history.open_holds().map(|record| &record.grant);
    let its = open.filter(|grant| grant.hold.by.process == process);
    its.map(|grant| grant.path).collect()
}

fn kill(nemesis: &mut Nemesis, term: HoldId) -> Outcome<()> {
    Ok(nemesis.processes.kill(term.by.process)?)
}

/// Until somebody else leads, or for less than that takes.
fn stop(nemesis: &mut Nemesis, term: HoldId) -> Outcome<()> {
    nemesis.processes.stop(term.by.process)?;
    let (stopped, paths) = (now(), led_by(nemesis, term.by.process));
    if nemesis.rng.u8(0..4) == 0 {
        nemesis.pass(100, TIMEOUT.as_millis() as u64 / 2);
    } else {
        nemesis.recorder.wait(RIVAL_WITHIN, |state| {
            let leads = |&path: &usize| state.history.act_since(path, stopped).is_some();
            paths.iter().all(leads).then_some(())
        });
        nemesis.pass(0, 500);
    }
    Ok(nemesis.processes.resume(term.by.process)?)
}

/// For less than the session timeout, or more.
fn black_hole(nemesis: &mut Nemesis, term: HoldId, direction: Direction) -> Outcome<()> {
    let timeout = TIMEOUT.as_millis() as u64;
    nemesis.networks[term.by.process].each(|proxy| proxy.black_hole(direction));
    match nemesis.rng.bool() {
        true => nemesis.pass(timeout / 5, timeout / 2),
        false => nemesis.pass(timeout * 3 / 2, timeout * 2),
    }
    nemesis.restore_networks();
    Ok(())
}

fn cut(nemesis: &mut Nemesis, term: HoldId) -> Outcome<()> {
    for _ in 0..nemesis.rng.u32(1..=CUTS) {
        nemesis.networks[term.by.process].each(FaultProxy::cut);
        nemesis.pass(10, 200);
    }
    Ok(())
}

fn delete(nemesis: &mut Nemesis, term: HoldId) -> Outcome<()> {
    Ok(delete_if_there(&nemesis.probe()?, &node(nemesis, term)?)?)
}

fn revoke(nemesis: &mut Nemesis, term: HoldId) -> Outcome<()> {
    match nemesis.probe()?.set(&node(nemesis, term)?, REVOKE) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn node(nemesis: &Nemesis, term: HoldId) -> Outcome<String> {
    let state = nemesis.recorder.state();
    let grant = state.history.grant(term).ok_or("a leader that nobody knows")?;
    let name = grant.nodes.first().ok_or("a leader without a node")?;
    Ok(paths::at(grant.path).node(name))
}

/// The leader, if there are several.
fn restart_server(nemesis: &mut Nemesis, _: HoldId) -> Outcome<()> {
    let index = nemesis.leading_server()?;
    nemesis.servers.server(index).kill()?;
    nemesis.pass(0, 800);
    Ok(nemesis.servers.start_again(index)?)
}

fn pause_server(nemesis: &mut Nemesis, _: HoldId) -> Outcome<()> {
    let index = nemesis.leading_server()?;
    let timeout = TIMEOUT.as_millis() as u64;
    nemesis.servers.server(index).pause()?;
    nemesis.pass(timeout / 4, timeout * 3 / 2);
    nemesis.servers.server(index).resume()?;
    Ok(nemesis.servers.wait_ready()?)
}
