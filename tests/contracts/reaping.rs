//! Reapers: they end the sessions of processes that have died, and only those.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use std::{env, thread};

use common::reaping::{Line, sleeper};
use common::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, recv,
    socket_with,
};
use rustix::pipe::pipe;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use zoolock::{Client, DistributedLock, Error, Hold, LockOptions, Reaper};

/// Returns a client, and a hold of it. The test may make the reaper end the client's session.
fn holder() -> (Client, DistributedLock, Hold) {
    let client = client();
    let lock = lock_of(&client, &fresh_path("reaped"));
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    (client, lock, hold)
}

#[track_caller]
fn is_ended(hold: &Hold) {
    let ended = hold.ended().recv_timeout(SOON);
    assert!(!hold.is_held(), "{ended:?}: {:?}", hold.state());
}

/// When this returns, the reaper has handled all earlier events.
fn has_looked(socket: &str) {
    assert_ne!(Line::to(socket).ask(b"anything", &[]), "ok");
}

#[test]
fn process_that_lives_keeps_its_session() {
    let ((_folder, socket), (client, _lock, hold), process) = (scratch(), holder(), sleeper());
    let _reaper = Reaper::start(&socket).unwrap();
    let line = Line::to(&socket);
    assert_eq!(line.register(&client, &process, Duration::ZERO), "ok");
    for signal in [Signal::SIGSTOP, Signal::SIGCONT] {
        process.signal(signal);
        has_looked(&socket);
    }
    // The reaper waits for the end of the process, not of its connection.
    drop(line);
    has_looked(&socket);
    assert!(hold.is_held());
    client.verify_token(hold.path(), hold.fencing_token()).unwrap();
    drop(process);
    is_ended(&hold);
}

/// This test runs again in the process that dies. That process has two holds, each with a margin in seconds.
#[test]
fn largest_margin_of_a_hold_is_reported() {
    if let Ok(path) = env::var(OWN_PROCESS) {
        let client = Client::from_env().unwrap();
        let locks = [("a", 2), ("b", 1)].map(|(place, margin)| {
            let options = LockOptions::new().margin(Duration::from_secs(margin));
            let path = format!("{path}/{place}");
            DistributedLock::with_options(&client, path, options).unwrap()
        });
        locks.iter().for_each(|lock| lock.lock().unwrap());
        wait_until("it is registered", SOON, || client.stats().is_registered);
        println!("inside {}", std::process::id());
        return drop(std::io::stdin().read_to_end(&mut Vec::new()));
    }
    let ((_folder, socket), path) = (scratch(), fresh_path("margins"));
    let _reaper = Reaper::start(&socket).unwrap();
    let mut command = alone("reaping::largest_margin_of_a_hold_is_reported", OWN_PROCESS, &path);
    command.env("ZOOLOCK_REAPER", &socket);
    let process = Beside::start(command);
    process.is_inside();
    let begun = Instant::now();
    process.signal(Signal::SIGKILL);
    lock_of(&client(), &format!("{path}/b")).lock().unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(2) && begun.elapsed() < SESSION * 2 / 3);
}

#[test]
fn closed_client_and_the_session_before_are_left_alone() {
    let ((_folder, socket), (first, _lock, hold), process) = (scratch(), holder(), sleeper());
    let _reaper = Reaper::start(&socket).unwrap();
    let line = Line::to(&socket);
    assert_eq!(line.register(&first, &process, Duration::ZERO), "ok");
    let (second, _other_lock, other) = holder();
    // The latest registration replaces earlier ones.
    assert_eq!(line.register(&second, &process, Duration::ZERO), "ok");
    drop(process);
    is_ended(&other);
    assert!(hold.is_held());
    let (process, line) = (sleeper(), Line::to(&socket));
    assert_eq!(line.register(&first, &process, Duration::ZERO), "ok");
    line.send(b"forget", &[]);
    drop(process);
    has_looked(&socket);
    assert!(first.verify_token(hold.path(), hold.fencing_token()).unwrap());
}

#[test]
fn reaper_that_is_started_again_is_found() {
    let ((_folder, socket), server) = (scratch(), Server::start().unwrap());
    let builder = Client::builder(server.connect_string()).session_timeout(Duration::from_secs(2));
    assert!(warnings(&socket).is_empty());
    let client = connected(builder.reaper(&socket));
    assert!(!client.stats().is_registered);
    wait_until("that is reported", SOON, || !warnings(&socket).is_empty());
    for _ in 0..2 {
        let reaper = Reaper::start(&socket).unwrap();
        wait_until("it is registered", SOON, || client.stats().is_registered);
        drop(reaper);
        wait_until("it is no longer registered", SOON, || !client.stats().is_registered);
    }
    client.close().unwrap();
}

fn silent(socket: &str) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let silent = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&silent, &SocketAddrUnix::new(socket).unwrap()).unwrap();
    listen(&silent, 8).unwrap();
    silent
}

/// It would receive the client's credentials.
#[test]
fn reaper_of_another_user_is_not_used() {
    let (folder, socket) = scratch();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    let another = || set_thread_res_uid(Uid::ROOT, Uid::from_raw(30_000), Uid::ROOT);
    let silent = || another().map(|()| silent(&socket));
    let listener = thread::scope(|scope| scope.spawn(silent).join().unwrap());
    let Ok(_listener) = listener else { return println!("skipped: only root can be another user") };
    assert!(warnings(&socket).is_empty());
    let builder = Client::builder(connect_string()).session_timeout(SESSION);
    let _client = connected(builder.reaper(&socket));
    wait_until("that is reported", SOON, || !warnings(&socket).is_empty());
    assert!(warnings(&socket)[0].ends_with("it belongs to another user"));
}

#[test]
fn reaper_that_does_not_answer_is_asked_once() {
    let ((_folder, socket), server) = (scratch(), Server::start().unwrap());
    let (silent, timeout) = (silent(&socket), Duration::from_secs(2));
    let builder = Client::builder(server.connect_string()).session_timeout(timeout);
    assert!(warnings(&socket).is_empty());
    let client = connected(builder.reaper(&socket));
    let line = Line(accept(&silent).unwrap());
    assert!(line.receive().starts_with("zoolock reaper 1"));
    let begun = Instant::now();
    wait_until("it would register again", SOON, || begun.elapsed() > timeout * 3);
    let more = recv(&line.0, &mut [0; 256][..], RecvFlags::DONTWAIT);
    assert!(more.is_err(), "{more:?}");
    let said = warnings(&socket);
    assert!(said.len() == 1 && said[0].contains("does not answer"), "{said:?}");
    assert!(!client.stats().is_registered);
    lock_of(&client, &fresh_path("silent")).acquire().unwrap().release().unwrap();
}

#[test]
fn wrong_registrations_are_refused() {
    let ((_folder, socket), (client, _lock, hold), process) = (scratch(), holder(), sleeper());
    let _reaper = Reaper::start(&socket).unwrap();
    let good = client.registration().unwrap().to_text();
    let counter = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let ((output, input), handle) = (pipe().unwrap(), handle_of(process.id()));
    let other_version = good.replace("reaper 1", "reaper 2");
    let files = [handle.as_fd(), counter.as_fd()];
    for (message, files) in [
        (&b"hello"[..], &files[..]),
        (other_version.as_bytes(), &files),
        (&good.as_bytes()[..good.len() - 40], &files),
        (good.as_bytes(), &files[..1]),
        (good.as_bytes(), &[counter.as_fd(), handle.as_fd()]),
        (good.as_bytes(), &[output.as_fd(), counter.as_fd()]),
        (good.as_bytes(), &[handle.as_fd(), output.as_fd()]),
    ] {
        let line = Line::to(&socket);
        let answer = line.ask(message, files);
        assert!(!answer.is_empty() && answer != "ok", "{answer:?}");
        assert_eq!(line.receive(), "", "it has hung up");
    }
    drop((input, process));
    has_looked(&socket);
    assert!(client.verify_token(hold.path(), hold.fencing_token()).unwrap());
}

#[test]
fn socket_of_somebody_else_is_not_taken() {
    let (folder, socket) = scratch();
    let reaper = Reaper::start(&socket).unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = at("other");
    fs::write(&file, "content").unwrap();
    for path in [&socket, &file, &at("no/such"), &at(&"x".repeat(108))] {
        let error = Reaper::start(path).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "content");
    drop(reaper);
    assert!(!fs::exists(&socket).unwrap());
    // This leaves a socket behind, like a reaper that was killed.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    Reaper::start(&socket).unwrap();
}

/// More sessions have to be ended than the reaper tries at a time.
#[test]
fn outage_is_outlasted_and_delays_no_client_of_other_servers() {
    let ((_folder, socket), server) = (scratch(), Server::start().unwrap());
    let _reaper = Reaper::start(&socket).unwrap();
    let servers = |chroot| format!("{}/app{chroot}", server.connect_string());
    let clients = [1, 2, 3, 4, 5, 6].map(|n| client_of(&servers(n), SESSION * 2));
    let ids = clients.each_ref().map(|client| format!("{:#x}", client.session_id().unwrap()));
    let ((other, _lock, hold), first, second) = (holder(), sleeper(), sleeper());
    for client in clients.iter().flat_map(|client| [client; 50]) {
        assert_eq!(Line::to(&socket).register(client, &first, Duration::ZERO), "ok");
    }
    assert_eq!(Line::to(&socket).register(&other, &second, Duration::ZERO), "ok");
    server.kill().unwrap();
    drop(first);
    has_looked(&socket);
    drop(second);
    assert!(warnings(&socket).is_empty());
    is_ended(&hold);
    // This did not have to wait until an attempt at the other servers had failed.
    assert!(ids.iter().all(|id| warnings(id).is_empty()));
    server.start_again().unwrap();
    let have_new = || clients.iter().all(|client| client.stats().sessions > 1);
    wait_until("they have new sessions", SOON, have_new);
}
