//! The exit codes, as flock(1) and sysexits(3) have them.

use std::net::TcpListener;
use std::time::Instant;

use nix::sys::signal::Signal;
use zoolock_test_support::fresh_path;

use crate::util::{
    Beside, Scratch, UNTIL_TOLD, await_queue, client, lock_of, run, zoolock, zoolock_at,
};

/// How a command without input ends.
#[track_caller]
fn code(arguments: &[&str]) -> Option<i32> {
    Beside::start(zoolock(arguments)).code()
}

#[test]
fn the_programs_own_status_is_handed_on() {
    let path = fresh_path("status");
    for wanted in [0, 1, 7, 74, 255] {
        let mut one = Beside::start(run(&[], &path, &format!("exit {wanted}")));
        assert_eq!(one.code(), Some(wanted));
    }
    await_queue(&path, 0);
}

#[test]
fn a_program_that_a_signal_ended_gives_128_and_the_signal() {
    let path = fresh_path("killed");
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGSEGV] {
        let script = format!("kill -{} $$", signal as i32);
        let mut one = Beside::start(run(&[], &path, &script));
        assert_eq!(one.code(), Some(128 + signal as i32), "{signal}");
    }
}

#[test]
fn what_cannot_run_gives_126_and_what_is_not_there_127() {
    let (path, scratch) = (fresh_path("no-program"), Scratch::new());
    std::fs::write(&scratch.file, "not executable").expect("written");
    assert_eq!(code(&["run", &path, scratch.name()]), Some(126));
    assert_eq!(code(&["run", &path, "no-such-program-anywhere"]), Some(127));
    await_queue(&path, 0);
}

#[test]
fn wrong_arguments_give_64_and_help_0() {
    for wrong in [
        &["run"][..],
        &["run", "/path"],
        &["run", "--no-such-option", "/path", "true"],
        &["run", "-n", "-w", "1", "/path", "true"],
        &["run", "-x", "-s", "/path", "true"],
        &["run", "--semaphore", "0", "/path", "true"],
        &["run", "-w", "soon", "/path", "true"],
        &["run", "-w", "-1", "/path", "true"],
        &["run", "-E", "256", "/path", "true"],
        &["run", "not/absolute", "true"],
        &["run", "-c", "host:port", "/path", "true"],
        &["list"],
        &["verify", "/path", "token"],
        &["nonsense"],
        &[],
    ] {
        assert_eq!(code(wrong), Some(64), "{wrong:?}");
    }
    let mut nowhere = zoolock(&["list", "/path"]);
    nowhere.env_remove("ZOOKEEPER_CONNECT");
    assert_eq!(Beside::start(nowhere).code(), Some(64), "no servers given");
    for fine in [&["--help"][..], &["--version"], &["run", "--help"]] {
        assert_eq!(code(fine), Some(0), "{fine:?}");
    }
}

#[test]
fn no_server_gives_69() {
    // Nobody else gets the port while it is bound, and nobody listens behind its backlog.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hosts = listener.local_addr().expect("bound").to_string();
    drop(listener);
    for arguments in [
        &["run", "-w", "1", "/path", "true"][..],
        &["run", "-n", "--session-timeout", "1", "/path", "true"],
        &["list", "--session-timeout", "1", "/path"],
        &["verify", "--session-timeout", "1", "/path", "1"],
    ] {
        let mut one = Beside::start(zoolock_at(&hosts, arguments));
        assert_eq!(one.code(), Some(69), "{arguments:?}");
    }
}

#[test]
fn a_conflict_gives_1_or_what_was_asked_for() {
    let (client, path) = (client(), fresh_path("conflict"));
    let lock = lock_of(&client, &path);
    lock.lock().expect("locked");
    for (options, wanted) in [
        (&["-n"][..], 1),
        (&["--nonblock", "-s"], 1),
        (&["-n", "-E", "42"], 42),
        (&["-w", "0", "-E", "0"], 0),
        (&["-w", "0.3"], 1),
        (&["--timeout", "0.3", "-E", "9"], 9),
    ] {
        let begun = Instant::now();
        let mut one = Beside::start(run(options, &path, "echo not to be seen"));
        assert_eq!(one.code(), Some(wanted), "{options:?}");
        println!("{options:?}: {wanted} after {:?}", begun.elapsed());
        let said = one.said();
        assert!(said.is_empty(), "{options:?}: {said:?}");
        await_queue(&path, 1);
    }
    lock.unlock().expect("unlocked");
}

#[test]
fn readers_and_permits_are_beside_each_other_as_long_as_they_may() {
    for (options, more) in [
        (&["-s"][..], "-x"),
        (&["--semaphore", "2"], "--semaphore=2"),
    ] {
        let path = fresh_path("beside");
        let mut both: Vec<_> = (0..2)
            .map(|_| Beside::start(run(options, &path, UNTIL_TOLD)))
            .collect();
        both.iter().for_each(|one| {
            one.is_inside();
        });
        let mut other = Beside::start(run(&[more, "-n"], &path, "true"));
        assert_eq!(other.code(), Some(1), "{more} beside {options:?}");
        for one in &mut both {
            one.let_go();
            assert_eq!(one.code(), Some(0));
        }
        let mut other = Beside::start(run(&[more, "-n"], &path, "true"));
        assert_eq!(other.code(), Some(0), "{more} after {options:?}");
    }
}
