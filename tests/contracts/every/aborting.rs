//! `LockOptions::abort_on_loss`, for every kind of lock: a loss ends the process, and nothing else does.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;
use std::{env, thread};

use zoolock::LockOptions;
use zoolock_test_support::fresh_path;

use super::client;
use common::{Beside, ONLY, OWN_PROCESS, SOON, Subject, alone, every_subject_that};

#[test]
fn loss_aborts_the_process() {
    const NAME: &str = "every::aborting::loss_aborts_the_process";
    if let Ok(path) = env::var(OWN_PROCESS) {
        return every_subject_that(Subject::is_free_with_its_unlock, |subject| {
            lose(subject, &path)
        });
    }
    every_subject_that(Subject::is_free_with_its_unlock, |subject| {
        let path = fresh_path("aborting");
        let mut command = alone(NAME, OWN_PROCESS, &path);
        command.env(ONLY, subject.name);
        let mut holder = Beside::start(command);
        holder.says("holder: goes on behind its own ends");
        let why = holder.says("zoolock: aborting: ");
        assert!(why.contains(&path) && why.contains("longer than"), "{}: {why}", subject.name);
        // SIGABRT
        assert_eq!(holder.status().signal(), Some(6), "{}", subject.name);
    });
}

/// Ends some holds in other ways, and then loses one.
fn lose(subject: Subject, path: &str) {
    let aborting = || LockOptions::new().abort_on_loss(true);
    let (first, second) = (client(), client());
    let closed = subject.with(&first, path, aborting());
    closed.lock().unwrap();
    closed.unlock().unwrap();
    closed.lock().unwrap();
    first.close().unwrap();
    assert!(!closed.is_held());
    println!("holder: goes on behind its own ends");
    let lost = subject.with(&second, path, aborting().hold_at_most(Duration::from_millis(100)));
    lost.lock().unwrap();
    let _ = lost.hold().lost().recv_timeout(SOON);
    thread::park_timeout(SOON);
}
