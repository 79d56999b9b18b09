//! The directories of locks: containers, which the server removes some time after they are empty.

use zookeeper::{CreateMode, ErrorKind};

use super::failure::Failure;
use super::requests::Requests;
use crate::path::LockPath;
use crate::wait::Until;

/// Creates a directory and the missing nodes above it, including the chroot. Other clients may
/// create and delete the same nodes meanwhile, so the directory may still be missing afterwards.
pub(crate) fn make_directories(
    requests: &Requests,
    path: &LockPath,
    until: &Until,
) -> Result<(), Failure> {
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
    for path in missing.into_iter().rev() {
        make(requests, path, until)?;
    }
    Ok(())
}

/// Creates one directory. Returns false if the node above it is missing.
fn make(requests: &Requests, path: &str, until: &Until) -> Result<bool, Failure> {
    let make = |mode| {
        let acl = requests.acl();
        requests.ask_one(None, until, |batch| batch.create(path, b"", acl, mode)).map(drop)
    };
    let made = match make(CreateMode::Container) {
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
