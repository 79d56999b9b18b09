//! Faults in ZooKeeper's tree: foreign nodes in the directories of the locks, and deletions.

use std::io;
use std::time::Duration;

use zoolock_test_support::Probe;

use crate::Outcome;
use crate::clock::now;
use crate::nemesis::Nemesis;
use crate::paths;

/// Names that resemble contenders: without a marker, without a sequence, or with one that no server gives.
const JUNK: [&str; 8] = [
    "config",
    "lock-12",
    "lock-99999999999",
    "_c_no-uuid-lock-",
    "_c_6ba7b810-9dad-11d1-80b4-00c04fd430c8-lock-000000000x",
    "_c_6ba7b810-9dad-11d1-80b4-00c04fd430c8-lease-0000000001",
    "lock--000000000",
    "ключ-0000000001",
];
/// Contenders of other libraries, which take a turn, a permit or the single node, and leave.
const GUESTS: usize = 20;
const GUEST: &str = "5f2b6c0e9d1a4a0f8a3a__lock__";
const GUEST_LEASE: &str = "_c_6ba7b810-9dad-11d1-80b4-00c04fd430c8-lease-";

const DELETIONS: usize = 40;
const HOLD_WITHIN: Duration = Duration::from_secs(10);

pub(crate) fn junk(nemesis: &mut Nemesis) -> Outcome<()> {
    let probe = nemesis.probe()?;
    // The directories of permits get no junk, since every node there is a permit.
    let used = paths::used(&nemesis.kinds).into_iter();
    let queues = used.filter_map(|path| paths::at(path).queue());
    let junk = queues.flat_map(|queue| JUNK.map(|name| format!("{queue}/{name}")));
    let junk: Vec<_> = junk.collect();
    for node in &junk {
        probe.create(node, b"", false, false)?;
    }
    for _ in 0..GUESTS {
        let guest = invite(&probe, nemesis)?;
        nemesis.pass(20, 300);
        if let Some(guest) = guest {
            probe.delete(&guest)?;
        }
    }
    for node in &junk {
        probe.delete(node)?;
    }
    Ok(())
}

/// `None` if the node is taken.
fn invite(probe: &Probe, nemesis: &mut Nemesis) -> Outcome<Option<String>> {
    let at = paths::at(nemesis.some_path());
    let node = match (at.leases(), at.queue()) {
        (Some(leases), _) if nemesis.rng.bool() => format!("{leases}/{GUEST_LEASE}"),
        (_, Some(queue)) => format!("{queue}/{GUEST}"),
        (_, None) => {
            return match probe.create(&at.node(""), b"", true, false) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
                made => Ok(Some(made?)),
            };
        }
    };
    Ok(Some(probe.create(&node, b"", true, true)?))
}

/// Deletes the node of a hold, like an operator who believes its owner dead. Of several permits one goes.
pub(crate) fn delete_held(nemesis: &mut Nemesis) -> Outcome<()> {
    let probe = nemesis.probe()?;
    for _ in 0..DELETIONS {
        nemesis.pass(50, 200);
        let path = nemesis.some_path();
        let begun = now();
        let held = nemesis.recorder.wait(HOLD_WITHIN, |state| {
            let mut open = state.history.open_holds();
            let grant = &open.find(|record| record.grant.path == path)?.grant;
            Some((grant.hold.by.process, paths::at(path).node(grant.nodes.first()?)))
        });
        if let Some((process, node)) = held {
            delete_if_there(&probe, &node)?;
            // By then, a single node may be that of any process.
            let is_single = paths::at(path).queue().is_none();
            let all = 0..nemesis.processes.len();
            let robbed = all.filter(|other| *other == process || is_single);
            robbed.for_each(|process| nemesis.doubt(process, Some(path), begun));
        }
    }
    Ok(())
}

pub(super) fn delete_if_there(probe: &Probe, node: &str) -> io::Result<()> {
    match probe.delete(node) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
