//! Faults of the client processes: kills and stops.

use std::time::Duration;

use crate::Outcome;
use crate::clock::now;
use crate::nemesis::{Nemesis, RIVAL_WITHIN};
use crate::protocol::{Command, Reply, send};
use crate::settings::TIMEOUT;

const KILLS: usize = 4;
/// The number of writes that have to come too late; attempts are limited.
const LATE_WRITES: usize = 12;
const ATTEMPTS: usize = 20;
const HOLD_WITHIN: Duration = Duration::from_secs(10);

/// Kills processes while one of their threads holds a lock.
pub(crate) fn kill(nemesis: &mut Nemesis) -> Outcome<()> {
    for _ in 0..KILLS {
        nemesis.pass(500, 1500);
        let process = nemesis.some_process();
        let holds = nemesis.recorder.wait(HOLD_WITHIN, |state| {
            let mut open = state.history.open_holds();
            open.any(|record| record.grant.hold.by.process == process).then_some(())
        });
        holds.ok_or_else(|| format!("process {process} got no lock"))?;
        nemesis.processes.kill(process)?;
    }
    Ok(())
}

/// Stops processes between a holder's look at its lock and its write, until another holder has written.
/// Without writers it stops some processes all the same.
pub(crate) fn stop(nemesis: &mut Nemesis) -> Outcome<()> {
    if !nemesis.kinds.write() {
        return stop_without_writes(nemesis);
    }
    nemesis.recorder.state().history.stages_late_writes = true;
    let mut late = 0;
    for _ in 0..ATTEMPTS {
        if late == LATE_WRITES {
            break;
        }
        let process = nemesis.some_process();
        late += usize::from(stop_one(nemesis, process)?);
    }
    Ok(())
}

fn stop_without_writes(nemesis: &mut Nemesis) -> Outcome<()> {
    let timeout = TIMEOUT.as_millis() as u64;
    for _ in 0..KILLS {
        nemesis.pass(200, 600);
        let process = nemesis.some_process();
        nemesis.processes.stop(process)?;
        nemesis.pass(timeout, timeout * 2);
        nemesis.processes.resume(process)?;
    }
    Ok(())
}

/// Returns whether another holder entered meanwhile.
fn stop_one(nemesis: &Nemesis, process: usize) -> Outcome<bool> {
    nemesis.processes.tell(process, &Command::Arm);
    let asked = nemesis.recorder.wait(HOLD_WITHIN, |state| state.about_to_write.take());
    let (hold, mut to) = asked.ok_or_else(|| format!("process {process} got no lock"))?;
    nemesis.processes.stop(process)?;
    let stopped = now();
    // The process reads this when it continues, and then only the write is left to do.
    let answered = send(&mut to, &Reply::Proceed);
    let overtaken = nemesis.recorder.wait(RIVAL_WITHIN, |state| {
        let grant = state.history.grant(hold)?;
        let highest = state.register.highest(grant.path);
        grant.token.is_some_and(|token| highest > token).then_some(())
    });
    if overtaken.is_some() {
        let mut state = nemesis.recorder.state();
        state.history.overtaken.push((hold, stopped));
    }
    nemesis.processes.resume(process)?;
    answered?;
    let written = nemesis
        .recorder
        .wait(HOLD_WITHIN, |state| state.history.write_after(hold, stopped).map(drop));
    written.ok_or_else(|| format!("the write of {hold} did not come"))?;
    Ok(overtaken.is_some())
}
