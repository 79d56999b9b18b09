//! Several locks as one, taken in an order that all programs share. This module uses the members
//! only as [`Lock`]s, whatever their types.

use std::error::Error as StdError;
use std::fmt;
use std::mem;
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::wait::{Wait, surely};
use crate::held::hold::Hold;
use crate::locks::any::{Lock, LockGuard, LockId};

/// Several locks that are held together or not at all.
///
/// The members may be of any type and of several clients. They are taken one by one in a fixed
/// [order](MultiLock#order), and released in reverse order. If a member is busy or fails, the
/// members taken before it are released again.
///
/// A `MultiLock` has no state: it is held while all its members are, no matter who locked them. The
/// rules of its members therefore apply. A `MultiLock` of
/// [`DistributedReentrantLock`](crate::DistributedReentrantLock)s belongs to a thread, which may
/// lock it again. If a [`DistributedLock`](crate::DistributedLock) is among the members, locking
/// the `MultiLock` again deadlocks. A clone is the same lock.
///
/// A [`DistributedSemaphore`](crate::DistributedSemaphore) is not a [`Lock`], which is why permits
/// cannot be members.
///
/// A call that finds a member busy returns [`Busy`] instead of a guard. `Busy` names the member.
/// The calls without a guard are those of [`Lock`], which must be imported. [`path`](Lock::path)
/// returns the members' paths in the order in which they are taken, separated by `", "`. That text
/// is for display, not a path in ZooKeeper.
///
/// # Order
/// The members are taken in the order of their [`LockId`]s, whatever order they were given in: by
/// server list, then by path, including the client's chroot. Two programs that want the same locks
/// cannot deadlock each other if both of them take the locks through `MultiLock`s, or in this
/// order, and if both of them list the same servers for an ensemble. A server's name and its
/// address count as different servers.
///
/// Each free member costs two requests and two round trips, one to take it and one to release it:
/// ten free locks take ten round trips to acquire, and ten to release.
///
/// # Deadlines
/// One deadline covers all members. If the wait for an earlier member has used it up, a later
/// member is still tried, as by `try_lock`, to find out whether it is busy. A `try_lock` waits for
/// at most a third of the session timeout for each member. After the deadline, the members that
/// were taken are released. Like every unlock, this waits for answers: usually for milliseconds,
/// and for a third of the session timeout for each member if the network has just started to drop
/// all packets.
///
/// # Guarantees
/// - While [`is_held`](Lock::is_held) is true, all members are held, each with the guarantees of
///   its type. Each has a separate fencing token; see [`holds`](LockGuard::holds).
/// - A call that fails to take all members has released those that it took, or reports those that
///   it could not release. An unlock also attempts to release every member.
///
/// # Fairness
/// Each member is as fair as its type, but the `MultiLock` is not fair: a call queues for one
/// member at a time, while it holds the members that it has already taken. If it kept its position
/// in the later queues, it could deadlock with a program that takes the same locks one by one.
///
/// # When the session dies
/// Each hold ends separately; see [`Hold`]. [`is_held`](Lock::is_held) is false as soon as one of
/// them is lost, and [`unlock`](Lock::unlock) reports which ones were lost. If a hold is lost while
/// the call waits for a later member, the call notices when it gets that member. It then releases
/// the others and returns [`Error::Lost`].
///
/// # Errors
/// Those of the members, and [`Lost`](Error::Lost) if a member was lost before the last one was
/// taken. After an error no member is held. If releasing members fails as well, [`Error::Multiple`]
/// has both errors, the cause first.
///
/// An unlock attempts to release every member, in reverse order, even if some of them fail. A
/// failed unlock is always an [`Error::Multiple`], with the failures of all members that were lost,
/// not held, or not held by this thread. The others are released.
///
/// # Example
/// ```no_run
/// use std::time::Duration;
/// use zoolock::{Client, DistributedLock, MultiLock};
///
/// # fn main() -> zoolock::Result<()> {
/// let client = Client::connect("127.0.0.1:2181", Duration::from_secs(10))?;
/// let from = DistributedLock::new(&client, "/accounts/17")?;
/// let to = DistributedLock::new(&client, "/accounts/4")?;
/// let both = MultiLock::new([from.clone().into(), to.into()])?;
/// match both.acquire_within(Duration::from_secs(5))? {
///     Ok(locked) => {
///         assert!(from.is_held());
///         for hold in locked.holds() {
///             println!("writing {} with token {}", hold.path(), hold.fencing_token());
///         }
///         locked.release()?;
///     }
///     Err(busy) => println!("another client has {}", busy.path),
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias("InterProcessMultiLock", "RedissonMultiLock"))]
#[derive(Debug, Clone)]
pub struct MultiLock {
    /// In the order of their ids; never empty.
    locks: Arc<[Box<dyn Lock>]>,
    path: Arc<str>,
}

impl MultiLock {
    /// Creates a lock of these members, given in any order. An object that is given more than once,
    /// including as a clone, is one member. Sends no request.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] in three cases:
    /// - There is no member.
    /// - Two different objects are at one path, because they exclude each other. This includes the
    ///   two handles of a read-write lock.
    /// - A member is a `MultiLock`, whose members could not be taken in order. Pass its members
    ///   instead.
    pub fn new(locks: impl IntoIterator<Item = Box<dyn Lock>>) -> Result<MultiLock> {
        let with_id = |lock: Box<dyn Lock>| (lock.id(), lock);
        let mut locks: Vec<_> = locks.into_iter().map(with_id).collect();
        locks.sort_by(|(a, _), (b, _)| a.cmp(b));
        // After sorting, clones are neighbors because their ids are equal. Members with one path
        // are neighbors as well.
        locks.dedup_by(|(b, _), (a, _)| b.is_clone_of(a));
        check(&locks)?;
        let locks: Arc<[_]> = locks.into_iter().map(|(_, lock)| lock).collect();
        let paths: Vec<_> = locks.iter().map(|lock| lock.path()).collect();
        let path = Arc::from(paths.join(", "));
        Ok(MultiLock { locks, path })
    }

    /// Returns the members in the order in which they are taken, each object once.
    #[must_use]
    pub fn locks(&self) -> &[Box<dyn Lock>] {
        &self.locks
    }

    /// Acquires all members and returns a guard that releases them when dropped. Waits like
    /// [`lock`](Lock::lock).
    ///
    /// # Errors
    /// Those of the [type](MultiLock#errors).
    pub fn acquire(&self) -> Result<MultiGuard> {
        surely(self.acquire_within(Wait::FOREVER)?.ok(), &self.path)
    }

    /// Like [`try_lock`](Lock::try_lock), with a guard, or the member that is busy.
    ///
    /// # Errors
    /// Those of the [type](MultiLock#errors).
    pub fn try_acquire(&self) -> Result<Result<MultiGuard, Busy>> {
        self.acquire_within(Wait::TRY)
    }

    /// Like [`lock_within`](Lock::lock_within), with a guard, or the member that is busy. `wait`
    /// may also be a `Duration` or an `Instant`.
    ///
    /// # Errors
    /// Those of the [type](MultiLock#errors).
    pub fn acquire_within(&self, wait: impl Into<Wait>) -> Result<Result<MultiGuard, Busy>> {
        Ok(self.take(&wait.into())?.map(|()| LockGuard::new(self.clone())))
    }

    /// Takes all members, or none if one is busy.
    fn take(&self, wait: &Wait) -> Result<Result<(), Busy>> {
        // Each guard is inserted at the front, so that a panic drops the guards in reverse order.
        let mut taken = Vec::new();
        for (index, lock) in self.locks.iter().enumerate() {
            let wait = if index == 0 { wait.clone() } else { wait.for_another() };
            let got = lock.acquire_within(wait);
            if let Ok(Some(guard)) = got {
                taken.insert(0, guard);
                continue;
            }
            return match (got, give_back(taken)) {
                (Err(reason), failures) => Err(failure(reason, failures)),
                (Ok(_), failures) if failures.is_empty() => {
                    Ok(Err(Busy { index, path: lock.path().to_owned() }))
                }
                (Ok(_), failures) => Err(Error::Multiple { failures }),
            };
        }
        // An earlier member may have been lost during the wait for a later one.
        let Some(gone) = self.locks.iter().find(|lock| !lock.is_held()) else {
            taken.into_iter().for_each(mem::forget);
            return Ok(Ok(()));
        };
        let mut losses = give_back(taken).into_iter();
        // A lock type of another crate may report that its lock is not held, but unlock it without
        // an error.
        let not_held = || Error::not_held(gone.path());
        Err(failure(losses.next().unwrap_or_else(not_held), losses.collect()))
    }
}

/// The guard of several locks as one, which it owns.
pub type MultiGuard = LockGuard<MultiLock>;

/// The member that stopped a call for a [`MultiLock`] from taking any: another contender has it.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// The index of the member in [`MultiLock::locks`].
    pub index: usize,
    /// The path of the member.
    pub path: String,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {:?} is busy", self.path)
    }
}

impl StdError for Busy {}

/// `locks` are sorted, without clones.
fn check(locks: &[(LockId, Box<dyn Lock>)]) -> Result<()> {
    let refuse = |reason| Err(Error::invalid("list of locks", reason));
    if locks.is_empty() {
        return refuse("it is empty".to_owned());
    }
    if let Some((_, nested)) = locks.iter().find(|(id, _)| id.is_several()) {
        let path = nested.path();
        return refuse(format!(
            "a MultiLock (of {path:?}) is among them: pass its members instead"
        ));
    }
    let mut neighbours = locks.iter().zip(&locks[1..]);
    match neighbours.find(|((a, _), (b, _))| a.is_at_place_of(b)) {
        Some(((id, _), _)) => refuse(format!(
            "two objects are at path {:?}, and the second would wait for the first",
            id.full_path()
        )),
        None => Ok(()),
    }
}

fn failure(reason: Error, others: Vec<Error>) -> Error {
    match others.is_empty() {
        true => reason,
        false => Error::Multiple { failures: [reason].into_iter().chain(others).collect() },
    }
}

/// Releases these members. If one of them panics, the others are still released.
fn give_back(taken: Vec<LockGuard<&dyn Lock>>) -> Vec<Error> {
    taken.into_iter().filter_map(|guard| guard.release().err()).collect()
}

impl Lock for MultiLock {
    fn path(&self) -> &str {
        &self.path
    }

    fn id(&self) -> LockId {
        LockId::several(&self.path)
    }

    fn lock_within(&self, wait: Wait) -> Result<bool> {
        Ok(self.take(&wait)?.is_ok())
    }

    fn unlock(&self) -> Result<()> {
        match give_back(self.locks.iter().rev().map(|lock| LockGuard::new(&**lock)).collect()) {
            failures if failures.is_empty() => Ok(()),
            failures => Err(Error::Multiple { failures }),
        }
    }

    fn is_held(&self) -> bool {
        self.locks.iter().all(|lock| lock.is_held())
    }

    fn holds(&self) -> Vec<Hold> {
        self.locks.iter().flat_map(|lock| lock.holds()).collect()
    }
}

impl From<MultiLock> for Box<dyn Lock> {
    fn from(lock: MultiLock) -> Box<dyn Lock> {
        Box::new(lock)
    }
}
