//! The command without a connection: it waits for servers, or the servers refuse its credentials.

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
fn with_a_limit_it_waits_for_servers_too() {
    let proxy = down();
    let mut waiting = Beside::start(run_at(&proxy, &["-w", "1h"]));
    waiting.says("waiting for a server: failed to connect");
    proxy.refuse(false);
    assert_eq!(waiting.code(), Some(0));
    let said = waiting.said();
    assert!(!said.iter().any(|line| line.contains("waiting for a server")), "once: {said:?}");
}

#[test]
fn servers_that_stay_away_are_waited_for_until_the_limit() {
    let (proxy, limit) = (down(), Duration::from_millis(1500));
    let begun = Instant::now();
    let mut waiting = Beside::start(run_at(&proxy, &["-w", "1500ms", "-E", "0"]));
    assert_eq!(waiting.code(), Some(69), "whether it is free is not known");
    println!("ended after {:?}", begun.elapsed());
    assert!(begun.elapsed() >= limit);
    // Without a limit, a wrong address has to be reported at once.
    let mut unlimited = Beside::start(run_at(&proxy, &[]));
    assert_eq!(unlimited.code(), Some(69));
}

#[test]
fn a_signal_ends_waiting_for_servers() {
    let proxy = down();
    let mut waiting = Beside::start(run_at(&proxy, &["-w", "1h"]));
    waiting.says("waiting for a server");
    waiting.signal(Signal::SIGTERM);
    assert_eq!(waiting.code(), Some(128 + Signal::SIGTERM as i32));
}

#[test]
fn credentials_that_are_refused_give_77_and_are_not_tried_again() {
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
