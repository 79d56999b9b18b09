//! The directories of locks: containers, which the server removes some time after they are empty. A
//! directory that was made with its node goes with that node.

use zookeeper::{Batch, CreateMode, ErrorKind, Op, OpResult, Pending};

use super::claim::Claim;
use super::failure::Failure;
use super::requests::Requests;
use crate::path::LockPath;
use crate::wait::Until;

/// The version of data that nobody has set since the node was created.
const NEW: i32 = 0;

/// Creates a directory and the missing nodes above it, including the chroot. Returns false if the
/// directory is still missing, because another client deletes the same nodes meanwhile.
pub(crate) fn make_directories(
    requests: &Requests,
    path: &LockPath,
    until: &Until,
) -> Result<bool, Failure> {
    let mut missing = Vec::new();
    let mut next = path.as_str();
    // Upwards until a node exists, so that no permission is needed where nothing is created ..
    while !next.is_empty() && !make(requests, next, until)? {
        missing.push(next);
        next = next.rsplit_once('/').map_or("", |(above, _)| above);
    }
    if next.is_empty() {
        let zk = requests.zk.with_timeout(until.left().min(requests.patience()));
        zk.create_all("/", requests.acl(), CreateMode::Persistent)?;
    }
    // .. and downwards again.
    let mut exists = true;
    for path in missing.into_iter().rev() {
        exists = make(requests, path, until)?;
    }
    Ok(exists)
}

/// Creates one directory. Returns false if the node above it is missing.
fn make(requests: &Requests, path: &str, until: &Until) -> Result<bool, Failure> {
    let make = |mode| {
        let acl = requests.acl();
        requests.ask_one(None, until, |batch| batch.create(path, b"", acl, mode)).map(drop)
    };
    let made = match make(CreateMode::Container) {
        Ok(()) => {
            requests.note_containers();
            Ok(())
        }
        // Servers before 3.5.3 have no containers.
        Err(failure) if failure.is(ErrorKind::Unimplemented) => make(CreateMode::Persistent),
        made => made,
    };
    match made {
        Err(failure) if failure.is(ErrorKind::NoNode) => Ok(false),
        Err(failure) if failure.is(ErrorKind::NodeExists) => Ok(true),
        made => made.map(|()| true),
    }
}

/// Creates the directory of a claim and a node in it, in one transaction. That may share a transaction
/// with other writes, if nothing but such writes is before it in its batch.
pub(crate) fn create_with_node(
    requests: &Requests,
    batch: &mut Batch<'_>,
    claim: &Claim,
    (name, mode): (&str, CreateMode),
) -> Pending<Vec<OpResult>> {
    let acl = requests.acl();
    batch.shared_multi(&[
        Op::Create(claim.directory.as_str(), b"", acl, CreateMode::Container),
        Op::Create(&claim.directory.child(name), claim.identity.as_bytes(), acl, mode),
    ])
}

/// Deletes a node and its directory, in one transaction. The servers refuse it if the directory has
/// other nodes, or if somebody has set its data. Where that is unlikely, it `shares` a transaction
/// with other writes.
pub(super) fn delete_with_directory(
    batch: &mut Batch<'_>,
    directory: &LockPath,
    node: &str,
    shares: bool,
) -> Pending<Vec<OpResult>> {
    let ops = [Op::Delete(node, None), Op::Delete(directory.as_str(), Some(NEW))];
    if shares { batch.shared_multi(&ops) } else { batch.multi(&ops) }
}

/// Returns whether [`delete_with_directory`] failed at the directory.
pub(super) fn is_directory_refused(error: &zookeeper::Error) -> bool {
    error.failed_op() == Some(1)
}
