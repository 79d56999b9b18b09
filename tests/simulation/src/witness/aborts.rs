//! Judges `LockOptions::abort_on_loss`: a program ends itself soon after it has lost a hold, and for no other reason.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::Process;
use zoolock::{ClientState, HoldState, LossReason};

use super::{Held, died, has_stalled, is_dead, judged, violation, witness};
use crate::client::{SLACK, look_at};
use crate::histories;
use crate::plan::{Kind, ObjectPlan, Plan};

/// How long a program may take to say why it ends.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The programs that end themselves.
pub(crate) type Aborts = BTreeMap<Process, Program>;

pub(crate) struct Program {
    /// All its holds are known here.
    is_known: bool,
    /// An unlock found a lost hold.
    has_lost: bool,
}

/// Watches the programs whose locks have the option.
pub(crate) fn watch(plan: &Plan, processes: &[Process]) {
    let aborts = |object: &ObjectPlan| object.options.abort_on_loss;
    let is_known = |object: &ObjectPlan| !matches!(object.kind, Kind::Several | Kind::Leadership);
    let clients = plan.clients.iter().zip(processes);
    let aborting = clients.filter(|(client, _)| client.objects.iter().any(aborts));
    let aborting = aborting.map(|(client, process)| {
        let is_known = client.objects.iter().all(is_known);
        (*process, Program { is_known, has_lost: false })
    });
    witness(|witness| witness.aborts = aborting.collect());
    kernel::on_abort(aborting_now);
}

/// Returns whether a hold was lost, and not by the close of its client. `None` if the look would have to wait.
fn is_lost(held: &Held) -> Option<bool> {
    held.has(|state| matches!(state, HoldState::Lost(reason) if reason != LossReason::ClientClosed))
}

fn aborting_now(process: Process) {
    kernel::count("end: a program that has lost a hold");
    let is_calling = histories::is_calling(process);
    judged(|witness| {
        let problem = match witness.aborts.get(&process) {
            None => Some("was not told to"),
            Some(Program { is_known: true, has_lost: false }) if !is_calling => {
                let mut own = witness.held.values().filter(|held| held.process == process);
                own.all(|held| is_lost(held) == Some(false)).then_some("has lost nothing")
            }
            Some(_) => None,
        }?;
        Some(format!("client {} ends itself and {problem}", process.0))
    });
    died(process);
}

/// Checks that the program of a hold ends soon if the hold is lost and the program was told to.
pub(super) fn lost(hold: usize) {
    let begun = kernel::elapsed();
    let process = witness(|witness| {
        let held = witness.held.get(&hold)?;
        let program =
            witness.aborts.get_mut(&held.process).filter(|_| is_lost(held) == Some(true))?;
        program.has_lost = true;
        Some(held.process)
    });
    let Some(process) = process else {
        return;
    };
    kernel::after(LAST_WORDS + SLACK, move || {
        let is_closed = look_at(process, |client| client.state() == ClientState::Closed);
        if !is_dead(process) && is_closed == Some(false) && !has_stalled(process, begun) {
            violation(format!("client {} goes on though it lost a hold at {begun:?}", process.0));
        }
    });
}
