//! Processes beside the test: programs, and tests that run again.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

pub use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use zoolock_test_support::{connect_string, wait_until};

use super::SOON;

/// The test harness, for one test alone, with a variable set by which that knows.
pub fn alone(test: &str, variable: &str, value: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture"])
        .env(variable, value)
        .env("ZOOKEEPER_CONNECT", connect_string());
    command
}

/// Runs one test again in a process of its own, with a variable set by which it knows, and
/// returns what it said.
#[track_caller]
pub fn run_again(test: &str, variable: &str, value: &str) -> String {
    let output = alone(test, variable, value).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    said
}

/// Tells a test that it is the process of its own; its value is the path of the lock.
pub const OWN_PROCESS: &str = "ZOOLOCK_TEST_HOLDER";

/// As people start it at a terminal. Whatever started the tests may ignore signals, as shells let
/// what they start in the background ignore INT, and what is ignored at the start stays ignored.
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

/// A command that runs beside the test; killed when dropped.
pub struct Beside {
    process: Child,
    input: Option<ChildStdin>,
    said: Receiver<String>,
    has_ended: bool,
}

impl Beside {
    pub fn start(command: Command) -> Beside {
        Beside::spawn(&command, Stdio::piped(), Stdio::piped())
    }

    /// What it says is only heard where there is a pipe for it.
    pub fn spawn(command: &Command, stdout: Stdio, stderr: Stdio) -> Beside {
        let mut command = with_all_signals(command);
        let command = command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
        let mut process = command.spawn().expect("started");
        let (say, said) = unbounded();
        let id = process.id();
        process.stdout.take().into_iter().for_each(|pipe| listen(id, pipe, say.clone()));
        process.stderr.take().into_iter().for_each(|pipe| listen(id, pipe, say.clone()));
        let input = process.stdin.take();
        Beside { process, input, said, has_ended: false }
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it says behind `key`, which it may not have said yet.
    #[track_caller]
    pub fn says(&self, key: &str) -> String {
        let end = Instant::now() + SOON;
        loop {
            let line = self.said.recv_deadline(end);
            let line = line.unwrap_or_else(|error| panic!("it did not say {key:?}: {error}"));
            // The harness of a test may have begun the line.
            if let Some((_, value)) = line.split_once(key) {
                return value.trim().to_owned();
            }
        }
    }

    /// Waits until a program of it says that it is `inside`, and which process it is.
    #[track_caller]
    pub fn is_inside(&self) -> u32 {
        self.says("inside ").parse().expect("a process")
    }

    /// All that it has said and was not asked for. When its end [was waited for](Self::status), that is all until
    /// nobody can say more.
    #[track_caller]
    pub fn said(&self) -> Vec<String> {
        if !self.has_ended {
            return self.said.try_iter().collect();
        }
        let end = Instant::now() + SOON;
        let mut all = Vec::new();
        loop {
            match self.said.recv_deadline(end) {
                Ok(line) => all.push(line),
                Err(RecvTimeoutError::Disconnected) => return all,
                Err(RecvTimeoutError::Timeout) => panic!("somebody may still say something"),
            }
        }
    }

    /// Its input ends.
    pub fn let_go(&mut self) {
        self.input = None;
    }

    pub fn signal(&self, signal: Signal) {
        send(self.id(), signal);
    }

    /// Waits for its end. What a signal ended has none.
    #[track_caller]
    pub fn code(&mut self) -> Option<i32> {
        self.status().code()
    }

    /// The same, and which signal it was.
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

    /// Stops it and waits until every thread of it stands still.
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

/// It ends when all writers have.
fn listen(id: u32, output: impl Read + Send + 'static, say: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            println!("{id}: {line}");
            let _ = say.send(line);
        }
    });
}

pub fn send(process: u32, signal: Signal) {
    kill(Pid::from_raw(process.cast_signed()), signal).expect("a process of ours");
}

/// Of a process or a thread, by its folder in `/proc`.
pub fn state(process: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
