//! The directories of the locks, and the nodes left in them after the end of all clients.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::Probe;

use crate::paths::{self, PATHS, ROOT};

/// Creates the directories as persistent nodes, so that nodes found in them later are leftovers.
pub(crate) fn prepare(probe: &Probe) -> io::Result<()> {
    let mut all = (0..PATHS).flat_map(|path| paths::at(path).directories());
    all.try_for_each(|directory| probe.create_all(&directory))
}

/// The nodes left after this much time.
pub(crate) fn find(probe: &Probe, within: Duration) -> io::Result<Vec<String>> {
    let begun = Instant::now();
    let mut expected = vec![ROOT.to_owned()];
    for directory in (0..PATHS).flat_map(|path| paths::at(path).directories()) {
        let ends = directory.match_indices('/').map(|(at, _)| at).skip(2);
        expected.extend(ends.map(|end| directory[..end].to_owned()));
        expected.push(directory);
    }
    loop {
        let mut left = below(probe, ROOT)?;
        left.retain(|node| !expected.contains(node));
        if left.is_empty() || begun.elapsed() > within {
            return Ok(left);
        }
        thread::sleep(within / 100);
    }
}

/// All nodes below another one. Nodes that vanish during the walk are left out.
fn below(probe: &Probe, node: &str) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for name in probe.children(node)? {
        let child = format!("{node}/{name}");
        found.extend(below(probe, &child)?);
        found.push(child);
    }
    Ok(found)
}
