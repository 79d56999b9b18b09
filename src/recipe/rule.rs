//! What a recipe has to say: the rest is the loop's.

use crate::sys::never;
use zookeeper::{CreateMode, Names, Stat};

use crate::error::Error;
use crate::names::{Ahead, Child};
use crate::session::Node;
use crate::signal::Ended;

/// Who is granted, told from a list of names and the names of one's own: it sends nothing. Of a single node
/// the list is that node; the loop asks the claim where that makes a difference.
pub(crate) trait Recipe {
    /// How many nodes it takes.
    fn count(&self) -> usize {
        1
    }

    /// A node to be made.
    fn node(&self) -> New;

    /// Why it cannot be that there is no directory; none if it is made then.
    fn no_directory(&self) -> Option<Error> {
        None
    }

    /// Would nodes that come now be granted at once?
    fn is_free(&self, list: &Names) -> bool;

    /// How our nodes stand, which are all in the list.
    fn step(&self, list: &[Child<'_>], own: &[Node]) -> Step;

    /// Who stands before our nodes, first things first: for people.
    fn ahead<'l>(&self, _list: &'l Names, _own: &[Node]) -> Vec<&'l str> {
        Vec::new()
    }

    /// The token of a node with this stat.
    fn token(&self, stat: &Stat) -> u64 {
        stat.czxid.unsigned_abs()
    }

    /// Is it the list that is watched, and not a node of it?
    fn watches_list(&self) -> bool {
        false
    }

    /// What else is a reason to look again; ready when it has changed.
    fn changes(&self) -> [Ended; 2] {
        [never(), never()]
    }
}

/// A node to be made.
pub(crate) struct New {
    /// What it is found by if the answer is lost: in its name, or in the data of a single node.
    pub(crate) id: String,
    /// A number comes behind it if the mode says so.
    pub(crate) name: String,
    pub(crate) mode: CreateMode,
}

/// How our nodes stand.
pub(crate) enum Step {
    Granted,
    /// To look again when one of these has changed; none if the list is watched, or not to be waited for.
    Behind(Option<Ahead>),
    /// It hangs on when these were made.
    NeedsCzxid(Vec<String>),
    /// They can never be granted.
    Gone,
    /// It would never come to anything.
    Refused(Error),
}
