//! `run`: the lock, the program under it, and the lock again.

use std::time::Duration;

use nix::sys::signal::{
    SIGCONT, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, Signal, raise,
};
use zoolock::HoldState;
use zoolock::crossbeam_channel::{Receiver, RecvError, after, never, select_biased};

use crate::args::{AUTH, Program, Run};
use crate::child::{Child, Event};
use crate::exit::{Failed, LOST, SYSTEM, by_signal};
use crate::holder::{Held, Holder};
use crate::output::{flush, say};
use crate::terminal::Terminal;
use crate::{notify, signals, step};

/// How long the program waits for a standard error that takes nothing.
const BRIEFLY: Duration = Duration::from_millis(50);

pub(crate) fn run(run: Run) -> Result<u8, Failed> {
    // Before any other thread.
    let signals = signals::receive()?;
    let mut holder = Holder::start(run.clone());
    let held = match holder.connect(&signals).and_then(|()| holder.take(&signals)) {
        Ok(held) => held,
        Err(failed) => {
            notify::stopping();
            holder.leave();
            return Err(failed);
        }
    };
    let code = Term::of(&run.program, &held, &signals).supervise();
    notify::stopping();
    let code = match code {
        // Somebody else may have it, or the servers cannot be told.
        Err(failed) if failed.code == LOST => return Err(failed),
        code => code,
    };
    if holder.release(&run.program.lock.path)? {
        holder.leave();
    }
    code
}

/// The time in which a program runs under a lock that is held.
pub(crate) struct Term<'a> {
    program: &'a Program,
    held: &'a Held,
    signals: &'a Receiver<Signal>,
    /// Has a signal come that asks for the end of a service?
    pub(crate) is_told_to_end: bool,
}

impl<'a> Term<'a> {
    pub(crate) fn of(
        program: &'a Program,
        held: &'a Held,
        signals: &'a Receiver<Signal>,
    ) -> Term<'a> {
        Term { program, held, signals, is_told_to_end: false }
    }

    /// Runs the program for as long as the lock is held, and returns its exit code, or that of the
    /// signal that came before it was started. It has ended when this returns.
    pub(crate) fn supervise(&mut self) -> Result<u8, Failed> {
        let Term { program, held, signals, .. } = *self;
        let mut command = step::command(&program.command);
        command
            .env("ZOOLOCK_PATH", held.hold.path())
            .env("ZOOLOCK_TOKEN", held.token.to_string())
            .env("ZOOLOCK_NODE", held.hold.node())
            .env_remove(notify::SOCKET);
        if !program.keep_auth {
            command.env_remove(AUTH);
        }
        let mut child = Child::start(command, &held.hold.node())?;
        // It stops itself when it is ready.
        loop {
            select_biased! {
                recv(signals) -> signal => match signal {
                    Ok(SIGTSTP) => signals::stop(|| raise(SIGTSTP)),
                    Ok(SIGCONT) | Err(_) => {}
                    Ok(signal) => {
                        self.is_told_to_end = true;
                        child.kill();
                        return Ok(by_signal(signal as i32));
                    }
                },
                recv(held.hold.lost()) -> _ => break,
                recv(child.events()) -> event => match event {
                    Ok(Event::Stopped(_) | Event::GroupEnded) => break,
                    Ok(Event::Ended(code)) => return Ok(code),
                    Err(RecvError) => return Ok(SYSTEM),
                },
            }
        }
        child.allow_the_lease(held);
        // We may have been stopped ourselves, and the end of the lease not told yet.
        if !held.hold.is_held() {
            child.kill();
            return Err(self.lost());
        }
        // Before the program writes something there itself.
        flush(BRIEFLY);
        let terminal = Terminal::share_with(child.id);
        child.signal(SIGCONT);
        notify::ready(&format!("holding {}, token {}", program.lock.path, held.token));
        self.attend(&mut child, terminal.as_ref())
    }

    /// Hands on signals and stops, until the program ends or has to.
    fn attend(&mut self, child: &mut Child, terminal: Option<&Terminal>) -> Result<u8, Failed> {
        let Term { program, held, signals, .. } = *self;
        let path = &program.lock.path;
        let mut asked = match program.verbose {
            true => held.hold.revocation().unwrap_or_else(|_| never()),
            false => never(),
        };
        loop {
            child.allow_the_lease(held);
            let left = held.hold.valid_for();
            if left <= held.grace {
                child.end_before_the_lease(held);
                return Err(self.lost());
            }
            let mut goes_on = false;
            select_biased! {
                recv(child.events()) -> event => match event {
                    Ok(Event::Stopped(by)) => if let Some(terminal) = terminal {
                        // It wants to read, and may, now that we are in the foreground.
                        goes_on = matches!(by, SIGTTIN | SIGTTOU) && terminal.hand_over();
                        if !goes_on {
                            terminal.stop_with_child();
                            // Whoever stopped it by Ctrl-Z lets us go on, or could not stop us.
                            goes_on = by == SIGTSTP;
                        }
                    },
                    // Nobody reads from the terminal: Ctrl-C is for us, and handed on.
                    Ok(Event::GroupEnded) => {
                        child.forget_the_group();
                        if let Some(terminal) = terminal {
                            terminal.take_back();
                        }
                    }
                    Ok(Event::Ended(code)) => return match held.hold.is_held() {
                        true => Ok(code),
                        false => Err(self.lost()),
                    },
                    Err(RecvError) => return Ok(SYSTEM),
                },
                recv(signals) -> signal => match signal {
                    Ok(SIGCONT) => goes_on = true,
                    Ok(signal) => {
                        self.is_told_to_end |= matches!(signal, SIGINT | SIGTERM | SIGQUIT);
                        child.signal(signal);
                    }
                    Err(RecvError) => {}
                },
                recv(asked) -> request => match request {
                    Ok(()) => say(&format!("{path}: somebody asks for the lock")),
                    Err(RecvError) => asked = never(),
                },
                recv(held.hold.lost()) -> _ => {}
                // Often enough for the guard, also if we are not the first ones that a busy machine
                // thinks of.
                recv(after(held.grace.min(left - held.grace))) -> _ => {}
            }
            // We were stopped, for how long we do not know.
            if goes_on && held.hold.is_held() {
                if let Some(terminal) = terminal {
                    terminal.go_on();
                }
                child.signal(SIGCONT);
            }
        }
    }

    fn lost(&self) -> Failed {
        let (path, state) = (&self.program.lock.path, self.held.hold.state());
        let why = match state {
            HoldState::Lost(reason) => reason.to_string(),
            _ => "no server was heard of for nearly a session timeout".to_owned(),
        };
        Failed::new(LOST, format!("{path}: the lock was lost while the program ran: {why}"))
    }
}
