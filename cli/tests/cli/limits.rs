//! Limits on processes, memory and files. The program has either ended before the next grant, or has never started.

use std::fmt::Debug;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, process, thread};

use crate::util::*;

/// A program that starts no other process.
const ALONE: &str = "echo inside $$; exec cat";

/// A program that prints `inside` from a process in another process group.
const IN_ANOTHER_GROUP: &str = "timeout 1000 sh -c 'echo inside $$; exec cat'; true";

/// Returns a command that runs as a user without other processes: process limits count per user, and exempt root.
fn as_next_user() -> Command {
    static USERS: AtomicU32 = AtomicU32::new(0);
    let id = 30_000 + (process::id() * 64 + USERS.fetch_add(1, Ordering::SeqCst)) % 30_000;
    let mut switch = Command::new("setpriv");
    switch.args([format!("--reuid={id}"), format!("--regid={id}")]).arg("--clear-groups");
    switch
}

/// The operating system's error message.
const NO_FILES: &str = "Too many open files";

/// How a command has ended that did not start its program: its exit code and its last line. `None` if the program was
/// started and had ended by the next grant.
type Outcome = Option<(Option<i32>, String)>;

/// Returns the outcome of a command. If a busy machine connects too late, or loses the lock before the program runs,
/// starts the command again.
fn outcome_of(start: impl Fn() -> Command, path: &str) -> Outcome {
    let mut outcome = None;
    wait_until("it is in time", SOON, || {
        outcome = try_once(start(), path);
        match &outcome {
            Some((Some(69), words)) => words.contains(NO_FILES),
            Some((code, _)) => *code != Some(74),
            None => true,
        }
    });
    outcome
}

fn try_once(command: Command, path: &str) -> Outcome {
    let mut running = Beside::start(command);
    let mut said = Vec::new();
    let inside = |said: &[String]| {
        said.iter().find_map(|line| line.strip_prefix("inside ")?.trim().parse::<u32>().ok())
    };
    wait_until("it runs its program or has ended", SOON, || {
        said.extend(running.said());
        inside(&said).is_some() || is_gone(running.id())
    });
    if let Some(inside) = inside(&said) {
        assert_ends_before_the_next(&running, inside, path, || ());
        return None;
    }
    let code = running.code();
    said.extend(running.said());
    Some((code, said.pop().unwrap_or_default()))
}

/// Stops the command, calls `rest`, and expects that the program has ended by the next grant.
pub(crate) fn assert_ends_before_the_next(
    running: &Beside,
    inside: u32,
    path: &str,
    rest: impl FnOnce(),
) {
    let late = Late::start();
    running.signal(Signal::SIGSTOP);
    // On a busy machine, the lock may be lost before the command is stopped.
    let is_still = || is_stopped(running.id()) || is_gone(running.id());
    wait_until("it is stopped", SOON, is_still);
    rest();
    let rival = held(path);
    let beside = if is_gone(inside) { Duration::ZERO } else { await_gone(inside) };
    let late = late.in_all();
    assert!(beside <= late, "two programs for {beside:?}, on a machine that was {late:?} late");
    rival.release().expect("released");
}

/// Runs a command under each of the limits, all at once. The first limit must be too low for the program to start, and
/// the last must not. `is_right` checks the exit code and last line of a command that does not start its program.
fn under_each<L: Debug + Copy + Send>(
    limits: impl IntoIterator<Item = L>,
    start: impl Fn(L, &str) -> Command + Sync,
    is_right: impl Fn(Option<i32>, &str) -> bool + Sync,
) {
    let ran: Vec<bool> = thread::scope(|scope| {
        let begin = |limit| {
            let (start, is_right) = (&start, &is_right);
            scope.spawn(move || {
                let path = fresh_path("limited");
                let outcome = outcome_of(|| start(limit, &path), &path);
                println!("{limit:?}: {outcome:?}");
                assert!(outcome.as_ref().is_none_or(|(code, words)| is_right(*code, words)));
                outcome.is_none()
            })
        };
        let begun: Vec<_> = limits.into_iter().map(begin).collect();
        begun.into_iter().map(|one| one.join().expect("it is right")).collect()
    });
    assert_eq!((ran.first(), ran.last()), (Some(&false), Some(&true)));
}

#[test]
fn program_under_a_process_limit_is_supervised_or_not_started() {
    let tried = as_next_user().arg("true").output();
    if !tried.as_ref().is_ok_and(|tried| tried.status.success()) {
        return println!("skipped: setpriv is not possible: {tried:?}");
    }
    let (folder, copy) = scratch();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("open to all users");
    // Another process makes the copy, because a file that this process has open for writing could not be executed.
    let copied = Command::new("cp").args([ZOOLOCK, &copy]).status();
    assert!(copied.expect("cp").success());
    let limits = (3..=20).flat_map(|most| [(most, "run"), (most, "lead")]);
    let start = |(most, subcommand), path: &str| {
        let mut command = as_next_user();
        command.arg("prlimit").arg(format!("--nproc={most}:{most}")).args([&*copy, subcommand]);
        command.args(["--session-timeout", "8", path, "sh", "-c", ALONE]);
        command.env("ZOOKEEPER_CONNECT", connect_string());
        command
    };
    under_each(limits, start, |code, words| {
        code == Some(71) && words.starts_with("zoolock: failed to start ")
    });
}

/// Returns `zoolock run` under a limit, which is named as in prlimit(1).
fn run_limited(limit: &str, most: u64, path: &str) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--{limit}={most}:{most}")).arg(ZOOLOCK);
    command.args(["run", "--session-timeout", "8", path, "sh", "-c", IN_ANOTHER_GROUP]);
    command.env("ZOOKEEPER_CONNECT", connect_string());
    command
}

#[test]
fn program_under_a_file_or_memory_limit_is_supervised_or_not_started() {
    // Allowed: the dynamic loader fails, a process cannot be started, or the connection gets no file.
    under_each(
        3..=20,
        |most, path| run_limited("nofile", most, path),
        |code, words| matches!(code, Some(127 | 71)) || words.contains(NO_FILES),
    );
    // Allowed: memory is missing (a signal), the dynamic loader fails, or a thread cannot be started.
    under_each(
        (8..32).step_by(2).chain((32..=160).step_by(16)).chain([4096]),
        |megabytes, path| run_limited("as", megabytes << 20, path),
        |code, _| matches!(code, None | Some(127 | 71)),
    );
}

#[test]
fn failed_search_for_the_program_keeps_the_lock() {
    // With this option, the supervisor also has to find out which of its children to wait for.
    [&[][..], &["--leave-daemons"]].into_iter().for_each(failed_search_keeps_the_lock);
}

fn failed_search_keeps_the_lock(options: &[&str]) {
    let path = fresh_path("no-look");
    // The shell ends, but leaves behind a process in another group.
    let script = "exec 3<&0; timeout 1000 sh -c 'echo inside $$; exec cat <&3 > /dev/null' & \
         read line";
    let mut running = runs(options, &path, &format!("echo shell $$; {script}"));
    let shell: u32 = running.says("shell ").parse().expect("a process");
    let inside = running.is_inside();
    let supervisor = supervisor_of(running.id());
    let limit_files = |limit| {
        let arguments = [format!("--pid={supervisor}"), format!("--nofile={limit}")];
        assert!(Command::new("prlimit").args(arguments).status().expect("prlimit").success());
    };
    limit_files("3:1024");
    send(shell, Signal::SIGKILL);
    await_buried(shell);
    assert!(is_taken(&path), "what the shell has started still runs");
    assert!(!is_gone(inside));
    limit_files("1024:1024");
    assert_eq!(let_end(&mut running), Some(128 + Signal::SIGKILL as i32));
    await_nodes(&path, 0);
}
