//! Tests that count resources of their process. They run again in a new process, where no other test creates
//! threads or files.

use std::env;
use std::fs;
use std::process::Command;

use zoolock_test_support::Server;

const VARIABLE: &str = "ZOOLOCK_ZOOKEEPER_TEST_ALONE";

/// Whether this is the new process or the one that started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnProcess {
    Yes,
    /// The new process has run successfully.
    HasRun,
}

/// Runs the test of this name again, alone, with a server for it, which gets much to do.
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

/// The sorted names of the threads of this process.
pub(crate) fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let mut names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    names.sort();
    names
}

/// The number of open files of this process.
pub(crate) fn files() -> usize {
    // One of them is the directory being read.
    fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// The resident memory of this process, in KiB.
pub(crate) fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines().filter_map(|line| line.strip_prefix("VmRSS:"));
    let number = lines.next().unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}
