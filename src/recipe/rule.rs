//! What a recipe decides. The loop in `waiting` does the rest.

use crate::sys::never;
use zookeeper::{CreateMode, Names};

use crate::error::Error;
use crate::inner::Node;
use crate::names::{Child, Standing};
use crate::signal::Ended;

/// Decides whether nodes are granted, from a list of names and the names of the call's own nodes.
/// It sends nothing.
pub(crate) trait Recipe {
    /// Returns how many nodes it takes.
    fn count(&self) -> usize {
        1
    }

    /// Returns a node to create.
    fn node(&self) -> New;

    /// Returns the name of a node in the directory without which none is created, and the error then;
    /// `None` if also the directory is created where it is missing.
    fn under(&self) -> Option<(&str, Error)> {
        None
    }

    /// Returns whether nodes that are created now would be granted at once.
    fn is_free(&self, list: &Names) -> bool;

    /// Returns where our nodes stand, all of which are in the list.
    ///
    /// # Errors
    /// Why they can never be granted, for the user.
    fn standing(&self, list: &[Child<'_>], own: &[Node]) -> Result<Standing, Error>;

    /// Returns the names ahead of our nodes, in order, for people.
    fn ahead<'l>(&self, _list: &'l Names, _own: &[Node]) -> Vec<&'l str> {
        Vec::new()
    }

    /// Returns the token of a node that this transaction created.
    fn token(&self, czxid: i64) -> u64 {
        czxid.unsigned_abs()
    }

    /// Returns whether the list is watched, and not a node of it.
    fn watches_list(&self) -> bool {
        false
    }

    /// Returns two signals to look again: the limit has changed, and the turn has ended.
    fn changes(&self) -> [Ended; 2] {
        [never(), never()]
    }
}

/// A node to create.
pub(crate) struct New {
    /// The id by which it is found if the answer is lost: in its name, or in the data of a single
    /// node.
    pub(crate) id: String,
    /// The requested name. The server appends a number if the mode says so.
    pub(crate) name: String,
    pub(crate) mode: CreateMode,
}
