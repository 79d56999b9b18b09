//! `watch`: looks at a lock again and again.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, SystemTime};

use terminal_size::{Height, terminal_size_of};
use zoolock::{Contender, Kind};

use crate::args::Target;
use crate::exit::{Failed, print};
use crate::output::say;
use crate::table::{clip, identity, kind, plain, state, table};

/// Goes to the upper left corner and clears everything below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Watches until a signal or a failure ends the process.
pub(crate) fn watch(lock: &Target, interval: Duration) -> Result<u8, Failed> {
    let client = lock.connect()?;
    let terminal = io::stdout().is_terminal();
    let mut before = Vec::new();
    loop {
        match client.contenders(&lock.path) {
            Ok(now) if terminal => {
                print(drawn(&lock.path, &now).as_bytes())?;
            }
            Ok(now) => {
                print(changes(&before, &now).as_bytes())?;
                before = now;
            }
            Err(error) if error.is_retryable() => say(&error.to_string()),
            Err(error) => return Err(error.into()),
        }
        thread::sleep(interval);
    }
}

/// Returns the table, cut to the size of the terminal.
fn drawn(path: &str, contenders: &[Contender]) -> String {
    let output = io::stdout();
    let height = terminal_size_of(&output).map_or(usize::MAX, |(_, Height(height))| height.into());
    let time = humantime::format_rfc3339_seconds(SystemTime::now());
    let waiting = contenders.iter().filter(|contender| state(contender) == "waits");
    let title = format!("{}  {time}  {} waiting\n\n", plain(path), waiting.count());
    let text = title + &table(contenders);
    let lines = text.lines().take(height.saturating_sub(1));
    let lines: Vec<_> = lines.map(|line| clip(line, &output)).collect();
    format!("{CLEAR}{}\r\n", lines.join("\r\n"))
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
