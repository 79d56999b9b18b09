//! Exit codes, as in flock(1) and sysexits(3), and the errors that go with them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use crate::util::*;

#[test]
fn run_exits_with_the_programs_status_or_128_plus_its_signal() {
    let path = fresh_path("status");
    for wanted in [0, 1, 7, 74, 255] {
        assert_eq!(runs(&[], &path, &format!("exit {wanted}")).code(), Some(wanted));
    }
    // The last of these signals is a real-time signal.
    for signal in [9, 15, 11, 40] {
        let mut killed = runs(&[], &path, &format!("kill -{signal} $$"));
        assert_eq!(killed.code(), Some(128 + signal), "{signal}");
    }
    await_nodes(&path, 0);
}

#[test]
fn run_works_under_a_parent_that_ignores_sigchld() {
    let command = format!("{ZOOLOCK} run {} sh -c 'exit 7'", fresh_path("ignored-end"));
    let starter = in_shell("bash", &format!("trap '' CHLD; exec {command}"));
    assert_eq!(Beside::start(starter).code(), Some(7));
}

#[test]
fn closed_stderr_does_not_end_the_command() {
    let path = fresh_path("deaf");
    let deaf = || std::io::pipe().expect("a pipe").1.into();
    let failing = Beside::spawn(&run(&[], "not/absolute", "true"), Stdio::piped(), deaf()).code();
    assert_eq!(failing, Some(64));

    let mut running = Beside::spawn(&run(&["-v"], &path, UNTIL_TOLD), Stdio::piped(), deaf());
    running.is_inside();
    // Each revocation makes the command write.
    for _ in 0..3 {
        prints(&["revoke", &path]);
    }
    await_nodes(&path, 1);
    assert_eq!(let_end(&mut running), Some(0));
}

#[test]
fn unrunnable_program_gives_126_missing_one_127_and_unreachable_server_69() {
    let (path, (_folder, file)) = (fresh_path("no-program"), scratch());
    fs::write(&file, "not executable").expect("written");
    let (unrunnable, nowhere) = (format!("failed to run '{file}'"), "127.0.0.1:1");
    let brief = ["-c", nowhere, "--session-timeout", "1", "/path"];
    for (subcommand, arguments, wanted, said) in [
        ("run", &[&*path, &*file][..], 126, &*unrunnable),
        // The command waits neither for a server nor for the lock.
        ("run", &["-c", nowhere, &path, "no-such-program"], 127, "failed to run 'no-such-program'"),
        ("run", &["-c", nowhere, &path, ""], 127, "failed to run ''"),
        ("lead", &["-c", nowhere, &path, "/no/such"], 127, "failed to run '/no/such'"),
        ("run", &[&["-n"], &brief[..], &["true"]].concat(), 69, "failed to connect"),
        ("lead", &[&brief[..], &["true"]].concat(), 69, "failed to connect"),
        ("list", &brief, 69, "failed to connect"),
        ("verify", &[&brief[..], &["1"]].concat(), 69, "failed to connect"),
    ] {
        let (code, _, errors) = ends(zoolock(&[&[subcommand], arguments].concat()));
        assert_eq!(code, Some(wanted), "{subcommand} {arguments:?}");
        assert!(errors.contains(said), "{errors}");
    }
    await_nodes(&path, 0);
}

#[test]
fn wrong_arguments_give_64_and_errors_name_the_problem() {
    let (_folder, name) = &scratch();
    fs::write(name, "conect = 'a'\n").expect("written");
    for (wrong, part) in [
        (&["run"][..], "<PATH>"),
        (&["run", "/path"], "<COMMAND>"),
        (&["lead", "/path"], "<COMMAND>"),
        (&["doctor", "no/slash"], "path"),
        (&["lead", "-n", "/path", "true"], "'-n'"),
        (&["run", "-n", "-w", "1", "/path", "true"], "cannot be used with"),
        (&["run", "-x", "-s", "/path", "true"], "cannot be used with"),
        (&["run", "--semaphore", "0", "/path", "true"], "--semaphore"),
        (&["run", "-w", "soon", "/path", "true"], "not a duration"),
        (&["run", "-w", "nan", "/path", "true"], "not a duration"),
        (&["run", "-w", "-1", "/path", "true"], "less than 0"),
        (&["run", "-w", "1e300", "/path", "true"], "too long"),
        (&["run", "--session-timeout", "0", "/path", "true"], "session"),
        (&["run", "-c", "", "/path", "true"], "invalid --connect: the list of servers is empty"),
        (&["run", "-c", "host:port", "/path", "true"], "invalid host list"),
        (&["list", "-c", "me:hunter2@zk1:2181", "/path"], "credentials do not belong"),
        (&["run", "", "true"], "path"),
        (&["run", "not/absolute", "true"], "path"),
        (&["lead", "not/absolute", "true"], "path"),
        (&["run", "-E", "-1", "/path", "true"], "'-1'"),
        (&["watch", "--interval", "0", "/path"], "less than 0.01"),
        (&["verify", "/path", "token"], "'token'"),
        (&["list", "--config", "/dev/zero", "/path"], "too long for a settings file"),
        (&["list", "--cacert", "/no/such", "/path"], "invalid --cacert: "),
        (&["list", "--cacert", name, "/path"], "invalid --cacert: "),
        (&["list", "--key", name, "--cert", name, "/path"], "invalid --key: "),
        (&["run", "--identity", "__REVOKE__", "/path", "true"], "invalid --identity: it has"),
        (&["nonsense"], "'nonsense'"),
        (&[], "Usage"),
    ] {
        let (code, said, errors) = ends(zoolock(wrong));
        assert_eq!((code, &*said), (Some(64), ""), "{wrong:?}");
        assert!(errors.contains(part) && !errors.contains("hunter2"), "{wrong:?}: {errors}");
    }
    let mut nowhere = zoolock(&["list", "/path"]);
    nowhere.env_remove("ZOOKEEPER_CONNECT");
    assert_eq!(ends(nowhere).0, Some(64), "no servers given");
    // A user who names an authority does not want a plain connection, whatever the environment says.
    let mut plain = zoolock(&["list", "--cacert", "/no/such/file", "/path"]);
    plain.env("ZOOKEEPER_TLS", "false");
    assert_eq!(ends(plain).0, Some(64), "no TLS");
    let mut unreadable = zoolock(&["run"]);
    unreadable.args([OsStr::from_bytes(b"/\xff"), OsStr::new("true")]);
    assert_eq!(ends(unreadable).0, Some(64), "no text");
    prints(&["--version"]);
}

#[test]
fn conflict_gives_1_or_the_chosen_code() {
    let path = fresh_path("conflict");
    let _held = held(&path);
    for (options, wanted) in [
        (&["-n"][..], 1),
        (&["--nonblock", "-s"], 1),
        (&["-n", "-E", "42"], 42),
        (&["-w", "0", "-E", "0"], 0),
        (&["--timeout", "3", "-E", "9"], 9),
    ] {
        let start = || runs(options, &path, "echo not to be seen");
        let mut one = start();
        // On a busy machine, the deadline may pass before the command has connected. Such a try does not count.
        wait_until("it connects in time", SOON, || {
            let is_late = one.code() == Some(69);
            if is_late {
                one = start();
            }
            !is_late
        });
        assert_eq!(one.code(), Some(wanted), "{options:?}");
        assert_eq!(one.said(), [""; 0], "{options:?}");
        await_nodes(&path, 1);
    }
}

#[test]
fn mistyped_chroot_is_not_created() {
    let (probe, chroot) = (probe(), fresh_path("chroot"));
    let hosts = format!("{}{chroot}", connect_string());
    for arguments in [
        &["run", "--no-create", "-w", "1h", "/a", "true"][..],
        &["lead", "--no-create", "/a", "true"],
        &["list", "--no-create", "-r", "/"],
    ] {
        let (code, _, errors) = ends(zoolock_at(&hosts, arguments));
        assert_eq!(code, Some(64), "{arguments:?}");
        assert!(errors.contains(&format!("the chroot {chroot:?} does not exist")), "{errors}");
        assert!(!probe.exists(&chroot).expect("asked"), "{arguments:?}");
    }
    probe.create_all(&chroot).expect("made");
    assert_eq!(ends(zoolock_at(&hosts, &["run", "--no-create", "/a", "true"])).0, Some(0));
}
