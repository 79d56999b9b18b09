//! The nodes that a call acquires, and the rule that decides from a list of names whether they are
//! granted. This module does not send requests. The loop in the module `waiting` does the rest.

use std::sync::Arc;

use zookeeper::{CreateMode, Names};

use super::permits::PermitRequest;
use crate::base::error::{Error, LossReason};
use crate::base::kind::LockKind;
use crate::base::names::{self, Child, Standing};
use crate::base::signal::Ended;
use crate::base::sys::{self, never};
use crate::session::{Grant, Node};

/// The nodes that a call acquires.
pub(crate) enum Recipe<'a> {
    /// A position at the end of a queue. A node is granted if no blocking node precedes it.
    /// Otherwise, it waits for the nearest blocking node that precedes it.
    Queue(LockKind),
    /// A read under this write of the same thread. It is granted at once, at the write's queue
    /// position. When the write is released, a waiting writer therefore cannot acquire the lock
    /// before the read ends. The read's node is created before the list is requested, and the list
    /// contains both nodes. Therefore, the position was occupied the whole time.
    ///
    /// The id in the name of the write proves that the write in the list is ours. Only a client
    /// that creates a node with exactly that name could forge it. The number in the read's name is
    /// chosen by this client and not assigned by the server. That number determines the position,
    /// but does not prove anything about other nodes of the directory.
    Under(&'a Arc<Grant>),
    /// Permits of a semaphore: either all of them or none.
    Permits(PermitRequest<'a>),
}

impl<'a> Recipe<'a> {
    /// Returns how many nodes the recipe requires.
    pub(super) fn count(&self) -> usize {
        match self {
            Recipe::Queue(_) | Recipe::Under(_) => 1,
            Recipe::Permits(permits) => permits.count,
        }
    }

    /// Returns a new id, the name of a node with this id, and how it is created: whether the server
    /// appends a number to the name.
    pub(super) fn name(&self) -> (String, String, CreateMode) {
        let (id, kind) = match self {
            Recipe::Queue(kind) => (names::new_id(), *kind),
            Recipe::Permits(permits) => (permits.new_id(), LockKind::Semaphore),
            Recipe::Under(write) => {
                let write = &write.list()[0];
                let (id, name) = names::read_under(&write.name, write.token);
                return (id, name, CreateMode::Ephemeral);
            }
        };
        let name = names::new_name_prefix(&id, kind);
        (id, name, CreateMode::EphemeralSequential)
    }

    /// Returns the write whose node must exist when the nodes are created: a read without its write
    /// would let a reader hold the lock together with the next holder. Returns `None` if the nodes
    /// do not depend on another node. In that case, the directory is created if it is missing.
    pub(super) fn under(&self) -> Option<&'a Arc<Grant>> {
        match self {
            Recipe::Under(write) => Some(write),
            Recipe::Queue(_) | Recipe::Permits(_) => None,
        }
    }

    /// Returns whether nodes that are created now would be granted at once.
    pub(super) fn is_free(&self, list: &Names) -> bool {
        match self {
            Recipe::Queue(kind) => names::vacant(*kind, list),
            Recipe::Under(_) => true,
            Recipe::Permits(permits) => permits.is_free(list),
        }
    }

    /// Returns the standing of our nodes, all of which are in the list.
    ///
    /// # Errors
    /// Returns the reason, for the user, if the nodes can never be granted.
    pub(super) fn standing(&mut self, list: &[Child<'_>], own: &[Node]) -> Result<Standing, Error> {
        match self {
            Recipe::Queue(kind) => Ok(names::decide(*kind, list, &own[0].name)),
            Recipe::Under(write) => {
                let name = &write.list()[0].name;
                let gone = write.check();
                sys::reached_if(gone.is_err(), "a write ends while a read is taken under it");
                gone?;
                if !list.iter().any(|child| child.name == *name) {
                    sys::reached("a read finds that its write is gone");
                    return Err(deleted(write));
                }
                Ok(Standing::Granted)
            }
            Recipe::Permits(permits) => permits.standing(list, own),
        }
    }

    /// Returns how many contenders are ahead of our nodes, as information for operators.
    pub(super) fn count_ahead(&self, list: &Names, own: &[Node]) -> usize {
        match self {
            Recipe::Queue(_) => names::count_ahead(list, &own[0].name),
            Recipe::Under(_) | Recipe::Permits(_) => 0,
        }
    }

    /// Returns whether the call watches the list instead of a node in it.
    pub(super) fn watches_list(&self) -> bool {
        matches!(self, Recipe::Permits(permits) if permits.turn.is_some())
    }

    /// Returns two signals that require a new list: the limit has changed, and the turn has ended.
    pub(super) fn changes(&self) -> [Ended; 2] {
        match self {
            Recipe::Queue(_) | Recipe::Under(_) => [never(), never()],
            Recipe::Permits(permits) => permits.changes(),
        }
    }
}

/// Returns the error of a read whose write is gone.
pub(super) fn deleted(write: &Grant) -> Error {
    Error::Lost { path: write.path().to_owned(), reason: LossReason::NodeDeleted }
}
