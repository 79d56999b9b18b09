//! Writes that are carried out only while a lock is held, as users build them.

use std::fmt;

use crate::base::error::Result;
use crate::base::path::LockPath;
use crate::base::version::Version;
use crate::held::hold::Hold;
use crate::session::{What, Write};

/// Writes to the lock's own ZooKeeper ensemble, which the servers carry out all together, and only
/// while the lock is held. [`Hold::transaction`] creates a `Transaction`.
///
/// The writes are sent as one transaction, which also checks that the hold's node exists. The
/// servers therefore refuse the writes of a holder that has lost its lock, however long its process
/// was paused before or after it sent them. [Guarded writes](crate::guide::guarded_writes) explains
/// when this is better than a fencing token, and when it does not help.
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
/// drop(guard); // an error of release() would not undo the write
/// # Ok(())
/// # }
/// ```
///
/// # When the session dies
/// The hold is lost. Writes that have not been carried out never will be, and `commit` returns
/// [`Error::Lost`](crate::Error::Lost).
#[derive(Clone)]
#[must_use = "nothing is written before commit()"]
pub struct Transaction {
    /// Never empty.
    holds: Vec<Hold>,
    writes: Vec<Write>,
}

impl Hold {
    /// Returns an empty transaction of writes in ZooKeeper, which the servers carry out only while
    /// this hold is held. Nothing is sent before [`commit`](Transaction::commit).
    ///
    /// ```no_run
    /// # fn f(guard: &zoolock::Guard) -> zoolock::Result<()> {
    /// guard.transaction().set("/leader", "host-7", None).commit()
    /// # }
    /// ```
    pub fn transaction(&self) -> Transaction {
        Transaction { holds: vec![self.clone()], writes: Vec::new() }
    }
}

impl Transaction {
    fn with(mut self, path: impl AsRef<str>, what: What) -> Transaction {
        self.writes.push(Write { path: path.as_ref().to_owned(), what });
        self
    }

    /// Also requires that this hold, of the same client, is held. Use it for data that several
    /// locks protect.
    pub fn and_held(mut self, hold: &Hold) -> Transaction {
        self.holds.push(hold.clone());
        self
    }

    /// Requires that the node at `path` exists, with this version if one is given.
    pub fn check(self, path: impl AsRef<str>, version: impl Into<Option<Version>>) -> Transaction {
        self.with(path, What::Check(number(version)))
    }

    /// Sets the data of the node at `path`. The node must exist, with this version if one is given.
    /// The write increments its version.
    pub fn set(
        self,
        path: impl AsRef<str>,
        data: impl Into<Vec<u8>>,
        version: impl Into<Option<Version>>,
    ) -> Transaction {
        self.with(path, What::Set(data.into(), number(version)))
    }

    /// Creates a persistent node, with the client's [ACL](crate::ClientBuilder::acl). Its version
    /// is 0. Its parent must exist, or be created before it in the same transaction.
    pub fn create(self, path: impl AsRef<str>, data: impl Into<Vec<u8>>) -> Transaction {
        self.with(path, What::Create(data.into()))
    }

    /// Deletes the node at `path`. The node must exist, with this version if one is given, and have
    /// no children.
    pub fn delete(self, path: impl AsRef<str>, version: impl Into<Option<Version>>) -> Transaction {
        self.with(path, What::Delete(number(version)))
    }

    /// Carries out all writes in this order, or none. A transaction without writes only checks
    /// whether the lock is held.
    ///
    /// Sends one request, which is never repeated. Blocks for its answer, and for a connection if
    /// there is none, for at most a third of the session timeout.
    ///
    /// # Errors
    /// [`MaybeDone`](crate::Error::MaybeDone): no answer came, because the connection broke, the
    /// client was closed, or the time was over. The writes may have been carried out, or may still
    /// be carried out while the lock is held. Read the data to find out. If the writes have
    /// versions, it is safe to commit a clone of the transaction again.
    ///
    /// With any other error, nothing was carried out, and nothing will be:
    /// - [`Lost`](crate::Error::Lost), [`NotHeld`](crate::Error::NotHeld): the lock is no longer
    ///   held.
    /// - [`Conflict`](crate::Error::Conflict): the lock is held, but a node is not in the required
    ///   state.
    /// - [`PermissionDenied`](crate::Error::PermissionDenied): an ACL does not allow it.
    /// - [`InvalidPath`](crate::Error::InvalidPath): a path breaks the rules for the paths of
    ///   locks. Of these rules, the one about names of contenders applies only to the name of a
    ///   node to create.
    /// - [`InvalidArgument`](crate::Error::InvalidArgument): more than a megabyte, a version of -1,
    ///   a write to the hold's own node, a hold of another client, or a hold of an
    ///   [`EphemeralLock`](crate::EphemeralLock), whose node has the same name for every holder.
    /// - [`Disconnected`](crate::Error::Disconnected), [`Closed`](crate::Error::Closed): there was
    ///   no connection in time, or the client was already closed.
    pub fn commit(self) -> Result<()> {
        for Write { path, what } in &self.writes {
            match what {
                What::Create(_) => LockPath::parse(path)?,
                What::Check(_) | What::Set(..) | What::Delete(_) => LockPath::parse_node(path)?,
            };
        }
        self.holds[0].commit(&self.holds, &self.writes)
    }
}

fn number(version: impl Into<Option<Version>>) -> Option<i32> {
    version.into().map(i32::from)
}

/// Prints without the data, which may be secret.
impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.writes.iter().map(|write| &write.path);
        f.debug_struct("Transaction")
            .field("holds", &self.holds)
            .field("paths", &paths.collect::<Vec<_>>())
            .finish()
    }
}
