//! The tables of the medians.

use std::fmt::Write;

use crate::alone::Spans;
use crate::contestant::{CURATOR, FLOOR, FLOOR_SINGLE, SINGLE};
use crate::figures::{
    EVENTS, Figures, KIB_PER_WAITER, OWN_REQUESTS, P50, P99, PER_SECOND, REQUESTS, ROUNDS, SYNCS,
    THREADS, TRANSACTIONS,
};
use crate::report::Results;
use crate::servers::Kind;
use crate::workload::Case;

/// Reads a cell from the figures of a contestant and of those it is compared with.
type Cell = fn(&Figures, &Reference) -> Option<String>;

struct Reference<'a> {
    floor: Option<&'a Figures>,
    curator: Option<&'a Figures>,
}

/// The columns, in order. A column without any value is left out.
const COLUMNS: &[(&str, Cell)] = &[
    ("operations/s", |it, _| number(it.get(PER_SECOND)?)),
    ("× raw", |it, to| ratio(it, to.floor)),
    ("× curator", |it, to| ratio(it, to.curator)),
    ("p50 µs", |it, _| number(it.get(P50)?)),
    ("p99 µs", |it, _| number(it.get(P99)?)),
    ("requests", |it, _| number(it.get(REQUESTS)?)),
    ("by its own count", |it, _| number(it.get(OWN_REQUESTS)?)),
    ("watch events", |it, _| number(it.get(EVENTS)?)),
    ("transactions", |it, _| number(it.get(TRANSACTIONS)?)),
    ("syncs", |it, _| number(it.get(SYNCS)?)),
    ("KiB per waiter", |it, _| number(it.get(KIB_PER_WAITER)?)),
    ("threads", |it, _| Some(format!("{:.0}", it.get(THREADS)?))),
];

/// Returns the introduction: the meaning and the source of the figures.
pub(crate) fn introduction(results: &Results) -> String {
    let rounds = results.rounds;
    let machine = &results.machine;
    let durability = [Kind::ZooKeeper, Kind::Redis, Kind::Etcd];
    let durability = durability.map(|kind| kind.durability(results.ensemble));
    format!(
        "Medians of {rounds} rounds, in which all take turns; {machine}; everything on one \
         machine.\n\
         \n\
         - The servers: {}.\n\
         - An operation is a lock and its unlock. `raw` is the crate `zoolock-zookeeper` alone: create, \
         list, delete, and a watch on the node ahead. `raw-single` is a create and a delete of \
         one node. It is the floor for `zoolock-ephemeral` where no client waits. Ratios are of \
         operations per second; more is faster.\n\
         - `redis` asks again every 5 ms while another client has the lock, in no order. `etcd` \
         is its lock service over the JSON gateway. `zookeeper-client` does not wait for its \
         unlocks. `zoolock-keep` keeps its lock between operations until another client asks for \
         it. `zoolock-handoffs` passes it on between threads, 32 times in a row.\n\
         - Requests, watch events, transactions, and syncs of the log to the disk are those of one \
         operation, by the counters of the ZooKeeper server that the clients are connected to, \
         including heartbeats. Memory is the growth of the resident size when parked threads \
         begin to wait; a collected heap grows in steps. Threads are those that a process has \
         beyond its threads before the first session, without the threads that lock.\n",
        durability.join("; "),
    )
}

/// Returns a table for each case.
pub(crate) fn all(results: &Results) -> String {
    let mut text = String::new();
    for (case, figures) in &results.cases {
        let _ = writeln!(text, "{}", one(*case, figures, results.rounds));
    }
    for spans in &results.spans {
        let _ = writeln!(text, "{}", times(spans));
    }
    text
}

fn one(case: Case, figures: &[(&'static str, Figures)], all_rounds: usize) -> String {
    let of = |wanted| figures.iter().find(|(name, _)| *name == wanted);
    let reference = |name: &str| {
        let single = of(FLOOR_SINGLE).filter(|_| [SINGLE, FLOOR_SINGLE].contains(&name));
        Reference {
            floor: single.or(of(FLOOR)).map(|(_, figures)| figures),
            curator: of(CURATOR).map(|(_, figures)| figures),
        }
    };
    let is_used = |(_, cell): &&(&str, Cell)| {
        let all = figures.iter();
        let mut cells = all.map(|(name, figures)| cell(figures, &reference(name)));
        cells.any(|cell| cell.is_some())
    };
    let used: Vec<_> = COLUMNS.iter().filter(is_used).collect();
    let mut text = format!("## {}\n\n", case.name());
    let _ = writeln!(text, "{}.\n", capital(&case.workload.about(case.size)));
    // A round that failed is not in the median.
    let rounds = figures.iter().filter_map(|(_, figures)| figures.get(ROUNDS));
    let least = rounds.min_by(f64::total_cmp).unwrap_or(all_rounds as f64);
    if least < all_rounds as f64 {
        let _ = writeln!(text, "Some rounds failed: there are {least} or more of each.\n");
    }
    let heads: String = used.iter().map(|(head, _)| format!(" {head} |")).collect();
    let _ = writeln!(text, "| |{heads}\n|---|{}", "---:|".repeat(used.len()));
    for (name, figures) in figures {
        let cells = used.iter().map(|(_, cell)| cell(figures, &reference(name)));
        let cells: String = cells.map(|cell| format!(" {} |", cell.unwrap_or_default())).collect();
        let _ = writeln!(text, "| {name} |{cells}");
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
