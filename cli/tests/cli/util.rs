//! Helpers that start the command, with pipes or in a terminal, and wait for its output and effects.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rexpect::session::{PtySession, spawn_command};
use zoolock::Client;
use zoolock_test_support::{connect_string, wait_until};

pub(crate) use common::{Beside, SOON, await_nodes, lock_of, send, shared_address, shared_proxy};
use common::{client_of, state, with_all_signals};

/// Reports its start, and ends with its input.
pub(crate) const UNTIL_TOLD: &str = "echo inside $$; cat > /dev/null";

/// `run` with the longest session of the servers, so that a busy machine loses none.
pub(crate) const RUN: &str = "run --session-timeout 40";

/// Returns `zoolock` with these arguments, on the shared server.
pub(crate) fn zoolock(arguments: &[&str]) -> Command {
    zoolock_at(&connect_string(), arguments)
}

pub(crate) fn zoolock_at(hosts: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zoolock"));
    command.args(arguments).env("ZOOKEEPER_CONNECT", hosts);
    command
}

/// `zoolock run` with a shell script.
pub(crate) fn run(options: &[&str], path: &str, script: &str) -> Command {
    let run = if options.contains(&"--session-timeout") { "run" } else { RUN };
    let mut command = zoolock(&run.split(' ').collect::<Vec<_>>());
    command.args(options).args([path, "sh", "-c", script]);
    command
}

/// Waits for a command with a short deadline. A busy machine may exceed it before the connection, which is
/// not the subject of a test, so the command starts again.
#[track_caller]
pub(crate) fn once_connected(start: impl Fn() -> Beside) -> Beside {
    let mut ended = start();
    wait_until("it connects within its deadline", SOON, || {
        let is_late = ended.code() == Some(69);
        if is_late {
            ended = start();
        }
        !is_late
    });
    ended
}

/// Whether the process has ended. Its parent may not have reaped it yet.
pub(crate) fn is_gone(process: u32) -> bool {
    let state = state(Path::new(&format!("/proc/{process}")));
    state.is_none_or(|state| state == 'Z')
}

pub(crate) fn is_stopped(process: u32) -> bool {
    state(Path::new(&format!("/proc/{process}"))) == Some('T')
}

#[track_caller]
pub(crate) fn await_gone(process: u32) -> Duration {
    wait_until("the process has ended", SOON, || is_gone(process))
}

/// The command in a new terminal.
#[track_caller]
pub(crate) fn in_terminal(command: Command) -> PtySession {
    println!("in a terminal: {command:?}");
    spawn_command(with_all_signals(&command), Some(SOON.as_millis() as u64)).expect("a terminal")
}

/// `zoolock` in a new terminal of this size.
#[track_caller]
pub(crate) fn in_terminal_of(columns: usize, rows: usize, arguments: &[&str]) -> PtySession {
    let (size, program) =
        (format!("stty cols {columns} rows {rows}"), env!("CARGO_BIN_EXE_zoolock"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{size}; exec {program} {}", arguments.join(" "))]);
    shell.env("ZOOKEEPER_CONNECT", connect_string());
    in_terminal(shell)
}

/// Returns the text that a terminal shows. rexpect reads each byte as a character.
pub(crate) fn decoded(bytes: &str) -> String {
    let bytes = bytes.chars().map(|byte| byte as u8);
    String::from_utf8(bytes.collect()).expect("text")
}

/// Waits for the end of the process in a terminal.
#[track_caller]
pub(crate) fn code_of(terminal: &PtySession) -> i32 {
    let status = terminal.process().wait().expect("can be waited for");
    match status {
        nix::sys::wait::WaitStatus::Exited(_, code) => code,
        other => panic!("{other:?}"),
    }
}

/// Returns a client of the test itself, on the shared server.
pub(crate) fn client() -> Client {
    client_of(&connect_string(), Duration::from_secs(40))
}

/// A file of the test. Its drop deletes it.
pub(crate) struct Scratch {
    _folder: tempfile::TempDir,
    pub(crate) file: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        Scratch { _folder: folder, file }
    }

    pub(crate) fn name(&self) -> &str {
        self.file.to_str().expect("a plain name")
    }
}

/// An interactive shell in a terminal, with the shared server.
pub(crate) fn shell() -> PtySession {
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]);
    shell.env("ZOOKEEPER_CONNECT", connect_string());
    shell.env("PS1", "ready> ");
    let mut shell = in_terminal(shell);
    shell.exp_string("ready> ").expect("a shell");
    shell
}

/// The supervisor of a `zoolock run`.
#[track_caller]
pub(crate) fn supervisor_of(zoolock: u32) -> u32 {
    let is_supervisor = |child: &u32| {
        let command = std::fs::read_to_string(format!("/proc/{child}/cmdline"));
        command.is_ok_and(|command| command.contains("--exec-supervisor"))
    };
    children_of(zoolock).into_iter().find(is_supervisor).expect("a supervisor")
}

/// The children of all threads of a process.
pub(crate) fn children_of(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("its threads");
    let mut children = Vec::new();
    for thread in threads.flatten() {
        let of_thread = std::fs::read_to_string(thread.path().join("children"));
        let of_thread = of_thread.unwrap_or_default();
        let numbers = of_thread.split_whitespace().map(|child| child.parse().expect("a process"));
        children.extend(numbers.collect::<Vec<u32>>());
    }
    children
}
