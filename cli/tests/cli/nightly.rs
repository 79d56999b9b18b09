//! A job that is due on many machines at the same time, and takes less time than their clocks differ by.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::util::*;

#[test]
fn one_of_ten_machines_runs_an_instant_job() {
    // The others start with the first one, or after its job has ended, which is later than the worst clock would.
    for are_late in [false, true] {
        let (path, (_folder, job)) = (fresh_path("nightly"), scratch());
        let script = format!("echo ran >> {job}");
        let job_runs = || fs::read_to_string(&job).unwrap_or_default().lines().count();
        let start = || runs(&["-n", "-E", "0", "--hold-at-least", "1h"], &path, &script);
        let mut machines = vec![start()];
        if are_late {
            wait_until("the job has run", SOON, || job_runs() == 1);
        }
        machines.extend((1..10).map(|_| start()));
        let running = || machines.iter().filter(|machine| !is_gone(machine.id()));
        wait_until("nine have nothing to do", SOON, || running().count() == 1);
        wait_until("the job has run", SOON, || job_runs() > 0);
        running().for_each(|last| last.signal(Signal::SIGTERM));
        for machine in &mut machines {
            assert_eq!(machine.code(), Some(0));
        }
        assert_eq!(job_runs(), 1);
        await_nodes(&path, 0);
    }
}

#[test]
fn hold_at_least_keeps_the_lock_and_the_programs_code() {
    let (client, path, begun) = (client(), fresh_path("held-on"), Instant::now());
    let mut held = runs(&["-v", "--hold-at-least", "2"], &path, "exit 3");
    let rival = lock_of(&client, &path);
    held.says("keeping the lock for another ");
    rival.lock().expect("locked");
    assert!(begun.elapsed() >= Duration::from_secs(2));
    assert_eq!(held.code(), Some(3));
    rival.unlock().expect("unlocked");

    // If the job takes longer than this time, the lock is not kept after it.
    let mut longer = runs(&["-v", "--hold-at-least", "1ms"], &path, "exit 4");
    assert_eq!(longer.code(), Some(4));
    let said = longer.said();
    assert!(!said.iter().any(|line| line.contains("keeping the lock")), "{said:?}");
}

#[test]
fn signal_or_loss_ends_the_minimum_hold_early() {
    let options = ["-v", "--hold-at-least", "1h"];
    for signal in [Some(Signal::SIGTERM), Some(Signal::SIGHUP), None] {
        let path = fresh_path("held-on-ends");
        let mut held = runs(&options, &path, "exit 3");
        held.says("keeping the lock for another ");
        match signal {
            Some(signal) => held.signal(signal),
            None => {
                delete_node(&path);
                held.says("the lock was lost after the program had ended");
            }
        }
        assert_eq!(held.code(), Some(3), "that of the program");
        await_nodes(&path, 0);
    }
    // A signal while the program runs ends everything at once.
    let mut held = started(&options, &fresh_path("held-on-all"), LISTENS);
    assert_eq!(end_by(Signal::SIGTERM, &mut held), Some(7));
}

/// Runs the script from the manual as if on several machines.
#[test]
fn script_of_the_manual_runs_the_job_once() {
    const OTHER: &str = "another machine has the lock";
    let manual = include_str!("../../README.md");
    let block = |text: &str| text.split("```").next().map(str::to_owned);
    let script = manual.split("```sh\n").filter_map(block).find(|text| text.contains("case $? in"));
    let script = script.expect("there is one");
    let (server, folder) =
        (Server::start().expect("a server"), tempfile::tempdir().expect("a folder"));
    let job = folder.path().join("nightly.sh");
    fs::write(&job, "#!/bin/sh\necho the job has run\n").expect("written");
    fs::set_permissions(&job, fs::Permissions::from_mode(0o755)).expect("set");
    let command = Path::new(ZOOLOCK).parent().expect("a folder");
    let path = format!("{}:{}:{}", folder.path().display(), command.display(), env!("PATH"));
    // The others are later than the first one's job.
    let turns = ["the job has run", OTHER, OTHER, OTHER];
    let _machines = turns.map(|says| {
        let mut machine = in_shell("sh", &script);
        machine.env("PATH", &path).env("ZOOKEEPER_CONNECT", server.connect_string());
        let machine = Beside::start(machine);
        machine.says(says);
        machine
    });
}
