//! Processes that Ctrl-Z stops, in different kinds of shells.

use std::fs;

use crate::util::*;

/// Reports its start, and then every line that it reads.
const READS: &str = "echo inside $$; while read line; do echo \"read:$line\"; done; exit 3";
/// Reports its start, and reads nothing. The shell must not start a child: dash uses vfork, and dash itself would not
/// stop if Ctrl-Z stopped the child before its exec.
const ENDLESS: &str = "echo inside $$; exec sleep 1000";

/// Waits until the program has started, and returns its process id.
#[track_caller]
fn inside(terminal: &mut Terminal) -> u32 {
    // The terminal also echoes the command, which has `$$` instead of a number. Output is read byte by byte, so the
    // number is complete only with the end of the line.
    let (_, said) = terminal.0.exp_regex("inside [0-9]+\r").expect("it runs");
    said["inside ".len()..].trim_end().parse().expect("a process")
}

/// Starts `zoolock run` in a shell.
fn starts(path: &str, script: &str, rest: &str) -> Terminal {
    let mut shell = Terminal::shell();
    let command = format!("{ZOOLOCK} run {path} sh -c '{script}' {rest}");
    shell.0.send_line(&command).expect("sent");
    shell
}

/// Returns whether the shell itself is in the foreground of the process's terminal.
fn is_of_the_shell(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    // Fields: state, parent, group, session, terminal, the terminal's foreground group. The shell leads the session.
    let mut fields = stat.rsplit_once(") ").expect("its state").1.split(' ');
    let (session, foreground) = (fields.nth(3), fields.nth(1));
    session == foreground
}

/// Presses Ctrl-Z, and waits until the program has stopped and the shell shows its prompt.
#[track_caller]
fn stop(shell: &mut Terminal, program: u32) {
    shell.presses('z');
    shell.shows("Stopped");
    wait_until("the program has stopped", SOON, || is_stopped(program));
    shell.shows("ready> ");
}

/// Waits until the program has ended with this code.
#[track_caller]
fn ended(shell: &mut Terminal, code: i32) {
    shell.shows("ready> ");
    shell.types("echo code:$?", &format!("code:{code}"));
}

#[test]
fn ctrl_z_stops_a_program_with_redirected_input_or_brought_to_the_foreground() {
    for (script, rest) in [(READS, ""), (ENDLESS, "< /dev/null"), (ENDLESS, "&")] {
        let path = fresh_path("ctrl-z");
        let mut shell = starts(&path, script, rest);
        let program = inside(&mut shell);
        if rest == "&" {
            shell.types("fg", "zoolock run");
            // Before it continues the program, the shell puts it in the foreground.
            wait_until("the shell has given its terminal away", SOON, || !is_of_the_shell(program));
        }
        stop(&mut shell, program);
        await_nodes(&path, 1);
        shell.types("fg", "zoolock run");
        wait_until("the program goes on", SOON, || !is_stopped(program));
        if script == READS {
            shell.types("two", "read:two");
            shell.presses('d');
            ended(&mut shell, 3);
        } else {
            shell.presses('c');
            ended(&mut shell, 130);
        }
        await_nodes(&path, 0);
    }
}

#[test]
fn ctrl_z_does_nothing_without_a_shell() {
    // zoolock has no shell as its parent, as with `ssh -t` or in a container.
    let mut running = Terminal::with(run(&[], &fresh_path("ctrl-z-orphan"), READS));
    inside(&mut running);
    running.presses('z');
    running.types("on", "read:on");
    running.presses('d');
    assert_eq!(running.code(), 3);
}

#[test]
fn waiter_can_be_stopped_and_continued() {
    let path = fresh_path("ctrl-z-waiting");
    let lock = held(&path);
    let mut shell = starts(&path, "echo inside $$", "");
    await_nodes(&path, 2);
    shell.presses('z');
    shell.shows("Stopped");
    shell.types("fg", "zoolock run");
    lock.release().expect("released");
    inside(&mut shell);
    ended(&mut shell, 0);
}
