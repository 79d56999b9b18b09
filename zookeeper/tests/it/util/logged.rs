//! Collects what the client writes to the log.

use std::sync::{Mutex, Once};

static LOGGER: Logger = Logger(Mutex::new(Vec::new()));

struct Logger(Mutex<Vec<String>>);

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {} {}", record.level(), record.target(), record.args());
        self.0.lock().unwrap().push(line);
    }

    fn flush(&self) {}
}

/// Returns all lines of any level that contain `about`, since the first call. Call this once before
/// the lines to look for are logged.
pub(crate) fn logged(about: &str) -> Vec<String> {
    static SET_UP: Once = Once::new();
    SET_UP.call_once(|| {
        log::set_logger(&LOGGER).expect("no other logger");
        log::set_max_level(log::LevelFilter::Trace);
    });
    let lines = LOGGER.0.lock().unwrap();
    let about = lines.iter().filter(|line| line.contains(about));
    about.cloned().collect()
}
