//! A process of another implementation.
//!
//! # The lines
//!
//! A peer is started with the address of the server and its own name. It writes `ok` when it is
//! connected, and then one line for each line that it reads: `ok`, or `error` and a reason. At the
//! end of its standard input it ends at once, also in the middle of a command.
//!
//! | line | what it does |
//! |---|---|
//! | `lock P` | takes the mutex at P |
//! | `plain P` | the same, by one that has not been told what others call their nodes |
//! | `read P`, `write P` | takes that side of the read-write lock at P |
//! | `acquire P N MAX` | takes N permits of the semaphore at P |
//! | `mutex P` | takes the mutex made of a semaphore at P |
//! | `lead P` | leads at P, by a selector |
//! | `latch P` | leads at P, by a latch |
//! | `unlock` | gives back what it has taken |
//! | `run N W` and one of the lines that take | N times: takes, visits the witness in the directory W, gives back |
//! | `asked` | waits until somebody has asked for what it has taken, since that was taken |
//! | `revoke NODE` | asks the holder that has this node to let go |
//!
//! Not every implementation knows all of them. The programs that `benches/locks` measures are
//! started in the same way and have lines of their own, which that explains.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::NamedTempFile;
use zoolock::crossbeam_channel::{Receiver, unbounded};

use crate::SOON;

const SHOWN_LINES: usize = 30;

/// A process of another implementation; killed when this is dropped.
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
    /// Starts it. Its first answer is that it is ready.
    ///
    /// # Panics
    /// When the program cannot be started.
    #[must_use]
    pub fn spawn(name: String, mut command: Command) -> Peer {
        let errors = NamedTempFile::with_prefix("zoolock-peer-").expect("a temporary file");
        // Opened once more, for a position of the child's own.
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
        // Ends with the output of the child.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Peer { name, child, commands, answers, asked: "connect".to_owned(), errors }
    }

    /// What the witness knows it by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command, whose answer has to be looked for before the next one.
    ///
    /// # Panics
    /// When the process has ended.
    pub fn tell(&mut self, command: &str) {
        self.asked = command.to_owned();
        if let Err(error) = writeln!(self.commands, "{command}") {
            self.fail(&format!("was not told: {error}"));
        }
    }

    /// Has the last command been answered?
    #[must_use]
    pub fn has_answered(&self) -> bool {
        !self.answers.is_empty()
    }

    /// What it says to the last command, or the reason why not.
    ///
    /// # Errors
    /// What the peer says went wrong.
    ///
    /// # Panics
    /// When there is no answer in time.
    pub fn result(&mut self) -> Result<(), String> {
        self.result_within(SOON).map(|_| ())
    }

    /// The same, with what follows the `ok`, by a deadline of the caller's.
    ///
    /// # Errors
    /// As [`result`](Self::result).
    ///
    /// # Panics
    /// As [`result`](Self::result).
    pub fn result_within(&mut self, longest: Duration) -> Result<String, String> {
        let line = match self.answers.recv_timeout(longest) {
            Ok(line) => line,
            Err(error) if error.is_timeout() => self.fail(&format!("no answer within {longest:?}")),
            Err(_) => self.fail("it has ended"),
        };
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("ok", text) => Ok(text.to_owned()),
            ("error", reason) => Err(reason.to_owned()),
            _ => self.fail(&format!("`{line}` is not an answer")),
        }
    }

    /// Waits for the answer to the last command.
    ///
    /// # Panics
    /// When it is an error, or does not come in time.
    pub fn answer(&mut self) {
        if let Err(reason) = self.result() {
            self.fail(&reason);
        }
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Panics
    /// As [`answer`](Self::answer).
    pub fn ask(&mut self, command: &str) {
        self.tell(command);
        self.answer();
    }

    fn fail(&self, what: &str) -> ! {
        let log = std::fs::read(self.errors.path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        let (name, asked) = (&self.name, &self.asked);
        panic!("{name}, asked to `{asked}`: {what}; the end of its log:\n{tail}");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
