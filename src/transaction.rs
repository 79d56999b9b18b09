//! Writes that are carried out only while a lock is held, as users put them together.

use std::fmt;

use crate::error::Result;
use crate::hold::Hold;
use crate::path::LockPath;
use crate::session::{Grant, What, Write};

/// Writes in the ZooKeeper of a lock that are carried out all together, and only while the lock is held:
/// made by [`Hold::transaction`].
///
/// They are sent as one transaction that also checks that the node of the hold is there, so that the
/// servers see to it: what comes from a holder that has lost its lock is refused, however long it stood
/// still, before it was sent or behind that. [Guarded writes](crate::guide::guarded_writes) says where this
/// is better than a fencing token, and where it is of no use.
///
/// ```no_run
/// # fn f(client: &zoolock::Client, lock: &zoolock::DistributedLock) -> zoolock::Result<()> {
/// let guard = lock.acquire()?;
/// match client.read("/orders")? {
///     Some((mut orders, version)) => {
///         orders.extend_from_slice(b"one more\n");
///         guard.transaction().set("/orders", orders, version).commit()?;
///     }
///     None => guard.transaction().create("/orders", "the first\n").commit()?,
/// }
/// guard.release()
/// # }
/// ```
///
/// # When the session dies
/// The hold is lost, and nothing of it that is not carried out yet will be: [`Error::Lost`](crate::Error::Lost).
#[derive(Clone)]
#[must_use = "nothing is written before commit()"]
pub struct Transaction {
    holds: Vec<Hold>,
    writes: Vec<Write>,
}

impl Transaction {
    pub(crate) fn of(hold: &Hold) -> Transaction {
        Transaction { holds: vec![hold.clone()], writes: Vec::new() }
    }

    fn with(mut self, path: impl Into<String>, what: What) -> Transaction {
        self.writes.push(Write { path: path.into(), what });
        self
    }

    /// Only while this is held as well, a hold of the same client: for what several locks guard.
    pub fn and_held(mut self, hold: &Hold) -> Transaction {
        self.holds.push(hold.clone());
        self
    }

    /// Only if the node at `path` is there, with this version if one is given.
    pub fn check(self, path: impl Into<String>, version: impl Into<Option<i32>>) -> Transaction {
        self.with(path, What::Check(version.into()))
    }

    /// Sets the data of the node at `path`, which has to be there, with this version if one is given. Its
    /// version is one higher then.
    pub fn set(
        self,
        path: impl Into<String>,
        data: impl Into<Vec<u8>>,
        version: impl Into<Option<i32>>,
    ) -> Transaction {
        self.with(path, What::Set(data.into(), version.into()))
    }

    /// Creates a persistent node, with the [ACL](crate::ClientBuilder::acl) of the client. Its version is 0.
    /// The node above it has to be there, or be created before it in the same transaction.
    pub fn create(self, path: impl Into<String>, data: impl Into<Vec<u8>>) -> Transaction {
        self.with(path, What::Create(data.into()))
    }

    /// Deletes the node at `path`, which has to be there, with this version if one is given, and without
    /// children.
    pub fn delete(self, path: impl Into<String>, version: impl Into<Option<i32>>) -> Transaction {
        self.with(path, What::Delete(version.into()))
    }

    /// Has all of it carried out, in this order, or nothing. Without a write it asks the servers whether the
    /// lock is held.
    ///
    /// One request, which is not sent again. Blocks for its answer, and for a connection if there is none,
    /// for at most a third of the session timeout.
    ///
    /// # Errors
    /// Nothing was carried out, nor will be:
    /// - [`Lost`](crate::Error::Lost), [`NotHeld`](crate::Error::NotHeld): the lock is not held any more.
    /// - [`Conflict`](crate::Error::Conflict): it is, but a node is not as it has to be.
    /// - [`Denied`](crate::Error::Denied): an ACL does not allow it.
    /// - [`InvalidPath`](crate::Error::InvalidPath), by the rules for locks (only a node that is created must not
    ///   be named as a contender), and
    ///   [`InvalidArgument`](crate::Error::InvalidArgument): more than a megabyte, a version of -1, a write to the
    ///   hold's own node, a hold of another client, or one of an [`EphemeralLock`](crate::EphemeralLock), whose
    ///   node has the same name for every holder.
    ///
    /// It may have been carried out, and may yet be for as long as the lock is held:
    /// - [`Disconnected`](crate::Error::Disconnected): the connection broke, or no answer came in time. Read,
    ///   to find out; with versions, it does no harm to commit a clone of it again.
    /// - [`Closed`](crate::Error::Closed): the client was closed.
    pub fn commit(self) -> Result<()> {
        for Write { path, what } in &self.writes {
            match what {
                What::Create(_) => LockPath::parse(path)?,
                What::Check(_) | What::Set(..) | What::Delete(_) => LockPath::parse_node(path)?,
            };
        }
        let holds: Vec<_> = self.holds.iter().map(Hold::parts).collect();
        Grant::commit(&holds, &self.writes)
    }
}

/// Without the data, which may be secret.
impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.writes.iter().map(|write| &write.path);
        f.debug_struct("Transaction")
            .field("holds", &self.holds)
            .field("paths", &paths.collect::<Vec<_>>())
            .finish()
    }
}
