//! A process of another implementation.
//!
//! # Commands
//!
//! A peer's arguments are the address of the server and a name. It writes `ok` when it is connected. It then answers
//! each line that it reads with one line: `ok`, or `error` and a reason. When its standard input ends, it exits
//! immediately, even in the middle of a command.
//!
//! | command | effect |
//! |---|---|
//! | `lock P` | acquires the mutex at P |
//! | `plain P` | the same, with a lock that is not configured for the node names of other clients |
//! | `read P`, `write P` | acquires that side of the read-write lock at P |
//! | `acquire P N MAX` | acquires N permits of the semaphore at P, which has MAX |
//! | `mutex P` | acquires the mutex at P that is built on a semaphore |
//! | `lead P` | becomes the leader at P, with a selector |
//! | `latch P` | becomes the leader at P, with a latch |
//! | `unlock` | releases the lock that it holds |
//! | `run N W` and a command that acquires | N times: acquires, visits the monitor in directory W, releases |
//! | `asked` | waits until a client has requested the release of the lock that it holds |
//! | `revoke NODE` | requests that the holder with this node releases the lock |
//!
//! Not every implementation supports all of these commands. The programs for `benches/locks` are started in the same
//! way, but have other commands, which are described there.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::NamedTempFile;
use zoolock::crossbeam_channel::{Receiver, unbounded};

use crate::SOON;

const SHOWN_LINES: usize = 30;

/// A process of another implementation. Dropping this kills it.
#[derive(Debug)]
pub struct Peer {
    name: String,
    child: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
    asked: String,
    errors: NamedTempFile,
}

impl Peer {
    /// Starts a process, whose first answer reports that it is ready.
    pub fn spawn(name: String, mut command: Command) -> Peer {
        let errors = NamedTempFile::with_prefix("zoolock-peer-").expect("a temporary file");
        // Opens the file again, so that the child has its own file position.
        let log = OpenOptions::new().append(true).open(errors.path());
        let started = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.expect("the temporary file"))
            .spawn();
        let mut child = started.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let commands = child.stdin.take().expect("piped");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (sender, answers) = unbounded();
        // The thread ends when the child's output ends.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Peer { name, child, commands, answers, asked: "connect".to_owned(), errors }
    }

    /// Returns the name that the peer uses with the monitor.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id of the process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command. Read its answer before you send the next command.
    pub fn tell(&mut self, command: &str) {
        self.asked = command.to_owned();
        // If the process has ended, the caller detects that when it waits for the answer.
        let _ = writeln!(self.commands, "{command}");
    }

    /// Returns whether the last command was answered.
    pub fn has_answered(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Waits for the answer to the last command, and returns whether it is `ok`. Panics if no answer arrives.
    pub fn result(&mut self) -> Result<(), String> {
        match self.answer_within(SOON) {
            Ok(answer) => answer.map(drop),
            Err(reason) => panic!("{reason}"),
        }
    }

    /// Waits up to `longest` for the answer to the last command, and returns the text after `ok`. If no answer arrives,
    /// returns an error as well; the process cannot be used after that.
    pub fn result_within(&mut self, longest: Duration) -> Result<String, String> {
        self.answer_within(longest)?
    }

    /// Waits for an answer. If none arrives, returns the reason.
    fn answer_within(&mut self, longest: Duration) -> Result<Result<String, String>, String> {
        let line = match self.answers.recv_timeout(longest) {
            Ok(line) => line,
            Err(error) if error.is_timeout() => {
                return Err(self.describe(&format!("no answer within {longest:?}")));
            }
            Err(_) => return Err(self.describe("it has ended")),
        };
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("ok", text) => Ok(Ok(text.to_owned())),
            ("error", reason) => Ok(Err(reason.to_owned())),
            _ => Err(self.describe(&format!("`{line}` is not an answer"))),
        }
    }

    /// Waits for the answer to the last command, which must be `ok`.
    pub fn answer(&mut self) {
        if let Err(reason) = self.result() {
            panic!("{}", self.describe(&reason));
        }
    }

    /// Sends a command, and waits for the answer `ok`.
    pub fn ask(&mut self, command: &str) {
        self.tell(command);
        self.answer();
    }

    /// Adds the process's name, the last command and the log to a problem.
    fn describe(&self, what: &str) -> String {
        let log = std::fs::read(self.errors.path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        let (name, asked) = (&self.name, &self.asked);
        format!("{name}, asked to `{asked}`: {what}; the end of its log:\n{tail}")
    }
}

/// For peers in Rust: returns the lines of standard input as they arrive. When standard input ends, the process exits,
/// even if it is waiting for a lock.
pub fn read_lines() -> Receiver<String> {
    let (sender, lines) = unbounded();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
        process::exit(0);
    });
    lines
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
