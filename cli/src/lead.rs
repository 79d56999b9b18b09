//! `lead`: does in each term what `run` does once. It does not use the library's `Leadership`, because
//! it has to handle the signals, the terminal and the descendants of a program, as `run` does.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use nix::sys::signal::{SIGCONT, SIGTERM, SIGTSTP, Signal, raise};
use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::args::{Program, Run};
use crate::exit::{Failed, LOST, by_signal};
use crate::holder::Holder;
use crate::output::say;
use crate::run::Term;
use crate::{notify, signals, step};

/// The first pause between the end of the program and the next contention.
const SHORTEST: Duration = Duration::from_secs(1);

/// The longest such pause. A program that ran for this long did not fail at its start, so the next
/// pause is the shortest one again.
const LONGEST: Duration = Duration::from_secs(30);

pub(crate) fn lead(program: Program) -> Result<u8, Failed> {
    step::find(&program.command)?;
    // Signals have to be blocked before any other thread starts.
    let signals = signals::receive()?;
    let mut holder = Holder::start(Run::alone(program.clone()))?;
    let Err(ended) = terms(&program, &mut holder, &signals);
    notify::stopping();
    holder.leave();
    match ended.text {
        // A signal ended the program, which is not a failure.
        None => Ok(0),
        Some(_) => Err(ended),
    }
}

/// Leads term after term, until a signal or a lasting failure.
fn terms(
    program: &Program,
    holder: &mut Holder,
    signals: &Receiver<Signal>,
) -> Result<Infallible, Failed> {
    let path = &program.lock.path;
    holder.connect(signals)?;
    notify::ready(&format!("contending for {path}"));
    let mut pause = SHORTEST;
    loop {
        let held = match holder.take(signals) {
            Err(lost) if lost.code == LOST => continue,
            held => held?,
        };
        let begun = Instant::now();
        let mut term = Term::of(program, &held, signals, Some(SIGTERM));
        let ended = term.supervise();
        let Term { is_asked, is_told_to_end, is_interrupted, .. } = term;
        let released = holder.release(path);
        let ended = ended.and_then(|code| released.map(|_| code));
        let code = match ended {
            Err(failed) if failed.code == LOST => {
                failed.tell();
                None
            }
            ended => Some(ended?),
        };
        if is_told_to_end || is_interrupted {
            return Err(Failed::silent(0));
        }
        if is_asked && code.is_some() {
            say(&format!(
                "{path}: stepped down because another client requested the release of the lock"
            ));
        }
        let Some(code) = code.filter(|_| !is_asked) else {
            notify::status(&format!("contending for {path} again"));
            continue;
        };
        if begun.elapsed() >= LONGEST {
            pause = SHORTEST;
        }
        let text = format!(
            "{path}: the program ended with exit code {code}; contending again in {pause:?}"
        );
        say(&text);
        notify::status(&text);
        rest(pause, signals)?;
        pause = LONGEST.min(2 * pause);
    }
}

/// Waits for this long. A signal ends the wait with a failure.
fn rest(pause: Duration, signals: &Receiver<Signal>) -> Result<(), Failed> {
    let end = Instant::now() + pause;
    loop {
        match signals.recv_deadline(end) {
            Ok(SIGTSTP) => signals::stop(|| raise(SIGTSTP)),
            Ok(SIGCONT) => {}
            Ok(signal) => return Err(Failed::silent(by_signal(signal as i32))),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}
