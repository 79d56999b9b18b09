//! Records a run: a readable trace, counts of events, and a hash with which runs can be compared.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::machine::Process;
use crate::scheduler::{whoami, with};

#[derive(Default)]
pub(crate) struct Trace {
    is_on: bool,
    hash: u64,
    lines: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Trace {
    pub(crate) fn new(is_on: bool) -> Trace {
        Trace { is_on, hash: 0xcbf2_9ce4_8422_2325, ..Trace::default() }
    }

    /// Adds a value to the hash.
    pub(crate) fn mix(&mut self, value: u64) {
        self.hash = (self.hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// Returns whether a trace is recorded.
pub fn is_traced() -> bool {
    with(|kernel| kernel.trace.is_on)
}

/// Adds a line about the running thread to the trace.
pub fn note(line: impl FnOnce() -> String) {
    if is_traced() {
        let (process, name) = whoami();
        note_of(process, &name, line);
    }
}

/// Adds a line about a process to the trace.
pub fn note_of(process: Process, name: &str, line: impl FnOnce() -> String) {
    if !is_traced() {
        return;
    }
    let line = line();
    with(|kernel| {
        let time = Duration::from_nanos(kernel.now).as_secs_f64();
        let who = match process.0 {
            0 => String::new(),
            number => format!("client {number}, {name}: "),
        };
        kernel.trace.lines.push(format!("{time:>11.6} {who}{line}"));
    });
}

/// Adds bytes to the hash.
pub fn mix(bytes: &[u8]) {
    with(|kernel| {
        for part in bytes.chunks(8) {
            let value = part.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            kernel.trace.mix(value);
        }
    });
}

/// Counts an event.
pub fn count(what: &'static str) {
    with(|kernel| *kernel.trace.counts.entry(what).or_default() += 1);
}

/// Counts that the run reached a rare path, and adds this to the trace.
pub fn reached(what: &'static str) {
    note(|| format!("* {what}"));
    count(what);
}

/// Calls [`reached`] if `is` is true, and returns `is`.
pub fn reached_if(is: bool, what: &'static str) -> bool {
    if is {
        reached(what);
    }
    is
}

/// Returns the counts, and resets them.
pub fn counts() -> BTreeMap<&'static str, u64> {
    with(|kernel| std::mem::take(&mut kernel.trace.counts))
}

/// Returns the trace, and empties it.
pub fn take_trace() -> Vec<String> {
    with(|kernel| std::mem::take(&mut kernel.trace.lines))
}

/// Returns the hash of the run so far.
pub fn hash() -> u64 {
    with(|kernel| kernel.trace.hash)
}
