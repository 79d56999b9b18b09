//! The requests, each one a blocking call of the crate with its place in the vital signs. Adds
//! the chroot, and reads the connection's death before the call and again after its answer.

use log::trace;
use zookeeper::{CreateMode, Stat, ZkError, ZkResult, ZooKeeper};

use super::call::Failure;
use super::connection::Connection;
use super::death::Cause;
use super::lease::Proof;
use crate::data::Origin;

/// A version that no node has: a write that asks for it goes through the leader, changes nothing
/// and wakes nobody.
const NO_VERSION: i32 = i32::MAX;

/// What a new node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Make {
    /// Stays. The crate cannot make containers: it makes these without a word.
    Directory,
    /// Goes with its session; the server appends the sequence.
    Contender,
    /// Goes with its session; its name is complete.
    Named,
}

/// The way to the servers, on a thread that may block.
pub(crate) struct Wire<'a> {
    connection: &'a Connection,
    handle: &'a ZooKeeper,
}

impl<'a> Wire<'a> {
    pub(super) fn new(connection: &'a Connection, handle: &'a ZooKeeper) -> Wire<'a> {
        Wire { connection, handle }
    }

    /// Creates a node and returns its name as the server made it.
    pub(crate) fn create(&self, path: &str, data: &[u8], make: Make) -> Result<String, Failure> {
        let full = self.full(path);
        let mut made = self.create_at(&full, data, make)?;
        if make != Make::Contender && made != full {
            // Answers have got out of step with requests: nothing here can be believed.
            self.connection.mixed_up();
            return Err(Failure::Dead);
        }
        let name = made.rfind('/').map_or(0, |slash| slash + 1);
        Ok(made.split_off(name))
    }

    /// Makes a directory if it is missing; `full` has the chroot. False if it was there.
    pub(super) fn make_directory(&self, full: &str) -> Result<bool, Failure> {
        match self.create_at(full, &[], Make::Directory) {
            Ok(_) => Ok(true),
            Err(Failure::Refused(ZkError::NodeExists)) => Ok(false),
            // The server looks for the permission first, for the node second.
            Err(Failure::Refused(ZkError::NoAuth)) => {
                match self.read("exists", full, |zk| zk.exists(full, false))? {
                    Some(_) => Ok(false),
                    None => Err(Failure::Refused(ZkError::NoAuth)),
                }
            }
            Err(failure) => Err(failure),
        }
    }

    fn create_at(&self, full: &str, data: &[u8], make: Make) -> Result<String, Failure> {
        let (data, acl) = (data.to_vec(), self.connection.acl().to_vec());
        let mode = match make {
            Make::Directory => CreateMode::Persistent,
            Make::Contender => CreateMode::EphemeralSequential,
            Make::Named => CreateMode::Ephemeral,
        };
        self.write("create", full, |zk| zk.create(full, data, acl, mode))
    }

    pub(crate) fn delete(&self, path: &str) -> Result<(), Failure> {
        let path = self.full(path);
        self.write("delete", &path, |zk| zk.delete(&path, None))
    }

    /// What is in a directory; nothing, and nothing is watched, if there is none.
    pub(crate) fn children(&self, path: &str, watch: bool) -> Result<Vec<String>, Failure> {
        let path = self.full(path);
        match self.read("getChildren", &path, |zk| zk.get_children(&path, watch)) {
            Err(failure) if failure.is_no_node() => Ok(Vec::new()),
            names => names,
        }
    }

    /// Never `exists` for a watch: on a node that is gone it leaves the watch behind.
    pub(crate) fn data(&self, path: &str, watch: bool) -> Result<(Vec<u8>, Stat), Failure> {
        let path = self.full(path);
        self.read("getData", &path, |zk| zk.get_data(&path, watch))
    }

    /// Writes to a node; of a given version, or whatever there is.
    pub(crate) fn set(&self, path: &str, data: &[u8], version: Option<i32>) -> Result<(), Failure> {
        let path = self.full(path);
        let write = |zk: &ZooKeeper| zk.set_data(&path, data.to_vec(), version);
        self.write("setData", &path, write).map(drop)
    }

    /// Is the node a directory, and one that this client has made, or that has the ACL that it gives
    /// its own?
    pub(super) fn is_our_directory(&self, path: &str, made: bool) -> Result<bool, Failure> {
        let full = self.full(path);
        let (acl, stat) = self.read("getACL", &full, |zk| zk.get_acl(&full))?;
        Ok(stat.ephemeral_owner == 0 && (made || acl == self.connection.acl()))
    }

    /// A read that every client may make.
    pub(crate) fn probe(&self) -> Result<(), Failure> {
        self.read("exists", "/", |zk| zk.exists("/", false)).map(drop)
    }

    /// A write that the leader refuses: the sign of life that certifies a lease. Says whether
    /// the node is there.
    pub(crate) fn heartbeat(&self, path: &str) -> Result<bool, Failure> {
        let path = self.full(path);
        let write = |zk: &ZooKeeper| zk.set_data(&path, Vec::new(), Some(NO_VERSION));
        match self.write("setData", &path, write) {
            Ok(_) | Err(Failure::Refused(ZkError::BadVersion)) => Ok(true),
            Err(Failure::Refused(ZkError::NoNode)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Only right after connecting, with nothing else in flight: the answers of this request
    /// overtake others, and the crate takes answers in turn.
    pub(crate) fn authenticate(&self, scheme: &str, secret: &[u8]) -> Result<(), Failure> {
        self.read("auth", scheme, |zk| zk.add_auth(scheme, secret.to_vec()))
    }

    /// The path as events and the crate know it.
    pub(crate) fn full(&self, path: &str) -> String {
        format!("{}{path}", self.connection.chroot())
    }

    pub(crate) fn connection(&self) -> &'a Connection {
        self.connection
    }

    fn write<R>(
        &self,
        what: &str,
        at: &str,
        request: impl FnOnce(&ZooKeeper) -> ZkResult<R>,
    ) -> Result<R, Failure> {
        self.request(what, at, true, request)
    }

    fn read<R>(
        &self,
        what: &str,
        at: &str,
        request: impl FnOnce(&ZooKeeper) -> ZkResult<R>,
    ) -> Result<R, Failure> {
        self.request(what, at, false, request)
    }

    fn request<R>(
        &self,
        what: &str,
        at: &str,
        write: bool,
        request: impl FnOnce(&ZooKeeper) -> ZkResult<R>,
    ) -> Result<R, Failure> {
        let number = self.connection.sending(write).ok_or(Failure::Dead)?;
        let result = request(self.handle);
        let error = result.as_ref().err().copied();
        trace!(target: "zoolock::session", "{what} {at}: {error:?}");
        let proof = match error {
            Some(error) if breaks(error) => {
                self.connection.kill(Cause::Failed(error));
                None
            }
            _ if write && error.is_none_or(certifies) => Some(Proof::Leader),
            _ => Some(Proof::Server),
        };
        let alive = self.connection.answered(number, proof);
        // A server that refuses credentials hangs up right behind its answer.
        if !alive && error != Some(ZkError::AuthFailed) {
            return Err(Failure::Dead);
        }
        result.map_err(Failure::Refused)
    }
}

impl From<&Stat> for Origin {
    fn from(stat: &Stat) -> Origin {
        Origin {
            // An epoch and a counter, never negative; nor are times after 1970.
            token: stat.czxid.unsigned_abs(),
            since: stat.ctime.unsigned_abs(),
        }
    }
}

/// After these nothing that the handle says can be relied on.
fn breaks(error: ZkError) -> bool {
    matches!(
        error,
        ZkError::ConnectionLoss
            | ZkError::SessionExpired
            | ZkError::SessionMoved
            | ZkError::MarshallingError
            | ZkError::OperationTimeout
            | ZkError::RuntimeInconsistency
            | ZkError::DataInconsistency
            | ZkError::SystemError
            | ZkError::NotReadOnly
    )
}

/// A create refused with one of these has made no node; what others mean is not known.
pub(super) fn rules_out(error: ZkError) -> bool {
    matches!(
        error,
        ZkError::NoNode
            | ZkError::NodeExists
            | ZkError::NoAuth
            | ZkError::AuthFailed
            | ZkError::InvalidACL
            | ZkError::NoChildrenForEphemerals
            | ZkError::BadArguments
    )
}

/// A write refused with one of these has been to the leader; NoAuth a follower may say by itself.
fn certifies(error: ZkError) -> bool {
    matches!(error, ZkError::BadVersion | ZkError::NoNode | ZkError::NodeExists)
}
