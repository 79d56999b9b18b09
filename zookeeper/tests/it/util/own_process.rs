//! For tests that count threads, files or memory of the process. They run again in a separate
//! process, in which no other test uses any.

use std::env;
use std::fs;
use std::process::Command;

use zoolock_test_support::Server;

const VARIABLE: &str = "ZOOLOCK_ZOOKEEPER_TEST_ALONE";

/// The process in which a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnProcess {
    Yes,
    /// The test process that has started the separate one, which has passed.
    HasRun,
}

/// Runs the test of this name again, alone, with a separate server, because it is busy.
#[track_caller]
pub(crate) fn in_own_process(test: &str) -> OwnProcess {
    if env::var_os(VARIABLE).is_some() {
        return OwnProcess::Yes;
    }
    let server = Server::start().unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture"])
        .env(VARIABLE, "yes")
        .env("ZOOKEEPER_CONNECT", server.connect_string());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains("1 passed"), "no such test: {test}");
    OwnProcess::HasRun
}

/// Returns the names of the threads of this process, sorted.
pub(crate) fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let mut names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    names.sort();
    names
}

/// Returns how many files are open in this process.
pub(crate) fn files() -> usize {
    // One of them is the directory that this reads.
    fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// Returns the memory in use by this process, in KiB.
pub(crate) fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines().filter_map(|line| line.strip_prefix("VmRSS:"));
    let number = lines.next().unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}
