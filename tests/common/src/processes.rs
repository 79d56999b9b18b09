//! Other processes that tests start: programs, and tests that run again in their own process.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

pub use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, pidfd_open};
use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use zoolock_test_support::{connect_string, wait_until};

use super::SOON;

/// Returns a command that runs only this test. The variable tells the test that it runs in its own process.
pub fn alone(test: &str, variable: &str, value: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture"])
        .env(variable, value)
        .env("ZOOKEEPER_CONNECT", connect_string());
    command
}

/// Runs only this test in a new process, in which this variable is set, and returns its output.
#[track_caller]
pub fn run_again(test: &str, variable: &str, value: &str) -> String {
    let output = alone(test, variable, value).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    said
}

/// Set in a process that runs a single test. Its value is a path of the lock.
pub const OWN_PROCESS: &str = "ZOOLOCK_TEST_HOLDER";

/// Returns the command with all signals set to their defaults, as in a terminal. Otherwise it would inherit that INT is
/// ignored if a shell has started the tests in the background.
pub fn with_all_signals(command: &Command) -> Command {
    let mut all = Command::new("env");
    all.arg("--default-signal").arg(command.get_program());
    all.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => all.env(name, value),
            None => all.env_remove(name),
        };
    }
    all
}

/// A command that runs beside the test. Dropping this kills it.
pub struct Beside {
    process: Child,
    input: Option<ChildStdin>,
    said: Receiver<(usize, String)>,
    /// The lines of standard output and standard error that were not read yet.
    received: Mutex<[Vec<String>; 2]>,
    has_ended: bool,
}

impl Beside {
    pub fn start(command: Command) -> Beside {
        Beside::spawn(&command, Stdio::piped(), Stdio::piped())
    }

    /// Starts the command. Its output can be read only if it is piped.
    pub fn spawn(command: &Command, stdout: Stdio, stderr: Stdio) -> Beside {
        let mut command = with_all_signals(command);
        let command = command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
        let mut process = command.spawn().expect("started");
        let (say, said) = unbounded();
        let id = process.id();
        process.stdout.take().into_iter().for_each(|pipe| listen(id, pipe, 0, say.clone()));
        process.stderr.take().into_iter().for_each(|pipe| listen(id, pipe, 1, say.clone()));
        let (input, received) = (process.stdin.take(), Mutex::default());
        Beside { process, input, said, received, has_ended: false }
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for a line that contains `key`, and returns the rest of that line. Earlier lines of the same output are
    /// discarded. Lines of different outputs may arrive in any order.
    #[track_caller]
    pub fn says(&self, key: &str) -> String {
        let end = Instant::now() + SOON;
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            for lines in received.iter_mut() {
                // `key` need not be at the beginning of the line, where the test harness may have written.
                let said = |line: &String| Some(line.split_once(key)?.1.trim().to_owned());
                let found = lines.iter().enumerate().find_map(|(at, line)| Some((at, said(line)?)));
                if let Some((at, value)) = found {
                    lines.drain(..=at);
                    return value;
                }
            }
            let line = self.said.recv_deadline(end);
            let (output, line) =
                line.unwrap_or_else(|error| panic!("it did not say {key:?}: {error}"));
            received[output].push(line);
        }
    }

    /// Waits until the program prints `inside`, and returns its process id.
    #[track_caller]
    pub fn is_inside(&self) -> u32 {
        self.says("inside ").parse().expect("a process")
    }

    /// Returns all lines that were not read yet. They are complete after [`status`](Self::status).
    #[track_caller]
    pub fn said(&self) -> Vec<String> {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = received.iter_mut().flat_map(|lines| lines.drain(..)).collect();
        if !self.has_ended {
            all.extend(self.said.try_iter().map(|(_, line)| line));
            return all;
        }
        let end = Instant::now() + SOON;
        loop {
            match self.said.recv_deadline(end) {
                Ok((_, line)) => all.push(line),
                Err(RecvTimeoutError::Disconnected) => return all,
                Err(RecvTimeoutError::Timeout) => panic!("a process may still print something"),
            }
        }
    }

    /// Closes the program's standard input.
    pub fn let_go(&mut self) {
        self.input = None;
    }

    pub fn signal(&self, signal: Signal) {
        send(self.id(), signal);
    }

    /// Waits until the program ends, and returns its exit code, or `None` if a signal killed it.
    #[track_caller]
    pub fn code(&mut self) -> Option<i32> {
        self.status().code()
    }

    /// Waits until the program ends, and returns its status, which shows whether a signal killed it.
    #[track_caller]
    pub fn status(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("it has ended", SOON, || {
            status = self.process.try_wait().expect("can be waited for");
            status.is_some()
        });
        self.has_ended = true;
        status.expect("it has ended")
    }

    /// Stops the process, and waits until all its threads have stopped.
    pub fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.id());
        wait_until("it has stopped", SOON, || {
            let tasks = std::fs::read_dir(&tasks).expect("its threads");
            tasks.flatten().all(|task| state(&task.path()) == Some('T'))
        });
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads lines on a new thread, which ends when all writers have closed the pipe.
fn listen(id: u32, pipe: impl Read + Send + 'static, output: usize, say: Sender<(usize, String)>) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            println!("{id}: {line}");
            let _ = say.send((output, line));
        }
    });
}

pub fn send(process: u32, signal: Signal) {
    kill(Pid::from_raw(process.cast_signed()), signal).expect("a process of ours");
}

/// Returns a handle that is ready when all threads of the process have ended. No other process can take its place.
pub fn handle_of(process: u32) -> OwnedFd {
    let pid = rustix::process::Pid::from_raw(process.cast_signed()).expect("a process");
    pidfd_open(pid, PidfdFlags::empty()).expect("a handle")
}

/// Returns the state of a process or thread. `process` is its folder in `/proc`.
pub fn state(process: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
