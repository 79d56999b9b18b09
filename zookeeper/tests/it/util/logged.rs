//! Collects the client's log lines.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, Once};

pub(crate) static LOGGER: Logger = Logger {
    lines: Mutex::new(Vec::new()),
    is_blocked: Mutex::new(false),
    changed: Condvar::new(),
    waiting: AtomicUsize::new(0),
    panics: AtomicBool::new(false),
};

/// A logger that can be made to block or to panic.
pub(crate) struct Logger {
    lines: Mutex<Vec<String>>,
    is_blocked: Mutex<bool>,
    changed: Condvar,
    /// The number of threads that are waiting to write a line.
    waiting: AtomicUsize,
    /// Whether the logger panics when it checks the log level.
    panics: AtomicBool,
}

impl Logger {
    pub(crate) fn block(&self, is_blocked: bool) {
        *self.is_blocked.lock().unwrap() = is_blocked;
        self.changed.notify_all();
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn panic(&self) {
        self.panics.store(true, Ordering::SeqCst);
    }

    fn wait(&self) {
        let is_blocked = self.is_blocked.lock().unwrap();
        drop(self.changed.wait_while(is_blocked, |is_blocked| *is_blocked).unwrap());
    }
}

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        assert!(!self.panics.load(Ordering::SeqCst), "a logger that panics");
        self.wait();
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {} {}", record.level(), record.target(), record.args());
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.wait();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.lines.lock().unwrap().push(line);
    }

    fn flush(&self) {}
}

/// Returns the lines of all levels about `about` since the first call. Call this once before the first line is written.
pub(crate) fn logged(about: &str) -> Vec<String> {
    static SET_UP: Once = Once::new();
    SET_UP.call_once(|| {
        log::set_logger(&LOGGER).expect("no other logger");
        log::set_max_level(log::LevelFilter::Trace);
    });
    let lines = LOGGER.lines.lock().unwrap();
    let about = lines.iter().filter(|line| line.contains(about));
    about.cloned().collect()
}
