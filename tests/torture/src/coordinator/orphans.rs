//! Looks for nodes that are left in the locks' directories when all clients have ended.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use zoolock_test_support::Probe;

use crate::paths::{self, PATHS, ROOT};

/// Makes the directories. They stay, so that what is in them afterwards was left by somebody.
pub(crate) fn prepare(probe: &Probe) -> io::Result<()> {
    let mut all = (0..PATHS).flat_map(|path| paths::at(path).directories());
    all.try_for_each(|directory| probe.create_all(&directory))
}

/// The nodes that are left, when they have had so much time to go.
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

/// Every node below another one. What goes away meanwhile is not among them.
fn below(probe: &Probe, node: &str) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for name in probe.children(node)? {
        let child = format!("{node}/{name}");
        found.extend(below(probe, &child)?);
        found.push(child);
    }
    Ok(found)
}
