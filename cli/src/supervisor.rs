//! The supervisor: the process between zoolock and the program. It kills the program and all its
//! [descendants](crate::descendants) when zoolock ends, or when zoolock, stopped or stuck, does not
//! report in time that the lock is still held. If the supervisor itself is killed, its descendants
//! become children of zoolock, which kills them.
//!
//! It has one thread and one loop. The program starts when the supervisor is ready. If zoolock was
//! killed, the supervisor finally ends zoolock's session, so that the lock is free at once instead of
//! a session timeout later.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, process, thread};
use std::{io, iter};

use nix::sys::prctl::{set_child_subreaper, set_name, set_pdeathsig};
use nix::sys::signal::{
    SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SigSet, Signal,
    kill, killpg,
};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, close, getpgid, getppid, getsid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{
    Pid as Process, PidfdFlags, WaitOptions, WaitStatus, pidfd_open, setpriority_process, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use zoolock::Registration;
use zoolock::crossbeam_channel::bounded;

use crate::descendants::{Alarm, PAUSE, children, now};
use crate::exit::{SYSTEM, by_signal};
use crate::messages::{Message, receive, send};
use crate::step::{self, own_program};

/// The first argument of a supervisor. No user would type it.
const SUPERVISOR: &str = "--exec-supervisor";

/// How long to reap ended children before checking the clock again: more of them may end all the time.
const BURIAL: Duration = Duration::from_millis(2);

/// Returns the command that starts a supervisor with this socket. This process is its parent.
pub(crate) fn command(socket: OwnedFd) -> Command {
    let mut command = own_program();
    // Its name is not zoolock, so that `pkill zoolock` does not kill it. It has its own group, so that
    // it survives when zoolock's group is killed.
    command.arg0("lock-supervisor").process_group(0);
    command.args([SUPERVISOR, &process::id().to_string()]).stdin(socket);
    command
}

/// If this process is a supervisor, does its work and returns its exit code.
pub(crate) fn run_if_asked_for() -> Option<u8> {
    let mut arguments = env::args_os().skip(1);
    arguments.next().filter(|first| first == SUPERVISOR)?;
    let zoolock = Pid::from_raw(arguments.next()?.to_str()?.parse().ok()?);
    let socket = io::stdin().as_fd().try_clone_to_owned().ok()?;
    let Err(error) = Supervisor::start(zoolock, &socket).map(|ready| ready.map(Supervisor::run))
    else {
        return Some(0);
    };
    let _ = send(socket, &Message::Failed(error.to_string()), &[]);
    Some(SYSTEM)
}

/// How long to wait for the end of a process that has closed its socket.
const A_MOMENT: Duration = Duration::from_secs(1);

struct Supervisor {
    zoolock: Pid,
    /// `None` when zoolock has closed its end.
    socket: Option<OwnedFd>,
    signals: SignalFd,
    alarm: Alarm,
    /// The process of the program, and its group.
    program: Pid,
    /// The code and the signal of the program, when it has ended.
    ended: Option<(u8, i32)>,
    /// When all processes have to end.
    end: Duration,
    /// Whether `end` has passed. A later end then arrives too late.
    is_overdue: bool,
    leaves_daemons: bool,
    /// Readable when zoolock has ended, with all its threads.
    parent: OwnedFd,
    registration: Option<Registration>,
}

impl Supervisor {
    /// Prepares everything, and starts a step that waits for the message `Go`. Returns `None` if
    /// zoolock has ended.
    fn start(zoolock: Pid, socket: &OwnedFd) -> io::Result<Option<Supervisor>> {
        // When zoolock ends, this signal continues a supervisor that is stopped.
        set_pdeathsig(SIGCONT)?;
        set_name(c"lock-supervisor")?;
        set_child_subreaper(true)?;
        let Some((Message::Prepare { leaves_daemons, registration }, mut files)) =
            receive(socket, RecvFlags::empty())?
        else {
            return Ok(None);
        };
        let registration = registration.and_then(|text| Registration::from_text(&text).ok());
        let parent = Process::from_raw(zoolock.as_raw()).ok_or(io::ErrorKind::InvalidData)?;
        let parent = pidfd_open(parent, PidfdFlags::empty())?;
        // Without this check, the pidfd might be that of another process.
        if getppid() != zoolock {
            return Ok(None);
        }
        let mut command = step::command(zoolock);
        command.process_group(0).stdin(files.pop().ok_or(io::ErrorKind::InvalidData)?);
        let program = Pid::from_raw(command.spawn()?.id().cast_signed());
        // Closes the step's socket in this process.
        drop(command);
        // Signals are unblocked only now, because the step inherits the blocked signals.
        SigSet::all().thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&SigSet::all(), flags)?;
        let alarm = Alarm::new()?;
        // Other busy processes must not delay the supervisor. The step keeps its own priority.
        let _ = setpriority_process(None, -20);
        send(socket, &Message::Ready(program.as_raw()), &[])?;
        let socket = Some(socket.try_clone()?);
        let end = Duration::MAX;
        Ok(Some(Supervisor {
            zoolock,
            socket,
            signals,
            alarm,
            program,
            ended: None,
            end,
            is_overdue: false,
            leaves_daemons,
            parent,
            registration,
        }))
    }

    /// Returns when the program and its descendants have ended. If zoolock has ended as well, first ends
    /// its session.
    fn run(mut self) {
        self.supervise();
        if self.is_alone()
            && let Some(registration) = self.registration.take()
        {
            self.end_session(registration);
        }
    }

    /// Ends zoolock's session, for a limited time, or until a signal arrives. First closes all inherited
    /// files, so that no other process waits for this one.
    fn end_session(self, registration: Registration) {
        drop(self.socket);
        let _ = File::options().read(true).write(true).open("/dev/null").map(|nothing| {
            let _ = (dup2_stdin(&nothing), dup2_stdout(&nothing), dup2_stderr(&nothing));
        });
        close_inherited();
        let _ = env::set_current_dir("/");
        let end = Instant::now() + 2 * registration.session_timeout();
        let (_going_on, over) = bounded(0);
        let run = move || registration.end_session_after(Duration::ZERO, &over);
        let Ok(thread) = thread::Builder::new().spawn(run) else { return };
        let is_told_to_end = |signals: &SignalFd| {
            let told = [SIGTERM, SIGINT, SIGHUP, SIGQUIT].map(|signal| signal as u32);
            iter::from_fn(|| signals.read_signal().ok()?).any(|one| told.contains(&one.ssi_signo))
        };
        while !thread.is_finished() && Instant::now() < end && !is_told_to_end(&self.signals) {
            // There is no event for the end of a thread.
            let wait = Timespec::try_from(PAUSE).ok();
            let _ = poll(&mut [PollFd::new(&self.signals, PollFlags::IN)], wait.as_ref());
        }
    }

    /// Returns whether zoolock has ended. A process that dies closes its sockets just before its end,
    /// but a closed socket alone does not prove that the process has ended.
    fn is_alone(&self) -> bool {
        let wait = if self.socket.is_none() { A_MOMENT } else { Duration::ZERO };
        let wait = Timespec::try_from(wait).ok();
        poll(&mut [PollFd::new(&self.parent, PollFlags::IN)], wait.as_ref()) == Ok(1)
    }

    fn supervise(&mut self) {
        loop {
            while let Ok(Some(_)) = self.signals.read_signal() {}
            self.obey();
            if now() >= self.end {
                self.is_overdue = true;
            }
            let kills = self.socket.is_none() || getppid() != self.zoolock || self.is_overdue;
            if kills {
                self.signal_all(SIGKILL as i32);
            }
            let (are_left, goes_on) = self.bury();
            if let Some((code, by)) = self.ended
                && !(are_left && self.has_members())
            {
                let last = match self.is_overdue {
                    true => Message::Overdue,
                    false => Message::Ended(code, by),
                };
                while self.report(&last) {
                    thread::sleep(PAUSE);
                }
                return;
            }
            // There is no event for a new orphan, or for a descendant that becomes a daemon.
            let wait = match kills || self.leaves_daemons && self.ended.is_some() {
                _ if goes_on => Some(Timespec::default()),
                true => Timespec::try_from(PAUSE).ok(),
                false => None,
            };
            let mut files = vec![PollFd::new(&self.signals, PollFlags::IN)];
            files.extend(self.socket.as_ref().map(|socket| PollFd::new(socket, PollFlags::IN)));
            let _ = poll(&mut files, wait.as_ref());
        }
    }

    /// Carries out the messages of zoolock.
    fn obey(&mut self) {
        while let Some(socket) = &self.socket {
            match receive(socket, RecvFlags::DONTWAIT) {
                Ok(Some((Message::RunUntil(end), _))) if !self.is_overdue => {
                    // Without an alarm, all processes have to end now.
                    self.end = self.alarm.set(end).map_or(Duration::ZERO, |()| end);
                }
                Ok(Some((Message::Signal(signal), _))) if self.ended.is_none() => {
                    signal_group(self.program, signal);
                }
                Ok(Some((Message::Signal(signal) | Message::SignalAll(signal), _))) => {
                    self.signal_all(signal);
                }
                Ok(Some(_)) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(None) | Err(_) => self.socket = None,
            }
        }
    }

    fn signal_all(&self, signal: i32) {
        let children = children().unwrap_or_default();
        // As long as the program or another child is in the group, its number is not reused.
        let is_in_group = |child: &Pid| getpgid(Some(*child)) == Ok(self.program);
        if self.ended.is_none() || children.iter().any(is_in_group) {
            signal_group(self.program, signal);
        }
        for child in children {
            if !is_in_group(&child) && self.is_member(child) {
                let _ = Signal::try_from(signal).map(|signal| kill(child, signal));
            }
        }
    }

    /// Waits for children that have ended, for a limited time. Returns whether children are left, and
    /// whether more of them may have ended.
    fn bury(&mut self) -> (bool, bool) {
        let end = Instant::now() + BURIAL;
        while Instant::now() < end {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((process, status))) => {
                    self.note(Pid::from_raw(process.as_raw_pid()), status)
                }
                Ok(None) => return (true, false),
                Err(Errno::INTR) => {}
                Err(_) => return (false, false),
            }
        }
        (true, true)
    }

    fn note(&mut self, process: Pid, status: WaitStatus) {
        // Another process may reuse the number of a program that has ended.
        let is_program = process == self.program && self.ended.is_none();
        match status.stopping_signal() {
            // Report it if the program itself is stopped; the rest of its group stops with it. After
            // the program has ended, report it if the terminal stops a child.
            Some(by) => {
                let by_terminal = [SIGTSTP, SIGTTIN, SIGTTOU].map(|signal| signal as i32);
                if is_program || self.ended.is_some() && by_terminal.contains(&by) {
                    self.report(&Message::Stopped(by));
                }
            }
            None if is_program => {
                let by = status.terminating_signal();
                let code = status.exit_status().map(|code| code as u8).or(by.map(by_signal));
                self.ended = Some((code.unwrap_or(SYSTEM), by.unwrap_or(0)));
                self.report(&Message::ProgramEnded);
            }
            None => {}
        }
    }

    /// Returns whether there are children to wait for.
    fn has_members(&self) -> bool {
        !self.leaves_daemons
            || children().map_or(true, |all| all.into_iter().any(|child| self.is_member(child)))
    }

    fn is_member(&self, child: Pid) -> bool {
        !self.leaves_daemons || getsid(Some(child)) == getsid(None)
    }

    /// Sends a message to zoolock. Returns true if its socket is full.
    fn report(&self, message: &Message) -> bool {
        let sent = self.socket.as_ref().map(|socket| send(socket, message, &[]));
        matches!(sent, Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Closes the files that were inherited from the process that started zoolock. They can be recognized
/// because all other files of this process are close-on-exec.
fn close_inherited() {
    const CLOEXEC: u32 = 0o2000000;
    for file in fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten() {
        let info = fs::read_to_string(file.path()).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        let number = file.file_name().to_string_lossy().parse::<i32>().ok();
        if let Some((number @ 3.., flags)) = number.zip(flags)
            && flags & CLOEXEC == 0
        {
            let _ = close(number);
        }
    }
}

fn signal_group(group: Pid, signal: i32) {
    let _ = Signal::try_from(signal).map(|signal| killpg(group, signal));
}
