//! Checks a whole run at its end: that each call was answered, and done as its answer says.

use std::collections::{BTreeMap, BTreeSet};

use kernel::Process;
use zookeeper::ErrorKind;

use super::history::Done;
use super::judge::{Asked, Call, Judge, report};
use crate::client::SLACK;

impl Judge {
    pub(super) fn check_all(&self) {
        for (number, call) in self.calls.iter().enumerate() {
            let problem = self.check_call(number, call);
            problem.into_iter().for_each(|problem| report(call.made.process, problem));
        }
        for (listener, ear) in self.ears.iter().enumerate() {
            self.check_listener(listener, ear);
        }
        self.check_deletions();
    }

    /// Compares what the servers have done for a call with its answer.
    fn check_call(&self, number: usize, call: &Call) -> Option<String> {
        let process = call.made.process;
        let asked = &call.asked;
        if call.outcome.is_none()
            && !kernel::is_dead(process)
            && !call.is_part
            && !call.made.is_unheard
        {
            return Some(format!("call {number}, {asked:?}, is never answered"));
        }
        if call.outcome == Some(Err(ErrorKind::ConnectionLoss)) && !call.is_part {
            let program = &self.programs[&process];
            // A call that waits for others first may begin just after the connection was lost.
            if !program.lost.iter().any(|lost| *lost + SLACK >= call.begun) {
                return Some(format!("call {number} fails with a connection that was never lost"));
            }
        }
        if !matches!(asked, Asked::Create { .. } | Asked::Set(_)) {
            return None;
        }
        let done = self.history.done_for(number);
        let wrong = |one: &&Done| call.made.wanted.is_some_and(|wanted| wanted != one.session);
        if let Some(one) = done.iter().find(wrong) {
            return Some(format!("call {number} was done in {:#x}: {:?}", one.session, call.made));
        }
        let fits = match call.outcome {
            Some(Ok(())) => done.len() == 1,
            Some(Err(ErrorKind::ConnectionLoss | ErrorKind::Timeout)) => {
                if !done.is_empty() {
                    kernel::count("raw: done, though its answer was lost");
                }
                done.len() <= 1
            }
            None => done.len() <= 1,
            Some(Err(_)) => done.is_empty(),
        };
        (!fits).then(|| {
            format!("call {number}, {asked:?}: {:?}, and it was done {done:?}", call.outcome)
        })
    }

    /// Counts deletions for each client, because they carry no marks.
    fn check_deletions(&self) {
        let mut asked: BTreeMap<(Process, &str), [usize; 2]> = BTreeMap::new();
        for call in &self.calls {
            let Asked::Delete { path, is_repeated } = &call.asked else { continue };
            let [least, most] = asked.entry((call.made.process, path)).or_default();
            match call.outcome {
                Some(Ok(())) if !is_repeated => (*least, *most) = (*least + 1, *most + 1),
                // The client repeats a deletion whose first result is unknown.
                Some(Ok(()) | Err(ErrorKind::ConnectionLoss | ErrorKind::Timeout)) | None => {
                    *most += 1 + 9 * usize::from(*is_repeated);
                }
                Some(Err(_)) => {}
            }
        }
        let deleted = self.history.deleted.keys().map(String::as_str);
        let paths: BTreeSet<&str> = asked.keys().map(|(_, path)| *path).chain(deleted).collect();
        for path in paths {
            let done = self.history.deleted.get(path).map_or(&[][..], Vec::as_slice);
            for (&process, program) in &self.programs {
                let own = done.iter().filter(|done| program.all.contains(&done.session));
                let own = own.count();
                let [least, most] = asked.get(&(process, path)).copied().unwrap_or_default();
                if own < least || own > most {
                    let range = format!("{least} to {most}");
                    report(process, format!("{path} was deleted {own} times, not {range}"));
                }
            }
        }
    }
}
