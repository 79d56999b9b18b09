//! Tests that count the resources of their process. They run again in a new process, in which no other test creates
//! threads or opens files.

use std::any::type_name;
use std::env;
use std::fs;
use std::process::Command;

use zoolock_test_support::Server;

const VARIABLE: &str = "ZOOLOCK_ZOOKEEPER_TEST_ALONE";

/// Runs this closure of a test alone, in a new process with its own server. That server is very busy.
#[track_caller]
pub(crate) fn in_own_process<T: FnOnce()>(test: T) {
    if env::var_os(VARIABLE).is_some() {
        return test();
    }
    // The type's name contains the name of the test, after the name of the binary.
    let name = type_name::<T>().trim_end_matches("::{{closure}}");
    let name = name.split_once("::").unwrap().1;
    let server = Server::start().unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([name, "--exact", "--nocapture"])
        .env(VARIABLE, "yes")
        .env("ZOOKEEPER_CONNECT", server.connect_string());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains("1 passed"), "no such test: {name}");
}

/// Returns the sorted names of this process's threads.
pub(crate) fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let mut names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    names.sort();
    names
}

/// Returns the number of this process's threads that belong to clients.
pub(crate) fn of_clients() -> usize {
    threads().iter().filter(|name| name.starts_with("zookeeper-")).count()
}

/// Returns the number of files that this process has open.
pub(crate) fn files() -> usize {
    // One of them is the directory that is being read.
    fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// Returns the resident memory of this process, in KiB.
pub(crate) fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines().filter_map(|line| line.strip_prefix("VmRSS:"));
    let number = lines.next().unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}
