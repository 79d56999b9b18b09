//! Processes that the program has started and that outlive it.

use std::fs;

use crate::util::*;

#[test]
fn lock_is_held_until_the_last_process_of_the_group_ends() {
    let path = fresh_path("left-behind");
    // A shell redirects the standard input of background jobs, but not descriptor 3.
    let script = "exec 3<&0; sh -c 'cat <&3 >/dev/null' & echo inside $$; exit 3";
    let mut running = runs(&[], &path, script);
    await_gone(running.is_inside());
    assert!(is_taken(&path), "somebody of the group still runs");
    assert_eq!(let_end(&mut running), Some(3), "that of the program");
    await_nodes(&path, 0);
}

#[test]
fn run_waits_for_slow_processes_of_the_group() {
    // The shell that runs the program ends immediately on TERM.
    let script = "sh -c 'trap \"sleep 0.5; exit\" TERM; echo child $$; while :; do sleep 0.05; done' & \
         echo inside $$; wait";
    let mut running = runs(&[], &fresh_path("tidies-up"), script);
    let child = running.says("child ").parse().expect("a process");
    assert_eq!(end_by(Signal::SIGTERM, &mut running), Some(128 + Signal::SIGTERM as i32));
    assert!(is_gone(child), "it was still tidying up");
}

#[test]
fn run_reaps_processes_that_left_the_group() {
    let script = format!("(setsid sh -c 'echo daemon $$' &); {UNTIL_TOLD}");
    let mut running = runs(&[], &fresh_path("buried"), &script);
    await_buried(running.says("daemon ").parse().expect("a process"));
    assert_eq!(let_end(&mut running), Some(0));
}

#[test]
fn lock_is_held_for_daemons_which_are_named_and_signalled() {
    let path = fresh_path("daemon");
    let script = "setsid sh -c 'echo daemon $$; exec sleep 1000' & read line";
    let mut running = runs(&[], &path, script);
    let daemon: u32 = running.says("daemon ").parse().expect("a process");
    running.let_go();
    let said =
        running.says("the program has ended, but zoolock keeps the lock for its descendants: ");
    assert_eq!(said, format!("{daemon} (sleep)"));
    assert!(is_taken(&path) && !is_gone(daemon));
    assert_eq!(end_by(Signal::SIGTERM, &mut running), Some(1), "read has found the end");
    assert!(is_gone(daemon));
}

#[test]
fn daemons_are_left_if_that_is_asked_for() {
    let (path, (_folder, pipe)) = (fresh_path("left-daemon"), scratch());
    // The child cannot open the pipe before the test opens it.
    let script = format!(
        "mkfifo {pipe}; sh -c 'read go < {pipe}; exec setsid sleep 1000' & \
         echo inside $$ daemon $!; exit 3"
    );
    let mut running = runs(&["--leave-daemons"], &path, &script);
    let said = running.says("inside ");
    let (inside, daemon) = said.split_once(" daemon ").expect("two processes");
    let [inside, daemon] = [inside, daemon].map(|id| id.parse().expect("a process"));
    // The supervisor has detected that the program has ended only when it has reaped it.
    await_buried(inside);
    assert!(is_taken(&path), "it is no daemon yet");
    fs::write(pipe, "go\n").expect("written");
    assert_eq!(running.code(), Some(3), "that of the program");
    assert!(!is_gone(daemon));
    send(daemon, Signal::SIGKILL);
}
