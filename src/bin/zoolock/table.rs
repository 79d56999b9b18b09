//! Contenders as people and programs read them.

use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Value, json};
use terminal_size::{Width, terminal_size_of};
use zoolock::{Contender, Kind};

use crate::progress::age;

const HEADER: [&str; 7] = [
    "PLACE", "STATE", "KIND", "IDENTITY", "SESSION", "SINCE", "TOKEN",
];

/// A table with a line for each.
pub(crate) fn table(contenders: &[Contender]) -> String {
    let rows = (1..)
        .zip(contenders)
        .map(|(place, contender)| row(place, contender));
    let rows: Vec<_> = [HEADER.map(str::to_owned)]
        .into_iter()
        .chain(rows)
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [_; HEADER.len()] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let line = |row: &[String; HEADER.len()]| {
        let cells = row.iter().zip(widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn row(place: usize, contender: &Contender) -> [String; HEADER.len()] {
    let identity = contender.identity.as_deref().map(plain);
    [
        place.to_string(),
        state(contender).to_owned(),
        kind(contender.kind).to_owned(),
        identity.unwrap_or_else(|| "-".to_owned()),
        session(contender),
        seconds(age(contender)),
        contender.token.to_string(),
    ]
}

/// An array of objects. Whatever a node says of itself is in it as it is.
pub(crate) fn json(contenders: &[Contender]) -> String {
    let objects = (1..).zip(contenders).map(|(place, contender): (usize, _)| {
        json!({
            "place": place,
            "holds": contender.holds,
            "kind": kind(contender.kind),
            "node": contender.node,
            "sequence": contender.sequence,
            "identity": contender.identity,
            "session": session(contender),
            "since": humantime::format_rfc3339_millis(contender.since).to_string(),
            "token": contender.token,
        })
    });
    format!("{:#}\n", Value::Array(objects.collect()))
}

/// On one line, without what a terminal would act on: anybody may have written it.
pub(crate) fn plain(text: &str) -> String {
    let escaped = text.chars().map(|character| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    });
    escaped.collect()
}

pub(crate) fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}

/// What of a line fits on a terminal.
pub(crate) fn clip(line: &str, terminal: &impl AsFd) -> String {
    let width = terminal_size_of(terminal).map_or(usize::MAX, |(Width(width), _)| width.into());
    line.chars().take(width).collect()
}

pub(crate) fn state(contender: &Contender) -> &'static str {
    match contender {
        Contender {
            kind: Kind::Foreign,
            ..
        } => "-",
        Contender { holds: true, .. } => "holds",
        Contender { holds: false, .. } => "waits",
    }
}

pub(crate) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Exclusive => "exclusive",
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Permit => "permit",
        _ => "foreign",
    }
}

fn session(contender: &Contender) -> String {
    format!("{:#x}", contender.session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_write_cannot_play_with_the_terminal() {
        let said = plain("a\nb\x1b[2J\u{9b}31m ü");
        println!("{said}");
        assert_eq!(said, r"a\nb\u{1b}[2J\u{9b}31m ü");
    }
}
