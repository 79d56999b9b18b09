//! `watch`: polls a lock, or all locks below a path, and shows the changes.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::json;
use terminal_size::{Height, terminal_size_of};
use zoolock::Contender;

use crate::args::Target;
use crate::exit::{Failed, print};
use crate::grants::Grants;
use crate::output::say;
use crate::table::{self, clip, cut, identity, plain, state, table, width_of};
use crate::tree;

/// The contenders, and the number of paths that deny read permission.
type Look = (Vec<Contender>, usize);

/// Goes to the upper left corner and clears everything below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Watches until a signal or a failure ends the process. Does not change the modes of the terminal, so
/// there is nothing to restore after a signal.
pub(crate) fn watch(
    lock: &Target,
    interval: Duration,
    recursive: bool,
    as_json: bool,
) -> Result<u8, Failed> {
    let client = lock.connect()?;
    let is_drawn = io::stdout().is_terminal() && !as_json;
    if is_drawn {
        // Scrolls the earlier output up.
        print("\n".repeat(height().unwrap_or(0)).as_bytes())?;
    }
    let (mut before, mut grants) = (None::<Look>, Grants::default());
    loop {
        let look = match recursive {
            true => tree::look(&client, lock),
            false => client.contenders(&lock.path).map(|contenders| (contenders, 0)),
        };
        match look {
            Ok(look) => {
                grants.look(&look.0);
                let text = match &before {
                    _ if is_drawn => drawn(&lock.path, &look, &grants, recursive),
                    Some(before) if *before == look => String::new(),
                    _ if recursive && !as_json => {
                        block(&lock.path, &look, &grants, true, usize::MAX) + "\n"
                    }
                    before => {
                        let (before, denied) =
                            before.as_ref().map_or((&[][..], 0), |(all, denied)| (all, *denied));
                        if denied != look.1 {
                            say(&format!(
                                "{}: permission to read {} paths denied",
                                lock.path, look.1
                            ));
                        }
                        let line = if as_json { object } else { line };
                        changes(before, &look.0).into_iter().map(line).collect()
                    }
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
    // The last line is left to the cursor.
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

/// A change of a contender's state: it `waits`, `holds`, was `asked` to release the lock, or is `gone`.
type Change<'a> = (&'static str, &'a Contender);

/// Returns the changes between two polls.
fn changes<'a>(before: &'a [Contender], now: &'a [Contender]) -> Vec<Change<'a>> {
    let (old, new) = (by_node(before), by_node(now));
    let gone = before.iter().filter(|one| !new.contains_key(&node(one)));
    let mut all: Vec<_> = gone.map(|one| ("gone", one)).collect();
    for one in now {
        let was = old.get(&node(one));
        if was.is_none_or(|was| was.holds != one.holds) {
            all.push((if one.holds { "holds" } else { "waits" }, one));
        }
        if one.asked && was.is_none_or(|was| !was.asked) {
            all.push(("asked", one));
        }
    }
    all
}

fn by_node(contenders: &[Contender]) -> HashMap<Node<'_>, &Contender> {
    contenders.iter().map(|one| (node(one), one)).collect()
}

/// A node. It includes the token, because the nodes of an `EphemeralLock` all have the same name.
type Node<'a> = (&'a str, &'a str, u64);

fn node(contender: &Contender) -> Node<'_> {
    (&contender.path, &contender.node, contender.token)
}

fn line((event, contender): Change<'_>) -> String {
    let time = humantime::format_rfc3339_seconds(SystemTime::now());
    let sign = match event {
        "gone" => '-',
        "holds" => '*',
        "waits" => '+',
        _ => '!',
    };
    let identity = identity(contender).unwrap_or_else(|| "-".to_owned());
    let (kind, token) = (contender.kind, contender.token);
    format!("{time} {sign} {} {kind} {identity} {token}\n", state(contender))
}

fn object((event, contender): Change<'_>) -> String {
    let mut object = table::object(contender);
    object["event"] = json!(event);
    object["path"] = json!(contender.path);
    object["time"] = json!(humantime::format_rfc3339_millis(SystemTime::now()).to_string());
    table::line(&object)
}
