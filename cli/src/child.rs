//! zoolock's side of the [supervisor](crate::supervisor), which runs the program: sends and receives
//! the messages, and kills the descendants if the supervisor ends too early.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SIGCONT, SIGSTOP, SIGTERM, Signal};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use rustix::process::{self, PidfdFlags, pidfd_open, pidfd_send_signal};
use zoolock::Registration;
use zoolock::crossbeam_channel::{
    Receiver, RecvTimeoutError, Sender, after, select_biased, unbounded,
};

use crate::descendants::{Alarm, bury, children, kill_all_but, now};
use crate::exit::{Failed, LOST, SYSTEM, start_thread};
use crate::holder::Held;
use crate::messages::{LONGEST, Message, pair, receive, send};
use crate::supervisor;

/// Interval between checks of zoolock's own children. There is an event for the supervisor's end, but as
/// the first process of a container, zoolock also has to reap unrelated processes.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long a supervisor may take to kill all processes that can be killed.
const PATIENCE: Duration = Duration::from_millis(100);

/// What happened to the program.
#[derive(Debug)]
pub(crate) enum Event {
    /// The program may start. Contains its process.
    Ready(Pid),
    Stopped(Signal),
    /// The program has ended. Some of its descendants may still be running.
    ProgramEnded,
    /// Supervision ended early, for this reason. Therefore the program and all its descendants were
    /// killed.
    Failed(Failed),
    /// The program and all its descendants have ended. Contains the program's exit code, as shells
    /// report it, and the signal that ended the program, or 0. The signal is a number, because `Signal`
    /// does not include all of them.
    Ended(u8, i32),
}

pub(crate) struct Child {
    supervisor: Pid,
    /// For signals to the supervisor: after it has been reaped, another process may get its number.
    handle: OwnedFd,
    socket: Arc<OwnedFd>,
    /// The step's socket.
    go: OwnedFd,
    events: Receiver<Event>,
    /// Continues zoolock at the end of the lease, in case it is stopped and its supervisor was killed.
    alarm: Alarm,
}

impl Child {
    /// Starts a supervisor whose program gets this environment. If zoolock is killed, the
    /// supervisor ends the session of the `registration` when all processes have ended. Call this
    /// on a thread that lives as long as the process, because the supervisor treats the end of this
    /// thread as the end of zoolock.
    pub(crate) fn start(
        environment: impl FnOnce(&mut Command),
        leaves_daemons: bool,
        registration: Option<&Registration>,
    ) -> Result<Child, Failed> {
        let failed = |error| Failed::to_start("a process", error);
        // Descendants of a supervisor that was killed become children of zoolock.
        set_child_subreaper(true)?;
        // These children were started before zoolock was executed, or were left as daemons.
        let strangers = children().map_err(failed)?;
        let ((socket, its_socket), (go, its_go)) =
            (pair().map_err(failed)?, pair().map_err(failed)?);
        let registration = registration.map(Registration::to_text);
        // Without a registration, the lock of a killed zoolock becomes free a session timeout later.
        let registration = registration.filter(|text| text.len() < LONGEST / 2);
        let prepare = Message::Prepare { leaves_daemons, registration };
        send(&socket, &prepare, &[its_go.as_fd()]).map_err(failed)?;
        let alarm = Alarm::new().map_err(|error| failed(error.into()))?;
        let mut command = supervisor::command(its_socket);
        environment(&mut command);
        let supervisor = command.spawn().map_err(failed)?;
        let handle = pidfd_open(process::Pid::from_child(&supervisor), PidfdFlags::empty());
        let handle = handle.map_err(|error| failed(error.into()))?;
        let supervisor = Pid::from_raw(supervisor.id().cast_signed());
        // Closes the supervisor's socket in this process.
        drop(command);
        if !children().map_err(failed)?.contains(&supervisor) {
            return Err(failed(io::Error::other("/proc does not list the process just started")));
        }
        let socket = Arc::new(socket);
        let (sender, events) = unbounded();
        let its = Arc::clone(&socket);
        start_thread("zoolock-program", move || watch(supervisor, &its, strangers, &sender))?;
        Ok(Child { supervisor, handle, socket, go, events, alarm })
    }

    /// Returns the events of the program. `Ended` or `Failed` is the last one.
    pub(crate) fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// Starts the program, whose command line has this many words, with zoolock's standard input.
    pub(crate) fn go(&self, words: usize) -> io::Result<()> {
        send(&self.go, &Message::Go(words), &[io::stdin().as_fd()])
    }

    /// Signals the group of the program. If the program has ended, signals its descendants.
    pub(crate) fn signal(&self, signal: Signal) {
        self.tell(&Message::Signal(signal as i32));
    }

    /// Lets all processes run until the lease ends, whatever happens to zoolock.
    pub(crate) fn allow_the_lease(&mut self, held: &Held) {
        // Read the clock first: if zoolock is stopped in between, the computed end is too early
        // rather than too late.
        let now = now();
        // Leave time to kill many generations of processes.
        let end = now + held.hold.valid_for().saturating_sub(held.grace / 4);
        let _ = self.alarm.set(end);
        self.tell(&Message::RunUntil(end));
    }

    /// Kills all processes. Returns when they have ended.
    pub(crate) fn kill(&self) {
        self.tell(&Message::RunUntil(Duration::ZERO));
        loop {
            match self.events.recv_timeout(PATIENCE) {
                Ok(Event::Ended(..) | Event::Failed(_)) | Err(RecvTimeoutError::Disconnected) => {
                    return;
                }
                // A debugger may have stopped the supervisor, so zoolock has to do its work.
                Err(RecvTimeoutError::Timeout) => {
                    let _ = pidfd_send_signal(&self.handle, process::Signal::KILL);
                }
                Ok(_) => {}
            }
        }
    }

    /// Ends the program and its descendants before another client can acquire the lock. They get TERM
    /// at once, and KILL from the supervisor shortly before the certified lease runs out. The servers
    /// do not grant the lock to the next client before that.
    pub(crate) fn end_before_the_lease(&self, held: &Held) {
        let end = Instant::now() + held.hold.valid_for();
        // A stopped process does not handle TERM until it continues.
        for signal in [SIGTERM, SIGCONT] {
            self.tell(&Message::SignalAll(signal as i32));
        }
        loop {
            select_biased! {
                recv(self.events) -> event => match event {
                    Ok(Event::Ended(..) | Event::Failed(_)) | Err(_) => return,
                    Ok(_) => {}
                },
                recv(held.hold.ended()) -> _ => break,
                recv(after(end.saturating_duration_since(Instant::now()))) -> _ => break,
            }
        }
        self.kill();
    }

    /// Returns the number and the name of each process that the supervisor waits for.
    pub(crate) fn left(&self) -> Vec<String> {
        let file = format!("/proc/{0}/task/{0}/children", self.supervisor);
        let children = fs::read_to_string(file).unwrap_or_default();
        let name = |child| {
            let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            format!("{child} ({})", name.trim_end())
        };
        children.split_whitespace().map(name).collect()
    }

    /// Sends a message to the supervisor. If the socket is full, the message is lost. The supervisor
    /// then keeps an earlier end of the lease, which is on the safe side.
    fn tell(&self, message: &Message) {
        let _ = send(&*self.socket, message, &[]);
        // The supervisor may be stopped.
        let _ = pidfd_send_signal(&self.handle, process::Signal::CONT);
    }
}

/// Passes on the messages of the supervisor, and does its work if it ends too early.
fn watch(supervisor: Pid, socket: &OwnedFd, mut strangers: Vec<Pid>, say: &Sender<Event>) {
    let mut last = None;
    while !bury(Some(supervisor), &mut strangers) {
        if is_dead(supervisor) {
            // A debugger keeps the supervisor as a zombie. In any case, the supervisor's children have
            // become children of zoolock.
            strangers.push(supervisor);
            break;
        }
        let wait = Timespec::try_from(LOOK_AGAIN).ok();
        let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], wait.as_ref());
        last = last.or(hear(socket, say));
    }
    // The supervisor may have sent a message just before its end.
    last = last.or(hear(socket, say));
    let _ = say.send(match last {
        Some(Message::Ended(code, by)) => Event::Ended(code, by),
        Some(Message::Overdue) => {
            let text = "the program was killed, because the lease of the lock was about to end";
            Event::Failed(Failed::new(LOST, text))
        }
        last => {
            kill_all_but(strangers);
            Event::Failed(match last {
                Some(Message::Failed(why)) => Failed::to_start("a process", why),
                _ => {
                    Failed::new(SYSTEM, "the program was killed, because its supervisor was killed")
                }
            })
        }
    });
}

/// Passes on the messages that have arrived. Returns the supervisor's final message if it has arrived.
fn hear(socket: &OwnedFd, say: &Sender<Event>) -> Option<Message> {
    while let Ok(Some((message, _))) = receive(socket, RecvFlags::DONTWAIT) {
        let event = match message {
            Message::Ready(program) => Event::Ready(Pid::from_raw(program)),
            Message::Stopped(by) => Event::Stopped(Signal::try_from(by).unwrap_or(SIGSTOP)),
            Message::ProgramEnded => Event::ProgramEnded,
            last => return Some(last),
        };
        let _ = say.send(event);
    }
    None
}

fn is_dead(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}
