//! While the program runs: signals, the terminal, its environment, and nested locks.

use std::process::Command;

use nix::sys::signal::Signal;
use zoolock_test_support::{fresh_path, shared_probe};

use crate::util::{
    Beside, RUN, UNTIL_TOLD, await_nodes, code_of, in_terminal, is_gone, run, shell, zoolock,
};

/// Reports its start and its signals, and ends on TERM.
const LISTENS: &str = "
    for signal in INT HUP QUIT USR1 USR2; do trap \"echo caught $signal\" $signal; done
    trap 'echo caught TERM; exit 7' TERM
    echo inside $$
    while :; do sleep 0.05; done";

/// A run inside a run, whose program the caller appends.
fn zoolock_inside(outer: &str, inner: &str) -> Command {
    let mut command = zoolock(&[]);
    command.args(RUN.split(' ')).args([outer, zoolock_program()]);
    command.args(RUN.split(' ')).arg(inner);
    command
}

fn zoolock_program() -> &'static str {
    env!("CARGO_BIN_EXE_zoolock")
}

#[test]
fn run_forwards_signals_and_holds_until_the_program_ends() {
    let path = fresh_path("handed-on");
    let mut running = Beside::start(run(&[], &path, LISTENS));
    let inside = running.is_inside();
    for signal in ["INT", "HUP", "QUIT", "USR1", "USR2"] {
        running.signal(format!("SIG{signal}").parse().expect("a signal"));
        running.says(&format!("caught {signal}"));
        assert!(!is_gone(inside));
        await_nodes(&path, 1);
    }
    running.signal(Signal::SIGTERM);
    running.says("caught TERM");
    assert_eq!(running.code(), Some(7));
    await_nodes(&path, 0);
}

#[test]
fn ctrl_c_goes_to_the_program() {
    let path = fresh_path("ctrl-c-running");
    let mut running = in_terminal(run(&[], &path, LISTENS));
    running.exp_string("inside").expect("it runs");
    running.send_control('c').expect("sent");
    running.exp_string("caught INT").expect("it was told");
    await_nodes(&path, 1);
    running.send_control('\\').expect("sent");
    running.exp_string("caught QUIT").expect("it was told");
    let other = Beside::start(run(&["-n"], &path, "true")).code();
    assert_eq!(other, Some(1), "the lock is not held any more");
    drop(running);

    let path = fresh_path("ctrl-c-deadly");
    let mut running = in_terminal(run(&[], &path, "echo inside $$; exec sleep 1000"));
    running.exp_string("inside").expect("it runs");
    running.send_control('c').expect("sent");
    assert_eq!(code_of(&running), 128 + Signal::SIGINT as i32);
    await_nodes(&path, 0);
}

#[test]
fn terminal_serves_the_program_and_then_the_shell() {
    let path = fresh_path("terminal");
    let mut reading = in_terminal(run(&[], &path, "read line; echo \"it read $line\""));
    reading.send_line("hello").expect("sent");
    reading.exp_string("it read hello").expect("read");
    assert_eq!(code_of(&reading), 0);

    let mut script = Command::new("sh");
    let command =
        format!("{} {RUN} {path} true; read line; echo \"then $line\"", zoolock_program());
    script.args(["-c", &command]);
    script.env("ZOOKEEPER_CONNECT", zoolock_test_support::connect_string());
    let mut script = in_terminal(script);
    script.send_line("there").expect("sent");
    script.exp_string("then there").expect("the script reads on");
    assert_eq!(code_of(&script), 0);
}

#[test]
fn program_in_a_pipeline_may_read_the_terminal() {
    let path = fresh_path("pipeline");
    let mut script = Command::new("bash");
    let program = "read line </dev/tty; echo \"it read $line\"";
    let command = format!("echo piped | {} {RUN} {path} sh -c '{program}'", zoolock_program());
    script.args(["--norc", "--noprofile", "-ic", &command]);
    script.env("ZOOKEEPER_CONNECT", zoolock_test_support::connect_string());
    let mut script = in_terminal(script);
    script.send_line("hello").expect("sent");
    script.exp_string("it read hello").expect("read");
    assert_eq!(code_of(&script), 0);
}

#[test]
fn ctrl_z_stops_run_in_a_shell_and_fg_continues_it() {
    let path = fresh_path("ctrl-z");
    let mut shell = shell();
    let program = "while read line; do echo \"read:$line\"; done; exit 3";
    let command = format!("{} {RUN} {path} sh -c '{program}'", zoolock_program());
    shell.send_line(&command).expect("sent");
    shell.send_line("one").expect("sent");
    shell.exp_string("read:one").expect("it reads");
    shell.send_control('z').expect("sent");
    shell.exp_string("Stopped").expect("the shell has noticed");
    shell.exp_string("ready> ").expect("the shell is back");
    await_nodes(&path, 1);
    shell.send_line("fg").expect("sent");
    shell.send_line("two").expect("sent");
    shell.exp_string("read:two").expect("it reads again");
    shell.send_control('d').expect("sent");
    shell.exp_string("ready> ").expect("the shell is back");
    shell.send_line("echo code:$?").expect("sent");
    shell.exp_string("code:3").expect("its own code");
    await_nodes(&path, 0);
    // An interactive shell ignores ending signals.
    shell.send_line("exit 0").expect("sent");
    assert_eq!(code_of(&shell), 0);
}

#[test]
fn program_knows_its_lock() {
    let path = fresh_path("environment");
    let script = format!(
        "echo path $ZOOLOCK_PATH; echo token $ZOOLOCK_TOKEN; echo node $ZOOLOCK_NODE; {UNTIL_TOLD}"
    );
    let mut running = Beside::start(run(&[], &path, &script));
    assert_eq!(running.says("path "), path);
    let (token, node) = (running.says("token "), running.says("node "));
    running.is_inside();
    let stat = shared_probe().expect("probe").stat(&format!("{path}/{node}"));
    let stat = stat.expect("asked").expect("its node");
    assert_eq!(token, stat.czxid.to_string());
    let hexadecimal = format!("{:#x}", stat.czxid);
    for (asked, wanted) in [(token.as_str(), 0), (&hexadecimal, 0), ("1", 1), ("0x1", 1)] {
        let mut verify = Beside::start(zoolock(&["verify", &path, asked]));
        assert_eq!(verify.code(), Some(wanted), "{asked}");
    }
    running.let_go();
    assert_eq!(running.code(), Some(0));
    let mut verify = Beside::start(zoolock(&["verify", &path, &token]));
    assert_eq!(verify.code(), Some(1), "released");
}

#[test]
fn nested_run_holds_both_locks_and_forwards_signals() {
    let (outer, inner) = (fresh_path("outer"), fresh_path("inner"));
    let mut command = zoolock_inside(&outer, &inner);
    command.args(["sh", "-c", LISTENS]);
    let mut nested = Beside::start(command);
    nested.is_inside();
    for path in [&outer, &inner] {
        let mut other = Beside::start(run(&["-n"], path, "true"));
        assert_eq!(other.code(), Some(1), "{path} is not held");
    }
    nested.signal(Signal::SIGUSR1);
    nested.says("caught USR1");
    nested.signal(Signal::SIGTERM);
    assert_eq!(nested.code(), Some(7));
    await_nodes(&inner, 0);
    await_nodes(&outer, 0);
}

#[test]
fn nested_run_shares_the_terminal() {
    let (outer, inner) = (fresh_path("outer-terminal"), fresh_path("inner-terminal"));
    let mut command = zoolock_inside(&outer, &inner);
    command.args(["sh", "-c", "read line; echo \"it read $line\"; exec sleep 1000"]);
    let mut nested = in_terminal(command);
    nested.send_line("hello").expect("sent");
    nested.exp_string("it read hello").expect("read");
    nested.send_control('c').expect("sent");
    assert_eq!(code_of(&nested), 128 + Signal::SIGINT as i32);
    await_nodes(&inner, 0);
    await_nodes(&outer, 0);
}
