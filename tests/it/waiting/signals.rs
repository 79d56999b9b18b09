//! Signals that come at the wrong moment: none may be missed.

use std::env;
use std::sync::{Mutex, OnceLock};

use zoolock::crossbeam_channel::{Receiver, Sender};

use super::*;
use crate::util::run_again;

/// Names the server for the process that a test starts of its own.
const CHILD: &str = "ZOOLOCK_TEST_CHILD";

/// The library traces a request when its answer is there and nothing was made of it yet: this
/// logger stops the thread there, for the requests of one kind that name a path.
struct Stop {
    what: &'static str,
    here: Mutex<Option<String>>,
    /// What was answered with NoNode last.
    missed: Mutex<String>,
    stopped: (Sender<()>, Receiver<()>),
    go_on: (Sender<()>, Receiver<()>),
}

static STOP: OnceLock<Stop> = OnceLock::new();

impl log::Log for Stop {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = record.args().to_string();
        if line.ends_with("Some(NoNode)") {
            self.missed.lock().unwrap().clone_from(&line);
        }
        let mut here = self.here.lock().unwrap();
        let is_it = |path: &String| line.starts_with(self.what) && line.contains(path.as_str());
        if here.as_ref().is_some_and(is_it) {
            // Once.
            *here = None;
            drop(here);
            println!("stopped: {line}");
            self.stopped.0.send(()).unwrap();
            self.go_on.1.recv_timeout(SOON).unwrap();
        }
    }

    fn flush(&self) {}
}

impl Stop {
    fn set_up(what: &'static str) -> &'static Stop {
        let stop = STOP.get_or_init(|| Stop {
            what,
            here: Mutex::new(None),
            missed: Mutex::default(),
            stopped: bounded(1),
            go_on: bounded(1),
        });
        log::set_logger(stop).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
        stop
    }

    fn at(&self, path: &str) {
        *self.here.lock().unwrap() = Some(path.to_owned());
    }

    fn wait(&self) {
        self.stopped.1.recv_timeout(SOON).unwrap();
    }

    fn go_on(&self) {
        self.go_on.0.send(()).unwrap();
    }
}

/// Runs a test again, in a process with a logger of its own. True in that process.
fn is_child(name: &str) -> bool {
    if env::var(CHILD).is_ok() {
        return true;
    }
    let said = run_again(&format!("waiting::signals::{name}"), CHILD, "1");
    assert!(said.contains("stopped"), "it did not run: {said}");
    false
}

#[test]
fn an_event_that_overtakes_the_answer_of_its_watch_is_not_missed() {
    if !is_child("an_event_that_overtakes_the_answer_of_its_watch_is_not_missed") {
        return;
    }
    let stop = Stop::set_up("getData");
    let path = fresh_path("overtaken");
    let (_first, ahead) = holder(&path);
    let second = client();
    let behind = lock_of(&second, &path);
    stop.at(&ahead.hold().unwrap().node());
    let waiting = locking(&behind);
    stop.wait();
    // The watch is set; the waiter does not know yet.
    ahead.unlock().unwrap();
    wait_until("the event has come", SOON, || second.stats().events > 0);
    stop.go_on();
    waiting.result("the waiter").unwrap();
    behind.unlock().unwrap();
}

#[test]
fn a_signal_that_comes_between_list_and_watch_is_not_missed() {
    if !is_child("a_signal_that_comes_between_list_and_watch_is_not_missed") {
        return;
    }
    let stop = Stop::set_up("getChildren");
    let server = Server::start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    let first = client_of(&server.connect_string(), SESSION);
    let second = client_of(&server.connect_string(), Duration::from_secs(4));
    let (ahead, behind) = (lock_of(&first, "/lock"), lock_of(&second, "/lock"));
    ahead.lock().unwrap();
    let middle = probe.create("/lock/lock-", b"", true, true).unwrap();
    let _waiting = locking(&behind);
    let held = ahead.hold().unwrap().node();
    let mut own = String::new();
    let mut new_node = |old: &str| {
        wait_until("the waiter has a node", SOON, || {
            let mut seen = probe.children("/lock").unwrap();
            seen.retain(|name| name.starts_with("_c_") && *name != held && *name != old);
            own = seen.pop().unwrap_or_default();
            !own.is_empty()
        });
        own.clone()
    };
    let old = new_node("");
    let node = format!("/lock/{old}");
    let session = probe.stat(&node).unwrap().unwrap().ephemeral_owner;
    wait_for_watcher(&server, &node, session);
    stop.at("/lock");
    probe.delete(&middle).unwrap();
    stop.wait();
    // The list still has its own node, which goes now; the watch over that tells it.
    probe.delete(&node).unwrap();
    wait_until("its own node was looked for", SOON, || stop.missed.lock().unwrap().contains(&old));
    stop.go_on();
    println!("{old} became {}", new_node(&old));
    second.close().unwrap();
}
