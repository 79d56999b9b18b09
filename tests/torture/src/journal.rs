//! The nodes that guarded writes leave in ZooKeeper. Each commit creates a node below a directory
//! of its lock, and deletes the node of the commit before, unless that was the first of a hold. So
//! the first and the last node of each hold exist in the end, with the ids of the transactions that
//! created them.

use std::io;

use zoolock_judge::Carried;
use zoolock_test_support::Probe;

use crate::paths::{self, PATHS};
use crate::protocol::{HoldId, WorkerId};

const ROOT: &str = "/guarded";

/// The node of a commit.
pub(crate) fn node(path: usize, token: u64, hold: HoldId, number: u32) -> String {
    let WorkerId { process, incarnation, thread } = hold.by;
    let directory = directory(path);
    format!("{directory}/{token}.{process}.{incarnation}.{thread}.{}.{number}", hold.number)
}

/// Makes the directories.
pub(crate) fn prepare(probe: &Probe) -> io::Result<()> {
    (0..PATHS).try_for_each(|path| probe.create_all(&directory(path)))
}

/// Takes out what is there.
pub(crate) fn take(probe: &Probe) -> io::Result<Vec<Carried>> {
    let mut entries = Vec::new();
    for path in 0..PATHS {
        let directory = directory(path);
        for name in probe.children(&directory)? {
            let node = format!("{directory}/{name}");
            let stat = probe.stat(&node)?;
            let entry = stat.and_then(|stat| parse(path, &name, stat.czxid));
            entries.push(entry.ok_or_else(|| io::Error::other(format!("{node} is no entry")))?);
            probe.delete(&node)?;
        }
    }
    Ok(entries)
}

fn directory(path: usize) -> String {
    format!("{ROOT}/{}", paths::at(path).name)
}

fn parse(path: usize, name: &str, zxid: i64) -> Option<Carried> {
    let parts: Vec<&str> = name.split('.').collect();
    let [token, process, incarnation, thread, hold, number] = parts[..] else {
        return None;
    };
    let by = WorkerId {
        process: process.parse().ok()?,
        incarnation: incarnation.parse().ok()?,
        thread: thread.parse().ok()?,
    };
    let hold = HoldId { by, number: hold.parse().ok()? };
    let (token, number) = (token.parse().ok()?, number.parse().ok()?);
    Some(Carried { path, token, hold, number, zxid })
}
