//! Processes that the program has started and left behind.

use nix::sys::signal::Signal;
use zoolock_test_support::{fresh_path, wait_until};

use crate::util::{Beside, SOON, Scratch, await_gone, await_nodes, is_gone, run};

#[test]
fn lock_is_held_until_the_last_process_of_the_group_ends() {
    let path = fresh_path("left-behind");
    // A shell redirects the input of background jobs, but not this descriptor.
    let script = "exec 3<&0; sh -c 'cat <&3 >/dev/null' & echo inside $$; exit 3";
    let mut running = Beside::start(run(&[], &path, script));
    await_gone(running.is_inside());
    let mut other = Beside::start(run(&["-n"], &path, "true"));
    assert_eq!(other.code(), Some(1), "somebody of the group still runs");
    running.let_go();
    assert_eq!(running.code(), Some(3), "that of the program");
    await_nodes(&path, 0);
}

#[test]
fn run_waits_for_slow_processes_of_the_group() {
    let path = fresh_path("tidies-up");
    // The shell ends at once on TERM.
    let script = "sh -c 'trap \"sleep 0.5; exit\" TERM; echo child $$; while :; do sleep 0.05; done' & \
         echo inside $$; wait";
    let mut running = Beside::start(run(&[], &path, script));
    let child = running.says("child ").parse().expect("a process");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.code(), Some(128 + Signal::SIGTERM as i32));
    assert!(is_gone(child), "it was still tidying up");
}

#[test]
fn run_reaps_processes_that_left_the_group() {
    let path = fresh_path("buried");
    let script = "exec 3<&0; (setsid sh -c 'echo daemon $$; exec cat <&3 >/dev/null' &); \
         echo inside $$; while :; do sleep 0.05; done";
    let mut running = Beside::start(run(&[], &path, script));
    let daemon: u32 = running.says("daemon ").parse().expect("a process");
    running.let_go();
    let entry = format!("/proc/{daemon}");
    wait_until("nothing is left of it", SOON, || !std::path::Path::new(&entry).exists());
    running.signal(Signal::SIGTERM);
    assert_eq!(running.code(), Some(128 + Signal::SIGTERM as i32));
}

#[test]
fn lock_is_held_for_daemons_which_are_named_and_signalled() {
    let path = fresh_path("daemon");
    let script = "setsid sh -c 'echo daemon $$; exec sleep 1000' & read line";
    let mut running = Beside::start(run(&[], &path, script));
    let daemon: u32 = running.says("daemon ").parse().expect("a process");
    running.let_go();
    let said = running.says("the program has ended, but the lock is held for ");
    assert_eq!(said, format!("{daemon} (sleep)"));
    let mut other = Beside::start(run(&["-n"], &path, "true"));
    assert_eq!(other.code(), Some(1));
    assert!(!is_gone(daemon));
    running.signal(Signal::SIGTERM);
    assert_eq!(running.code(), Some(1), "read has found the end");
    assert!(is_gone(daemon));
}

#[test]
fn daemons_are_left_if_that_is_asked_for() {
    let path = fresh_path("left-daemon");
    let scratch = Scratch::new();
    let pipe = scratch.name();
    // The child cannot open the pipe before the test does.
    let script = format!(
        "mkfifo {pipe}; sh -c 'read go < {pipe}; exec setsid sleep 1000' & \
         echo inside $$ daemon $!; exit 3"
    );
    let mut running = Beside::start(run(&["--leave-daemons"], &path, &script));
    let said = running.says("inside ");
    let (inside, daemon) = said.split_once(" daemon ").expect("two processes");
    // Not before the supervisor has noticed.
    let program = format!("/proc/{inside}");
    wait_until("the program is buried", SOON, || !std::path::Path::new(&program).exists());
    let daemon = daemon.parse().expect("a process");
    let mut other = Beside::start(run(&["-n"], &path, "true"));
    assert_eq!(other.code(), Some(1), "it is no daemon yet");
    std::fs::write(pipe, "go\n").expect("written");
    assert_eq!(running.code(), Some(3), "that of the program");
    assert!(!is_gone(daemon));
    crate::util::send(daemon, Signal::SIGKILL);
}
