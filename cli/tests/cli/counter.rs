//! A script of which only one copy may run, started many times at once.

use std::process::{Command, Stdio};
use std::time::Instant;

use zoolock_test_support::fresh_path;

use crate::util::{Scratch, await_nodes, run};

const RUNS: u32 = 50;

/// Starts all copies, waits for them, and returns the content of the file.
fn count(what: &str, scratch: &Scratch, command: impl Fn(&str) -> Command) -> u32 {
    let name = scratch.name();
    std::fs::write(&scratch.file, "0").expect("written");
    // Between the read and the write there is time for another copy.
    let script = format!("n=$(cat {name}); sleep 0.01; echo $((n + 1)) > {name}");
    let begun = Instant::now();
    let all: Vec<_> = (0..RUNS)
        .map(|_| command(&script).stdin(Stdio::null()).spawn().expect("started"))
        .collect();
    for mut one in all {
        let status = one.wait().expect("can be waited for");
        assert!(status.success(), "{what}: {status}");
    }
    let counted = std::fs::read_to_string(&scratch.file).expect("read");
    println!("{what}: {RUNS} runs, counted {} in {:.1?}", counted.trim(), begun.elapsed());
    counted.trim().parse().expect("a number")
}

#[test]
fn fifty_scripts_at_once_count_to_fifty_as_with_flock() {
    let (path, scratch) = (fresh_path("counter"), Scratch::new());
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    };
    // Nothing is asserted about this one; it only keeps the others busy.
    count("without a lock", &scratch, shell);
    assert_eq!(count("zoolock run", &scratch, |script| run(&[], &path, script)), RUNS);
    await_nodes(&path, 0);
    let locked = format!("{}.lock", scratch.name());
    let flock = |script: &str| {
        let mut command = Command::new("flock");
        command.args([&locked, "sh", "-c", script]);
        command
    };
    match Command::new("flock").arg("--version").output() {
        Ok(_) => assert_eq!(count("flock", &scratch, flock), RUNS),
        Err(error) => println!("flock: skipped, {error}"),
    }
}
