//! The tables of the medians.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::alone::Spans;
use crate::contestant::{
    CURATOR, ETCD, FLOOR, FLOOR_SINGLE, KAZOO, OWN, REDIS, SINGLE, ZOOKEEPER_CLIENT,
};
use crate::figures::{
    EVENTS, FAIRNESS, Figures, KIB_PER_WAITER, OWN_REQUESTS, P50, P99, PER_SECOND, REQUESTS, SYNCS,
    THREADS, TRANSACTIONS, UNFAIR,
};
use crate::report::Results;
use crate::servers::Kind;
use crate::workload::Case;

/// Reads a cell from the metrics of a contestant and of those that it is compared with.
type Cell = fn(&Figures, &Reference) -> Option<String>;

struct Reference<'a> {
    floor: Option<&'a Figures>,
    curator: Option<&'a Figures>,
}

/// The columns, in order. A column without any value is left out.
const COLUMNS: &[(&str, Cell)] = &[
    ("acquisitions/s", |it, _| number(it.get(PER_SECOND)?)),
    ("× curator", |it, to| ratio(it, to.curator)),
    ("p50 µs", |it, _| number(it.get(P50)?)),
    ("p99 µs", |it, _| number(it.get(P99)?)),
    ("fastest / slowest", |it, _| number(it.get(FAIRNESS)?)),
    ("requests", |it, _| number(it.get(REQUESTS)?)),
    ("by its own count", |it, _| number(it.get(OWN_REQUESTS)?)),
    ("watch events", |it, _| number(it.get(EVENTS)?)),
    ("transactions", |it, _| number(it.get(TRANSACTIONS)?)),
    ("syncs", |it, _| number(it.get(SYNCS)?)),
    ("KiB per waiter", |it, _| number(it.get(KIB_PER_WAITER)?)),
    ("threads", |it, _| Some(format!("{:.0}", it.get(THREADS)?))),
    ("× raw", |it, to| ratio(it, to.floor)),
];

/// Returns the introduction: the machine, the versions, and the meaning and source of the metrics.
pub(crate) fn introduction(results: &Results) -> String {
    let Results { rounds, machine, .. } = results;
    let durability = [Kind::ZooKeeper, Kind::Redis, Kind::Etcd];
    let durability = durability.map(|kind| kind.durability(results.ensemble));
    let mut versions: Vec<_> = results.versions.iter().map(String::as_str).collect();
    versions.retain(|version| !version.is_empty());
    // Several contestants use one client, and are listed beside each other.
    versions.dedup();
    format!(
        "Medians of {rounds} rounds. In each round, every contestant runs once. Servers and clients run on \
         one machine.\n\
         \n\
         {machine}\
         - Versions: {}.\n\
         - Servers: {}.\n\
         - An acquisition is a lock and its unlock. `zoolock` is `DistributedLock` with its default \
         options, and `zoolock-reentrant` and `zoolock-ephemeral` are the other types. \
         `zoolock-handoffs` has `local_handoffs(32)`: the threads of a process pass the lock on up to 32 \
         times. `zoolock-background` has `background_release(true)`, and `zookeeper-client` does not \
         wait for its unlocks, either.\n\
         - Fastest / slowest: how many times the fastest thread acquired the lock for each acquisition \
         of the slowest; 1 is fair. A contestant above {UNFAIR} is not compared: its rate is mostly that \
         of one thread that finds the lock free each time.\n\
         - `etcd` is etcd's lock service over its JSON gateway. Where clients wait for each other, its \
         figures do not show its speed: a waiter watches a key, and the server notifies watches that \
         have fallen behind every 100 ms only. Around ten hand-overs per second and waiter are that \
         interval.\n\
         - `redis` polls every 5 ms while another client has the lock, in no order.\n\
         - `raw` is the crate `zookeeper` alone: create, list, delete, and a watch on the node ahead. Its \
         locks do not survive a lost connection. `raw-single` is a create and a delete of one node, and \
         the floor for `zoolock-ephemeral` where no client waits.\n\
         - Requests, watch events, transactions, and syncs of the log to the disk are per acquisition, \
         as counted by the ZooKeeper server that the clients are connected to; they include heartbeats. \
         Memory is the growth of the resident size when parked threads begin to wait; a \
         garbage-collected heap grows in steps. Threads are those of the client, without the threads \
         that lock.\n",
        versions.join("; "),
        durability.join("; "),
    )
}

/// Returns a table of the rates of this library beside those of others, a row for each case.
pub(crate) fn summary(results: &Results) -> String {
    const COMPARED: [&str; 6] = [OWN, CURATOR, KAZOO, ZOOKEEPER_CLIENT, ETCD, REDIS];
    let mut text = format!(
        "## Acquisitions per second\n\n| | {} |\n|---|{}\n",
        COMPARED.join(" | "),
        "---:|".repeat(COMPARED.len()),
    );
    for (case, figures) in &results.cases {
        let cells = COMPARED.map(|name| {
            let found = figures.iter().find(|(it, _)| *it == name);
            let rate = found.filter(|(_, it)| !it.is_of_one_thread());
            rate.and_then(|(_, it)| number(it.get(PER_SECOND)?)).unwrap_or_default()
        });
        let about = capital(&case.workload.about(case.size));
        let about = about.split(';').next().unwrap_or_default();
        let _ = writeln!(text, "| {about} | {} |", cells.join(" | "));
    }
    text + "\n"
}

/// Returns a table for each case.
pub(crate) fn all(results: &Results) -> String {
    let mut text = String::new();
    for (case, figures) in &results.cases {
        let failures = results.failures.iter().filter(|(failed, ..)| failed == case);
        let mut counts = BTreeMap::new();
        for (_, name, reason) in failures {
            *counts.entry((*name, reason.as_str())).or_insert(0_usize) += 1;
        }
        let _ = writeln!(text, "{}", one(*case, figures, results.rounds, &counts));
    }
    for spans in &results.spans {
        let _ = writeln!(text, "{}", times(spans));
    }
    text
}

/// The number of failed rounds, by contestant and reason.
type Failures<'a> = BTreeMap<(&'a str, &'a str), usize>;

fn one(
    case: Case,
    figures: &[(&'static str, Figures)],
    rounds: usize,
    failures: &Failures<'_>,
) -> String {
    let (unfair, compared): (Vec<_>, Vec<_>) =
        figures.iter().partition(|(_, figures)| figures.is_of_one_thread());
    let of = |wanted| compared.iter().find(|(name, _)| *name == wanted);
    let reference = |name: &str| {
        let single = of(FLOOR_SINGLE).filter(|_| [SINGLE, FLOOR_SINGLE].contains(&name));
        Reference {
            floor: single.or(of(FLOOR)).map(|(_, figures)| figures),
            curator: of(CURATOR).map(|(_, figures)| figures),
        }
    };
    let is_used = |(_, cell): &&(&str, Cell)| {
        let all = compared.iter();
        let mut cells = all.map(|(name, figures)| cell(figures, &reference(name)));
        cells.any(|cell| cell.is_some())
    };
    let used: Vec<_> = COLUMNS.iter().filter(is_used).collect();
    let mut text = format!("## {}\n\n", case.name());
    let _ = writeln!(text, "{}.\n", capital(&case.workload.about(case.size)));
    let heads: String = used.iter().map(|(head, _)| format!(" {head} |")).collect();
    let _ = writeln!(text, "| |{heads}\n|---|{}", "---:|".repeat(used.len()));
    for (name, figures) in &compared {
        let cells = used.iter().map(|(_, cell)| cell(figures, &reference(name)));
        let cells: String = cells.map(|cell| format!(" {} |", cell.unwrap_or_default())).collect();
        let _ = writeln!(text, "| {name} |{cells}");
    }
    if !unfair.is_empty() {
        let name = |(name, figures): &&(&str, Figures)| {
            Some(format!(
                "`{name}` ({} acquisitions for each one)",
                number(figures.get(FAIRNESS)?)?
            ))
        };
        let names: Vec<_> = unfair.iter().filter_map(name).collect();
        let _ = writeln!(
            text,
            "\nNot compared, because the fastest thread did far more than the slowest: {}.",
            names.join(", ")
        );
    }
    for ((name, reason), count) in failures {
        let _ = writeln!(text, "\n{count} of {rounds} rounds of `{name}` failed: {reason}.");
    }
    text
}

fn times(spans: &Spans) -> String {
    let (name, about) = (&spans.name, capital(&spans.about));
    let mut text = format!("## {name}\n\n{about}.\n\n| | p50 ms | most ms |\n|---|---:|---:|\n");
    for (what, times) in &spans.rows {
        let mut millis: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        millis.sort_by(f64::total_cmp);
        let (middle, most) = (millis[millis.len() / 2], millis[millis.len() - 1]);
        let cells = [middle, most].map(|it| number(it).unwrap_or_default());
        let _ = writeln!(text, "| {what} | {} |", cells.join(" | "));
    }
    text
}

fn ratio(it: &Figures, to: Option<&Figures>) -> Option<String> {
    Some(format!("{:.2}", it.get(PER_SECOND)? / to?.get(PER_SECOND)?))
}

/// Formats a number with about three digits.
fn number(value: f64) -> Option<String> {
    Some(match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.clone()).collect()
}
