//! Collects the library's log lines.

use std::sync::{Mutex, Once};

use log::kv::Key;

/// If a line contains this text, the logger panics, like a logger that writes to a closed stream.
pub const PANICS_THE_LOGGER: &str = "panics-the-logger";

static LOGGER: Logger = Logger(Mutex::new(Vec::new()));

struct Logger(Mutex<Vec<Line>>);

/// The text of a line, and the values of its keys `lock` and `reason`.
type Line = (String, [Option<String>; 2]);

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().split("::").next() == Some("zoolock")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{} {}", record.level(), record.args());
            assert!(!line.contains(PANICS_THE_LOGGER), "{line}");
            let value =
                |key| record.key_values().get(Key::from(key)).map(|value| value.to_string());
            self.0.lock().expect("log").push((line, ["lock", "reason"].map(value)));
        }
    }

    fn flush(&self) {}
}

/// Returns the library's warnings and errors about `about` since the first call. Call this before the first line.
pub fn warnings(about: &str) -> Vec<String> {
    warnings_with_keys(about).into_iter().map(|(line, _)| line).collect()
}

/// Like [`warnings`], with the values of the keys of each line.
pub fn warnings_with_keys(about: &str) -> Vec<Line> {
    static SET_UP: Once = Once::new();
    SET_UP.call_once(|| {
        log::set_logger(&LOGGER).expect("no other logger");
        log::set_max_level(log::LevelFilter::Warn);
    });
    let lines = LOGGER.0.lock().expect("log");
    let about = lines.iter().filter(|(line, _)| line.contains(about));
    about.cloned().collect()
}
