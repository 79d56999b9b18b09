//! Cases that only this library has, beside the duration of a write on its server. They are not
//! compared with other contestants.

use std::time::{Duration, Instant};

use serde_json::json;
use zoolock_test_support::{Probe, fresh_path};

use crate::cut::Cuts;
use crate::report::Results;
use crate::servers::{Kind, Servers};
use crate::session::Outcome;
use crate::workload::Case;

/// The number of locks held while the connection is cut.
pub(crate) const HELD: usize = 8;
/// The number of measurements in a round for times that are shorter than a break.
const EACH: usize = 100;

/// The times of some operations.
pub(crate) struct Spans {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) rows: Vec<(&'static str, Vec<Duration>)>,
}

/// All rounds of a case.
pub(crate) fn measure(case: Case, servers: &Servers, results: &mut Results) -> Outcome<()> {
    let server = servers.address(Kind::ZooKeeper)?.ok_or("no ZooKeeper")?;
    let mut writes = Vec::new();
    let probe = Probe::connect(&*server)?;
    let path = fresh_path("write");
    probe.create_all(&path)?;
    for _ in 0..EACH {
        let begun = Instant::now();
        probe.set(&path, b"")?;
        writes.push(begun.elapsed());
    }
    let mut spans = recover(case, &server, results.rounds)?;
    spans.rows.push(("one write, for comparison", writes));
    results.add(spans);
    Ok(())
}

fn recover(case: Case, server: &str, rounds: usize) -> Outcome<Spans> {
    let cuts = Cuts::new(server.parse()?, HELD, case.size)?;
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        eprintln!("{}: round {}", case.name(), round + 1);
        let recovery = cuts.cut()?;
        held.push(recovery.held);
        waiting.push(recovery.waiting);
    }
    let lost = cuts.end()?;
    Ok(Spans {
        name: case.name(),
        about: format!("{}; lost: {lost}", case.workload.about(case.size)),
        rows: vec![
            ("from the cut until all held are held again", held),
            ("until all waiting have their places, too", waiting),
        ],
    })
}

impl Spans {
    /// Returns a line of JSON, with times in milliseconds.
    pub(crate) fn json(&self) -> serde_json::Value {
        let rows = self.rows.iter().map(|(what, times)| {
            let millis: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
            json!({ "what": what, "ms": millis })
        });
        json!({ "bench": self.name, "about": self.about, "rows": rows.collect::<Vec<_>>() })
    }
}
