//! Settings from options, the environment and files, and their errors.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use zoolock_test_support::{connect_string, fresh_path, shared_probe};

use crate::util::{Beside, Scratch, UNTIL_TOLD, await_nodes, client, run, zoolock, zoolock_at};

/// The exit code and standard error of a command.
#[track_caller]
fn fails(mut command: Command) -> (Option<i32>, String) {
    let ended = command.output().expect("it ends");
    let errors = String::from_utf8(ended.stderr).expect("text");
    println!("{command:?}: {errors}");
    (ended.status.code(), errors)
}

#[test]
fn error_names_the_typed_option_or_the_variable() {
    let file = Scratch::new();
    fs::write(&file.file, "conect = 'a'\n").expect("written");
    for (option, value, part) in [
        ("--config", file.name(), "there is no setting \"conect\""),
        ("--config", "/no/such/file", "No such file"),
        ("--cacert", "/no/such/file", "No such file"),
        ("--key", file.name(), "is open to everybody"),
        ("--identity", "__REVOKE__", "a request to let go"),
    ] {
        let mut wrong = zoolock(&["run", option, value, "--cert", file.name()]);
        if option != "--key" {
            wrong = zoolock(&["run", option, value]);
        }
        wrong.args([&fresh_path("options"), "true"]);
        let (code, errors) = fails(wrong);
        assert_eq!(code, Some(64), "{option}");
        let named = errors.starts_with(&format!("zoolock: invalid {option}: "));
        assert!(named && errors.contains(part), "{option}: {errors}");
    }
    let mut variable = zoolock(&["list", "/path"]);
    variable.env("ZOOKEEPER_CONFIG", file.name());
    let (code, errors) = fails(variable);
    assert_eq!(code, Some(64));
    assert!(errors.starts_with("zoolock: invalid ZOOKEEPER_CONFIG: there is no"), "{errors}");
}

#[test]
fn environment_overrides_the_settings_file() {
    let file = Scratch::new();
    let list = |text: &str, variables: &[(&str, &str)]| {
        fs::write(&file.file, text).expect("written");
        fs::set_permissions(&file.file, Permissions::from_mode(0o600)).expect("chmod");
        let mut list = zoolock(&["list", "--config", file.name(), &fresh_path("overridden")]);
        list.env_remove("ZOOKEEPER_CONNECT").envs(variables.iter().copied());
        fails(list)
    };
    let hosts = connect_string();
    let nowhere = "connect = 'localhost:port'\nsession_timeout = 7.5";
    assert_eq!(list(nowhere, &[("ZOOKEEPER_CONNECT", &hosts)]).0, Some(0));
    assert_eq!(list(nowhere, &[("ZOOKEEPER_CONNECT", "")]).0, Some(64), "as if it were not set");
    let soon = &[("ZOOKEEPER_SESSION_TIMEOUT", "soon")];
    let (_, errors) = list(&format!("connect = '{hosts}'\nsession_timeout = 7"), soon);
    assert!(errors.ends_with("such as 10 or 2.5\n"), "the variable has no line: {errors}");
    // What is wrong with a setting of the file names its line.
    for (text, parts) in [
        ("connect = 'a'\n\nsession_timeout = 'hunter2'", ["ZOOKEEPER_SESSION_TIMEOUT", "line 3"]),
        ("connect = 'a'\ntls = 'hunter2'", ["ZOOKEEPER_TLS", "line 2"]),
        ("connect = 'a'\nauth = 'hunter2'", ["ZOOKEEPER_AUTH", "line 2"]),
    ] {
        let (code, errors) = list(text, &[]);
        assert_eq!(code, Some(64), "{text}");
        let parts = [&parts[..], &[file.name()]].concat();
        assert!(parts.iter().all(|part| errors.contains(part)), "{errors}");
        assert!(!errors.contains("hunter2"), "{errors}");
    }
}

/// `zoolock` where `/etc` has only this file. Returns `None` where that is not allowed.
fn with_etc(file: &Scratch, arguments: &[&str]) -> Option<Command> {
    let mut unshare = Command::new("unshare");
    let prepare = "mount -t tmpfs none /etc && cp \"$0\" /etc/zoolock.toml && exec \"$@\"";
    unshare.args(["--mount", "sh", "-c", prepare, file.name()]);
    let mut asks = Command::new("unshare");
    asks.args(unshare.get_args()).arg("true");
    match asks.output() {
        Ok(output) if output.status.success() => {
            unshare.arg(env!("CARGO_BIN_EXE_zoolock")).args(arguments);
            Some(unshare)
        }
        other => {
            println!("skipped: no /etc of its own: {other:?}");
            None
        }
    }
}

#[test]
fn settings_in_etc_are_the_defaults() {
    let (file, path) = (Scratch::new(), fresh_path("etc"));
    fs::write(&file.file, format!("connect = '{}'\n", connect_string())).expect("written");
    let command = |arguments: &[&str]| {
        let mut command = with_etc(&file, arguments)?;
        command.env_remove("ZOOKEEPER_CONNECT").env_remove("ZOOKEEPER_CONFIG");
        Some(command)
    };
    let Some(listed) = command(&["list", &path]) else { return };
    assert_eq!(Beside::start(listed).code(), Some(0));
    let elsewhere = command(&["list", "--config", "/no/such/file", &path]).expect("as before");
    assert_eq!(fails(elsewhere).0, Some(64), "another file is in its place");
    let mut without = command(&["list", &path]).expect("as before");
    without.env("ZOOKEEPER_CONFIG", "");
    assert_eq!(fails(without).0, Some(64), "an empty name means none");

    fs::write(&file.file, "session_timeout = 7\nnonsense = 1\n").expect("written");
    let (code, errors) = fails(command(&["list", &path]).expect("as before"));
    assert_eq!(code, Some(64));
    assert!(errors.starts_with("zoolock: invalid /etc/zoolock.toml: "), "{errors}");
}

#[test]
fn nodes_carry_the_chosen_identity() {
    for part in ["run", "lead"] {
        let (path, who) = (fresh_path("identity"), "billing, 7/é");
        let arguments = [part, "--identity", who, &path, "sh", "-c", UNTIL_TOLD];
        let holding = Beside::start(zoolock(&arguments));
        holding.is_inside();
        let seen = client().contenders(&path).expect("contenders");
        assert_eq!(seen[0].identity.as_deref(), Some(who));
    }
}

#[test]
fn duration_may_have_a_unit() {
    let path = fresh_path("units");
    for time in ["60", "1.5", "60s", "60000ms", "1m", "0.5h", " 60 s"] {
        let mut one = Beside::start(run(&["-w", time], &path, "true"));
        assert_eq!(one.code(), Some(0), "{time}");
    }
    for time in ["1x", "s", "", "ms", "1m30", "1,5", "1e400h", "0x10"] {
        let (code, errors) = fails(zoolock(&["run", "-w", time, &path, "true"]));
        assert_eq!(code, Some(64), "{time:?}");
        let clear = ["not a duration", "less than 0", "too long"];
        assert!(clear.iter().any(|text| errors.contains(text)), "{time:?}: {errors}");
    }
    for option in ["--session-timeout", "--hold-at-least"] {
        let mut one = zoolock(&["run", option, "4000ms", &path, "true"]);
        if option == "--hold-at-least" {
            one = zoolock(&["run", option, "1ms", &path, "true"]);
        }
        assert_eq!(Beside::start(one).code(), Some(0), "{option}");
    }
}

#[test]
fn mistyped_chroot_is_not_created() {
    let (probe, chroot) = (shared_probe().expect("probe"), fresh_path("chroot"));
    let hosts = format!("{}{chroot}", connect_string());
    for arguments in [
        &["run", "--no-create", "/a", "true"][..],
        &["run", "--no-create", "-w", "1h", "/a", "true"],
        &["lead", "--no-create", "/a", "true"],
        &["list", "--no-create", "/a"],
        &["list", "--no-create", "-r", "/"],
    ] {
        let (code, errors) = fails(zoolock_at(&hosts, arguments));
        assert_eq!(code, Some(64), "{arguments:?}");
        assert!(errors.contains(&format!("there is no chroot {chroot:?}")), "{errors}");
        assert!(!probe.exists(&chroot).expect("asked"), "{arguments:?}");
    }
    probe.create_all(&chroot).expect("made");
    for hosts in [&hosts, &connect_string()] {
        let arguments = ["run", "--no-create", &fresh_path("below"), "true"];
        assert_eq!(Beside::start(zoolock_at(hosts, &arguments)).code(), Some(0), "{hosts}");
    }
    await_nodes(&chroot, 1);
}
