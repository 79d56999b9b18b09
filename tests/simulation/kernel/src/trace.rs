//! What is written down of a run: a story for people, numbers of what occurred, and a hash by which two runs are
//! compared.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::scheduler::{Process, whoami, with};

pub(crate) struct Trace {
    is_on: bool,
    hash: u64,
    lines: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Trace {
    pub(crate) fn new(is_on: bool) -> Trace {
        Trace { is_on, hash: 0xcbf2_9ce4_8422_2325, lines: Vec::new(), counts: BTreeMap::new() }
    }

    /// Has this decide about the hash.
    pub(crate) fn mix(&mut self, value: u64) {
        self.hash = (self.hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// Is anybody going to read the story?
pub fn is_traced() -> bool {
    with(|kernel| kernel.trace.is_on)
}

/// Writes down what the running thread does.
pub fn note(line: impl FnOnce() -> String) {
    if !is_traced() {
        return;
    }
    let (process, name) = whoami();
    note_of(process, &name, line);
}

/// Writes down what happens to a process.
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

/// Has these bytes decide about the hash.
pub fn mix(bytes: &[u8]) {
    with(|kernel| {
        for part in bytes.chunks(8) {
            let value = part.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            kernel.trace.mix(value);
        }
    });
}

/// Counts an occurrence.
pub fn count(what: &'static str) {
    with(|kernel| *kernel.trace.counts.entry(what).or_default() += 1);
}

/// Counts that a rare path was reached.
pub fn reached(what: &'static str) {
    note(|| format!("* {what}"));
    count(what);
}

/// The same, if it was.
pub fn reached_if(is_reached: impl FnOnce() -> bool, what: &'static str) {
    if is_reached() {
        reached(what);
    }
}

/// Gives what was counted.
pub fn counts() -> BTreeMap<&'static str, u64> {
    with(|kernel| std::mem::take(&mut kernel.trace.counts))
}

/// Gives what was written down.
pub fn story() -> Vec<String> {
    with(|kernel| std::mem::take(&mut kernel.trace.lines))
}

/// Returns what stands for the whole run so far.
pub fn hash() -> u64 {
    with(|kernel| kernel.trace.hash)
}
