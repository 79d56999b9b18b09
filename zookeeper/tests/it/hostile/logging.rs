//! A logger that blocks, or panics when it is asked what it wants. All urgent work comes before any logging.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Instant;

use crossbeam_channel::unbounded;
use zoolock_test_support::{Direction, FaultProxy, wait_until};
use zoolock_zookeeper::{ErrorKind, SessionEventKind, ZooKeeper};

use crate::util::{BRIEFLY, SHORT, SOON, Told, client_of, in_own_process, said, shared_proxy};

static LOGGER: Logger = Logger {
    is_blocked: Mutex::new(false),
    changed: Condvar::new(),
    waiting: AtomicUsize::new(0),
    written: AtomicUsize::new(0),
    panics: AtomicBool::new(false),
};

/// A logger behind a mutex that another thread may hold for long.
struct Logger {
    is_blocked: Mutex<bool>,
    changed: Condvar,
    /// The number of threads that wait for it.
    waiting: AtomicUsize,
    /// The number of lines written.
    written: AtomicUsize,
    /// It panics when it is asked whether a line is wanted.
    panics: AtomicBool,
}

impl Logger {
    fn block(&self, is_blocked: bool) {
        *self.is_blocked.lock().unwrap() = is_blocked;
        self.changed.notify_all();
    }
}

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        assert!(!self.panics.load(Ordering::SeqCst), "a logger that panics");
        drop(self.changed.wait_while(self.is_blocked.lock().unwrap(), |is_blocked| *is_blocked));
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let name = thread::current().name().unwrap_or_default().to_owned();
        println!("{name}: {} {}", record.level(), record.args());
        let blocked = self.is_blocked.lock().unwrap();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        drop(self.changed.wait_while(blocked, |is_blocked| *is_blocked).unwrap());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.written.fetch_add(1, Ordering::SeqCst);
    }

    fn flush(&self) {}
}

/// Runs a test in a process in which nobody else logs, with a client whose first connection is logged.
fn with_the_logger(test: impl FnOnce(FaultProxy, ZooKeeper, Told)) {
    log::set_logger(&LOGGER).expect("no other logger");
    log::set_max_level(log::LevelFilter::Trace);
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SHORT);
    let told = Told::by(&client);
    wait_until("the connection is logged", SOON, || LOGGER.written.load(Ordering::SeqCst) > 0);
    test(proxy, client, told);
}

#[test]
fn blocked_logger_does_not_prevent_a_resume() {
    let test = |proxy: FaultProxy, client: ZooKeeper, told: Told| {
        let (session, keeper) = (client.session_id(), client.keep_lease());
        LOGGER.block(true);
        proxy.cut();
        told.until(SessionEventKind::Resumed);
        // Longer than any earlier lease.
        let resumed = Instant::now();
        wait_until("the lease has been kept for two timeouts", SOON, || {
            let (kept, passed) = (client.valid_for(), resumed.elapsed());
            assert!(!kept.is_zero(), "the lease has ended after {passed:?}");
            passed > SHORT * 2
        });
        client.exists("/").unwrap();
        let waiting = LOGGER.waiting.load(Ordering::SeqCst);
        println!("{:?}, {waiting} wait for the logger", told.kinds());
        assert_eq!(client.session_id(), session);
        // The same again.
        proxy.cut();
        told.until(SessionEventKind::Resumed);
        client.exists("/").unwrap();
        drop(keeper);
        LOGGER.block(false);
        client.close().unwrap();
    };
    in_own_process(|| with_the_logger(test));
}

#[test]
fn blocked_logger_does_not_delay_deferred_calls() {
    let test = |_, client: ZooKeeper, _| {
        LOGGER.block(true);
        client.note(log::Level::Warn, || log::warn!(target: "zookeeper", "a line"));
        wait_until("the logger is waited for", SOON, || LOGGER.waiting.load(Ordering::SeqCst) > 0);
        let (say, said) = unbounded();
        client.call_aside(move || say.send(()).unwrap());
        said.recv_timeout(SOON).expect("it is called");
        assert!(LOGGER.waiting.load(Ordering::SeqCst) > 0);
        LOGGER.block(false);
    };
    in_own_process(|| with_the_logger(test));
}

#[test]
fn blocked_logger_keeps_no_call_beyond_its_deadline() {
    let test = |proxy: FaultProxy, client: ZooKeeper, told: Told| {
        LOGGER.block(true);
        proxy.cut_off();
        told.until(SessionEventKind::Suspended);
        let begun = Instant::now();
        let (kind, _) = said(client.with_timeout(BRIEFLY).exists("/"));
        println!("after {:.1?}", begun.elapsed());
        assert_eq!(kind, ErrorKind::NoConnection);
        proxy.restore();
        told.until(SessionEventKind::Resumed);
        proxy.black_hole(Direction::Both);
        let (kind, _) = said(client.with_timeout(BRIEFLY).exists("/"));
        assert_eq!(kind, ErrorKind::Timeout);
        LOGGER.block(false);
    };
    in_own_process(|| with_the_logger(test));
}

#[test]
fn logger_that_panics_when_asked_ends_no_client() {
    let test = |proxy: FaultProxy, client: ZooKeeper, told: Told| {
        LOGGER.panics.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            proxy.cut();
            told.until(SessionEventKind::Resumed);
            client.exists("/").unwrap();
        }
        client.close().unwrap();
        println!("{:?}", told.kinds());
    };
    in_own_process(|| with_the_logger(test));
}
