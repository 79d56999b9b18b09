//! What the library has written to the log.

use std::sync::{Mutex, Once};

static LOGGER: Logger = Logger(Mutex::new(Vec::new()));

struct Logger(Mutex<Vec<String>>);

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("zoolock")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{} {}", record.level(), record.args());
            self.0.lock().expect("log").push(line);
        }
    }

    fn flush(&self) {}
}

/// The library's warnings and errors since the first call, as far as they name `about`: call it
/// once before what is to be logged.
pub fn warnings(about: &str) -> Vec<String> {
    static SET_UP: Once = Once::new();
    SET_UP.call_once(|| {
        log::set_logger(&LOGGER).expect("no other logger");
        log::set_max_level(log::LevelFilter::Warn);
    });
    let lines = LOGGER.0.lock().expect("log");
    let about = lines.iter().filter(|line| line.contains(about));
    about.cloned().collect()
}
