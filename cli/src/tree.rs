//! `list -r` and `watch -r`: all locks below a path.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;
use zoolock::crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use zoolock::{Client, Contender, Error};

use crate::args::Target;
use crate::exit::{DENIED, Failed, print};
use crate::grants::Grants;
use crate::output::{finish, say, status};
use crate::table::{self, age, columns, held, name, plain, seconds};
use crate::walk::Locks;

const HEADER: [&str; 8] = ["PATH", "STATE", "KIND", "WAITING", "LONGEST", "HELD", "HOLDER", "NEXT"];

/// Interval between reports of progress.
const EVERY: Duration = Duration::from_secs(1);

pub(crate) fn list(root: &Target, as_json: bool) -> Result<u8, Failed> {
    let client = root.connect()?;
    // JSON on a terminal appears piece by piece, which shows the progress.
    let is_seen = as_json && io::stdout().is_terminal();
    let progress = (!is_seen).then(|| Progress::of(&client, root));
    let mut code = 0;
    let (mut rows, grants) = (Vec::new(), Grants::default());
    let mut printed = false;
    for found in Locks::below(&client, &root.path) {
        match found {
            Ok(contenders) if as_json => {
                let before = if printed { ",\n" } else { "[\n" };
                print(format!("{before}{}", object(&contenders).trim_end()).as_bytes())?;
                printed = true;
            }
            Ok(contenders) => rows.push(row(&contenders, &grants)),
            Err(denied @ Error::PermissionDenied { .. }) => {
                say(&denied.to_string());
                code = DENIED;
            }
            Err(error) => return Err(error.into()),
        }
    }
    drop(progress);
    let _ = client.close();
    if as_json {
        print(if printed { b"\n]\n" } else { b"[]\n" })?;
    } else if rows.is_empty() {
        let more = if code == 0 { "" } else { ", except where read permission is denied" };
        say(&format!("{}: no client holds a lock or waits for one{more}", root.path));
    } else {
        print(columns(HEADER, rows.into_iter(), usize::MAX).as_bytes())?;
    }
    Ok(code)
}

/// Returns the contenders of all locks, lock by lock, and the number of paths that deny read permission.
pub(crate) fn look(client: &Client, root: &Target) -> zoolock::Result<(Vec<Contender>, usize)> {
    let _progress = Progress::of(client, root);
    let (mut all, mut denied) = (Vec::new(), 0);
    for found in Locks::below(client, &root.path) {
        match found {
            Err(Error::PermissionDenied { .. }) => denied += 1,
            contenders => all.extend(contenders?),
        }
    }
    Ok((all, denied))
}

/// Returns the number of locks, and a table of them in at most this many lines. The locks with the most
/// waiters come first; of these, those that have been held longest.
pub(crate) fn busiest(all: &[Contender], grants: &Grants, lines: usize) -> (usize, String) {
    let mut locks: Vec<_> = all.chunk_by(|one, next| one.path == next.path).collect();
    locks.sort_by_cached_key(|lock| {
        let held = holder(lock).map(|holder| grants.granted(holder).unwrap_or(holder.since));
        (Reverse(waiting(lock)), held.is_none(), held)
    });
    (locks.len(), columns(HEADER, locks.iter().map(|lock| row(lock, grants)), lines))
}

/// Returns the first holder, which has held the lock longest.
fn holder(contenders: &[Contender]) -> Option<&Contender> {
    contenders.iter().find(|contender| contender.holds)
}

fn row(contenders: &[Contender], grants: &Grants) -> [String; HEADER.len()] {
    let (first, holder) = (&contenders[0], holder(contenders));
    let waiters = || contenders.iter().filter(|contender| !contender.holds);
    let longest = waiters().map(age).max();
    let holders = contenders.iter().filter(|contender| contender.holds).count();
    let more = if holders > 1 { format!(", and {} more", holders - 1) } else { String::new() };
    let kind = match first.limit {
        Some(limit) => format!("{holders} of {limit} permits"),
        None => first.kind.to_string(),
    };
    [
        plain(&first.path),
        if holder.is_some() { "held" } else { "wanted" }.to_owned(),
        kind,
        waiting(contenders).to_string(),
        longest.map_or_else(|| "-".to_owned(), seconds),
        holder.map_or_else(|| "-".to_owned(), |holder| held(holder, grants)),
        holder.map_or_else(|| "-".to_owned(), |holder| name(holder) + &more),
        waiters().next().map_or_else(|| "-".to_owned(), name),
    ]
}

fn object(contenders: &[Contender]) -> String {
    let object = json!({
        "path": contenders[0].path,
        "kind": contenders[0].kind.as_str(),
        "held": contenders.iter().any(|contender| contender.holds),
        "waiting": waiting(contenders),
        "contenders": table::json(contenders),
    });
    table::escaped(&object)
}

fn waiting(contenders: &[Contender]) -> usize {
    contenders.iter().filter(|contender| !contender.holds).count()
}

/// Reports progress until it is dropped, if standard error is a terminal.
struct Progress(Option<(Sender<Infallible>, JoinHandle<()>)>);

impl Progress {
    fn of(client: &Client, root: &Target) -> Progress {
        if !io::stderr().is_terminal() {
            return Progress(None);
        }
        let (done, is_done) = bounded(0);
        let (client, path) = (client.clone(), root.path.clone());
        let before = client.stats().requests;
        let tell = move || {
            while is_done.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let nodes = client.stats().requests - before;
                status(&format!("{path}: {nodes} nodes read"));
            }
        };
        // Without a thread there are no reports, but the command works.
        let thread = thread::Builder::new().spawn(tell);
        Progress(thread.ok().map(|thread| (done, thread)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.0.take() {
            drop(done);
            let _ = thread.join();
            // The status has to be cleared before the table is printed to the same terminal.
            finish();
        }
    }
}
