//! The items that can be reserved: one lock for each, and a node with its count, which is written
//! only while the lock is held.

use std::time::Duration;

use zoolock::{Client, ClientState, DistributedLock, Error, ErrorKind, LockOptions, Version, Wait};

use crate::http::{Answer, Request};

const LOCKS: &str = "/items";
const COUNTS: &str = "/count-";
/// How long a request waits for a connection.
const LONGEST_OUTAGE: Duration = Duration::from_millis(50);
const LONGEST_NAME: usize = 100;

pub(crate) struct Items {
    client: Client,
    longest_wait: Duration,
}

impl Items {
    pub(crate) fn new(client: &Client, longest_wait: Duration) -> Items {
        Items { client: client.clone(), longest_wait }
    }

    pub(crate) fn answer(&self, request: &Request) -> Answer {
        let parts: Vec<_> = request.path.split('/').skip(1).collect();
        let answer = match (&*request.method, &parts[..]) {
            ("POST", ["items", name, "reserve"]) => self.reserve(name),
            ("GET", ["items", name]) => self.show(name),
            _ => Err(Answer::new("404 Not Found", "POST /items/NAME/reserve, GET /items/NAME\n")),
        };
        answer.map_or_else(|refused| refused, |count| Answer::new("200 OK", format!("{count}\n")))
    }

    /// Adds one to the count of reserved items, and returns it.
    fn reserve(&self, name: &str) -> Result<u64, Answer> {
        let path = self.path(name)?;
        // An object for each request shares the queue of its path with the others. The name groups
        // all items for the metrics. The release does not wait for the servers.
        let options = LockOptions::new().name("items").background_release(true);
        let lock = DistributedLock::with_options(&self.client, format!("{LOCKS}/{name}"), options);
        let wait = Wait::within(self.longest_wait).for_connection(LONGEST_OUTAGE);
        let guard = lock.map_err(refused)?.acquire_within(wait).map_err(failed)?;
        let guard = guard.ok_or_else(|| Answer::unavailable("the item is busy\n"))?;
        let old = self.client.read(&path).map_err(failed)?;
        let count = parse(old.as_ref())? + 1;
        let write = match old {
            Some((_, version)) => guard.transaction().set(path, count.to_string(), version),
            None => guard.transaction().create(path, count.to_string()),
        };
        write.commit().map_err(|error| match error.is_maybe_done() {
            true => Answer::new(
                "504 Gateway Timeout",
                "the item may be reserved: read before a retry\n",
            ),
            false => failed(error),
        })?;
        Ok(count)
    }

    fn show(&self, name: &str) -> Result<u64, Answer> {
        let path = self.path(name)?;
        parse(self.client.read(&path).map_err(failed)?.as_ref())
    }

    /// Returns the node of an item's count. Refuses at once a request that cannot be answered.
    fn path(&self, name: &str) -> Result<String, Answer> {
        check(name)?;
        match self.client.state() {
            // Without a connection, requests must not fill the pool.
            ClientState::Connected => Ok(format!("{COUNTS}{name}")),
            state => Err(Answer::unavailable(format!("ZooKeeper: {state:?}\n"))),
        }
    }
}

/// Checks a name that a user chose. The lock checks the rest of the rules for paths. But it would
/// accept a slash, which leads into the directory of another item.
fn check(name: &str) -> Result<(), Answer> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let reason = match name.chars().find(|&c| !is_good(c)) {
        _ if name.is_empty() => "it is empty".to_owned(),
        _ if name.len() > LONGEST_NAME => format!("it is longer than {LONGEST_NAME} bytes"),
        Some(c) => format!("it has {c:?}: use letters, digits, `-`, `_` and `.`"),
        None => return Ok(()),
    };
    Err(bad_name(&reason))
}

fn bad_name(reason: &str) -> Answer {
    Answer::new("400 Bad Request", format!("not a name of an item: {reason}\n"))
}

fn parse(data: Option<&(Vec<u8>, Version)>) -> Result<u64, Answer> {
    let Some((data, _)) = data else { return Ok(0) };
    let count = std::str::from_utf8(data).ok().and_then(|count| count.parse().ok());
    count.ok_or_else(|| Answer::new("500 Internal Server Error", "the count is damaged\n"))
}

/// The answer if no lock can be at a path. Calls that lock return the same error if an operator's
/// node is in the way, which is not the user's fault.
fn refused(error: Error) -> Answer {
    match error {
        Error::InvalidPath { reason, .. } => bad_name(&reason),
        error => failed(error),
    }
}

/// The answer for an error after which nothing was written.
fn failed(error: Error) -> Answer {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::Busy | ErrorKind::Lost | ErrorKind::Cancelled => {
            Answer::unavailable(format!("{error}\n"))
        }
        _ => {
            eprintln!("web_service: {error}");
            Answer::new("500 Internal Server Error", "see the log\n")
        }
    }
}
