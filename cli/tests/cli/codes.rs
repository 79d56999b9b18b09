//! Exit codes, as in flock(1) and sysexits(3).

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use zoolock_test_support::{connect_string, fresh_path};

use crate::util::{
    Beside, RUN, Scratch, UNTIL_TOLD, await_nodes, client, lock_of, once_connected, run, zoolock,
    zoolock_at,
};

/// The exit code of a command without input.
#[track_caller]
fn code(arguments: &[&str]) -> Option<i32> {
    Beside::start(zoolock(arguments)).code()
}

#[test]
fn run_exits_with_the_programs_status() {
    let path = fresh_path("status");
    for wanted in [0, 1, 7, 74, 255] {
        let mut one = Beside::start(run(&[], &path, &format!("exit {wanted}")));
        assert_eq!(one.code(), Some(wanted));
    }
    await_nodes(&path, 0);
}

#[test]
fn program_killed_by_a_signal_gives_128_plus_the_signal() {
    let path = fresh_path("killed");
    // The last number is a real-time signal.
    for signal in [9, 15, 11, 40] {
        let script = format!("kill -{signal} $$");
        let mut one = Beside::start(run(&[], &path, &script));
        assert_eq!(one.code(), Some(128 + signal), "{signal}");
    }
}

#[test]
fn run_works_under_a_parent_that_ignores_sigchld() {
    let path = fresh_path("ignored-end");
    let mut starter = Command::new("bash");
    let command = format!("{} {RUN} {path} sh -c 'exit 7'", env!("CARGO_BIN_EXE_zoolock"));
    starter.args(["-c", &format!("trap '' CHLD; exec {command}")]);
    starter.env("ZOOKEEPER_CONNECT", connect_string());
    assert_eq!(Beside::start(starter).code(), Some(7));
}

#[test]
fn closed_stderr_does_not_end_the_command() {
    let path = fresh_path("deaf");
    let deaf = || std::io::pipe().expect("a pipe").1;
    let mut failing = run(&[], "not/absolute", "true");
    let status = failing.stderr(deaf()).status().expect("run");
    assert_eq!(status.code(), Some(64));

    let mut running = run(&["-v"], &path, UNTIL_TOLD);
    running.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = running.stderr(deaf()).spawn().expect("started");
    let mut said = BufReader::new(running.stdout.take().expect("a pipe"));
    said.read_line(&mut String::new()).expect("it is inside");
    // The command writes on each revocation.
    for _ in 0..3 {
        assert_eq!(code(&["revoke", &path]), Some(0));
    }
    await_nodes(&path, 1);
    drop(running.stdin.take());
    assert_eq!(running.wait().expect("ended").code(), Some(0));
}

#[test]
fn unrunnable_program_gives_126_and_missing_one_127() {
    let (path, scratch) = (fresh_path("no-program"), Scratch::new());
    std::fs::write(&scratch.file, "not executable").expect("written");
    assert_eq!(code(&["run", &path, scratch.name()]), Some(126));
    assert_eq!(code(&["run", &path, "no-such-program-anywhere"]), Some(127));
    assert_eq!(code(&["run", &path, ""]), Some(127));
    await_nodes(&path, 0);
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
        &["run", "-w", "nan", "/path", "true"],
        &["run", "-w", "inf", "/path", "true"],
        &["run", "-w", "1e300", "/path", "true"],
        &["run", "--session-timeout", "0", "/path", "true"],
        &["run", "--session-timeout", "1e18", "/path", "true"],
        &["run", "-c", "", "/path", "true"],
        &["run", "", "true"],
        &["run", "/", "true"],
        &["run", "/a/../b", "true"],
        &["watch", "--interval", "0", "/path"],
        &["watch", "--interval", "nan", "/path"],
        &["run", "-E", "256", "/path", "true"],
        &["run", "not/absolute", "true"],
        &["run", "-c", "host:port", "/path", "true"],
        &["list"],
        &["verify", "/path", "token"],
        &["verify", "/path", "0x"],
        &["nonsense"],
        &[],
    ] {
        assert_eq!(code(wrong), Some(64), "{wrong:?}");
    }
    let mut nowhere = zoolock(&["list", "/path"]);
    nowhere.env_remove("ZOOKEEPER_CONNECT");
    assert_eq!(Beside::start(nowhere).code(), Some(64), "no servers given");
    // A user who names an authority does not mean the plain port, whatever the environment says.
    let mut plain = zoolock(&["list", "--cacert", "/no/such/file", "/path"]);
    plain.env("ZOOKEEPER_TLS", "false");
    assert_eq!(Beside::start(plain).code(), Some(64), "no TLS");
    let mut unreadable = zoolock(&["run"]);
    unreadable.args([OsStr::from_bytes(b"/\xff"), OsStr::new("true")]);
    assert_eq!(Beside::start(unreadable).code(), Some(64), "no text");
    for fine in [&["--help"][..], &["--version"], &["run", "--help"]] {
        assert_eq!(code(fine), Some(0), "{fine:?}");
    }
}

#[test]
fn unreachable_server_gives_69() {
    // The proxy keeps the port, and nobody listens on it.
    let nobody = crate::util::shared_proxy();
    nobody.refuse(true);
    let hosts = nobody.connect_string();
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
fn conflict_gives_1_or_the_chosen_code() {
    let (client, path) = (client(), fresh_path("conflict"));
    let lock = lock_of(&client, &path);
    lock.lock().expect("locked");
    for (options, wanted) in [
        (&["-n"][..], 1),
        (&["--nonblock", "-s"], 1),
        (&["-n", "-E", "42"], 42),
        (&["-w", "0", "-E", "0"], 0),
        (&["-w", "3"], 1),
        (&["--timeout", "3", "-E", "9"], 9),
    ] {
        let begun = Instant::now();
        let start = || Beside::start(run(options, &path, "echo not to be seen"));
        let mut one = once_connected(start);
        assert_eq!(one.code(), Some(wanted), "{options:?}");
        println!("{options:?}: {wanted} after {:?}", begun.elapsed());
        let said = one.said();
        assert!(said.is_empty(), "{options:?}: {said:?}");
        await_nodes(&path, 1);
    }
    lock.unlock().expect("unlocked");
}

#[test]
fn readers_and_permits_run_together_up_to_their_limit() {
    for (options, more) in [(&["-s"][..], "-x"), (&["--semaphore", "2"], "--semaphore=2")] {
        let path = fresh_path("beside");
        let mut both: Vec<_> =
            (0..2).map(|_| Beside::start(run(options, &path, UNTIL_TOLD))).collect();
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

#[test]
fn errors_name_the_problem() {
    for (wrong, said) in [
        (&["run", "-w", "-1", "/path", "true"][..], "less than 0"),
        (&["run", "-w", "nan", "/path", "true"], "not a duration"),
        (&["run", "-w", "1e300", "/path", "true"], "too long"),
        (&["run", "-E", "-1", "/path", "true"], "'-1'"),
        (&["watch", "--interval", "0", "/path"], "less than 0.01"),
        (&["list", "-c", "", "/path"], "invalid --connect: no servers are named"),
        (&["run", &fresh_path("empty"), ""], "failed to run ''"),
        // It waits for no server, and for no turn.
        (&["run", "-c", "127.0.0.1:1", "/path", "no-such"], "failed to run 'no-such'"),
        (&["lead", "-c", "127.0.0.1:1", "/path", "/no/such"], "failed to run '/no/such'"),
        (&["list", "--config", "/dev/zero", "/path"], "too long for a settings file"),
        (&["list", "-c", "me:hunter2@zk1:2181", "/path"], "credentials are no part"),
    ] {
        let ended = zoolock(wrong).output().expect("it ends");
        let errors = String::from_utf8_lossy(&ended.stderr);
        println!("{wrong:?}: {errors}");
        assert!(errors.contains(said) && !errors.contains("hunter2"), "{wrong:?}: {errors}");
    }
}
