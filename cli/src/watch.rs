//! `watch`: looks at a lock, or at all locks below a path, again and again.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, SystemTime};

use terminal_size::{Height, terminal_size_of};
use zoolock::{Contender, Kind};

use crate::args::Target;
use crate::exit::{Failed, print};
use crate::grants::Grants;
use crate::output::say;
use crate::table::{clip, cut, identity, kind, plain, state, table, width_of};
use crate::tree;

/// The contenders, and the number of paths that may not be read.
type Look = (Vec<Contender>, usize);

/// Goes to the upper left corner and clears everything below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Watches until a signal or a failure ends the process. The modes of the terminal stay as they
/// are, so a signal leaves nothing to restore.
pub(crate) fn watch(lock: &Target, interval: Duration, recursive: bool) -> Result<u8, Failed> {
    let client = lock.connect()?;
    let terminal = io::stdout().is_terminal();
    if terminal {
        // Scrolls up what the terminal shows.
        print("\n".repeat(height().unwrap_or(0)).as_bytes())?;
    }
    let (mut before, mut grants) = (None, Grants::default());
    loop {
        let look = match recursive {
            true => tree::look(&client, lock),
            false => client.contenders(&lock.path).map(|contenders| (contenders, 0)),
        };
        match look {
            Ok(look) => {
                grants.look(&look.0);
                let text = match &before {
                    _ if terminal => drawn(&lock.path, &look, &grants, recursive),
                    Some(before) if *before == look => String::new(),
                    _ if recursive => block(&lock.path, &look, &grants, true, usize::MAX) + "\n",
                    Some((before, _)) => changes(before, &look.0),
                    None => changes(&[], &look.0),
                };
                print(text.as_bytes())?;
                before = Some(look);
            }
            Err(error) if error.is_retryable() => say(&error.to_string()),
            Err(error) => return Err(error.into()),
        }
        thread::sleep(interval);
    }
}

fn height() -> Option<usize> {
    terminal_size_of(io::stdout()).map(|(_, Height(height))| height.into())
}

/// Returns the title and the table, in the size of the terminal.
fn drawn(path: &str, look: &Look, grants: &Grants, recursive: bool) -> String {
    // The last line is the cursor's.
    let lines = height().map_or(usize::MAX, |height| height.saturating_sub(1));
    let text = block(path, look, grants, recursive, lines);
    let lines: Vec<_> = text.lines().take(lines).collect();
    format!("{CLEAR}{}\r\n", lines.join("\r\n"))
}

/// Returns the title and the table, in at most this many lines.
fn block(path: &str, look: &Look, grants: &Grants, recursive: bool, lines: usize) -> String {
    let (contenders, denied) = look;
    let (lines, width) = (lines.saturating_sub(2), width_of(&io::stdout()));
    let waiting = contenders.iter().filter(|contender| state(contender) == "waits").count();
    let mut title = format!("  {}", humantime::format_rfc3339_seconds(SystemTime::now()));
    let table = if recursive {
        let (locks, table) = tree::busiest(contenders, grants, lines);
        title += &format!("  {locks} lock{}", if locks == 1 { "" } else { "s" });
        table
    } else {
        table(contenders, grants, lines)
    };
    title += &format!("  {waiting} waiting");
    if *denied > 0 {
        title += &format!("  {denied} not readable");
    }
    let path = cut(&plain(path), width.saturating_sub(title.len()));
    format!("{}\n\n{table}", clip(&(path + &title), &io::stdout()))
}

/// Returns a line for each contender that came, acquired the lock, or left.
fn changes(before: &[Contender], now: &[Contender]) -> String {
    let time = humantime::format_rfc3339_seconds(SystemTime::now());
    let was = |contender: &Contender| before.iter().find(|other| is_same(contender, other));
    let is_gone = |contender: &&Contender| !now.iter().any(|other| is_same(contender, other));
    let went = before.iter().filter(is_gone).map(|gone| ('-', gone));
    let others = now.iter().filter_map(|contender| match was(contender) {
        Some(was) if was.holds == contender.holds => None,
        _ if contender.holds => Some(('*', contender)),
        None => Some(('+', contender)),
        Some(_) => None,
    });
    let line = |(sign, contender): (char, &Contender)| {
        let identity = identity(contender).unwrap_or_else(|| "-".to_owned());
        let (kind, token) = (kind(contender.kind), contender.token);
        format!("{time} {sign} {} {kind} {identity} {token}\n", state(contender))
    };
    went.chain(others).map(line).collect()
}

/// Returns whether two looks show the same contender. The node of a single-node lock always has the
/// same name, so tokens are compared.
fn is_same(one: &Contender, other: &Contender) -> bool {
    let foreign = one.kind == Kind::Foreign;
    match foreign {
        true => one.node == other.node,
        false => one.token == other.token && one.kind == other.kind,
    }
}
