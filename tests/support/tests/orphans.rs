//! A server never outlives the process that started it, whatever the reason for which that process ends.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::Duration;

use zoolock_test_support::{CountingServer, Server, shared_server, wait_until};

/// Long enough for a busy machine. Normally, the test does not wait this long.
const SOON: Duration = Duration::from_secs(30);

const END: &str = "ZOOLOCK_TEST_END";

/// Runs in a process that the test starts: the same test, with [`END`] set. Starts the shared server, prints its
/// address, and ends in the given way.
fn start_and_end(end: &str) {
    let server: &Server = match end {
        "counting" => CountingServer::shared().unwrap(),
        _ => shared_server(),
    };
    let conf = server.four_letter("conf").unwrap();
    let data = conf.lines().find_map(|line| line.strip_prefix("dataDir="));
    println!("\nserver {} {}", server.process_id().unwrap(), data.unwrap());
    match end {
        "abort" => process::abort(),
        "paused" => {
            server.pause().unwrap();
            process::abort();
        }
        "exit" => process::exit(0),
        _ => loop {
            thread::park();
        },
    }
}

/// Starts this test in another process, which ends in the given way, and waits until nothing is left of its server.
fn leaves_nothing(end: &str) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "no_end_of_a_process_leaves_its_server", "--nocapture"])
        .env(END, end)
        .env_remove("ZOOKEEPER_CONNECT")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let said = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("server ").map(str::to_owned))
        .expect("the child prints its server's folder");
    let (java, data) = said.split_once(' ').unwrap();
    if ["kill", "counting"].contains(&end) {
        assert!(is_alive(java));
        child.kill().unwrap();
    }
    println!("{end}: {}", child.wait().unwrap());
    let took = wait_until("java is gone", SOON, || !is_alive(java));
    let folder = Path::new(data).parent().unwrap();
    wait_until("its directory is gone", SOON, || !folder.exists());
    println!("{end}: gone after {took:.0?}");
}

/// Returns whether a process is alive. A process that has ended but has not been reaped does not count.
fn is_alive(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn no_end_of_a_process_leaves_its_server() {
    if let Ok(end) = env::var(END) {
        return start_and_end(&end);
    }
    ["abort", "paused", "exit", "kill"].into_iter().for_each(leaves_nothing);
    if CountingServer::shared().is_some() {
        leaves_nothing("counting");
    }
}
