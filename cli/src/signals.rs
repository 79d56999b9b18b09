//! The signals that zoolock forwards. They are blocked in every thread, and one thread waits for them.
//! Therefore there is no handler, and no call is interrupted.

use std::process;
use std::sync::Arc;

use nix::sys::signal::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTOU, SIGUSR1, SIGUSR2, SigSet,
    Signal,
};
use zoolock::crossbeam_channel::{Receiver, unbounded};

use crate::exit::{Failed, SYSTEM, by_signal, start_thread};

/// Signals for the program. Before the program starts, they end the wait for the lock. The terminal
/// sends TSTP to zoolock if the program's group is not in the foreground; the program must then stop
/// before zoolock does.
const HANDED_ON: [Signal; 7] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP];

/// Returns a channel that receives these signals and SIGCONT from now on. Call this before any
/// other thread starts.
pub(crate) fn receive() -> Result<Receiver<Signal>, Failed> {
    let ignored = ignored();
    let is_ignored = |signal: Signal| ignored & (1 << (signal as u32 - 1)) != 0;
    let mut wanted = SigSet::empty();
    wanted.add(SIGCONT);
    // A signal that was ignored, such as HUP under nohup(1), stays ignored, including in the program.
    for signal in HANDED_ON {
        if !is_ignored(signal) {
            wanted.add(signal);
        }
    }
    // SIGCHLD is the exception: while it is ignored, the system does not report how a child ended.
    if is_ignored(SIGCHLD) {
        signal_hook::flag::register(SIGCHLD as i32, Arc::default())
            .map_err(|error| Failed::new(SYSTEM, error.to_string()))?;
    }
    wanted.thread_block()?;
    // SIGTTOU is only blocked, so that zoolock can take the terminal back from a group that has
    // ended.
    SigSet::from(SIGTTOU).thread_block()?;
    let (sender, received) = unbounded();
    start_thread("zoolock-signals", move || {
        while let Ok(signal) = wanted.wait() {
            if sender.send(signal).is_err() {
                return;
            }
        }
    })?;
    Ok(received)
}

/// Makes these signals end this process if it is the first process of a container, to which the system
/// delivers only signals that it handles. Call this before any other thread starts.
pub(crate) fn end_by_them() -> Result<(), Failed> {
    let signals = receive()?;
    start_thread("zoolock-exit", move || {
        let mut signals = signals.iter().filter(|signal| ![SIGCONT, SIGTSTP].contains(signal));
        if let Some(signal) = signals.next() {
            process::exit(by_signal(signal as i32).into());
        }
    })
}

/// Unblocks these signals for this thread, and thereby for the program that it executes next.
pub(crate) fn unblock() -> Result<(), Failed> {
    let mut all: SigSet = HANDED_ON.into_iter().collect();
    all.add(SIGCONT);
    all.add(SIGTTOU);
    Ok(all.thread_unblock()?)
}

/// Stops this process, or its group: `send` sends SIGTSTP. Call this on the main thread, which then
/// receives the signal. Returns when the process continues. Returns at once in a group without a shell
/// that could continue it, because the system does not stop such a group.
pub(crate) fn stop(send: impl FnOnce() -> nix::Result<()>) {
    let signal = SigSet::from(SIGTSTP);
    let _ = signal.thread_unblock();
    let _ = send();
    let _ = signal.thread_block();
}

/// Returns the signals that were ignored when this process started, one bit for each. Returns zero
/// without procfs.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0)
}
