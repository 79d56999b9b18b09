//! Stopped processes: by Ctrl-Z in shells of all kinds, or by a stop of zoolock alone.

use rexpect::session::PtySession;
use zoolock_test_support::{fresh_path, wait_until};

use crate::util::{
    RUN, SOON, await_nodes, client, code_of, in_terminal, is_stopped, lock_of, run, shell,
};

/// Reports its start, and the lines that it reads.
const READS: &str = "echo inside $$; while read line; do echo \"read:$line\"; done";
/// Reports its start and reads nothing. It starts no process: dash uses vfork, and a child that Ctrl-Z stops
/// before its exec keeps dash itself from stopping.
const ENDLESS: &str = "echo inside $$; exec sleep 1000";

/// Waits for the program, and returns its process id.
fn inside(terminal: &mut PtySession) -> u32 {
    // The terminal also echoes the command, but with a dollar there. It is read byte by byte: without
    // the line's end, half of the number would do.
    let (_, said) = terminal.exp_regex("inside [0-9]+\r").expect("it runs");
    said["inside ".len()..].trim_end().parse().expect("a process")
}

#[test]
fn ctrl_z_stops_a_program_with_redirected_input() {
    let path = fresh_path("ctrl-z-pipe");
    let mut shell = shell();
    let zoolock = env!("CARGO_BIN_EXE_zoolock");
    let command = format!("{zoolock} {RUN} {path} sh -c '{ENDLESS}' </dev/null");
    shell.send_line(&command).expect("sent");
    let program = inside(&mut shell);
    stop_and_go_on(&mut shell, program);
    await_nodes(&path, 0);
}

#[test]
fn ctrl_z_stops_a_program_brought_to_the_foreground() {
    let path = fresh_path("ctrl-z-fg");
    let mut shell = shell();
    let zoolock = env!("CARGO_BIN_EXE_zoolock");
    let command = format!("{zoolock} {RUN} {path} sh -c '{ENDLESS}' &");
    shell.send_line(&command).expect("sent");
    let program = inside(&mut shell);
    shell.send_line("fg").expect("sent");
    shell.exp_string("zoolock run").expect("it is fetched");
    // The shell does this first.
    wait_until("the shell has given its terminal away", SOON, || !is_of_the_shell(program));
    stop_and_go_on(&mut shell, program);
    await_nodes(&path, 0);
}

/// Whether the shell itself is in the foreground of the process's terminal.
fn is_of_the_shell(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    // Fields: state, parent, group, session, terminal, and its foreground group. The shell leads the session.
    let mut fields = stat.rsplit_once(") ").expect("its state").1.split(' ');
    let (session, foreground) = (fields.nth(3), fields.nth(1));
    session == foreground
}

/// Presses Ctrl-Z, types `fg`, and presses Ctrl-C in the end.
fn stop_and_go_on(shell: &mut PtySession, program: u32) {
    shell.send_control('z').expect("sent");
    shell.exp_string("Stopped").expect("the shell has noticed");
    wait_until("the program has stopped", SOON, || is_stopped(program));
    shell.exp_string("ready> ").expect("the shell is back");
    shell.send_line("fg").expect("sent");
    wait_until("the program goes on", SOON, || !is_stopped(program));
    shell.send_control('c').expect("sent");
    shell.exp_string("ready> ").expect("the shell is back");
    shell.send_line("echo code:$?").expect("sent");
    shell.exp_string("code:130").expect("ended by Ctrl-C");
    shell.send_line("exit 0").expect("sent");
    assert_eq!(code_of(shell), 0);
}

#[test]
fn ctrl_z_does_nothing_without_a_shell() {
    let path = fresh_path("ctrl-z-orphan");
    // No shell is above it, as with `ssh -t` or in a container.
    let mut running = in_terminal(run(&[], &path, READS));
    inside(&mut running);
    running.send_control('z').expect("sent");
    running.send_line("on").expect("sent");
    running.exp_string("read:on").expect("it reads on");
    running.send_control('d').expect("sent");
    assert_eq!(code_of(&running), 0);
}

#[test]
fn waiter_can_be_stopped_and_continued() {
    let (client, path) = (client(), fresh_path("ctrl-z-waiting"));
    let lock = lock_of(&client, &path);
    lock.lock().expect("locked");
    let mut shell = shell();
    let program = env!("CARGO_BIN_EXE_zoolock");
    let command = format!("{program} {RUN} {path} sh -c 'echo inside $$'");
    shell.send_line(&command).expect("sent");
    await_nodes(&path, 2);
    shell.send_control('z').expect("sent");
    shell.exp_string("Stopped").expect("the shell has noticed");
    shell.send_line("fg").expect("sent");
    lock.unlock().expect("unlocked");
    inside(&mut shell);
    shell.send_line("exit 0").expect("sent");
    assert_eq!(code_of(&shell), 0);
}
