//! A node that takes the place of the one that a thread of this client released. One transaction
//! deletes the old node and creates the new one: both or neither.
//!
//! What the conclusion rests on: the old node was alone. It existed when the transaction deleted
//! it, and its name is unique, so the directory is the same. If the new node has the very next
//! number, no other node has come since, and the new one is alone. A transaction does not return
//! names, so the new node is looked for under that number. No client can break this: only another
//! directory could, and that would not have the old node.

use crate::names::Number;

/// The node to replace.
#[derive(Debug)]
pub(crate) struct Replacement {
    /// The session of the node. Only a call in the same session can delete it.
    pub(crate) session: i64,
    pub(crate) path: String,
    /// The number of the next node, if no other node comes in between.
    next: Number,
}

impl Replacement {
    /// `number` is the number of the node, which is alone. Returns `None` if the next number would
    /// not tell the position.
    pub(crate) fn of(session: i64, path: String, number: Number) -> Option<Replacement> {
        Some(Replacement { session, path, next: number.next()? })
    }

    pub(crate) fn number(&self) -> Number {
        self.next
    }

    /// Returns what the new node is called if it is alone, from the requested name.
    pub(crate) fn name_if_alone(&self, requested: &str) -> String {
        format!("{requested}{}", self.next)
    }
}
