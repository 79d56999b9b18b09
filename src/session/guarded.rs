//! Guarded writes. The servers carry them out only while the nodes of the holds exist.

use std::sync::Arc;

use zookeeper::{CreateMode, ErrorKind, Op};

use super::holds::Holds;
use super::nodes::Grant;
use super::requests::Failure;
use crate::base::error::{ConflictReason, Error, LossReason, Result};
use crate::base::wait::Until;

/// The protocol's value for "any version".
const ANY: i32 = -1;

/// A write, or a check that the writes depend on.
#[derive(Clone)]
pub(crate) struct Write {
    pub(crate) path: String,
    pub(crate) what: What,
}

#[derive(Clone)]
pub(crate) enum What {
    Check(Option<i32>),
    Set(Vec<u8>, Option<i32>),
    Create(Vec<u8>),
    Delete(Option<i32>),
}

/// Holds that guard writes, each with the index of one of its nodes.
type Guards = [(Arc<Grant>, usize)];

/// Carries out these writes in one transaction, in the session of the nodes. The transaction checks
/// that the nodes of these holds exist. While the outcome of the transaction is unknown, the nodes
/// are not handed over to another thread, because the writes could otherwise be carried out during
/// that thread's hold.
pub(crate) fn commit(of: &Holds, holds: &Guards, writes: &[Write]) -> Result<()> {
    holds.iter().try_for_each(|(grant, _)| may_guard(of, grant))?;
    let guards: Vec<_> = holds.iter().map(|(grant, index)| grant.znode(*index)).collect();
    writes.iter().try_for_each(|write| write.check(&guards))?;
    let end = |(grant, _): &(Arc<Grant>, usize)| grant.nodes().end_write();
    for (at, (grant, _)) in holds.iter().enumerate() {
        grant.nodes().start_write(grant).inspect_err(|_| holds[..at].iter().for_each(end))?;
    }
    let acl = of.requests.acl();
    let checks = guards.iter().map(|path| Op::Check(path, None));
    let ops: Vec<_> = checks.chain(writes.iter().map(|write| write.op(acl))).collect();
    let (first, until) = (&holds[0].0, Until::within(of.requests.patience()));
    let session = first.nodes().term.session_id();
    match of.requests.ask_one(Some(session), &until, |batch| batch.multi(&ops)) {
        Err(failure) if failure.is_outcome_unknown() => {
            Err(of.requests.error_of_write(first.path(), failure))
        }
        committed => {
            holds.iter().for_each(end);
            committed.map(drop).map_err(|failure| refused(of, holds, writes, failure))
        }
    }
}

/// Returns an error if this hold cannot guard writes.
fn may_guard(holds: &Holds, grant: &Grant) -> Result<()> {
    let reason = if !grant.nodes().term.is_of(&holds.requests) {
        "it belongs to another client"
    } else if grant.nodes().facts.kind.is_single_node() {
        "the node of an EphemeralLock has the same name for every holder, so the servers \
         cannot check who owns it"
    } else {
        return Ok(());
    };
    let reason = format!("{:?} cannot guard this transaction: {reason}", grant.path());
    Err(Error::invalid("hold", reason))
}

/// Returns the error for a transaction that was not carried out.
fn refused(of: &Holds, holds: &Guards, writes: &[Write], failure: Failure) -> Error {
    let first = &holds[0].0;
    let lock = first.path();
    let error = match failure {
        Failure::SessionOver if !of.requests.is_closed() => {
            let (path, reason) = (lock.to_owned(), LossReason::LeaseExpired);
            return first.check().err().unwrap_or(Error::Lost { path, reason });
        }
        Failure::Refused(error) => error,
        failure => return of.requests.error(lock, failure),
    };
    let (kind, failed) = (error.kind(), error.failed_op());
    if kind == ErrorKind::BadArguments {
        return Error::invalid("transaction", error.reason().unwrap_or_default());
    }
    let Some(failed) = failed else {
        return of.requests.error(lock, Failure::Refused(error));
    };
    let Some(write) = failed.checked_sub(holds.len()).and_then(|index| writes.get(index)) else {
        let grant = &holds[failed].0;
        if kind != ErrorKind::NoNode {
            return of.requests.error(grant.path(), Failure::Refused(error));
        }
        of.node_gone(grant.nodes());
        let (path, reason) = (grant.path().to_owned(), LossReason::NodeDeleted);
        // The owner may already have released the hold.
        return grant.check().err().unwrap_or(Error::Lost { path, reason });
    };
    let reason = match (kind, &write.what) {
        (ErrorKind::BadVersion, _) => ConflictReason::BadVersion,
        (ErrorKind::NodeExists, _) => ConflictReason::NodeExists,
        (ErrorKind::NotEmpty, _) => ConflictReason::NotEmpty,
        (ErrorKind::NoNode, What::Create(_)) => ConflictReason::NoParent,
        (ErrorKind::NoNode, _) => ConflictReason::NoNode,
        _ => return of.requests.error(&write.path, Failure::Refused(error)),
    };
    Error::Conflict { path: write.path.clone(), reason }
}

impl Write {
    /// Returns an error if the version is the number that means "any version", or if this writes to
    /// one of the nodes that guard the writes.
    fn check(&self, guards: &[String]) -> Result<()> {
        let (version, writes) = match &self.what {
            What::Check(version) => (*version, false),
            What::Set(_, version) | What::Delete(version) => (*version, true),
            What::Create(_) => (None, true),
        };
        if version == Some(ANY) {
            let reason =
                format!("{ANY} would match any version of {:?}: pass None to mean that", self.path);
            return Err(Error::invalid("version", reason));
        }
        if writes && guards.contains(&self.path) {
            let reason = format!("{:?} is the node of a hold that guards the write", self.path);
            return Err(Error::invalid("path", reason));
        }
        Ok(())
    }

    fn op<'a>(&'a self, acl: &'a [zookeeper::Acl]) -> Op<'a> {
        match &self.what {
            What::Check(version) => Op::Check(&self.path, *version),
            What::Set(data, version) => Op::SetData(&self.path, data, *version),
            What::Create(data) => Op::Create(&self.path, data, acl, CreateMode::Persistent),
            What::Delete(version) => Op::Delete(&self.path, *version),
        }
    }
}
