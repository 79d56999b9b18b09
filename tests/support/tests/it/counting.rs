//! Servers whose sequence numbers can be set.

use std::env;
use std::fs;
use std::process::Command;

use zoolock_test_support::{CountingServer, Probe, Server, fresh_path};

/// Returns a fresh directory on the shared server, or `None` if the test is skipped.
fn stage(name: &str) -> Option<(&'static CountingServer, Probe, String)> {
    let server = CountingServer::shared()?;
    let probe = Probe::connect(server.address()).unwrap();
    let path = fresh_path(name);
    probe.create_all(&path).unwrap();
    Some((server, probe, path))
}

/// Creates sequential nodes and deletes them, one after another, and returns their numbers.
fn numbers(probe: &Probe, path: &str, count: usize) -> Vec<i32> {
    let prefix = format!("{path}/n");
    let number = |_| {
        let node = probe.create(&prefix, b"", true, true).unwrap();
        probe.delete(&node).unwrap();
        node[prefix.len()..].parse().unwrap()
    };
    (0..count).map(number).collect()
}

#[test]
fn the_next_number_is_the_one_that_was_set() {
    let Some((server, probe, path)) = stage("counter") else {
        return;
    };
    assert_eq!(numbers(&probe, &path, 2), [0, 1]);
    for number in [1_000_000, 7, i32::MAX - 5, -5, i32::MIN, 0, 3] {
        server.set_counter(&path, number).unwrap();
        let made = numbers(&probe, &path, 3);
        println!("{number}: {made:?}");
        assert_eq!(made, [0, 1, 2].map(|more| number + more));
    }
}

#[test]
fn other_directories_count_on() {
    let Some((server, probe, path)) = stage("counter-beside") else {
        return;
    };
    let beside = fresh_path("beside");
    probe.create_all(&beside).unwrap();
    server.set_counter(&path, 100).unwrap();
    assert_eq!(numbers(&probe, &beside, 2), [0, 1]);
    assert_eq!(numbers(&probe, &path, 2), [100, 101]);
}

/// The end is dangerous because the number does not wrap from 3.6 on.
#[test]
fn a_server_is_stuck_at_the_end() {
    let Some((server, probe, path)) = stage("counter-end") else {
        return;
    };
    server.set_counter(&path, i32::MAX - 1).unwrap();
    let made = numbers(&probe, &path, 4);
    println!("{made:?}");
    assert_eq!(made, [i32::MAX - 1, i32::MAX, i32::MAX, i32::MAX]);
}

#[test]
fn the_number_outlives_the_process() {
    if CountingServer::shared().is_none() {
        return;
    }
    let server = CountingServer::start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    probe.create_all("/kept").unwrap();
    server.set_counter("/kept", 4711).unwrap();
    drop(probe);
    for stop in [Server::kill, Server::stop] {
        stop(&server).unwrap();
        server.start_again().unwrap();
    }
    let probe = Probe::connect(server.address()).unwrap();
    assert_eq!(numbers(&probe, "/kept", 2), [4711, 4712]);
}

#[test]
fn what_cannot_be_set_says_why() {
    let Some((server, ..)) = stage("counter-none") else {
        return;
    };
    let error = server.set_counter("/no/such/node", 1).unwrap_err();
    println!("{error}");
    assert!(error.to_string().contains("there is no node /no/such/node"));
}

#[test]
fn without_a_compiler_tests_are_skipped_unless_they_are_required() {
    if CountingServer::shared().is_none() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("bin")).unwrap();
    fs::write(home.path().join("bin/java"), "").unwrap();
    let run = |required: &str| {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "counting::other_directories_count_on"])
            .arg("--nocapture")
            .env("JAVA_HOME", home.path())
            .env("ZOOLOCK_INTEROP", required)
            .output()
            .unwrap()
    };
    let skipped = run("");
    let said = String::from_utf8_lossy(&skipped.stdout).into_owned();
    println!("{said}");
    assert!(skipped.status.success());
    assert!(said.contains("skipped: no Java compiler beside"), "{said}");
    let required = run("required");
    let said = String::from_utf8_lossy(&required.stderr).into_owned();
    assert!(!required.status.success());
    assert!(said.contains("no Java compiler beside"), "{said}");
}
