//! Settings from options, the environment and files, and their errors.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::util::*;

#[test]
fn environment_overrides_the_settings_file() {
    let (_folder, file) = scratch();
    let list = |text: &str, variables: &[(&str, &str)]| {
        fs::write(&file, text).expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("chmod");
        let mut list = zoolock(&["list", "--config", &file, &fresh_path("overridden")]);
        list.env_remove("ZOOKEEPER_CONNECT").env_remove("ZOOKEEPER_SESSION_TIMEOUT");
        list.envs(variables.iter().copied());
        let (code, _, errors) = ends(list);
        (code, errors)
    };
    let hosts = connect_string();
    let nowhere = "connect = 'localhost:port'\nsession_timeout = 7.5";
    assert_eq!(list(nowhere, &[("ZOOKEEPER_CONNECT", &hosts)]).0, Some(0));
    assert_eq!(list(nowhere, &[("ZOOKEEPER_CONNECT", "")]).0, Some(64), "as if it were not set");
    let soon = &[("ZOOKEEPER_SESSION_TIMEOUT", "soon")];
    let (_, errors) = list(&format!("connect = '{hosts}'\nsession_timeout = 7"), soon);
    assert!(errors.ends_with("(expected e.g. 10 or 2.5)\n"), "the variable has no line: {errors}");
    // An error in a setting from the file names its line.
    for (text, parts) in [
        ("connect = 'a'\n\nsession_timeout = 'hunter2'", ["ZOOKEEPER_SESSION_TIMEOUT", "line 3"]),
        ("connect = 'a'\ntls = 'hunter2'", ["ZOOKEEPER_TLS", "line 2"]),
        ("connect = 'a'\nauth = 'hunter2'", ["ZOOKEEPER_AUTH", "line 2"]),
    ] {
        let (code, errors) = list(text, &[]);
        assert_eq!(code, Some(64), "{text}");
        let parts = [&parts[..], &[&*file]].concat();
        assert!(parts.iter().all(|part| errors.contains(part)), "{errors}");
        assert!(!errors.contains("hunter2"), "{errors}");
    }
    let (_, errors) = list("conect = 'a'", &[]);
    assert!(errors.starts_with("zoolock: invalid --config: unknown setting"), "{errors}");
    let mut variable = zoolock(&["list", "/path"]);
    variable.env("ZOOKEEPER_CONFIG", &file);
    let (_, _, errors) = ends(variable);
    assert!(errors.starts_with("zoolock: invalid ZOOKEEPER_CONFIG: unknown setting"), "{errors}");
}

#[test]
fn settings_in_etc_are_the_defaults() {
    let ((_folder, file), path) = (scratch(), fresh_path("etc"));
    fs::write(&file, format!("connect = '{}'\n", connect_string())).expect("written");
    // In this mount namespace, `/etc` contains only this file.
    let prepare = "mount -t tmpfs none /etc && cp \"$0\" /etc/zoolock.toml && exec \"$@\"";
    let options = ["--mount", "sh", "-c", prepare, &file];
    let fails = |arguments: &[&str], config: Option<&str>| {
        let mut command = unshared(&options, arguments)?;
        command.env_remove("ZOOKEEPER_CONNECT").env_remove("ZOOKEEPER_CONFIG");
        command.envs(config.map(|name| ("ZOOKEEPER_CONFIG", name)));
        let (code, _, errors) = ends(command);
        (code != Some(0)).then_some(errors)
    };
    if unshared(&options, &[]).is_none() {
        return;
    }
    assert_eq!(fails(&["list", &path], None), None);
    let elsewhere = fails(&["list", "--config", "/no/such/file", &path], None);
    assert!(elsewhere.is_some(), "another file is in its place");
    assert!(fails(&["list", &path], Some("")).is_some(), "an empty name means none");

    fs::write(&file, "session_timeout = 7\nnonsense = 1\n").expect("written");
    let errors = fails(&["list", &path], None).expect("it is wrong");
    assert!(errors.starts_with("zoolock: invalid /etc/zoolock.toml: "), "{errors}");
}
