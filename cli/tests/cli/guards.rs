//! The guard is ready before the program starts, and there is always one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use zoolock_test_support::{fresh_path, wait_until};

use crate::limits::{ALONE, IN_ANOTHER_GROUP, Outcome, assert_ends_before_the_next, outcome_of};
use crate::util::{
    Beside, SOON, UNTIL_TOLD, await_gone, guard_of, guards_of, is_gone, is_stopped, run, send,
};

/// A library that makes a guard end or hang before its work begins.
const FATE: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void meet_fate(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "--exec-guard")) return;
    if (!strcmp(getenv("FATE"), "ends")) _exit(101);
    if (!strcmp(getenv("FATE"), "hangs")) for (;;) pause();
    while (!access(getenv("FATE"), F_OK)) usleep(1000);
}
"#;

/// Returns a library that decides the fate of each guard: it ends, it hangs, or it waits while a
/// file exists.
fn fate(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("fate.c"), folder.join("fate.so"));
    fs::write(&source, FATE).expect("written");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().expect("a C compiler, as cargo has it").success());
    library
}

#[test]
fn a_program_whose_guard_is_not_ready_is_not_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = fate(folder.path());
    for (fate, said) in
        [("ends", "it ended without a message"), ("hangs", "it is not ready after 5s")]
    {
        let path = fresh_path("unready");
        let start = || {
            let mut command = run(&[], &path, ALONE);
            command.env("LD_PRELOAD", &library).env("FATE", fate);
            command
        };
        let words = format!("zoolock: failed to start the process that guards the program: {said}");
        assert_eq!(outcome_of(start, &path), Outcome::Ended(Some(71), words));
    }
}

/// Kills the guard, and waits until another one is ready. Returns without one if the lock is lost
/// meanwhile.
#[track_caller]
fn replace_guard(zoolock: u32) -> Option<u32> {
    let before = guards_of(zoolock).pop()?;
    send(before, Signal::SIGKILL);
    let mut guard = None;
    wait_until("there is another guard", SOON, || {
        guard = guards_of(zoolock).into_iter().find(|guard| *guard != before);
        guard.is_some() || is_gone(zoolock)
    });
    let output = fs::read_link(format!("/proc/{}/fd/1", guard?)).ok()?;
    wait_until("zoolock has heard that it is ready", SOON, || {
        let files = fs::read_dir(format!("/proc/{zoolock}/fd")).into_iter().flatten().flatten();
        files.into_iter().all(|file| fs::read_link(file.path()).ok().as_ref() != Some(&output))
    });
    guard
}

#[test]
fn a_guard_that_is_killed_is_replaced() {
    let path = fresh_path("guard-killed");
    let running = Beside::start(run(&[], &path, IN_ANOTHER_GROUP));
    let inside = running.is_inside();
    for _ in 0..5 {
        replace_guard(running.id()).expect("another guard");
    }
    assert!(!is_gone(inside));
    running.signal(Signal::SIGKILL);
    println!("it is gone after {:?}", await_gone(inside));
}

#[test]
fn a_guard_in_the_place_of_another_knows_when_the_lease_ends() {
    let path = fresh_path("guard-told");
    let running = Beside::start(run(&["--session-timeout", "8"], &path, IN_ANOTHER_GROUP));
    let inside = running.is_inside();
    if let Some(guard) = replace_guard(running.id()) {
        let times_asleep = || {
            let status = fs::read_to_string(format!("/proc/{guard}/status")).ok()?;
            let times =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            times?.trim().parse::<u64>().ok()
        };
        let before = times_asleep();
        // Waking twice shows that it has received a message in between.
        wait_until("it was told", SOON, || {
            times_asleep().is_none_or(|times| Some(times) > before.map(|before| before + 1))
        });
    }
    assert_ends_before_the_next(&running, inside, &path);
}

#[test]
fn a_guard_that_is_ready_after_zoolock_is_stopped_knows_when_the_lease_ends() {
    let (path, folder) = (fresh_path("guard-late"), tempfile::tempdir().expect("a folder"));
    let waits = folder.path().join("waits");
    let mut command = run(&["--session-timeout", "8"], &path, IN_ANOTHER_GROUP);
    command.env("LD_PRELOAD", fate(folder.path())).env("FATE", &waits);
    let running = Beside::start(command);
    let inside = running.is_inside();
    fs::write(&waits, "").expect("written");
    if let Some(before) = guards_of(running.id()).pop() {
        send(before, Signal::SIGKILL);
        let is_replaced = || guards_of(running.id()).iter().any(|guard| *guard != before);
        wait_until("there is another guard", SOON, || is_replaced() || is_gone(running.id()));
        running.signal(Signal::SIGSTOP);
        let is_still = || is_stopped(running.id()) || is_gone(running.id());
        wait_until("zoolock is stopped", SOON, is_still);
    }
    fs::remove_file(waits).expect("removed");
    assert_ends_before_the_next(&running, inside, &path);
}

#[test]
fn a_guard_that_is_stopped_goes_on() {
    let path = fresh_path("guard-stopped");
    let mut running = Beside::start(run(&[], &path, UNTIL_TOLD));
    running.is_inside();
    let guard = guard_of(running.id());
    for _ in 0..5 {
        send(guard, Signal::SIGSTOP);
        wait_until("it goes on", SOON, || !is_stopped(guard));
    }
    assert_eq!(guards_of(running.id()), [guard]);
    running.let_go();
    assert_eq!(running.code(), Some(0));
}
