//! `list -r`: all locks below a path.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;
use zoolock::crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use zoolock::{Client, Contender, Error};

use crate::args::Target;
use crate::exit::{DENIED, Failed, print};
use crate::output::{finish, say, status};
use crate::table::{self, age, clip, columns, kind, name, plain, seconds};

const HEADER: [&str; 6] = ["PATH", "STATE", "KIND", "WAITING", "AGE", "HOLDER"];

/// Interval between reports of progress.
const EVERY: Duration = Duration::from_secs(1);

pub(crate) fn list(root: &Target, as_json: bool) -> Result<u8, Failed> {
    let client = root.connect()?;
    // JSON on a terminal appears piece by piece, so it needs no other sign of progress.
    let is_seen = as_json && io::stdout().is_terminal();
    let progress = (io::stderr().is_terminal() && !is_seen).then(|| Progress::of(&client, root));
    let mut code = 0;
    let mut rows = Vec::new();
    let mut printed = false;
    for found in client.locks_below(&root.path)? {
        match found {
            Ok(contenders) if as_json => {
                let before = if printed { ",\n" } else { "[\n" };
                print(format!("{before}{}", object(&contenders).trim_end()).as_bytes())?;
                printed = true;
            }
            Ok(contenders) => rows.push(row(&contenders)),
            Err(denied @ Error::Denied { .. }) => {
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
        let more = if code == 0 { "" } else { " where zoolock may look" };
        say(&format!("{}: nobody holds a lock or waits for one{more}", root.path));
    } else {
        let table = columns(HEADER, rows.into_iter());
        let lines = table.lines().map(|line| clip(line, &io::stdout()) + "\n");
        print(lines.collect::<String>().as_bytes())?;
    }
    Ok(code)
}

/// Returns the row of a lock. Names the first holder, which has held the lock longest.
fn row(contenders: &[Contender]) -> [String; HEADER.len()] {
    let first = &contenders[0];
    let holder = contenders.iter().find(|contender| contender.holds);
    let others = contenders.iter().filter(|contender| contender.holds).skip(1).count();
    let name = |holder| {
        let name = name(holder);
        if others > 0 { format!("{name}, and {others} more") } else { name }
    };
    [
        plain(&first.path),
        if holder.is_some() { "held" } else { "wanted" }.to_owned(),
        kind(first.kind).to_owned(),
        waiting(contenders).to_string(),
        holder.map_or_else(|| "-".to_owned(), |holder| seconds(age(holder))),
        holder.map_or_else(|| "-".to_owned(), name),
    ]
}

fn object(contenders: &[Contender]) -> String {
    let object = json!({
        "path": contenders[0].path,
        "kind": kind(contenders[0].kind),
        "held": contenders.iter().any(|contender| contender.holds),
        "waiting": waiting(contenders),
        "contenders": table::json(contenders),
    });
    table::escaped(&object)
}

fn waiting(contenders: &[Contender]) -> usize {
    contenders.iter().filter(|contender| !contender.holds).count()
}

/// Reports progress until it is dropped.
struct Progress(Option<(Sender<Infallible>, JoinHandle<()>)>);

impl Progress {
    fn of(client: &Client, root: &Target) -> Progress {
        let (done, is_done) = bounded(0);
        let (client, path) = (client.clone(), root.path.clone());
        let tell = move || {
            while is_done.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                status(&format!("{path}: {} nodes looked at", client.stats().requests));
            }
        };
        // Without a thread there are no reports. The command still does its work.
        let thread = thread::Builder::new().spawn(tell);
        Progress(thread.ok().map(|thread| (done, thread)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.0.take() {
            drop(done);
            let _ = thread.join();
            // The status has to be gone before the table comes to the same terminal.
            finish();
        }
    }
}
