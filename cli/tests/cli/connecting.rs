//! Before a connection exists: the wait for servers, and refused credentials.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use zoolock_test_support::{FaultProxy, fresh_path};

use crate::util::{Beside, SOON, zoolock, zoolock_at};

/// Returns a proxy whose server seems down until `refuse(false)`.
fn down() -> FaultProxy {
    let proxy = crate::util::shared_proxy();
    proxy.refuse(true);
    proxy
}

fn run_at(proxy: &FaultProxy, options: &[&str]) -> Command {
    let mut command = zoolock_at(&proxy.connect_string(), &["run", "-v"]);
    command.args(options).args([&fresh_path("no-server"), "true"]);
    command
}

#[test]
fn timeout_covers_the_wait_for_servers() {
    for options in [&["-w", "1h"][..], &["-n", "--wait-servers", "1h"]] {
        let proxy = down();
        let mut waiting = Beside::start(run_at(&proxy, options));
        waiting.says("waiting for a server: failed to connect");
        proxy.refuse(false);
        assert_eq!(waiting.code(), Some(0));
        let said = waiting.said();
        assert!(!said.iter().any(|line| line.contains("waiting for a server")), "once: {said:?}");
    }
}

#[test]
fn command_waits_for_absent_servers_until_its_timeout() {
    let (proxy, limit) = (down(), Duration::from_millis(1500));
    let begun = Instant::now();
    let mut waiting = Beside::start(run_at(&proxy, &["-w", "1500ms", "-E", "0"]));
    assert_eq!(waiting.code(), Some(69), "whether it is free is not known");
    println!("ended after {:?}", begun.elapsed());
    assert!(begun.elapsed() >= limit);
    assert!(waiting.said().concat().contains("refused"), "of a try that had time");
    // Without a limit the command does not wait, so that a wrong address is noticed.
    let mut unlimited = Beside::start(run_at(&proxy, &[]));
    assert_eq!(unlimited.code(), Some(69));
}

#[test]
fn signal_ends_the_wait_for_servers() {
    let proxy = down();
    let mut waiting = Beside::start(run_at(&proxy, &["-w", "1h"]));
    waiting.says("waiting for a server");
    waiting.signal(Signal::SIGTERM);
    assert_eq!(waiting.code(), Some(128 + Signal::SIGTERM as i32));
}

#[test]
fn refused_credentials_give_77_without_a_retry() {
    let path = fresh_path("refused");
    let begun = Instant::now();
    for arguments in [
        &["list", &path][..],
        &["run", &path, "true"],
        &["run", "-w", "1h", &path, "true"],
        &["lead", &path, "true"],
    ] {
        let mut refused = zoolock(arguments);
        refused.env("ZOOKEEPER_AUTH", "no-such-scheme:secret");
        assert_eq!(Beside::start(refused).code(), Some(77), "{arguments:?}");
    }
    assert!(begun.elapsed() < SOON);
}
