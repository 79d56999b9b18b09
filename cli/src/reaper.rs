//! `reaper`: ends the sessions of programs on this machine that have died.

use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SIGCONT, SIGTSTP, raise};
use zoolock::Reaper;

use crate::exit::Failed;
use crate::{notify, output, signals};

/// Listens until a signal arrives.
pub(crate) fn reap(socket: &Path) -> Result<u8, Failed> {
    // Signals have to be blocked before any other thread starts.
    let signals = signals::receive()?;
    // Each program takes up three open files.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    // Otherwise, no one would see which sessions the reaper has ended.
    output::show_reports();
    let reaper = Reaper::start(socket)?;
    notify::ready("ending the sessions of programs that die");
    for signal in &signals {
        match signal {
            SIGTSTP => signals::stop(|| raise(SIGTSTP)),
            SIGCONT => {}
            _ => break,
        }
    }
    notify::stopping();
    drop(reaper);
    Ok(0)
}
