//! Faults in ZooKeeper's tree: what others put into the directories of the locks, and take out.

use std::io;
use std::time::Duration;

use crate::Outcome;
use crate::field::Field;
use crate::setting::{PATHS, lock_path};

/// Looks like a contender and is none: no marker, no sequence, or one that no server gives.
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
/// Contenders of other libraries, which queue like ours and leave.
const GUESTS: usize = 15;
const GUEST: &str = "5f2b6c0e9d1a4a0f8a3a__lock__";

const DELETIONS: usize = 40;
const HOLD_WITHIN: Duration = Duration::from_secs(10);

pub(crate) fn junk(field: &mut Field) -> Outcome<()> {
    let probe = field.probe()?;
    for path in 0..PATHS {
        for name in JUNK {
            let node = format!("{}/{name}", lock_path(path));
            probe.create(&node, b"", false, false)?;
        }
    }
    for _ in 0..GUESTS {
        let path = lock_path(field.rng.usize(0..PATHS));
        let node = probe.create(&format!("{path}/{GUEST}"), b"", true, true)?;
        field.pass(20, 300);
        probe.delete(&node)?;
    }
    for path in 0..PATHS {
        for name in JUNK {
            probe.delete(&format!("{}/{name}", lock_path(path)))?;
        }
    }
    Ok(())
}

/// What an operator could do, who believes that a holder is dead.
pub(crate) fn delete_held(field: &mut Field) -> Outcome<()> {
    let probe = field.probe()?;
    for _ in 0..DELETIONS {
        field.pass(50, 200);
        let path = field.rng.usize(0..PATHS);
        let node = field.hub.wait(HOLD_WITHIN, |state| {
            let mut open = state.evidence.open_holds();
            let grant = &open.find(|record| record.grant.path == path)?.grant;
            Some(format!("{}/{}", lock_path(path), grant.node))
        });
        match node.map(|node| probe.delete(&node)) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
