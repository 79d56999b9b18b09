//! Faults of the client processes.

use std::time::Duration;

use crate::Outcome;
use crate::clock::now;
use crate::field::Field;
use crate::message::{Answer, Command, send};
use crate::setting::TIMEOUT;

const KILLS: usize = 4;
/// So many writes have to come too late, in so many attempts at most.
const LATE_WRITES: usize = 12;
const ATTEMPTS: usize = 20;
const HOLD_WITHIN: Duration = Duration::from_secs(10);
/// How long others may need to get in. The servers end the session after its timeout and a tick.
const RIVAL_WITHIN: Duration = TIMEOUT.saturating_mul(4);

/// Kills processes while one of their threads holds a lock.
pub(crate) fn kill(field: &mut Field) -> Outcome<()> {
    for _ in 0..KILLS {
        field.pass(500, 1500);
        let process = field.some_process();
        let holds = field.hub.wait(HOLD_WITHIN, |state| {
            let mut open = state.evidence.open_holds();
            open.any(|record| record.grant.hold.by.process == process).then_some(())
        });
        holds.ok_or_else(|| format!("process {process} got no lock"))?;
        field.crew.kill(process)?;
    }
    Ok(())
}

/// Stops processes between a holder's look at its lock and its write, until somebody else has
/// written. If there are no writers, some processes are stopped all the same.
pub(crate) fn stop(field: &mut Field) -> Outcome<()> {
    if !field.kinds.write() {
        return stop_without_writes(field);
    }
    field.hub.state().evidence.stages_late_writes = true;
    let mut late = 0;
    for _ in 0..ATTEMPTS {
        if late == LATE_WRITES {
            break;
        }
        let process = field.some_process();
        late += usize::from(stop_one(field, process)?);
    }
    Ok(())
}

fn stop_without_writes(field: &mut Field) -> Outcome<()> {
    let timeout = TIMEOUT.as_millis() as u64;
    for _ in 0..KILLS {
        field.pass(200, 600);
        let process = field.some_process();
        field.crew.stop(process)?;
        field.pass(timeout, timeout * 2);
        field.crew.resume(process)?;
    }
    Ok(())
}

/// Whether somebody else got in meanwhile.
fn stop_one(field: &Field, process: usize) -> Outcome<bool> {
    field.crew.tell(process, &Command::Arm);
    let checked = field.hub.wait(HOLD_WITHIN, |state| state.checked.take());
    let (hold, mut to) = checked.ok_or_else(|| format!("process {process} got no lock"))?;
    field.crew.stop(process)?;
    let stopped = now();
    // Read when the process goes on, and then there is only the write to do.
    let answered = send(&mut to, &Answer::Go);
    let overtaken = field.hub.wait(RIVAL_WITHIN, |state| {
        let grant = state.evidence.grant(hold)?;
        let highest = state.register.highest(grant.path);
        grant.token.is_some_and(|token| highest > token).then_some(())
    });
    if overtaken.is_some() {
        let mut state = field.hub.state();
        state.evidence.overtaken.push((hold, stopped));
    }
    field.crew.resume(process)?;
    answered?;
    let written =
        field.hub.wait(HOLD_WITHIN, |state| state.evidence.write_after(hold, stopped).map(drop));
    written.ok_or_else(|| format!("the write of {hold} did not come"))?;
    Ok(overtaken.is_some())
}
