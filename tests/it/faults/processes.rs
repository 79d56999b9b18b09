//! Holders in processes of their own, which are stopped or killed.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use zoolock::crossbeam_channel::{Receiver, unbounded};
use zoolock_test_support::{connect_string, fresh_path, wait_until};

use super::lock_of;
use crate::lock::core::hold_of;
use crate::util::{SOON, Task, client, client_of};

/// Tells a test that it is the process of its own; its value is the path of the lock.
pub(super) const OWN_PROCESS: &str = "ZOOLOCK_TEST_HOLDER";

/// A test that runs again in a process of its own, beside this one; killed when dropped.
pub(super) struct Beside {
    process: Child,
    said: Receiver<String>,
}

impl Beside {
    pub(super) fn start(test: &str, path: &str) -> Beside {
        let mut process = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(OWN_PROCESS, path)
            .env("ZOOKEEPER_CONNECT", connect_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (say, said) = unbounded();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                println!("beside: {line}");
                let _ = say.send(line);
            }
        });
        Beside { process, said }
    }

    /// What it says behind `key`, which it may not have said yet.
    pub(super) fn says(&self, key: &str) -> String {
        let end = Instant::now() + SOON;
        loop {
            match self.said.recv_deadline(end) {
                Ok(line) => {
                    // The harness may have begun the line.
                    if let Some((_, value)) = line.split_once(key) {
                        return value.trim().to_owned();
                    }
                }
                Err(error) => panic!("it did not say {key:?}: {error}"),
            }
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.process);
        kill_process(id, signal).unwrap();
    }

    /// Stops it (SIGSTOP) and waits until every thread of it stands still.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.process.id());
        wait_until("it has stopped", SOON, || {
            std::fs::read_dir(&tasks).unwrap().flatten().all(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit_once(") ")
                    .is_none_or(|(_, rest)| rest.starts_with('T'))
            })
        });
    }

    pub(super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn ends_well(&mut self) {
        let mut status = None;
        wait_until("it has ended", SOON, || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{status:?}");
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const SHORT: Duration = Duration::from_secs(3);

/// Holds the lock and looks all the time, until it is lost. The first look that begins after it
/// stood still must see the loss.
fn hold_and_look(path: &str) {
    let client = client_of(&connect_string(), SHORT);
    let lock = lock_of(&client, path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    println!("holding: {}", hold.node());
    let (begun, mut looks, mut stood_still) = (Instant::now(), 0_u64, None);
    let mut last = Instant::now();
    while begun.elapsed() < 3 * SOON {
        let start = Instant::now();
        let before = start - last;
        let held = hold.is_held();
        let during = start.elapsed();
        last = Instant::now();
        looks += 1;
        // A stop in the middle of a look counts for the next one.
        if let Some(gap) = stood_still.take().or((before > SHORT).then_some(before)) {
            println!("first look: {held} after {gap:?}, {:?}", hold.state());
            assert!(!held && hold.valid_for().is_zero());
            break;
        }
        if during > SHORT {
            stood_still = Some(during);
        } else {
            assert!(held, "lost after {looks} looks: {hold:?}");
        }
        thread::sleep(Duration::from_millis(1));
    }
    let told = hold.lost().recv_timeout(SOON);
    println!("told: {told:?}");
    let unlocked = lock.unlock();
    println!("unlocked: {unlocked:?}");
    assert!(unlocked.is_err_and(|error| error.is_lost()));
    assert!(lock.try_lock_for(SOON).is_ok());
    println!("done: {looks} looks");
}

#[test]
fn a_process_that_was_stopped_for_too_long_sees_the_loss_first() {
    const NAME: &str =
        "faults::processes::a_process_that_was_stopped_for_too_long_sees_the_loss_first";
    if let Ok(path) = env::var(OWN_PROCESS) {
        return hold_and_look(&path);
    }
    let path = fresh_path("stopped");
    let mut holder = Beside::start(NAME, &path);
    let node = holder.says("holding:");
    let rivals = client();
    let rival = lock_of(&rivals, &path);
    let waiting = {
        let rival = rival.clone();
        Task::spawn(move || rival.lock())
    };
    crate::lock::core::await_nodes(&path, 2);
    holder.stop();
    let begun = Instant::now();
    waiting.result("the rival").unwrap();
    println!(
        "the rival was let in {:?} after {node} was stopped",
        begun.elapsed()
    );
    // So that the holder can tell by its clock, too.
    wait_until("it has been stopped for long", SOON, || {
        begun.elapsed() > SHORT + SHORT / 3
    });
    holder.signal(Signal::CONT);
    let first = holder.says("first look:");
    assert!(first.starts_with("false"), "{first}");
    assert!(holder.says("told:").contains("Disconnected"));
    assert!(holder.says("unlocked:").contains("Lost"));
    assert!(rival.is_held(), "{rival:?}");
    rival.unlock().unwrap();
    holder.says("done:");
    holder.ends_well();
}
