//! Histories as EDN, the format of Jepsen, for Knossos.
//!
//! Each operation is a map such as `{:index 0, :process 3, :type :invoke, :f :acquire, :value nil,
//! :time 123, :key "/a", :hold "p0.0/t1#7"}`, a line each, in the order of time. `:type` is `:ok`
//! where the answer is known, and `:info` where it is not. A process is in one operation at a time,
//! and in none after an `:info`. `:hold` names the hold. Operations that certainly had no effect
//! are left out. Take the lines with one `:key` for one model.
//!
//! | `:f` | `:value` |
//! |---|---|
//! | `:acquire`, `:acquire-read` | the fencing token, with `:ok`; or nil |
//! | `:acquire-permits`, `:release-permits` | how many |
//! | `:write` | nil; the servers carried it out as of that hold |
//! | `:release`, `:release-read` | nil. One that is `:info` at once is a loss: the servers free the lock at some time after it |

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use crate::history::History;
use crate::lock::{Lock, Mode};
use crate::operations::{self, Acquire, HoldIndex, Op, Operation};
use crate::time::Nanos;

/// Writes histories one behind the other. All holds of one are over when the next begins.
#[derive(Debug)]
pub struct Edn<W> {
    to: W,
    locks: Vec<Lock>,
    index: usize,
    /// Processes that are in no operation, and how many there are in all.
    free: BTreeSet<usize>,
    processes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Type {
    Invoke,
    Ok,
    Info,
}

/// An operation of a history.
#[derive(Clone, Copy)]
struct One<'h> {
    path: usize,
    operation: &'h Operation,
    mode: Option<Mode>,
}

impl<W: Write> Edn<W> {
    /// Writes histories about these locks.
    pub fn new(to: W, locks: Vec<Lock>) -> Edn<W> {
        Edn { to, locks, index: 0, free: BTreeSet::new(), processes: 0 }
    }

    /// Writes a history.
    pub fn write(&mut self, history: &History) -> io::Result<()> {
        let all = operations::of(history, self.locks.len());
        let modes: HashMap<HoldIndex, Mode> = all
            .iter()
            .flatten()
            .filter_map(|operation| match operation.op {
                Op::Acquire(Acquire { hold, mode, .. }) => Some((hold, mode)),
                _ => None,
            })
            .collect();
        let all = all.iter().enumerate().flat_map(|(path, all)| {
            let mode = |operation: &Operation| modes.get(&operation.op.hold()).copied();
            all.iter().map(move |operation| One { path, operation, mode: mode(operation) })
        });
        let all: Vec<One<'_>> = all.collect();
        let mut lines: Vec<(Nanos, Type, usize)> = Vec::with_capacity(2 * all.len());
        for (index, one) in all.iter().enumerate() {
            lines.push((one.operation.invoked, Type::Invoke, index));
            lines.extend(one.operation.returned.map(|at| (at, Type::Ok, index)));
        }
        lines.sort_unstable();
        let mut processes = vec![0; all.len()];
        for (at, is, index) in lines {
            let one = all[index];
            if is == Type::Ok {
                self.line(history, (at, is), one, processes[index])?;
                self.free.insert(processes[index]);
                continue;
            }
            let process = self.free.pop_first().unwrap_or_else(|| {
                self.processes += 1;
                self.processes - 1
            });
            processes[index] = process;
            self.line(history, (at, is), one, process)?;
            if one.operation.returned.is_none() {
                self.line(history, (at, Type::Info), one, process)?;
            }
        }
        self.to.flush()
    }

    fn line(
        &mut self,
        history: &History,
        (at, is): (Nanos, Type),
        One { path, operation, mode }: One<'_>,
        process: usize,
    ) -> io::Result<()> {
        let permits = match mode {
            Some(Mode::Permits(count)) => Some(u64::from(count)),
            _ => None,
        };
        let (verb, value) = match operation.op {
            Op::Acquire(acquire) => ("acquire", acquire.token.filter(|_| is == Type::Ok)),
            Op::Write(_) => ("write", None),
            Op::Release(_) | Op::End(_) => ("release", None),
        };
        let how = match mode {
            _ if verb == "write" => "",
            Some(Mode::Shared) => "-read",
            Some(Mode::Permits(_)) => "-permits",
            _ => "",
        };
        let value = permits.filter(|_| verb != "write").or(value);
        let value = value.map_or("nil".to_owned(), |value| value.to_string());
        let is = match is {
            Type::Invoke => "invoke",
            Type::Ok => "ok",
            Type::Info => "info",
        };
        let name = &self.locks[path].name;
        let hold = history.holds.get(operation.op.hold() as usize);
        let hold = hold.map(|record| format!(", :hold \"{}\"", record.grant.hold));
        writeln!(
            self.to,
            "{{:index {}, :process {process}, :type :{is}, :f :{verb}{how}, :value {value}, :time {at}, \
             :key {name:?}{}}}",
            self.index,
            hold.unwrap_or_default(),
        )?;
        self.index += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::event::Loss;
    use crate::story::{MUTEX, SEMAPHORE, granted, hold, locks, permits};

    use super::*;

    #[test]
    fn answers_are_ok_and_losses_are_releases_that_stay_open() {
        let mut history = History::new(0);
        let (first, second) = (hold(0, 1), hold(1, 1));
        history.granted(granted(first, MUTEX, 5, 10));
        history.lost(first, Loss { at: 20, reason: "".into() });
        history.granted(permits(second, 2, 30));
        history.left(second, 40);
        history.unlocked(second, Some(50), crate::Unlocked::Fine);
        let mut written = Vec::new();
        Edn::new(&mut written, locks()).write(&history).unwrap();
        let written = String::from_utf8(written).unwrap();
        println!("{written}");
        let lines: Vec<&str> = written.lines().collect();
        let hold = |hold: crate::HoldId| format!("\"{hold}\"}}");
        let has = |line: &str, text: &str| assert!(line.contains(text), "{text} in {line}");
        assert_eq!(lines.len(), 8);
        has(lines[0], ":index 0, :process 0, :type :invoke, :f :acquire, :value nil, :time 10");
        has(lines[1], ":process 0, :type :ok, :f :acquire, :value 5, :time 10, :key \"/mutex\"");
        has(lines[1], &hold(first));
        has(lines[2], ":process 0, :type :invoke, :f :release, :value nil, :time 20");
        has(lines[3], ":process 0, :type :info, :f :release, :value nil, :time 20");
        has(lines[4], ":process 1, :type :invoke, :f :acquire-permits, :value 2, :time 30");
        has(lines[7], ":process 1, :type :ok, :f :release-permits, :value 2, :time 50");
        has(lines[7], &locks()[SEMAPHORE].name);
    }
}
