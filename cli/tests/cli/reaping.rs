//! The lock of a zoolock process that is killed, and the command `reaper`, for all programs of a machine.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, iter, thread};

use common::reaping::{Line, sleeper};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use zoolock::ClientBuilder;

use crate::util::*;

/// Returns a client that registers at the reaper with this socket.
fn registered_at(socket: &str) -> zoolock::Client {
    let builder = ClientBuilder::from_vars(|name| match name {
        "ZOOKEEPER_CONNECT" => Some(connect_string().into()),
        "ZOOLOCK_REAPER" => Some(socket.into()),
        _ => None,
    });
    builder.expect("settings").connect().expect("connect")
}

/// Kills zoolock, and returns when another client has acquired its lock. This must be long before the servers expire
/// the session, and only after the program has ended.
#[track_caller]
fn next_comes_at_once(running: &Beside, path: &str, inside: u32) {
    let begun = Instant::now();
    running.signal(Signal::SIGKILL);
    let guard = held(path);
    assert!(is_gone(inside), "two programs under one lock");
    // Without a reaper, the session would last for 40 s.
    assert!(begun.elapsed() < Duration::from_secs(20));
    drop(guard);
}

#[test]
fn lock_of_a_killed_zoolock_is_free_once_all_have_ended() {
    for script in [UNTIL_TOLD, "(setsid sh -c 'echo inside $$; exec sleep 1000' &); sleep 1000"] {
        let path = fresh_path("killed");
        let running = runs(&[], &path, script);
        let inside = running.is_inside();
        next_comes_at_once(&running, &path, inside);
    }
    let path = fresh_path("leader");
    let leading = lead(&[], &path, UNTIL_TOLD);
    let inside = leading.is_inside();
    next_comes_at_once(&leading, &path, inside);
}

#[test]
fn output_ends_with_a_killed_zoolock_even_if_no_server_answers() {
    let server = Server::start().expect("a server");
    let arguments = ["run", &fresh_path("output"), "sh", "-c", UNTIL_TOLD];
    let mut running = Beside::start(zoolock_at(&server.connect_string(), &arguments));
    running.is_inside();
    let supervisor = supervisor_of(running.id());
    server.kill().expect("killed");
    running.signal(Signal::SIGKILL);
    running.status();
    running.said();
    send(supervisor, Signal::SIGTERM);
    await_gone(supervisor);
}

#[test]
fn reaper_listens_until_a_signal_ends_it() {
    let (_folder, socket) = scratch();
    let mut reaper = Beside::start(zoolock(&["reaper", "--socket", &socket]));
    wait_until("it listens", SOON, || Path::new(&socket).exists());
    let client = registered_at(&socket);
    wait_until("it is registered", SOON, || client.stats().is_registered);
    let (code, _, said) = ends(zoolock(&["reaper", "--socket", &socket]));
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains(&socket), "{said}");

    let mut doctor = zoolock(&["doctor"]);
    doctor.env("ZOOLOCK_REAPER", &socket);
    assert!(ends(&mut doctor).1.contains("ok       the reaper at"));
    assert_eq!(end_by(Signal::SIGTERM, &mut reaper), Some(0));
    assert!(!Path::new(&socket).exists());
    assert!(ends(&mut doctor).1.contains("warning  no reaper accepts sessions at"));
}

/// Sends the reaper a file that blocks whoever closes it last: a socket that lingers. It blocks for as long as the
/// result exists.
fn block(reaper: &Beside, socket: &str) -> (Line, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let mut sender = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
    set_socket_linger(&sender, Some(Duration::from_secs(1000))).expect("lingers");
    sender.set_nonblocking(true).expect("does not block");
    while sender.write(&[0; 1 << 16]).is_ok() {}
    reaper.stop();
    let line = Line::to(socket);
    line.send(b"x", &[sender.as_fd()]);
    drop(sender);
    reaper.signal(Signal::SIGCONT);
    (line, listener.accept().expect("accepts").0)
}

#[test]
fn user_who_takes_all_or_blocks_the_reaper_harms_no_other() {
    let (folder, socket) = scratch();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("open to all users");
    let script = format!("umask 0; ulimit -n 100; exec {ZOOLOCK} reaper --socket {socket}");
    let mut reaper = Beside::start(in_shell("sh", &script));
    wait_until("it listens", SOON, || Path::new(&socket).exists());
    let (client, program) = (client(), sleeper());
    let registered = || {
        let line = Line::to(&socket);
        (line.register(&client, &program, Duration::ZERO) == "ok").then_some(line)
    };
    let lines: Vec<_> = iter::from_fn(registered).collect();
    let serves_another = || match set_thread_res_uid(Uid::ROOT, Uid::from_raw(30_000), Uid::ROOT) {
        Ok(()) => assert!(registered().is_some()),
        Err(error) => println!("skipped: only root can be another user: {error}"),
    };
    let blocked: Vec<_> = iter::repeat_with(|| block(&reaper, &socket)).take(3).collect();
    for (line, _) in &blocked {
        assert!(line.receive().contains("too many clients"));
    }
    thread::scope(|scope| drop(scope.spawn(serves_another)));
    lines.iter().for_each(|line| line.send(b"forget", &[]));
    drop(lines);
    wait_until("there is room", SOON, || registered().is_some());
    let _blocked = block(&reaper, &socket);
    thread::scope(|scope| drop(scope.spawn(serves_another)));
    assert_eq!(end_by(Signal::SIGTERM, &mut reaper), Some(0));
}

#[test]
fn run_does_not_use_the_reaper_of_programs() {
    let (_folder, socket) = scratch();
    let path = fresh_path("run");
    let mut command = run(&[], &path, UNTIL_TOLD);
    command.env("ZOOLOCK_REAPER", &socket);
    let mut running = Beside::start(command);
    running.is_inside();
    // That reaper would not wait for the program's descendants to end.
    assert_eq!(let_end(&mut running), Some(0));
    assert!(!running.said().iter().any(|line| line.contains("reaper")));
}
