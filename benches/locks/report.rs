//! The results, and their report: a page with tables and charts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::alone::Spans;
use crate::chart::{Bars, Lines, Series};
use crate::contestant::{self, Contestant};
use crate::figures::{Figures, PER_SECOND, REQUESTS};
use crate::machine;
use crate::session::Outcome;
use crate::table;
use crate::workload::{Case, Workload};

/// The results of all cases.
pub(crate) struct Results {
    pub(crate) rounds: usize,
    /// Whether ZooKeeper was an ensemble.
    pub(crate) ensemble: bool,
    /// The medians of each contestant.
    pub(crate) cases: Vec<(Case, Vec<(&'static str, Figures)>)>,
    /// The results of the cases that only this library has.
    pub(crate) spans: Vec<Spans>,
    /// The rounds that failed, and the reasons.
    pub(crate) failures: Vec<(Case, &'static str, String)>,
    /// The machine of the run.
    pub(crate) machine: String,
    /// The versions of the servers and the clients.
    pub(crate) versions: Vec<String>,
}

impl Results {
    pub(crate) fn new(ensemble: bool) -> Outcome<Results> {
        Ok(Results {
            rounds: 0,
            ensemble,
            cases: Vec::new(),
            spans: Vec::new(),
            failures: Vec::new(),
            machine: machine::describe()?,
            versions: Vec::new(),
        })
    }

    /// Takes the rounds that earlier runs have printed.
    pub(crate) fn read(&mut self, printed: &str) -> Outcome<()> {
        let mut cases: Vec<(Case, BTreeMap<&'static str, Vec<Figures>>)> = Vec::new();
        let all = contestant::all();
        for line in printed.lines() {
            let round: Value = serde_json::from_str(line)?;
            let workload = Workload::ALL.into_iter().find(|it| round["workload"] == it.name());
            let name = all.iter().find(|it| round["contestant"] == it.name);
            let (Some(workload), Some(name), Some(size)) = (workload, name, round["size"].as_u64())
            else {
                continue;
            };
            let case = Case { workload, size: size as usize };
            if let Some(reason) = round["failed"].as_str() {
                self.failures.push((case, name.name, reason.to_owned()));
                continue;
            }
            let index = cases.iter().position(|(known, _)| *known == case);
            let index = index.unwrap_or_else(|| {
                cases.push((case, BTreeMap::new()));
                cases.len() - 1
            });
            let rounds = cases[index].1.entry(name.name).or_default();
            rounds.push(Figures::of_json(&round["figures"]));
        }
        for (case, rounds) in cases {
            let of = |it: &Contestant| Some((it.name, Figures::medians(rounds.get(it.name)?)));
            self.cases.push((case, all.iter().filter_map(of).collect()));
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, spans: Spans) {
        println!("{}", spans.json());
        self.spans.push(spans);
    }

    /// Returns a series for each contestant: a metric of a workload, by size.
    fn by_size(&self, workload: Workload, of: fn(&Figures) -> Option<f64>) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        for (case, figures) in self.cases.iter().filter(|(case, _)| case.workload == workload) {
            for (name, figures) in figures.iter().filter(|(_, it)| !it.is_of_one_thread()) {
                let Some(value) = of(figures) else {
                    continue;
                };
                let point = (case.size as f64, value);
                match all.iter_mut().find(|series| series.name == *name) {
                    Some(series) => series.points.push(point),
                    None => all.push(Series { name, points: vec![point] }),
                }
            }
        }
        all
    }
}

/// Writes the page and the charts.
pub(crate) fn write(folder: &Path, results: &Results) -> Outcome<()> {
    let per_second = |figures: &Figures| figures.get(PER_SECOND);
    let millis_each = |figures: &Figures| figures.get(PER_SECOND).map(|rate| 1e3 / rate);
    let lines = [
        (
            "throughput",
            Lines {
                title: "Lock and unlock by threads of one client, a path each",
                x: "threads",
                y: "acquisitions per second",
                series: results.by_size(Workload::Many, per_second),
            },
        ),
        (
            "local",
            Lines {
                title: "Lock and unlock by threads of one client, all on one lock object",
                x: "threads",
                y: "acquisitions per second",
                series: results.by_size(Workload::Local, per_second),
            },
        ),
        (
            "handoff",
            Lines {
                title: "Clients with one thread each, all on one path",
                x: "clients",
                y: "milliseconds per acquisition",
                series: results.by_size(Workload::Handoff, millis_each),
            },
        ),
        (
            "queue",
            Lines {
                title: "Waiters of one client, granted one after another",
                x: "waiters",
                y: "milliseconds from one grant to the next",
                series: results.by_size(Workload::Queue, millis_each),
            },
        ),
    ];
    let drawn = lines.iter().filter(|(_, chart)| !chart.series.is_empty());
    let mut charts: Vec<(&str, &str, String)> =
        drawn.map(|(file, chart)| (*file, chart.title, chart.svg())).collect();
    let bars = requests(results);
    if !bars.groups.is_empty() {
        charts.push(("requests", bars.title, bars.svg()));
    }
    let mut page = format!("# Benchmarks\n\n{}\n", table::introduction(results));
    for (file, title, svg) in charts {
        fs::write(folder.join(format!("{file}.svg")), svg)?;
        let _ = writeln!(page, "![{title}]({file}.svg)\n");
    }
    page += &table::summary(results);
    page += &table::all(results);
    fs::write(folder.join("README.md"), page)?;
    Ok(())
}

fn requests(results: &Results) -> Bars {
    let of = |figures: &[(&'static str, Figures)]| -> Vec<(&'static str, f64)> {
        let each = figures.iter();
        each.filter_map(|(name, figures)| Some((*name, figures.get(REQUESTS)?))).collect()
    };
    // Requests differ little between sizes, so one size of each workload is enough.
    let middle = |workload: Workload| {
        let cases = results.cases.iter().filter(|(case, _)| case.workload == workload);
        let cases: Vec<_> = cases.collect();
        let (case, figures) = *cases.get(cases.len() / 2)?;
        let bars = of(figures);
        (!bars.is_empty()).then(|| (case.name(), bars))
    };
    Bars {
        title: "Requests per acquisition, by the server's count",
        y: "requests",
        groups: Workload::ALL.into_iter().filter_map(middle).collect(),
    }
}
