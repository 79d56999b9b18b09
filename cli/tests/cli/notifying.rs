//! Notifications to a service manager, through a real socket.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::Command;

use nix::sys::signal::Signal;
use zoolock_test_support::{fresh_path, shared_probe};

use crate::util::{Beside, SOON, UNTIL_TOLD, await_nodes, client, lock_of, run, zoolock};

/// The receiving end of NOTIFY_SOCKET.
pub(crate) struct Manager {
    socket: UnixDatagram,
    name: String,
    _folder: tempfile::TempDir,
}

impl Manager {
    pub(crate) fn with_file() -> Manager {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("notify");
        let name = file.to_str().expect("a plain name").to_owned();
        Manager::new(UnixDatagram::bind(file).expect("bound"), name, folder)
    }

    fn without_file() -> Manager {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().to_str().expect("a plain name");
        let address = SocketAddr::from_abstract_name(name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("bound");
        Manager::new(socket, format!("@{name}"), folder)
    }

    fn new(socket: UnixDatagram, name: String, folder: tempfile::TempDir) -> Manager {
        socket.set_read_timeout(Some(SOON)).expect("set");
        Manager { socket, name, _folder: folder }
    }

    pub(crate) fn start(&self, mut command: Command) -> Beside {
        command.env("NOTIFY_SOCKET", &self.name);
        Beside::start(command)
    }

    /// The next message.
    #[track_caller]
    pub(crate) fn hears(&self) -> String {
        let mut message = [0; 4096];
        let length = self.socket.recv(&mut message).expect("a message");
        let message = String::from_utf8_lossy(&message[..length]).into_owned();
        println!("the manager hears {message:?}");
        message
    }
}

fn lead(path: &str, script: &str) -> Command {
    zoolock(&["lead", "--session-timeout", "10", path, "sh", "-c", script])
}

#[test]
fn run_notifies_its_position_readiness_and_end() {
    for manager in [Manager::with_file(), Manager::without_file()] {
        let (client, path) = (client(), fresh_path("notify-run"));
        let lock = lock_of(&client, &path).acquire().expect("locked");
        let script = format!("echo \"socket:$NOTIFY_SOCKET.\"; {UNTIL_TOLD}");
        let mut running = manager.start(run(&[], &path, &script));
        let waiting = manager.hears();
        assert!(waiting.starts_with(&format!("STATUS=waiting for {path}, 1 ahead, held by ")));
        lock.release().expect("released");
        let ready = manager.hears();
        let token = ready.strip_prefix(&format!("READY=1\nSTATUS=holding {path}, token "));
        assert_eq!(running.says("socket:"), ".", "zoolock speaks for the service");
        running.is_inside();
        let holder = client.contenders(&path).expect("contenders").remove(0);
        assert_eq!(token, Some(&*holder.token.to_string()));
        running.let_go();
        assert_eq!(manager.hears(), "STOPPING=1\nSTATUS=ending");
        assert_eq!(running.code(), Some(0));
        assert_eq!(running.said(), [""; 0], "without -v people are told nothing");
    }
}

#[test]
fn waiter_that_ends_never_reports_readiness() {
    let (manager, path) = (Manager::with_file(), fresh_path("notify-waits"));
    let _lock = lock_of(&client(), &path).acquire().expect("locked");
    let mut waiting = manager.start(run(&[], &path, "true"));
    assert!(manager.hears().starts_with("STATUS=waiting"));
    waiting.signal(Signal::SIGTERM);
    assert_eq!(manager.hears(), "STOPPING=1\nSTATUS=ending");
    assert_eq!(waiting.code(), Some(128 + Signal::SIGTERM as i32));
}

#[test]
fn lead_is_ready_when_it_contends_and_names_the_leader() {
    let (manager, path) = (Manager::with_file(), fresh_path("notify-lead"));
    let lock = lock_of(&client(), &path).acquire().expect("locked");
    let mut leader = manager.start(lead(&path, UNTIL_TOLD));
    assert_eq!(manager.hears(), format!("READY=1\nSTATUS=contending for {path}"));
    let waiting = manager.hears();
    assert!(waiting.starts_with(&format!("STATUS=waiting for {path}, 1 ahead, held by ")));
    lock.release().expect("released");
    assert!(manager.hears().contains(&format!("STATUS=holding {path}, token ")));
    leader.is_inside();
    let node = await_nodes(&path, 1).remove(0);
    let probe = shared_probe().expect("probe");
    probe.delete(&format!("{path}/{node}")).expect("deleted");
    assert_eq!(manager.hears(), format!("STATUS=contending for {path} again"));
    assert!(manager.hears().contains(&format!("STATUS=holding {path}, token ")));
    leader.signal(Signal::SIGTERM);
    assert_eq!(manager.hears(), "STOPPING=1\nSTATUS=ending");
    assert_eq!(leader.code(), Some(0));
}

#[test]
fn absent_or_deaf_manager_changes_nothing() {
    let path = fresh_path("notify-nobody");
    for socket in ["", "/no/such/socket", "@no such socket", "vsock:2:1234", "nonsense"] {
        let mut command = run(&[], &path, "exit 3");
        command.env("NOTIFY_SOCKET", socket);
        assert_eq!(Beside::start(command).code(), Some(3), "{socket:?}");
    }
    // Messages until the socket accepts no more.
    let (manager, full) = (Manager::with_file(), UnixDatagram::unbound().expect("a socket"));
    full.set_nonblocking(true).expect("set");
    while full.send_to(b"STATUS=full", &manager.name).is_ok() {}
    let begun = std::time::Instant::now();
    assert_eq!(manager.start(run(&[], &path, "exit 3")).code(), Some(3));
    println!("ended after {:?}", begun.elapsed());
    assert!(begun.elapsed() < SOON / 4);
}
