//! Runs the examples as a reader would run them. Each must do and print what it promises, and then exit.

use std::collections::BTreeMap;
use std::env;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::thread;

use common::*;

/// The examples that are separate packages because of their dependencies.
const PACKAGES: [&str; 4] = ["asynchronous", "opentelemetry_spans", "prometheus", "web_service"];

/// Builds an example, unless a full `cargo test` has already done so, and returns its path.
fn built(example: &str) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let has_package = PACKAGES.contains(&example);
    match has_package {
        true => command.args(["--package", example]),
        false => command.args(["--package=zoolock", "--example", example]),
    };
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command.output().expect("cargo");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example} does not build: {errors}");
    // The path of this test is <target>/<profile>/deps/programs-<hash>.
    let test = env::current_exe().expect("a path");
    let profile = test.ancestors().nth(2).expect("a folder of the profile");
    profile.join(if has_package { "" } else { "examples" }).join(example)
}

/// Starts an example that uses this path as its root.
fn start(example: &str, path: &str, arguments: &[&str]) -> Beside {
    let mut command = Command::new(built(example));
    command.args(arguments).env("ZOOKEEPER_CONNECT", format!("{}{path}", connect_string()));
    command.envs(["LISTEN", "ADMIN"].map(|port| (port, "127.0.0.1:0")));
    Beside::start(command)
}

/// Waits for an example to exit, and returns its status and its whole output.
fn ended(mut running: Beside) -> (ExitStatus, String) {
    let status = running.status();
    (status, running.said().iter().map(|line| format!("{line}\n")).collect())
}

/// Waits for an example to exit with code 0, and returns its whole output.
fn said(running: Beside) -> String {
    let (status, said) = ended(running);
    assert!(status.success(), "it ended with {status}");
    said
}

/// Runs an example below a fresh path and without arguments, and returns its output.
fn run(example: &str) -> String {
    said(start(example, &fresh_path(example), &[]))
}

#[track_caller]
fn assert_says(said: &str, expected: &[&str]) {
    for text in expected {
        assert!(said.contains(text), "no {text:?}");
    }
}

/// Examples that take no arguments and print at the end whether everything happened as it should.
const ALONE: [(&str, &[&str]); 7] = [
    ("quickstart", &["held, with fencing token ", "\nstep 3, ", "\nreleased\n"]),
    ("leader_election", &[" leads, term ", "\nfour terms, one leader at a time\n"]),
    (
        "guarded_writes",
        &[
            "slow  writes colour=red: Err(Lost ",
            "the node says \"colour=blue\"",
            "quick writes to the first version: Err(Conflict ",
        ],
    ),
    ("config_cache", &["100 reads, at most ", "at once, 10 versions, none of them half read\n"]),
    ("transfer", &["80 transfers, balances [", " sum 400\n"]),
    (
        "react_to_loss",
        &[
            "the worker stops: Lost, Lost(LeaseExpired)",
            "the successor stops: Asked, Held",
            "the successor began ",
        ],
    ),
    ("asynchronous", &["the second task gave up", "the first task has finished: true"]),
];

#[test]
fn examples_do_what_they_promise() {
    thread::scope(|scope| {
        for (example, expected) in ALONE {
            scope.spawn(move || assert_says(&run(example), expected));
        }
    });
}

#[test]
fn scheduled_job_runs_once_a_round_on_three_different_clocks() {
    let path = fresh_path("scheduled_job");
    let machines = ["0", "125", "250"].map(|late| start("scheduled_job", &path, &[late]));
    let said = machines.map(said).concat();
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    for line in said.lines() {
        let (round, what) = line.split_once(": ").expect("a round and what became of it");
        *runs.entry(round).or_default() += usize::from(what.starts_with("ran here"));
    }
    println!("{runs:?}");
    assert!(runs.values().all(|&runs| runs <= 1), "a job ran twice: {runs:?}");
    assert!(runs.values().any(|&runs| runs == 1), "no job ran: {runs:?}");
}

#[test]
fn batch_begins_after_one_that_hangs_is_aborted() {
    let path = fresh_path("batch");
    let begun = |said: &str, step: &str| -> u64 {
        let begun = said.lines().find_map(|line| line.strip_prefix(step));
        let time = begun.and_then(|begun| begun.strip_prefix(" begins at ")?.strip_suffix(" ms"));
        time.and_then(|time| time.parse().ok()).unwrap_or_else(|| panic!("no {step}:\n{said}"))
    };
    let (status, hung) = ended(start("batch", &path, &["hang"]));
    assert_eq!(status.signal(), Some(Signal::SIGABRT as i32));
    assert_says(&hung, &["it was held for longer than hold_at_most or expire_in allows"]);
    let next = said(start("batch", &path, &[]));
    assert!(next.ends_with("all done\n"), "{next}");
    let pause = begun(&next, "step 1") - begun(&hung, "step 2");
    // Longer than the longest step takes.
    assert!(pause > 1900, "{pause} ms");
}

#[test]
fn fenced_register_loses_no_update_of_a_stopped_process() {
    let said = run("fenced_register");
    let (before, behind) = said.split_once("goes on\n").expect("it goes on");
    // At this point, the next holder had already read, but not yet written.
    assert_eq!(before.matches(" has claimed, and has read 0\n").count(), 2);
    assert!(!before.contains("has written"));
    assert!(behind.lines().next().expect("a line").contains(" is refused: "));
    assert!(behind.contains(" has written 1\n") && behind.contains(" has written 2\n"));
    assert!(behind.ends_with("the register says 2\n"));
}

#[test]
fn resource_pool_never_exceeds_its_size() {
    let said = run("resource_pool");
    let last = said.lines().last().unwrap_or_default();
    let most = last.strip_prefix("32 problems solved, at most ");
    let most = most.and_then(|rest| rest.strip_suffix(" of 3 licences in use"));
    let most: u32 = most.expect("the last line").parse().expect("a number");
    assert!((2..=3).contains(&most), "{most} of 3");
}

#[test]
fn web_service_counts_a_reservation_and_ends_in_order_at_sigterm() {
    let service = start("web_service", &fresh_path("web_service"), &[]);
    let [items, admin] = [(); 2].map(|()| service.says("http://"));
    let ask = |url: &str, request: &str| {
        let (address, _) = url.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(address).expect("it listens");
        write!(stream, "{request} HTTP/1.1\r\n\r\n").expect("sent");
        std::io::read_to_string(stream).expect("UTF-8")
    };
    let is_ready = || ask(&admin, "GET /health").starts_with("HTTP/1.1 200 OK\r\n");
    wait_until("it is ready", SOON, is_ready);
    // On a busy machine, ZooKeeper's answer may arrive too late. The service then answers 503, but may have counted the
    // reservation nevertheless.
    let (mut asked, mut count) = (0, None);
    wait_until("a lamp is reserved", SOON, || {
        let answer = ask(&items, "POST /items/lamp/reserve");
        println!("{answer}");
        asked += 1;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") || answer.starts_with("HTTP/1.1 503 "));
        count = answer.rsplit_once("\r\n\r\n").and_then(|(_, text)| text.trim_end().parse().ok());
        count.is_some()
    });
    assert!((1..=asked).contains(&count.expect("a number")), "{count:?}, asked {asked} times");
    service.signal(Signal::SIGTERM);
    assert_says(&said(service), &["shutting down"]);
}

#[test]
fn opentelemetry_has_a_span_for_each_wait_and_each_hold() {
    let said = run("opentelemetry_spans");
    assert_says(&said, &["6 turns, each with the spans of its wait and its hold"]);
}

#[test]
fn prometheus_counts_every_acquisition() {
    let said = run("prometheus");
    let turns = r#"{lock="exclusive",name="invoices",outcome="acquired"} 60"#;
    assert_says(&said, &["serving http://127.0.0.1:", "60 turns, all of them reported"]);
    assert_says(&said, &[&format!("zoolock_acquisitions_total{turns}")]);
    let of_each = r#"_count{lock="exclusive",name="invoices"} 60"#;
    for what in ["wait_seconds", "queue_length", "hold_seconds"] {
        assert_says(&said, &[&format!("zoolock_{what}{of_each}")]);
    }
    assert_says(&said, &["zoolock_connected 1", "zoolock_held 0", "zoolock_holds_lost_total 0"]);
    let described = said.lines().filter(|line| line.starts_with("# HELP zoolock_"));
    let kinds = said.lines().filter(|line| line.starts_with("# TYPE zoolock_"));
    assert_eq!(described.count(), kinds.count(), "each number is described");
}
