//! `watch -r --json`: a line for each event of the locks below a path.

use std::time::{Duration, SystemTime};

use serde_json::json;
use zoolock::{Error, LockChange, LockEvent};

use crate::args::Target;
use crate::exit::{Failed, print};
use crate::output::say;
use crate::table;

/// Writes events until a signal or a failure ends the process.
pub(crate) fn stream(root: &Target, interval: Duration) -> Result<u8, Failed> {
    let client = root.connect()?;
    for event in client.events_below(&root.path)?.interval(interval) {
        match event {
            Ok(event) => drop(print(line(&event).as_bytes())?),
            Err(denied @ Error::Denied { .. }) => say(&denied.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(0)
}

fn line(event: &LockEvent) -> String {
    let mut object = table::object(&event.contender);
    object["event"] = json!(name(event.change));
    object["path"] = json!(event.contender.path);
    object["time"] = json!(humantime::format_rfc3339_millis(SystemTime::now()).to_string());
    table::line(&object)
}

fn name(change: LockChange) -> &'static str {
    match change {
        LockChange::Waits => "waits",
        LockChange::Holds => "holds",
        LockChange::Asked => "asked",
        LockChange::Gone => "gone",
        _ => "unknown",
    }
}
