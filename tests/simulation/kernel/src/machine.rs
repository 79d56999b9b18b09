//! Processes, each on its own machine: whether it runs, its clocks, and what its system refuses to do.

use std::time::Duration;

use fastrand::Rng;

use crate::scheduler::{own_process, with};

/// A program with several threads. It freezes, sleeps and dies as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process(pub usize);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Runs,
    /// No thread of the process runs before this time.
    Frozen(u64),
    Dead,
}

/// The machine of a process.
#[derive(Default)]
pub struct Machine {
    pub(crate) fate: Fate,
    /// How long the machine's monotonic clock has been stopped, in total.
    pub(crate) asleep: u64,
    /// How long the time since the machine was booted has been stopped, in total.
    pub(crate) paused: u64,
    /// When the latest sleep of the machine ends or has ended.
    awake_at: u64,
    /// How far the machine's system clock is ahead of the true time, in nanoseconds.
    pub ahead: i64,
    /// The probability with which the process fails to start a thread.
    pub fails_spawns: f64,
    /// Whether other programs keep the machine's processors busy from time to time.
    pub is_busy: bool,
    pub(crate) random: Rng,
}

/// Returns the number of the running thread's process.
pub fn process_id() -> u32 {
    own_process().0 as u32
}

/// Creates a process without threads.
pub fn process() -> Process {
    with(|kernel| {
        let random = kernel.choices.fork();
        kernel.machines.push(Machine { random, ..Machine::default() });
        Process(kernel.machines.len() - 1)
    })
}

/// Stops all threads of a process for this time.
pub fn freeze(process: Process, time: Duration) {
    with(|kernel| {
        let until = kernel.now + time.as_nanos() as u64;
        let fate = &mut kernel.machines[process.0].fate;
        match *fate {
            Fate::Dead => {}
            Fate::Frozen(already) if already > until => {}
            _ => *fate = Fate::Frozen(until),
        }
    });
}

/// Changes the state of a process's machine.
pub fn machine(process: Process, change: impl FnOnce(&mut Machine)) {
    with(|kernel| change(&mut kernel.machines[process.0]));
}

/// Suspends a machine: [`freeze`]s the process, and stops its monotonic clock. If `is_paused` is true, the host pauses
/// the machine, which also stops the time since boot.
pub fn machine_sleeps(process: Process, time: Duration, is_paused: bool) {
    freeze(process, time);
    with(|kernel| {
        let (begin, machine) = (kernel.now, &mut kernel.machines[process.0]);
        let end = begin + time.as_nanos() as u64;
        // If sleeps overlap, the time in which they overlap counts only once.
        let longer = end.saturating_sub(begin.max(machine.awake_at));
        machine.asleep += longer;
        machine.paused += if is_paused { longer } else { 0 };
        machine.awake_at = end.max(machine.awake_at);
    });
}

/// Kills a process, and breaks all its connections.
pub fn kill(process: Process) {
    with(|kernel| kernel.machines[process.0].fate = Fate::Dead);
    crate::net::shut_all(process);
}

/// Returns whether a process has been killed.
pub fn is_dead(process: Process) -> bool {
    with(|kernel| kernel.machines[process.0].fate == Fate::Dead)
}

pub(crate) fn may_spawn(process: Process) -> bool {
    with(|kernel| {
        let machine = &mut kernel.machines[process.0];
        machine.fails_spawns == 0.0 || kernel.choices.f64() >= machine.fails_spawns
    })
}

/// Returns the name of the machine and the number of the process.
pub fn program() -> String {
    format!("machine-{}/1", own_process().0)
}

/// Draws one of the process's random numbers.
pub fn random() -> u64 {
    let process = own_process();
    with(|kernel| kernel.machines[process.0].random.u64(..))
}
