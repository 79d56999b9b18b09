//! Commands that cannot connect yet, and wait for a server.

use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::util::*;

/// Returns a proxy whose server appears to be down until `refuse(false)`.
fn down() -> FaultProxy {
    let proxy = shared_proxy();
    proxy.refuse(true);
    proxy
}

fn run_at(proxy: &FaultProxy, options: &[&str]) -> Command {
    let hosts = proxy.connect_string();
    let options = [&["-v", "-c", &hosts, "--session-timeout", "10"], options].concat();
    run(&options, &fresh_path("no-server"), "true")
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
    let (proxy, begun) = (down(), Instant::now());
    let (code, _, errors) = ends(run_at(&proxy, &["-w", "1500ms", "-E", "0"]));
    assert_eq!(code, Some(69), "whether it is free is not known");
    assert!(begun.elapsed() >= Duration::from_millis(1500));
    assert!(errors.contains("refused"), "of a try that had time: {errors}");
    // Without a time limit, the command does not wait, so that the user notices a wrong address.
    assert_eq!(ends(run_at(&proxy, &[])).0, Some(69));
}

#[test]
fn signal_ends_the_wait_for_servers_and_the_connect() {
    let proxy = down();
    let mut waiting = Beside::start(run_at(&proxy, &["-w", "1h"]));
    waiting.says("waiting for a server");
    assert_eq!(end_by(Signal::SIGTERM, &mut waiting), Some(128 + Signal::SIGTERM as i32));

    // A server that accepts connections but stays silent.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hosts = silent.local_addr().expect("bound").to_string();
    let arguments = ["run", "--session-timeout", "60", "/path", "true"];
    let mut connecting = Beside::start(zoolock_at(&hosts, &arguments));
    let _connection = silent.accept().expect("it connects");
    let begun = Instant::now();
    assert_eq!(end_by(Signal::SIGINT, &mut connecting), Some(128 + Signal::SIGINT as i32));
    assert!(begun.elapsed() < SOON / 2);
}
