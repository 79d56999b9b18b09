//! Helpers that start the command, with pipes or in a terminal, and wait for its output and its effects.

use std::borrow::BorrowMut;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::wait::WaitStatus;
use rexpect::session::{PtySession, spawn_command};
use serde_json::Value;
use zoolock::{Client, Contender, DistributedLock, Guard, LockOptions};

pub(crate) use common::*;

/// A script that reports its start, and ends when its standard input ends.
pub(crate) const UNTIL_TOLD: &str = "echo inside $$; cat > /dev/null";

/// A script that reports its token, its start and each signal that it receives, and ends on TERM.
pub(crate) const LISTENS: &str = "
    for signal in INT HUP QUIT USR1 USR2; do trap \"echo caught $signal\" $signal; done
    trap 'echo caught TERM; exit 7' TERM
    echo token $ZOOLOCK_TOKEN; echo inside $$
    while :; do sleep 0.05; done";

/// The path of the command under test.
pub(crate) const ZOOLOCK: &str = env!("CARGO_BIN_EXE_zoolock");

/// Returns the command `zoolock` with these arguments, for the shared server.
pub(crate) fn zoolock(arguments: &[&str]) -> Command {
    zoolock_at(&connect_string(), arguments)
}

pub(crate) fn zoolock_at(hosts: &str, arguments: &[&str]) -> Command {
    let mut command = at(hosts, ZOOLOCK);
    command.args(arguments);
    command
}

/// Returns a command for these servers, with the longest session timeout that they grant, for busy machines.
fn at(hosts: &str, program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("ZOOKEEPER_CONNECT", hosts).env("ZOOKEEPER_SESSION_TIMEOUT", "40");
    command
}

/// Returns the command `zoolock run` with a shell script.
pub(crate) fn run(options: &[&str], path: &str, script: &str) -> Command {
    zoolock(&[&["run"], options, &[path, "sh", "-c", script]].concat())
}

/// Starts `zoolock run` with a shell script.
pub(crate) fn runs(options: &[&str], path: &str, script: &str) -> Beside {
    Beside::start(run(options, path, script))
}

/// Starts `zoolock run` with a shell script, and waits until the script has reported its start.
#[track_caller]
pub(crate) fn started(options: &[&str], path: &str, script: &str) -> Beside {
    let running = runs(options, path, script);
    running.is_inside();
    running
}

/// Closes the standard input of a command, which ends because of that, and returns its exit code.
#[track_caller]
pub(crate) fn let_end(running: &mut Beside) -> Option<i32> {
    running.let_go();
    running.code()
}

/// Sends a signal to a command, and returns its exit code.
#[track_caller]
pub(crate) fn end_by(signal: Signal, running: &mut Beside) -> Option<i32> {
    running.signal(signal);
    running.code()
}

/// Starts `zoolock lead` with a shell script.
pub(crate) fn lead(options: &[&str], path: &str, script: &str) -> Beside {
    Beside::start(zoolock(&[&["lead"], options, &[path, "sh", "-c", script]].concat()))
}

/// Returns a command that runs a script in this shell, for the shared server.
pub(crate) fn in_shell(shell: &str, script: &str) -> Command {
    let mut words = shell.split(' ');
    let mut command = at(&connect_string(), words.next().expect("a shell"));
    command.args(words).args(["-c", script]);
    command
}

/// Returns `zoolock` run by unshare(1), or `None` if that is not permitted.
pub(crate) fn unshared(options: &[&str], arguments: &[&str]) -> Option<Command> {
    let unshare = |program, arguments: &[&str]| {
        let mut command = at(&connect_string(), "unshare");
        command.args(options).arg(program).args(arguments);
        command
    };
    let tried = unshare("true", &[]).output();
    if tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        return Some(unshare(ZOOLOCK, arguments));
    }
    println!("skipped: unshare is not possible: {tried:?}");
    None
}

/// Runs a command that ends by itself. Returns its exit code, output and errors.
#[track_caller]
pub(crate) fn ends(mut command: impl BorrowMut<Command>) -> (Option<i32>, String, String) {
    let command = command.borrow_mut();
    let ended = command.output().expect("run");
    let [said, errors] = [ended.stdout, ended.stderr].map(|said| String::from_utf8(said).unwrap());
    println!("{command:?}: {}\n{said}{errors}", ended.status);
    (ended.status.code(), said, errors)
}

/// Runs `zoolock`, which ends by itself. Returns its exit code and output.
#[track_caller]
pub(crate) fn output(arguments: &[&str]) -> (Option<i32>, String) {
    let (code, said, _) = ends(zoolock(arguments));
    (code, said)
}

/// Runs `zoolock`, which must succeed, and returns its output.
#[track_caller]
pub(crate) fn prints(arguments: &[&str]) -> String {
    let (code, said) = output(arguments);
    assert_eq!(code, Some(0));
    said
}

/// Runs `zoolock`, which must succeed, and returns the JSON that it prints.
#[track_caller]
pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&prints(arguments)).expect("JSON")
}

/// Returns whether another client holds the lock.
#[track_caller]
pub(crate) fn is_taken(path: &str) -> bool {
    !lock_of(&client(), path).try_lock().expect("an answer")
}

/// Returns whether a process has ended, even if its parent has not reaped it yet.
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

/// Waits until nothing is left of a process, which means that its parent has reaped it.
#[track_caller]
pub(crate) fn await_buried(process: u32) {
    let entry = format!("/proc/{process}");
    wait_until("it is buried", SOON, || !Path::new(&entry).exists());
}

/// A program in its own terminal.
pub(crate) struct Terminal(pub(crate) PtySession);

impl Terminal {
    #[track_caller]
    pub(crate) fn with(command: Command) -> Terminal {
        println!("in a terminal: {command:?}");
        let time = Some(SOON.as_millis() as u64);
        let mut terminal = spawn_command(with_all_signals(&command), time).expect("a terminal");
        // With this setting, dropping the terminal also kills an interactive shell, which ignores TERM.
        terminal.process_mut().set_kill_timeout(Some(0));
        Terminal(terminal)
    }

    /// Starts `zoolock` in a terminal of this size.
    #[track_caller]
    pub(crate) fn of(columns: usize, rows: usize, arguments: &[&str]) -> Terminal {
        let size = format!("stty cols {columns} rows {rows}");
        let script = format!("{size}; exec {ZOOLOCK} {}", arguments.join(" "));
        Terminal::with(in_shell("sh", &script))
    }

    /// Starts an interactive shell in a terminal, for the shared server.
    pub(crate) fn shell() -> Terminal {
        let mut shell = at(&connect_string(), "bash");
        shell.args(["--norc", "--noprofile", "-i"]).env("PS1", "ready> ");
        let mut shell = Terminal::with(shell);
        shell.shows("ready> ");
        shell
    }

    /// Waits for this text, and returns the text before it. rexpect treats each byte as a character.
    #[track_caller]
    pub(crate) fn shows(&mut self, text: &str) -> String {
        let bytes: String = text.bytes().map(char::from).collect();
        decoded(&self.0.exp_string(&bytes).expect(text))
    }

    /// Types a line, and waits for this text.
    #[track_caller]
    pub(crate) fn types(&mut self, line: &str, text: &str) -> String {
        self.0.send_line(line).expect("sent");
        self.shows(text)
    }

    /// Presses a key with Ctrl.
    #[track_caller]
    pub(crate) fn presses(&mut self, key: char) {
        self.0.send_control(key).expect("sent");
    }

    /// Returns all remaining text, up to the end.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> String {
        decoded(&self.0.exp_eof().expect("it has ended"))
    }

    /// Waits until the process has ended, and returns its exit code.
    #[track_caller]
    pub(crate) fn code(&self) -> i32 {
        match self.0.process().wait().expect("can be waited for") {
            WaitStatus::Exited(_, code) => code,
            other => panic!("{other:?}"),
        }
    }
}

fn decoded(bytes: &str) -> String {
    String::from_utf8(bytes.chars().map(|byte| byte as u8).collect()).expect("text")
}

/// Returns a client for the test itself, on the shared server.
pub(crate) fn client() -> Client {
    client_of(&connect_string(), Duration::from_secs(40))
}

/// Acquires the lock on behalf of the test itself.
#[track_caller]
pub(crate) fn held(path: &str) -> Guard {
    held_as("the test", path)
}

#[track_caller]
pub(crate) fn held_as(identity: &str, path: &str) -> Guard {
    let options = LockOptions::new().identity(identity);
    let lock = DistributedLock::with_options(&client(), path, options).expect("a path");
    lock.acquire().expect("locked")
}

/// Returns all clients that hold the lock or wait for it.
#[track_caller]
pub(crate) fn contenders(path: &str) -> Vec<Contender> {
    client().contenders(path).expect("contenders")
}

/// Creates the node of a contender, which exists until the probe is dropped.
#[track_caller]
pub(crate) fn contends(probe: &Probe, path: &str, identity: impl AsRef<[u8]>) -> String {
    probe.create(&format!("{path}/lock-"), identity.as_ref(), true, true).expect("made")
}

pub(crate) fn probe() -> Probe {
    shared_probe().expect("probe")
}

/// Deletes the only node of a lock, as an operator might.
#[track_caller]
pub(crate) fn delete_node(path: &str) {
    let node = await_nodes(path, 1).remove(0);
    probe().delete(&format!("{path}/{node}")).expect("deleted");
}

/// Returns the process id of the supervisor of `zoolock run`.
#[track_caller]
pub(crate) fn supervisor_of(zoolock: u32) -> u32 {
    let is_supervisor = |child: &u32| {
        let command = std::fs::read_to_string(format!("/proc/{child}/cmdline"));
        command.is_ok_and(|command| command.contains("--exec-supervisor"))
    };
    children_of(zoolock).into_iter().find(is_supervisor).expect("a supervisor")
}

/// Returns the process ids of the children of all threads of a process.
pub(crate) fn children_of(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("its threads");
    let children = threads.flatten().map(|thread| thread.path().join("children"));
    let children = children.flat_map(std::fs::read_to_string).collect::<String>();
    children.split_whitespace().map(|child| child.parse().expect("a process")).collect()
}
