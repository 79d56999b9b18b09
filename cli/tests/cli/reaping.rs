//! The lock of a zoolock process that is killed, and the command `reaper`, for all programs of a user.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, iter};

use common::reaping::{Line, sleeper};
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
    let _guard = held(path);
    assert!(is_gone(inside), "two programs under one lock");
    // Without a reaper, the session would last for 40 s.
    assert!(begun.elapsed() < Duration::from_secs(20));
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
    let script = format!("umask 027; ulimit -n 100; exec {ZOOLOCK} reaper --socket {socket}");
    let mut reaper = Beside::start(in_shell("sh", &script));
    wait_until("it listens", SOON, || Path::new(&socket).exists());
    let mode = fs::metadata(&socket).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o750, "the umask decides who may connect");
    let (client, program) = (registered_at(&socket), sleeper());
    wait_until("it is registered", SOON, || client.stats().is_registered);
    let register = || {
        let line = Line::to(&socket);
        (line.register(&client, &program, Duration::ZERO), line)
    };
    let lines: Vec<_> = iter::repeat_with(register).take_while(|(said, _)| said == "ok").collect();
    assert_eq!(lines.len() + 1, 25, "a quarter of the limit");
    assert!(register().0.contains("too many clients"));
    lines.into_iter().for_each(|(_, line)| line.send(b"forget", &[]));
    wait_until("there is room", SOON, || register().0 == "ok");
    let (code, _, said) = ends(zoolock(&["reaper", "--socket", &socket]));
    assert!(code == Some(64) && said.contains(&socket), "{code:?}: {said}");
    let mut doctor = zoolock(&["doctor"]);
    doctor.env("ZOOLOCK_REAPER", &socket);
    assert!(ends(&mut doctor).1.contains("ok       the reaper at"));
    assert_eq!(end_by(Signal::SIGTERM, &mut reaper), Some(0));
    assert!(!Path::new(&socket).exists());
    assert!(ends(&mut doctor).1.contains("warning  no reaper accepts sessions at"));
}

#[test]
fn run_does_not_use_the_reaper_of_programs() {
    let ((_folder, socket), path) = (scratch(), fresh_path("run"));
    let mut command = run(&[], &path, UNTIL_TOLD);
    command.env("ZOOLOCK_REAPER", &socket);
    let mut running = Beside::start(command);
    running.is_inside();
    // That reaper would not wait for the program's descendants to end.
    assert_eq!(let_end(&mut running), Some(0));
    assert!(!running.said().iter().any(|line| line.contains("reaper")));
}
