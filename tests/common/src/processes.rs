//! Tests that run again in processes of their own.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use zoolock::crossbeam_channel::{Receiver, unbounded};
use zoolock_test_support::{connect_string, wait_until};

use super::SOON;

/// The test harness, for one test alone, with a variable set by which that knows.
fn alone(test: &str, variable: &str, value: &str) -> Command {
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

/// A test that runs again in a process of its own, beside this one; killed when dropped.
pub struct Beside {
    process: Child,
    said: Receiver<String>,
}

impl Beside {
    pub fn start(test: &str, path: &str) -> Beside {
        let mut process = alone(test, OWN_PROCESS, path).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (say, said) = unbounded();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                println!("beside: {line}");
                let _ = say.send(line);
            }
        });
        Beside { process, said }
    }

    /// What it says behind `key`, which it may not have said yet.
    pub fn says(&self, key: &str) -> String {
        let end = Instant::now() + SOON;
        loop {
            let line = self.said.recv_deadline(end);
            let line = line.unwrap_or_else(|error| panic!("it did not say {key:?}: {error}"));
            // The harness may have begun the line.
            if let Some((_, value)) = line.split_once(key) {
                return value.trim().to_owned();
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.process);
        kill_process(id, signal).unwrap();
    }

    /// Stops it (SIGSTOP) and waits until every thread of it stands still.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.process.id());
        wait_until("it has stopped", SOON, || {
            std::fs::read_dir(&tasks).unwrap().flatten().all(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
            })
        });
    }

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn ends_well(&mut self) {
        let mut status = None;
        wait_until("it has ended", SOON, || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{status:?}");
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
