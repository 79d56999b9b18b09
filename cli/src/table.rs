//! Prints contenders as tables, and as JSON for programs.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Value, json};
use terminal_size::{Width, terminal_size_of};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use zoolock::Contender;

use crate::grants::Grants;

const HEADER: [&str; 8] = ["PLACE", "STATE", "KIND", "IDENTITY", "SESSION", "AGE", "HELD", "TOKEN"];

/// Columns whose cells are shortened if the terminal is too narrow, and the minimum width.
const CUT: [&str; 5] = ["PATH", "HOLDER", "NEXT", "IDENTITY", "SESSION"];
const NARROWEST: usize = 8;

/// How many characters of an identity a table shows. A node may contain a megabyte of them.
const LONGEST: usize = 80;

/// Returns a table with a line for each contender, in at most this many lines.
pub(crate) fn table(contenders: &[Contender], grants: &Grants, lines: usize) -> String {
    let rows = contenders.iter().enumerate();
    columns(HEADER, rows.map(|(index, contender)| row(index + 1, contender, grants)), lines)
}

/// Returns the rows in columns that are as wide as their widest cells. Shortens cells and lines that are
/// too long for the terminal. If the rows do not fit into this number of lines, the last line counts the
/// rest.
pub(crate) fn columns<const N: usize>(
    header: [&str; N],
    rows: impl ExactSizeIterator<Item = [String; N]>,
    lines: usize,
) -> String {
    let all = rows.len();
    let shown = if all < lines { all } else { lines.saturating_sub(2) };
    let rows = rows.take(shown);
    let rows: Vec<_> = [header.map(str::to_owned)].into_iter().chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max();
    let mut widths: [_; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let terminal = width_of(&io::stdout());
    while widths.iter().sum::<usize>() + 2 * (N - 1) > terminal {
        let may_be_cut = |&column: &usize| CUT.contains(&header[column]);
        let widest = (0..N).filter(may_be_cut).max_by_key(|&column| widths[column]);
        let Some(widest) = widest.filter(|&column| widths[column] > NARROWEST) else { break };
        widths[widest] -= 1;
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| {
            let cell = cut(cell, width);
            let space = width.saturating_sub(cell.width());
            cell + &" ".repeat(space)
        });
        let cells: Vec<_> = cells.collect();
        fitting(cells.join("  ").trim_end().chars(), terminal) + "\n"
    };
    let more = (shown < all).then(|| format!(".. and {} more\n", all - shown));
    rows.iter().map(line).chain(more).collect()
}

fn row(place: usize, contender: &Contender, grants: &Grants) -> [String; HEADER.len()] {
    [
        place.to_string(),
        state(contender).to_owned(),
        wish(contender),
        identity(contender).unwrap_or_else(|| "-".to_owned()),
        session(contender),
        seconds(age(contender)),
        if contender.holds { held(contender, grants) } else { "-".to_owned() },
        contender.token.to_string(),
    ]
}

/// Returns an array with an object for each contender.
pub(crate) fn json(contenders: &[Contender]) -> Value {
    let objects = (1..).zip(contenders).map(|(place, contender): (usize, _)| {
        let mut object = object(contender);
        object["place"] = json!(place);
        object
    });
    Value::Array(objects.collect())
}

/// Returns an object with the properties of a contender.
pub(crate) fn object(contender: &Contender) -> Value {
    json!({
        "holds": contender.holds,
        "asked": contender.asked,
        "kind": contender.kind.as_str(),
        "limit": contender.limit,
        "node": contender.node,
        "sequence": contender.sequence,
        "identity": contender.identity,
        "session": session(contender),
        "since": humantime::format_rfc3339_millis(contender.since).to_string(),
        "token": contender.token,
    })
}

/// Returns the value as text. Characters that would control a terminal are escaped; none are left
/// out.
pub(crate) fn escaped(value: &Value) -> String {
    safe(&format!("{value:#}\n"))
}

/// Returns the value on one line, escaped in the same way.
pub(crate) fn line(value: &Value) -> String {
    safe(&format!("{value}\n"))
}

fn safe(text: &str) -> String {
    let escaped = text.chars().map(|character| match character {
        '\n' => character.to_string(),
        _ if is_plain(character) => character.to_string(),
        _ => {
            let units = character.encode_utf16(&mut [0; 2]).to_owned();
            units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
        }
    });
    escaped.collect()
}

/// Returns whether a character is visible, does not control a terminal, and does not change the
/// direction of the text.
fn is_plain(character: char) -> bool {
    matches!(character, '"' | '\'' | '\\') || character.escape_debug().len() == 1
}

/// Returns the text on one line, with escapes for all characters that are not plain, because any user
/// may have written it.
pub(crate) fn plain(text: &str) -> String {
    let escaped = text.chars().map(|character| match is_plain(character) {
        true => character.to_string(),
        false => character.escape_debug().to_string(),
    });
    escaped.collect()
}

/// Returns the first characters of a contender's identity as plain text.
pub(crate) fn identity(contender: &Contender) -> Option<String> {
    let identity = contender.identity.as_deref()?;
    let begin: String = identity.chars().take(LONGEST).collect();
    let more = if begin.len() < identity.len() { "…" } else { "" };
    Some(plain(&begin) + more)
}

/// Returns the identity, or a placeholder if the contender has none.
pub(crate) fn name(contender: &Contender) -> String {
    identity(contender).unwrap_or_else(|| "a client without an identity".to_owned())
}

/// Returns the age of a contender's node: the time of this machine minus the creation time, which is
/// that of the server.
pub(crate) fn age(contender: &Contender) -> Duration {
    contender.since.elapsed().unwrap_or_default()
}

/// Returns how long a holder has held the lock, or the age of its node as an upper bound if no poll has
/// shown when it acquired the lock.
pub(crate) fn held(holder: &Contender, grants: &Grants) -> String {
    match grants.granted(holder) {
        Some(granted) => seconds(granted.elapsed().unwrap_or_default()),
        None => format!("≤ {}", seconds(age(holder))),
    }
}

pub(crate) fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}

/// Returns the part of a line that fits on a terminal.
pub(crate) fn clip(line: &str, terminal: &impl AsFd) -> String {
    fitting(line.chars(), width_of(terminal))
}

/// Returns the text with its middle replaced by `…`, if it is wider than this.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let ends = width.saturating_sub(1);
    let begin = fitting(text.chars(), ends / 2);
    let end = fitting(text.chars().rev(), ends - ends / 2);
    format!("{begin}…{}", end.chars().rev().collect::<String>())
}

/// Returns the characters that fit into this width.
fn fitting(text: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    let fits = text.take_while(|character| {
        used += character.width().unwrap_or(0);
        used <= width
    });
    fits.collect()
}

/// Returns the width of a terminal. Other outputs have no limit.
pub(crate) fn width_of(terminal: &impl AsFd) -> usize {
    terminal_size_of(terminal).map_or(usize::MAX, |(Width(width), _)| width.into())
}

pub(crate) fn state(contender: &Contender) -> &'static str {
    match contender {
        Contender { holds: true, asked: true, .. } => "asked",
        Contender { holds: true, .. } => "holds",
        Contender { holds: false, .. } => "waits",
    }
}

/// Returns the kind of a contender, with the limit of its permit.
fn wish(contender: &Contender) -> String {
    match contender.limit {
        Some(limit) => format!("permit of {limit}"),
        None => contender.kind.to_string(),
    }
}

fn session(contender: &Contender) -> String {
    format!("{:#x}", contender.session)
}
