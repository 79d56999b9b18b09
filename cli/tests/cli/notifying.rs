//! Notifications to a service manager, through a real socket, and the systemd unit that requests them.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;
use std::time::Instant;

use crate::util::*;

/// The service manager: the receiving end of NOTIFY_SOCKET.
struct Manager {
    socket: UnixDatagram,
    name: String,
    _folder: tempfile::TempDir,
}

impl Manager {
    fn new(has_file: bool) -> Manager {
        let (_folder, file) = scratch();
        let (address, name) = match has_file {
            true => (SocketAddr::from_pathname(&file), file),
            false => (SocketAddr::from_abstract_name(&file), format!("@{file}")),
        };
        let socket = UnixDatagram::bind_addr(&address.expect("an address")).expect("bound");
        socket.set_read_timeout(Some(SOON)).expect("set");
        Manager { socket, name, _folder }
    }

    fn start(&self, mut command: Command) -> Beside {
        command.env("NOTIFY_SOCKET", &self.name);
        Beside::start(command)
    }

    /// Returns the next message that the manager receives.
    #[track_caller]
    fn receives(&self) -> String {
        let mut message = [0; 4096];
        let length = self.socket.recv(&mut message).expect("a message");
        let message = String::from_utf8_lossy(&message[..length]).into_owned();
        println!("the manager receives {message:?}");
        message
    }
}

#[test]
fn run_notifies_its_position_readiness_and_end() {
    for manager in [true, false].map(Manager::new) {
        let path = fresh_path("notify-run");
        let lock = held(&path);
        let script = format!("echo \"socket:$NOTIFY_SOCKET.\"; {UNTIL_TOLD}");
        let waits = || {
            let waiting = manager.start(run(&[], &path, &script));
            let status = format!("STATUS=waiting for {path}, 1 ahead, held by ");
            assert!(manager.receives().starts_with(&status));
            waiting
        };
        // A waiter that ends before it has acquired the lock never reports that it is ready.
        assert_eq!(end_by(Signal::SIGTERM, &mut waits()), Some(128 + Signal::SIGTERM as i32));
        assert_eq!(manager.receives(), "STOPPING=1\nSTATUS=ending");
        let mut running = waits();
        lock.release().expect("released");
        let ready = manager.receives();
        let token = ready.strip_prefix(&format!("READY=1\nSTATUS=holding {path}, token "));
        assert_eq!(running.says("socket:"), ".", "zoolock speaks for the service");
        running.is_inside();
        let holder = contenders(&path).remove(0);
        assert_eq!(token, Some(&*holder.token.to_string()));
        running.let_go();
        assert_eq!(manager.receives(), "STOPPING=1\nSTATUS=ending");
        assert_eq!(running.code(), Some(0));
        assert_eq!(running.said(), [""; 0], "without -v people are told nothing");
    }
}

#[test]
fn absent_or_deaf_manager_changes_nothing() {
    let path = fresh_path("notify-nobody");
    for socket in ["", "/no/such/socket", "@no such socket", "vsock:2:1234", "nonsense"] {
        let mut command = run(&[], &path, "exit 3");
        command.env("NOTIFY_SOCKET", socket);
        assert_eq!(Beside::start(command).code(), Some(3), "{socket:?}");
    }
    // Send messages until the socket is full.
    let (manager, full) = (Manager::new(true), UnixDatagram::unbound().expect("a socket"));
    full.set_nonblocking(true).expect("set");
    while full.send_to(b"STATUS=full", &manager.name).is_ok() {}
    let begun = Instant::now();
    assert_eq!(manager.start(run(&[], &path, "exit 3")).code(), Some(3));
    assert!(begun.elapsed() < SOON / 4);
}

const UNIT: &str = include_str!("../../systemd/zoolock-lead@.service");

/// Returns the unit's value for the setting `name`.
#[track_caller]
fn says(name: &str) -> &'static str {
    let mut lines = UNIT.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    lines.next().unwrap_or_else(|| panic!("no {name}"))
}

/// The packaged systemd unit, as far as it can be tested without systemd.
#[test]
fn leader_of_the_unit_is_ready_when_it_contends_and_names_who_leads() {
    let (manager, path) = (Manager::new(true), fresh_path("notify-lead"));
    let lock = held(&path);
    let (_folder, program) = scratch();
    std::fs::write(&program, UNTIL_TOLD).expect("written");
    let start = says("ExecStart").replacen("/usr/bin/zoolock", ZOOLOCK, 1);
    // A shell splits these variables into words, as systemd does.
    let mut shell = in_shell("sh", &format!("exec {start}"));
    shell.env("LOCK", says("Environment").replace("LOCK=", "").replace("/services/%i", &path));
    shell.env("OPTIONS", "-v");
    shell.env("PROGRAM", format!("sh {program}"));
    assert_eq!((says("Type"), says("KillMode")), ("notify", "mixed"));
    let mut leader = manager.start(shell);
    assert_eq!(manager.receives(), format!("READY=1\nSTATUS=contending for {path}"));
    let waiting = manager.receives();
    assert!(waiting.starts_with(&format!("STATUS=waiting for {path}, 1 ahead, held by ")));
    lock.release().expect("released");
    assert!(manager.receives().contains(&format!("STATUS=holding {path}, token ")));
    leader.is_inside();
    delete_node(&path);
    assert_eq!(manager.receives(), format!("STATUS=contending for {path} again"));
    assert!(manager.receives().contains(&format!("STATUS=holding {path}, token ")));
    leader.signal(Signal::SIGTERM);
    assert_eq!(manager.receives(), "STOPPING=1\nSTATUS=ending");
    assert_eq!(leader.code(), Some(0), "which is no failure to systemd");

    // systemd must send KILL before another client can acquire the lock.
    let stops_within: u32 = says("TimeoutStopSec").parse().expect("seconds");
    assert!(stops_within < 10, "the session timeout that is not given");
    let prevented: Vec<_> = says("RestartPreventExitStatus").split(' ').collect();
    assert_eq!(prevented, ["64", "77"], "not 69: servers come back");
}
