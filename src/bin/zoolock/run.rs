//! `run`: the lock, the program under it, and the lock again.

use nix::sys::signal::{SIGCONT, SIGTTIN, SIGTTOU, Signal};
use zoolock::crossbeam_channel::{Receiver, RecvError, after, never, select_biased};

use crate::args::Run;
use crate::child::{Child, Event};
use crate::exit::{Failed, LOST, SYSTEM, by_signal};
use crate::holder::{Held, Holder, Waited};
use crate::table::plain;
use crate::terminal::Terminal;
use crate::{signals, step};

pub(crate) fn run(run: Run) -> Result<u8, Failed> {
    // Before any other thread.
    let signals = signals::receive()?;
    let mut holder = Holder::start(run.clone());
    let held = match holder.wait(&signals) {
        Ok(Waited::Held(held)) => held,
        Ok(Waited::Signal(signal)) => {
            holder.leave(&signals);
            return Ok(by_signal(signal));
        }
        Err(failed) => {
            holder.leave(&signals);
            return Err(failed);
        }
    };
    let code = match supervise(&run, &held, &signals) {
        // Somebody else may have it, or the servers cannot be told.
        Err(failed) if failed.code == LOST => return Err(failed),
        code => code,
    };
    match holder.release() {
        Err(error) if error.is_lost() => return Err(error.into()),
        Err(error) => eprintln!("zoolock: {}: released late: {error}", plain(&run.path)),
        Ok(()) => {}
    }
    holder.leave(&signals);
    code
}

fn lost(run: &Run) -> Failed {
    let path = plain(&run.path);
    Failed::new(
        LOST,
        format!("{path}: the lock was lost while the program ran"),
    )
}

/// Runs the program for as long as the lock is held, and returns its exit code, or that of the signal
/// that came before it was started. It has ended when this returns.
fn supervise(run: &Run, held: &Held, signals: &Receiver<Signal>) -> Result<u8, Failed> {
    let mut command = step::command(&run.command);
    command
        .env("ZOOLOCK_PATH", held.hold.path())
        .env("ZOOLOCK_TOKEN", held.token.to_string())
        .env("ZOOLOCK_NODE", held.hold.node());
    let child = Child::start(command)?;
    // It stops itself when it is ready.
    loop {
        select_biased! {
            recv(signals) -> signal => if let Ok(signal) = signal && signal != SIGCONT {
                child.kill();
                return Ok(by_signal(signal));
            },
            recv(held.hold.lost()) -> _ => {
                child.kill();
                return Err(lost(run));
            }
            recv(child.events) -> event => match event {
                Ok(Event::Stopped(_)) => break,
                Ok(Event::Ended(code)) => return Ok(code),
                Err(RecvError) => return Err(lost_sight()),
            },
        }
    }
    let terminal = Terminal::share_with(child.id);
    child.signal(SIGCONT);
    let asked = match run.verbose {
        true => held.hold.revocation().unwrap_or_else(|_| never()),
        false => never(),
    };
    attend(run, held, signals, &child, terminal.as_ref(), &asked)
}

/// Hands on signals and stops, until the program ends or has to.
fn attend(
    run: &Run,
    held: &Held,
    signals: &Receiver<Signal>,
    child: &Child,
    terminal: Option<&Terminal>,
    asked: &Receiver<()>,
) -> Result<u8, Failed> {
    let mut asked = asked.clone();
    loop {
        let left = held.hold.valid_for();
        if left <= held.grace {
            child.end_before_the_lease(held);
            return Err(lost(run));
        }
        select_biased! {
            recv(child.events) -> event => match event {
                Ok(Event::Ended(code)) => return match held.hold.is_held() {
                    true => Ok(code),
                    false => Err(lost(run)),
                },
                Ok(Event::Stopped(by)) => if let Some(terminal) = terminal {
                    // It wants to read, and may, now that we are in the foreground.
                    match matches!(by, SIGTTIN | SIGTTOU) && terminal.hand_over() {
                        true => child.signal(SIGCONT),
                        false => terminal.stop_with_child(),
                    }
                },
                Err(RecvError) => return Err(lost_sight()),
            },
            recv(signals) -> signal => if let Ok(signal) = signal {
                // We were stopped, for how long we do not know.
                let goes_on = signal != SIGCONT || held.hold.is_held();
                if let (SIGCONT, Some(terminal)) = (signal, terminal) {
                    terminal.hand_over();
                }
                if goes_on {
                    child.signal(signal);
                }
            },
            recv(asked) -> request => match request {
                Ok(()) => eprintln!("zoolock: {}: somebody asks for the lock", plain(&run.path)),
                Err(RecvError) => asked = never(),
            },
            recv(held.hold.lost()) -> _ => {}
            recv(after(left - held.grace)) -> _ => {}
        }
    }
}

fn lost_sight() -> Failed {
    Failed::new(SYSTEM, "the program cannot be waited for")
}
