//! Starting the command, with pipes or in a terminal, and waiting for what it says and does.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rexpect::session::{PtySession, spawn_command};
use zoolock::crossbeam_channel::{Receiver, Sender, unbounded};
use zoolock::{Client, DistributedLock};
use zoolock_test_support::{connect_string, shared_probe, wait_until};

/// The longest that anything should take that is not expected to take any time.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Says that it is there, and ends when its input does.
pub(crate) const UNTIL_TOLD: &str = "echo inside $$; cat > /dev/null";

/// `run` with the longest session that the servers give, so that none is lost to a busy machine where
/// that is not what the test is about.
pub(crate) const RUN: &str = "run --session-timeout 40";

/// `zoolock` with these arguments, on the shared server.
pub(crate) fn zoolock(arguments: &[&str]) -> Command {
    zoolock_at(&connect_string(), arguments)
}

pub(crate) fn zoolock_at(hosts: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zoolock"));
    command.args(arguments).env("ZOOKEEPER_CONNECT", hosts);
    command
}

/// `zoolock run` of a shell script.
pub(crate) fn run(options: &[&str], path: &str, script: &str) -> Command {
    let run = if options.contains(&"--session-timeout") { "run" } else { RUN };
    let mut command = zoolock(&run.split(' ').collect::<Vec<_>>());
    command.args(options).args([path, "sh", "-c", script]);
    command
}

/// As people start it at a terminal. Whatever started the tests may ignore signals, as shells let
/// what they start in the background ignore INT, and what is ignored at the start stays ignored.
fn with_all_signals(command: &Command) -> Command {
    let mut all = Command::new("env");
    all.arg("--default-signal").arg(command.get_program());
    all.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => all.env(name, value),
            None => all.env_remove(name),
        };
    }
    all
}

/// A command that runs beside the test; killed when dropped.
pub(crate) struct Beside {
    process: Child,
    input: Option<ChildStdin>,
    said: Receiver<String>,
}

impl Beside {
    pub(crate) fn start(command: Command) -> Beside {
        Beside::spawn(&command, Stdio::piped(), Stdio::piped())
    }

    /// What it says is only heard where there is a pipe for it.
    pub(crate) fn spawn(command: &Command, stdout: Stdio, stderr: Stdio) -> Beside {
        let mut command = with_all_signals(command);
        let command = command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
        let mut process = command.spawn().expect("started");
        let (say, said) = unbounded();
        let id = process.id();
        process.stdout.take().into_iter().for_each(|pipe| listen(id, pipe, say.clone()));
        process.stderr.take().into_iter().for_each(|pipe| listen(id, pipe, say.clone()));
        let input = process.stdin.take();
        Beside { process, input, said }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it says behind `key`, which it may not have said yet.
    #[track_caller]
    pub(crate) fn says(&self, key: &str) -> String {
        let end = Instant::now() + SOON;
        loop {
            let line = self.said.recv_deadline(end);
            let line = line.unwrap_or_else(|error| panic!("it did not say {key:?}: {error}"));
            if let Some((_, value)) = line.split_once(key) {
                return value.trim().to_owned();
            }
        }
    }

    /// Waits until [`UNTIL_TOLD`] runs, and returns its process.
    #[track_caller]
    pub(crate) fn is_inside(&self) -> u32 {
        self.says("inside ").parse().expect("a process")
    }

    /// All that it has said and was not asked for.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.try_iter().collect()
    }

    /// Its input ends.
    pub(crate) fn let_go(&mut self) {
        self.input = None;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.id(), signal);
    }

    /// Waits for its end. What a signal ended has none.
    #[track_caller]
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.status().code()
    }

    /// The same, and which signal it was.
    #[track_caller]
    pub(crate) fn status(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("it has ended", SOON, || {
            status = self.process.try_wait().expect("can be waited for");
            status.is_some()
        });
        status.expect("it has ended")
    }

    /// Stops it and waits until every thread of it stands still.
    pub(crate) fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.id());
        wait_until("it has stopped", SOON, || {
            let tasks = std::fs::read_dir(&tasks).expect("its threads");
            tasks.flatten().all(|task| state(&task.path()) == Some('T'))
        });
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How a command with a short deadline ended. On a busy machine that may be over before it is connected,
/// which is not what a test of it is about: then it is started again.
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

/// It ends when all writers have.
fn listen(id: u32, output: impl Read + Send + 'static, say: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            println!("{id}: {line}");
            let _ = say.send(line);
        }
    });
}

pub(crate) fn send(process: u32, signal: Signal) {
    kill(Pid::from_raw(process.cast_signed()), signal).expect("a process of ours");
}

/// Has the process ended? Its parent may not have asked yet how.
pub(crate) fn is_gone(process: u32) -> bool {
    let state = state(Path::new(&format!("/proc/{process}")));
    state.is_none_or(|state| state == 'Z')
}

pub(crate) fn is_stopped(process: u32) -> bool {
    state(Path::new(&format!("/proc/{process}"))) == Some('T')
}

fn state(process: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[track_caller]
pub(crate) fn await_gone(process: u32) -> Duration {
    wait_until("the process has ended", SOON, || is_gone(process))
}

/// The command in a terminal of its own.
#[track_caller]
pub(crate) fn in_terminal(command: Command) -> PtySession {
    println!("in a terminal: {command:?}");
    spawn_command(with_all_signals(&command), Some(SOON.as_millis() as u64)).expect("a terminal")
}

/// Waits for the end of what runs in a terminal.
#[track_caller]
pub(crate) fn code_of(terminal: &PtySession) -> i32 {
    let status = terminal.process().wait().expect("can be waited for");
    match status {
        nix::sys::wait::WaitStatus::Exited(_, code) => code,
        other => panic!("{other:?}"),
    }
}

/// A client of the test itself, on the shared server.
pub(crate) fn client() -> Client {
    Client::connect(&connect_string(), Duration::from_secs(40)).expect("connect")
}

pub(crate) fn lock_of(client: &Client, path: &str) -> DistributedLock {
    DistributedLock::new(client, path).expect("a good path")
}

/// Waits until so many are in a lock's queue on the shared server.
#[track_caller]
pub(crate) fn await_queue(path: &str, length: usize) -> Duration {
    let probe = shared_probe().expect("probe");
    wait_until("the queue is as long as it should be", SOON, || {
        let nodes = probe.exists(path).expect("exists").then(|| probe.children(path));
        nodes.map_or(0, |nodes| nodes.expect("children").len()) == length
    })
}

/// A file of the test, gone with the folder.
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

/// The address of the shared server, or of the first one of `ZOOKEEPER_CONNECT`.
pub(crate) fn shared_address() -> SocketAddr {
    let servers = connect_string();
    let first = servers.split([',', '/']).next().unwrap_or_default();
    let mut addresses = first.to_socket_addrs().expect("resolve");
    addresses.next().expect("an address")
}

/// One that people would type in, at a terminal, with the shared server.
pub(crate) fn shell() -> PtySession {
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]);
    shell.env("ZOOKEEPER_CONNECT", connect_string());
    shell.env("PS1", "ready> ");
    let mut shell = in_terminal(shell);
    shell.exp_string("ready> ").expect("a shell");
    shell
}

/// The process that watches over a `zoolock run`.
#[track_caller]
pub(crate) fn guard_of(zoolock: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{zoolock}/task/{zoolock}/children"));
    let children = children.expect("its children");
    let mut children = children.split_whitespace();
    let guard = children.find(|child| {
        let command = std::fs::read_to_string(format!("/proc/{child}/cmdline"));
        command.is_ok_and(|command| command.contains("--exec-guard"))
    });
    guard.expect("a guard").parse().expect("a process")
}
