//! `run`: takes the lock, runs the program, releases the lock.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{
    SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, Signal, raise,
};
use zoolock::HoldState;
use zoolock::crossbeam_channel::{Receiver, RecvError, after, at, never, select_biased};

use crate::args::{AUTH, IDENTITY, Program, Run};
use crate::child::{Child, Event};
use crate::exit::{Failed, LOST, SYSTEM, by_signal};
use crate::holder::{Held, Holder};
use crate::output::{flush, say};
use crate::table::seconds;
use crate::terminal::Terminal;
use crate::{notify, signals, step};

/// How long zoolock waits for a slow reader of standard error before it starts the program.
const BRIEFLY: Duration = Duration::from_millis(50);

/// How long after the end of the program its remaining descendants are reported.
const A_MOMENT: Duration = Duration::from_secs(1);

pub(crate) fn run(run: Run) -> Result<u8, Failed> {
    step::find(&run.program.command)?;
    // Signals have to be blocked before any other thread starts.
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
        // A time that is too large for the clock means forever.
        let end = granted.checked_add(time);
        if !hold_on(&run.program, &held, &signals, end) {
            return Ok(*code);
        }
    }
    notify::stopping();
    let code = match code {
        // There is nothing to release: another client may already have the lock.
        Err(failed) if failed.code == LOST => return Err(failed),
        code => code,
    };
    if holder.release(&run.program.lock.path)? {
        holder.leave();
    }
    code
}

/// Keeps the lock until `end`, because other machines may be late for the same job. A signal ends
/// the wait early. Returns false if the lock is lost.
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
    let text =
        format!("{path}: the program has ended; keeping the lock for another {}", seconds(left));
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
            recv(held.hold.ended()) -> _ => {
                say(&format!("{path}: the lock was lost after the program had ended"));
                return false;
            }
            recv(end) -> _ => return true,
        }
    }
}

/// One run of the program, under a lock that is held.
pub(crate) struct Term<'a> {
    program: &'a Program,
    held: &'a Held,
    signals: &'a Receiver<Signal>,
    /// The signal for the program when another client requests the release of the lock.
    on_revoke: Option<Signal>,
    /// Whether another client has requested the release, and the program was sent that signal.
    pub(crate) is_asked: bool,
    /// Whether zoolock has received a signal that ends a service.
    pub(crate) is_told_to_end: bool,
    /// Whether the program was ended by a signal from the terminal that it shares with zoolock. The
    /// terminal sends such a signal to the program's group, not to zoolock.
    pub(crate) is_interrupted: bool,
}

impl<'a> Term<'a> {
    pub(crate) fn of(
        program: &'a Program,
        held: &'a Held,
        signals: &'a Receiver<Signal>,
        on_revoke: Option<Signal>,
    ) -> Term<'a> {
        let [is_asked, is_told_to_end, is_interrupted] = [false; 3];
        Term { program, held, signals, on_revoke, is_asked, is_told_to_end, is_interrupted }
    }

    /// Runs the program while the lock is held, and returns its exit code. If a signal arrives before
    /// the program starts, returns the code of the signal. When this returns, the program and its
    /// descendants have ended.
    pub(crate) fn supervise(&mut self) -> Result<u8, Failed> {
        let Term { program, held, signals, .. } = *self;
        let environment = |command: &mut Command| {
            command
                .env("ZOOLOCK_PATH", held.hold.path())
                .env("ZOOLOCK_TOKEN", held.token.to_string())
                .env("ZOOLOCK_NODE", held.hold.node())
                .env(IDENTITY, program.identity())
                .env_remove(notify::SOCKET);
            if !program.keep_auth {
                command.env_remove(AUTH);
            }
        };
        let mut child =
            Child::start(environment, program.leave_daemons, held.registration.as_ref())?;
        let id = loop {
            select_biased! {
                recv(signals) -> signal => match signal {
                    Ok(SIGTSTP) => signals::stop(|| raise(SIGTSTP)),
                    Ok(SIGCONT) | Err(_) => {}
                    Ok(signal) => {
                        // The program cannot start without the message `Go`.
                        self.is_told_to_end = true;
                        return Ok(by_signal(signal as i32));
                    }
                },
                recv(child.events()) -> event => match event {
                    Ok(Event::Ready(id)) => break id,
                    Ok(Event::Stopped(_) | Event::ProgramEnded) => {}
                    Ok(Event::Failed(failed)) => return Err(failed),
                    Ok(Event::Ended(code, _)) => {
                        let cause =
                            format!("it ended before it ran the program, exit code {code}");
                        return Err(Failed::to_start("a process", cause));
                    }
                    Err(RecvError) => return Ok(SYSTEM),
                },
            }
        };
        child.allow_the_lease(held);
        // zoolock may have been stopped in between, and missed the end of the lease.
        if !held.hold.is_held() {
            child.kill();
            return Err(self.lost());
        }
        // The lines so far should appear before those of the program.
        flush(BRIEFLY);
        let terminal = Terminal::share_with(id);
        child.go(program.command.len()).map_err(|error| Failed::to_start("a process", error))?;
        notify::ready(&format!("holding {}, token {}", program.lock.path, held.token));
        self.attend(child, terminal.as_ref())
    }

    /// Forwards signals, and stops zoolock when the program is stopped, until the program ends or the
    /// hold is about to end.
    fn attend(&mut self, mut child: Child, terminal: Option<&Terminal>) -> Result<u8, Failed> {
        let Term { program, held, signals, .. } = *self;
        let path = &program.lock.path;
        // This channel also makes the client watch the node, so that it is notified at once when the
        // node is deleted.
        let mut asked = held.hold.revocation().cloned().unwrap_or_else(|_| never());
        let mut remind = never();
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
                        // The program wants to use the terminal, and may do so if zoolock is in the
                        // foreground.
                        goes_on = matches!(by, SIGTTIN | SIGTTOU) && terminal.hand_over();
                        if !goes_on {
                            terminal.stop_with_child();
                            // After Ctrl-Z, this returns when the shell continues zoolock, or at
                            // once if nothing could stop it.
                            goes_on = by == SIGTSTP;
                        }
                    },
                    // From now on zoolock receives Ctrl-C, and forwards it to the descendants.
                    Ok(Event::ProgramEnded) => {
                        if let Some(terminal) = terminal {
                            terminal.take_back();
                        }
                        remind = after(A_MOMENT);
                    }
                    Ok(Event::Ready(_)) => {}
                    Ok(Event::Failed(failed)) => {
                        return Err(if held.hold.is_held() { failed } else { self.lost() });
                    }
                    Ok(Event::Ended(code, by)) => {
                        let keys = [SIGHUP, SIGINT, SIGQUIT].map(|signal| signal as i32);
                        self.is_interrupted = terminal.is_some_and(|terminal| terminal.is_input)
                            && keys.contains(&by);
                        return if held.hold.is_held() { Ok(code) } else { Err(self.lost()) };
                    }
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
                            say(&format!("{path}: another client requests the release of the lock"));
                        }
                        if let Some(signal) = self.on_revoke {
                            self.is_asked = true;
                            child.signal(signal);
                        }
                    }
                    Err(RecvError) => asked = never(),
                },
                recv(held.hold.ended()) -> _ => {}
                recv(remind) -> _ => {
                    remind = never();
                    let left = child.left().join(", ");
                    if !left.is_empty() {
                        say(&format!(
                            "{path}: the program has ended, but zoolock keeps the lock for its \
                             descendants: {left}"
                        ));
                    }
                }
                // Report to the supervisor often enough, even if a busy machine runs zoolock late.
                recv(after(held.grace.min(left - held.grace))) -> _ => {}
            }
            // zoolock may have been stopped for a long time, so check the lease first.
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
            _ => "no server answered before the lease was about to end".to_owned(),
        };
        Failed::new(LOST, format!("{path}: the lock was lost while the program ran: {why}"))
    }
}
