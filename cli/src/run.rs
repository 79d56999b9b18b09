//! `run`: the lock, the program under it, and the lock again.

use std::time::{Duration, Instant};

use nix::sys::signal::{
    SIGCONT, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, Signal, raise,
};
use zoolock::HoldState;
use zoolock::crossbeam_channel::{Receiver, RecvError, after, at, never, select_biased};

use crate::args::{AUTH, Program, Run};
use crate::child::{Child, Event};
use crate::exit::{Failed, LOST, SYSTEM, by_signal};
use crate::holder::{Held, Holder};
use crate::output::{flush, say};
use crate::table::seconds;
use crate::terminal::Terminal;
use crate::{notify, signals, step};

/// How long the program waits for a standard error that takes nothing.
const BRIEFLY: Duration = Duration::from_millis(50);

pub(crate) fn run(run: Run) -> Result<u8, Failed> {
    // Before any other thread.
    let signals = signals::receive()?;
    let mut holder = Holder::start(run.clone())?;
    let held = match holder.connect(&signals).and_then(|()| holder.take(&signals)) {
        Ok(held) => held,
        Err(failed) => {
            notify::stopping();
            holder.leave();
            return Err(failed);
        }
    };
    let granted = Instant::now();
    let mut term = Term::of(&run.program, &held, &signals, run.on_revoke);
    let code = term.supervise();
    if let (Ok(code), Some(time), false) = (&code, run.hold_at_least, term.is_told_to_end) {
        // A time that the clock cannot hold has no end.
        let end = granted.checked_add(time);
        if !hold_on(&run.program, &held, &signals, end) {
            return Ok(*code);
        }
    }
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

/// Keeps the lock until then, for others are late for the same job. A signal ends that. False if it is lost.
fn hold_on(
    program: &Program,
    held: &Held,
    signals: &Receiver<Signal>,
    end: Option<Instant>,
) -> bool {
    let path = &program.lock.path;
    let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
    if left.is_zero() {
        return true;
    }
    let text = format!("{path}: the program has ended: holding on for {}", seconds(left));
    notify::status(&text);
    if program.verbose {
        say(&text);
    }
    let end = end.map_or_else(never, at);
    loop {
        select_biased! {
            recv(signals) -> signal => match signal {
                Ok(SIGTSTP) => signals::stop(|| raise(SIGTSTP)),
                Ok(SIGCONT) => {}
                Ok(_) | Err(RecvError) => return true,
            },
            recv(held.hold.lost()) -> _ => {
                say(&format!("{path}: the lock was lost when the program had ended"));
                return false;
            }
            recv(end) -> _ => return true,
        }
    }
}

/// The time in which a program runs under a lock that is held.
pub(crate) struct Term<'a> {
    program: &'a Program,
    held: &'a Held,
    signals: &'a Receiver<Signal>,
    /// What the program gets when somebody asks for the lock.
    on_revoke: Option<Signal>,
    /// Has somebody asked, and the program got it?
    pub(crate) is_asked: bool,
    /// Has a signal come that asks for the end of a service?
    pub(crate) is_told_to_end: bool,
}

impl<'a> Term<'a> {
    pub(crate) fn of(
        program: &'a Program,
        held: &'a Held,
        signals: &'a Receiver<Signal>,
        on_revoke: Option<Signal>,
    ) -> Term<'a> {
        let (is_asked, is_told_to_end) = (false, false);
        Term { program, held, signals, on_revoke, is_asked, is_told_to_end }
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
        let child = Child::start(command, &held.hold.node())?;
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
                    Ok(Event::Unguarded(failed)) => {
                        child.kill();
                        return Err(failed);
                    }
                    Ok(Event::Ended(code)) => {
                        let cause = format!("it ended before the program, exit code {code}");
                        return Err(Failed::to_start("a process", cause));
                    }
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
        self.attend(&child, terminal.as_ref())
    }

    /// Hands on signals and stops, until the program ends or has to.
    fn attend(&mut self, child: &Child, terminal: Option<&Terminal>) -> Result<u8, Failed> {
        let Term { program, held, signals, .. } = *self;
        let path = &program.lock.path;
        // Also for a word of its loss: whoever listens hears at once that the node is deleted.
        let mut asked = held.hold.revocation().unwrap_or_else(|_| never());
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
                    Ok(Event::GroupEnded) => if let Some(terminal) = terminal {
                        terminal.take_back();
                    },
                    Ok(Event::Unguarded(failed)) => {
                        child.kill();
                        return Err(if held.hold.is_held() { failed } else { self.lost() });
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
                    Ok(()) => {
                        if program.verbose {
                            say(&format!("{path}: somebody asks for the lock"));
                        }
                        if let Some(signal) = self.on_revoke {
                            self.is_asked = true;
                            child.signal(signal);
                        }
                    }
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
