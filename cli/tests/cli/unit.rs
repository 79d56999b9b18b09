//! The packaged systemd unit, as far as it can be tested without systemd.

use std::process::Command;

use nix::sys::signal::Signal;
use zoolock_test_support::{connect_string, fresh_path};

use crate::notifying::Manager;
use crate::util::UNTIL_TOLD;

const UNIT: &str = include_str!("../../systemd/zoolock-lead@.service");

/// The unit's value for this name.
#[track_caller]
fn says(name: &str) -> &'static str {
    let mut lines = UNIT.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    lines.next().unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn unit_starts_a_leader_that_notifies_systemd_and_ends() {
    let (manager, path) = (Manager::with_file(), fresh_path("unit"));
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    std::fs::write(&program, UNTIL_TOLD).expect("written");
    let start = says("ExecStart").replacen("/usr/bin/zoolock", env!("CARGO_BIN_EXE_zoolock"), 1);
    // A shell splits these variables as systemd does.
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {start}")]).env("ZOOKEEPER_CONNECT", connect_string());
    shell.env("LOCK", says("Environment").replace("LOCK=", "").replace("/services/%i", &path));
    shell.env("OPTIONS", "-v --session-timeout 40");
    shell.env("PROGRAM", format!("sh {}", program.display()));
    assert_eq!((says("Type"), says("KillMode")), ("notify", "mixed"));
    let mut leader = manager.start(shell);
    assert_eq!(manager.hears(), format!("READY=1\nSTATUS=contending for {path}"));
    leader.is_inside();
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.code(), Some(0), "which is no failure to systemd");

    // KILL has to come before another client can have the lock.
    let stops_within: u32 = says("TimeoutStopSec").parse().expect("seconds");
    assert!(stops_within < 10, "the session timeout that is not given");
    let prevented: Vec<_> = says("RestartPreventExitStatus").split(' ').collect();
    assert_eq!(prevented, ["64", "77"], "not 69: servers come back");
}
