//! Limits of processes, memory and files. A program has ended before the next grant, or it never started.

use std::fmt::Debug;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, process, thread};

use nix::sys::signal::Signal;
use zoolock_test_support::{Late, connect_string, fresh_path, wait_until};

use crate::util::{
    Beside, SOON, await_gone, await_nodes, client, is_gone, is_stopped, lock_of, run, send,
    supervisor_of,
};

/// A program that needs no other process.
pub(crate) const ALONE: &str = "echo inside $$; exec cat";

/// A program that prints `inside` from another process group.
pub(crate) const IN_ANOTHER_GROUP: &str = "timeout 1000 sh -c 'echo inside $$; exec cat'; true";

/// Other users, with a copy of the command that they can run.
struct Users {
    by_number: bool,
    folder: tempfile::TempDir,
}

/// A user without other processes, as a prefix that runs a command as that user. A process limit counts per
/// user, and root has none.
struct User(Vec<String>);

impl Users {
    /// Returns `None` where the tests may not switch users.
    fn new() -> Option<Users> {
        let folder = tempfile::tempdir().expect("a folder");
        let users = [true, false].map(|by_number| (by_number, next_user(by_number)));
        let is_possible = |user: &User| {
            let tried = user.does(&Command::new("true")).output();
            tried.is_ok_and(|tried| tried.status.success())
        };
        let Some((by_number, _)) = users.into_iter().find(|(_, user)| is_possible(user)) else {
            println!("skipped: no other user, neither by setpriv nor by unshare");
            return None;
        };
        let everybody = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), everybody).expect("opened");
        // Another process copies it. A file that this process has open for writing cannot run.
        let mut copy = Command::new("cp");
        copy.arg(env!("CARGO_BIN_EXE_zoolock")).arg(folder.path().join("zoolock"));
        assert!(copy.status().expect("cp").success());
        Some(Users { by_number, folder })
    }

    fn next(&self) -> User {
        next_user(self.by_number)
    }

    /// `zoolock` of a user with at most this many processes and threads.
    fn zoolock(&self, user: &User, most: u32, arguments: &[&str]) -> Command {
        let zoolock = self.folder.path().join("zoolock");
        user.does(limited(&format!("--nproc={most}:{most}"), &zoolock).args(arguments))
    }
}

/// A user with an unused number, or one in a user namespace, which has its own process count.
fn next_user(by_number: bool) -> User {
    static USERS: AtomicU32 = AtomicU32::new(0);
    let id = 30_000 + (process::id() * 64 + USERS.fetch_add(1, Ordering::SeqCst)) % 30_000;
    let switch = match by_number {
        true => format!("setpriv --reuid={id} --regid={id} --clear-groups"),
        false => "unshare --user".to_owned(),
    };
    User(switch.split(' ').map(str::to_owned).collect())
}

impl User {
    /// Returns the command, run as this user.
    fn does(&self, command: &Command) -> Command {
        let mut switched = Command::new(&self.0[0]);
        switched.args(&self.0[1..]).arg(command.get_program()).args(command.get_args());
        switched.env("ZOOKEEPER_CONNECT", connect_string());
        switched
    }
}

/// A program with a limit in the notation of prlimit(1).
fn limited(limit: &str, program: &Path) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(limit).arg(program).env("ZOOKEEPER_CONNECT", connect_string());
    command
}

/// Changes a limit of a process.
fn limit(process: u32, limit: &str) -> Command {
    let mut prlimit = Command::new("prlimit");
    prlimit.arg(format!("--pid={process}")).arg(limit);
    prlimit
}

/// The system's message.
const NO_FILES: &str = "Too many open files";

/// The outcome of a command under a limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its program ran, and had ended at the next grant.
    Ran,
    /// The command ended without starting its program, with this code and this last line.
    Ended(Option<i32>, String),
}

/// The outcome of a command. It starts again if it connects too late or loses the lock before its program
/// runs, since a busy machine is not the subject.
pub(crate) fn outcome_of(start: impl Fn() -> Command, path: &str) -> Outcome {
    let mut outcome = None;
    wait_until("it is in time", SOON, || {
        let ended = outcome.insert(try_once(start(), path));
        match ended {
            Outcome::Ended(Some(69), words) => words.contains(NO_FILES),
            Outcome::Ended(code, _) => *code != Some(74),
            Outcome::Ran => true,
        }
    });
    outcome.expect("there is one")
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
        return Outcome::Ran;
    }
    let code = running.code();
    said.extend(running.said());
    Outcome::Ended(code, said.pop().unwrap_or_default())
}

/// Stops the command, does the rest, and expects its program to have ended at the next grant.
pub(crate) fn assert_ends_before_the_next(
    running: &Beside,
    inside: u32,
    path: &str,
    rest: impl FnOnce(),
) {
    let late = Late::start();
    running.signal(Signal::SIGSTOP);
    // A busy machine may lose the lock before.
    let is_still = || is_stopped(running.id()) || is_gone(running.id());
    wait_until("it is stopped", SOON, is_still);
    rest();
    let rival = client();
    let rival = lock_of(&rival, path).acquire().expect("locked");
    let beside = if is_gone(inside) { Duration::ZERO } else { await_gone(inside) };
    let late = late.in_all();
    assert!(beside <= late, "two programs for {beside:?}, on a machine that was {late:?} late");
    rival.release().expect("released");
}

/// Starts a command under each limit, all at once, and prints the outcomes.
fn outcomes<L: Debug + Copy + Send>(
    limits: &[L],
    start: impl Fn(L, &str) -> Command + Sync,
) -> Vec<Outcome> {
    let outcomes: Vec<_> = thread::scope(|scope| {
        let begin = |limit: L| {
            let start = &start;
            scope.spawn(move || {
                let path = fresh_path("limited");
                outcome_of(|| start(limit, &path), &path)
            })
        };
        let begun: Vec<_> = limits.iter().map(|limit| begin(*limit)).collect();
        begun.into_iter().map(|one| one.join()).collect()
    });
    for (limit, outcome) in limits.iter().zip(&outcomes) {
        println!("{limit:?}: {outcome:?}");
    }
    let outcomes: Vec<_> =
        outcomes.into_iter().map(|outcome| outcome.expect("never two programs")).collect();
    assert_ne!(outcomes.first(), Some(&Outcome::Ran));
    assert_eq!(outcomes.last(), Some(&Outcome::Ran));
    outcomes
}

#[test]
fn program_under_a_process_limit_is_supervised_or_not_started() {
    let Some(users) = Users::new() else { return };
    let limits: Vec<_> = (3..=20).flat_map(|most| [(most, "run"), (most, "lead")]).collect();
    let outcomes = outcomes(&limits, |(most, subcommand), path| {
        let arguments = [subcommand, "--session-timeout", "8", path, "sh", "-c", ALONE];
        users.zoolock(&users.next(), most, &arguments)
    });
    for outcome in outcomes {
        if let Outcome::Ended(code, words) = outcome {
            assert_eq!(code, Some(71), "{words}");
            assert!(words.starts_with("zoolock: failed to start "), "{words}");
        }
    }
}

/// Returns `zoolock run` with a limit.
fn run_limited(limit: &str, path: &str) -> Command {
    let mut command = limited(limit, Path::new(env!("CARGO_BIN_EXE_zoolock")));
    command.args(["run", "--session-timeout", "8", path, "sh", "-c", IN_ANOTHER_GROUP]);
    command
}

#[test]
fn program_under_a_file_limit_is_supervised_or_not_started() {
    let limits: Vec<_> = (3..=20).collect();
    let outcomes =
        outcomes(&limits, |most, path| run_limited(&format!("--nofile={most}:{most}"), path));
    for outcome in outcomes {
        if let Outcome::Ended(code, words) = outcome {
            // The dynamic loader failed, a process was missing, or the connection had no file.
            let is_right = matches!(code, Some(127 | 71)) || words.contains(NO_FILES);
            assert!(is_right, "{code:?}: {words}");
        }
    }
}

#[test]
fn program_under_a_memory_limit_is_supervised_or_not_started() {
    let megabytes = (8..32).step_by(2).chain((32..=160).step_by(16)).chain([4096_u64]);
    let limits: Vec<_> = megabytes.collect();
    let outcomes = outcomes(&limits, |megabytes, path| {
        let bytes = megabytes << 20;
        run_limited(&format!("--as={bytes}:{bytes}"), path)
    });
    for outcome in outcomes {
        if let Outcome::Ended(code, words) = outcome {
            // A signal ended the command without memory, the dynamic loader failed, or a thread was missing.
            assert!(matches!(code, None | Some(127 | 71)), "{code:?}: {words}");
        }
    }
}

#[test]
fn failed_search_for_the_program_keeps_the_lock() {
    let path = fresh_path("no-look");
    // The shell ends and leaves a process in another group.
    let script = "exec 3<&0; timeout 1000 sh -c 'echo inside $$; exec cat <&3 > /dev/null' & \
         read line";
    let mut running = Beside::start(run(&[], &path, &format!("echo shell $$; {script}")));
    let shell: u32 = running.says("shell ").parse().expect("a process");
    let inside = running.is_inside();
    let supervisor = supervisor_of(running.id());
    assert!(limit(supervisor, "--nofile=3:1024").status().expect("prlimit").success());
    send(shell, Signal::SIGKILL);
    let shell = format!("/proc/{shell}");
    wait_until("the shell is buried", SOON, || !Path::new(&shell).exists());
    let mut other = Beside::start(run(&["-n"], &path, "true"));
    assert_eq!(other.code(), Some(1), "what the shell has started still runs");
    assert!(!is_gone(inside));
    assert!(limit(supervisor, "--nofile=1024:1024").status().expect("prlimit").success());
    running.let_go();
    assert_eq!(running.code(), Some(128 + Signal::SIGKILL as i32));
    await_nodes(&path, 0);
}
