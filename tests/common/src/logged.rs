//! Collects what the library writes to the log.

use std::sync::{Mutex, Once};

use log::kv::{Key, Value, VisitSource};

/// A line with this text makes the logger panic, as a logger does that prints to a closed stream.
pub const PANICS_THE_LOGGER: &str = "panics-the-logger";

static LOGGER: Logger = Logger(Mutex::new(Vec::new()));

struct Logger(Mutex<Vec<Line>>);

/// The text of a line, and its keys and values.
type Line = (String, Vec<(String, String)>);

struct Keys(Vec<(String, String)>);

impl<'r> VisitSource<'r> for Keys {
    fn visit_pair(&mut self, key: Key<'r>, value: Value<'r>) -> Result<(), log::kv::Error> {
        self.0.push((key.to_string(), value.to_string()));
        Ok(())
    }
}

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("zoolock")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{} {}", record.level(), record.args());
            assert!(!line.contains(PANICS_THE_LOGGER), "{line}");
            let mut keys = Keys(Vec::new());
            record.key_values().visit(&mut keys).expect("keys");
            self.0.lock().expect("log").push((line, keys.0));
        }
    }

    fn flush(&self) {}
}

/// Returns the library's warnings and errors that contain `about`, since the first call. Call this
/// once before the lines to look for are logged.
pub fn warnings(about: &str) -> Vec<String> {
    warnings_with_keys(about).into_iter().map(|(line, _)| line).collect()
}

/// Like [`warnings`], each with its keys and their values.
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
