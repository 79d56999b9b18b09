//! The signals that are handed on. They are blocked in every thread and waited for by one of them,
//! so that there is no handler, and nothing is interrupted.

use std::process;
use std::sync::Arc;

use nix::sys::signal::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTOU, SIGUSR1, SIGUSR2, SigSet,
    Signal,
};
use zoolock::crossbeam_channel::{Receiver, unbounded};

use crate::exit::{Failed, SYSTEM, by_signal, start_thread};

/// Handed on to the program, or the end of waiting. TSTP comes here, and not to the program, if the
/// program's group is not the terminal's foreground group: zoolock must not stop before it does.
const HANDED_ON: [Signal; 7] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP];

/// From now on they come on this channel, and SIGCONT as well. To be called before any other thread
/// is started.
pub(crate) fn receive() -> Result<Receiver<Signal>, Failed> {
    let ignored = ignored();
    let is_ignored = |signal: Signal| ignored & (1 << (signal as u32 - 1)) != 0;
    let mut wanted = SigSet::empty();
    wanted.add(SIGCONT);
    // What is to be ignored, such as HUP under nohup(1), stays so, for the program, too.
    for signal in HANDED_ON {
        if !is_ignored(signal) {
            wanted.add(signal);
        }
    }
    // But this one: how a child has ended would not be told.
    if is_ignored(SIGCHLD) {
        signal_hook::flag::register(SIGCHLD as i32, Arc::default())
            .map_err(|error| Failed::new(SYSTEM, error.to_string()))?;
    }
    wanted.thread_block()?;
    // Only blocked: so that the terminal can be taken back from a group that has ended.
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

/// From now on they end this process. The first one of a container would not end by them: the system
/// leaves out what it has no handler for. To be called before any other thread is started.
pub(crate) fn end_by_them() -> Result<(), Failed> {
    let signals = receive()?;
    start_thread("zoolock-exit", move || {
        let mut signals = signals.iter().filter(|signal| ![SIGCONT, SIGTSTP].contains(signal));
        if let Some(signal) = signals.next() {
            process::exit(by_signal(signal as i32).into());
        }
    })
}

/// Undoes it for this thread, and so for a program that is executed next.
pub(crate) fn unblock() -> Result<(), Failed> {
    let mut all: SigSet = HANDED_ON.into_iter().collect();
    all.add(SIGCONT);
    all.add(SIGTTOU);
    Ok(all.thread_unblock()?)
}

/// Stops this process, or this process and others, by sending SIGTSTP. To be called by the main
/// thread, which gets it then. Comes back when it is to go on, or at once where nobody could let it
/// go on: in a group that no shell looks after.
pub(crate) fn stop(send: impl FnOnce() -> nix::Result<()>) {
    let signal = SigSet::from(SIGTSTP);
    let _ = signal.thread_unblock();
    let _ = send();
    let _ = signal.thread_block();
}

/// The signals that whoever started this process wants ignored, a bit each. None where there is no
/// procfs.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0)
}
