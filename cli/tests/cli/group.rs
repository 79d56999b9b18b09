//! Processes that the program has started and left behind in its process group.

use nix::sys::signal::Signal;
use zoolock_test_support::{Direction, fresh_path, wait_until};

use crate::util::{Beside, SOON, Scratch, await_gone, await_nodes, is_gone, run, zoolock_at};

#[test]
fn the_lock_is_held_until_the_last_of_the_group_has_ended() {
    let path = fresh_path("left-behind");
    // A shell closes the standard input of its background processes; this keeps a copy of it.
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
fn what_takes_longer_to_end_than_the_program_is_waited_for() {
    let path = fresh_path("tidies-up");
    // TERM ends the shell at once.
    let script = "sh -c 'trap \"sleep 0.5; exit\" TERM; echo child $$; while :; do sleep 0.05; done' & \
         echo inside $$; wait";
    let mut running = Beside::start(run(&[], &path, script));
    let child = running.says("child ").parse().expect("a process");
    running.signal(Signal::SIGTERM);
    assert_eq!(running.code(), Some(128 + Signal::SIGTERM as i32));
    assert!(is_gone(child), "it was still tidying up");
}

#[test]
fn what_has_left_the_group_is_buried_when_it_ends() {
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
fn what_has_left_the_group_is_not_waited_for() {
    let path = fresh_path("daemon");
    let script = "setsid sh -c 'echo daemon $$; exec sleep 1000' & read line";
    let mut running = Beside::start(run(&[], &path, script));
    let daemon = running.says("daemon ").parse().expect("a process");
    running.let_go();
    assert_eq!(running.code(), Some(1), "read has found the end");
    assert!(!is_gone(daemon));
    crate::util::send(daemon, Signal::SIGKILL);
}

#[test]
fn what_leaves_the_group_after_the_program_has_ended_is_not_waited_for() {
    let path = fresh_path("late-daemon");
    let scratch = Scratch::new();
    let pipe = scratch.name();
    // The process cannot open the pipe before the test does.
    let script = format!(
        "mkfifo {pipe}; sh -c 'read go < {pipe}; exec setsid sleep 1000' & \
         echo inside $$ daemon $!; exit 3"
    );
    let mut running = Beside::start(run(&[], &path, &script));
    let said = running.says("inside ");
    let (inside, daemon) = said.split_once(" daemon ").expect("two processes");
    // Wait until zoolock knows that the group has ended.
    let program = format!("/proc/{inside}");
    wait_until("the program is buried", SOON, || !std::path::Path::new(&program).exists());
    std::fs::write(pipe, "go\n").expect("written");
    assert_eq!(running.code(), Some(3), "that of the program");
    let daemon = daemon.parse().expect("a process");
    assert!(!is_gone(daemon));
    crate::util::send(daemon, Signal::SIGKILL);
}

/// timeout(1) moves its command to a separate group.
const IN_ANOTHER_GROUP: &str =
    "timeout 1000 sh -c 'echo inside $$; while :; do sleep 0.05; done'; true";

#[test]
fn what_runs_on_in_another_group_is_waited_for_and_can_be_ended() {
    let path = fresh_path("another-group");
    let mut running = Beside::start(run(&[], &path, &format!("echo shell $$; {IN_ANOTHER_GROUP}")));
    let shell: u32 = running.says("shell ").parse().expect("a process");
    let inside = running.is_inside();
    running.signal(Signal::SIGTERM);
    let shell = format!("/proc/{shell}");
    wait_until("the shell is buried", SOON, || !std::path::Path::new(&shell).exists());
    let mut other = Beside::start(run(&["-n"], &path, "true"));
    assert_eq!(other.code(), Some(1), "what the shell has started still runs");
    assert!(!is_gone(inside));
    // The signal may come before zoolock knows that only processes in other groups are left, so it
    // is repeated.
    wait_until("it has ended", SOON, || {
        running.signal(Signal::SIGTERM);
        is_gone(inside)
    });
    assert_eq!(running.code(), Some(128 + Signal::SIGTERM as i32));
    await_nodes(&path, 0);
}

#[test]
fn what_runs_on_in_another_group_dies_with_zoolock() {
    let path = fresh_path("another-group-killed");
    let running = Beside::start(run(&[], &path, IN_ANOTHER_GROUP));
    let inside = running.is_inside();
    running.signal(Signal::SIGKILL);
    await_gone(inside);
}

#[test]
fn what_runs_in_another_group_is_ended_before_the_next_one_is_let_in() {
    let path = fresh_path("another-group-lost");
    let proxy = crate::util::shared_proxy();
    let hosts = proxy.connect_string();
    let mut running =
        Beside::start(zoolock_at(&hosts, &["run", &path, "sh", "-c", IN_ANOTHER_GROUP]));
    let inside = running.is_inside();
    proxy.black_hole(Direction::Both);
    let client = crate::util::client();
    let rival = crate::util::lock_of(&client, &path);
    rival.lock().expect("locked");
    assert!(is_gone(inside), "it was there when the rival was let in");
    assert_eq!(running.code(), Some(74));
}
