//! A read that a thread takes under its own write. It is granted at once, at the write's queue
//! position, so that no waiting writer comes between when the write is released. The read's node is
//! created first, and the list behind it shows both nodes: at no instant was the position empty.
//!
//! The name of the write in the list has an id, which shows that it is ours. Only a client that
//! creates a node with that very name could fake it. The number in the read's name is chosen here
//! and not given by the server. It tells the position, and nothing about other nodes of the
//! directory.

use std::sync::Arc;

use zookeeper::{CreateMode, Names};

use super::rule::{New, Recipe};
use crate::error::{Error, LossReason};
use crate::inner::{Grant, Node};
use crate::names::{self, Child, Standing};
use crate::sys;

/// Under this write, whose sequence tells the position.
pub(crate) struct Under<'a>(pub(crate) &'a Arc<Grant>);

impl Under<'_> {
    fn write_deleted(&self) -> Error {
        let (path, reason) = (self.0.path().to_owned(), LossReason::NodeDeleted);
        Error::Lost { path, reason }
    }
}

impl Recipe for Under<'_> {
    fn node(&self) -> New {
        let write = &self.0.list()[0];
        let (id, name) = names::read_under(&write.name, write.token);
        New { id, name, mode: CreateMode::Ephemeral }
    }

    /// Without its write, a read would let a reader in beside the next holder.
    fn under(&self) -> Option<(&str, Error)> {
        Some((&self.0.list()[0].name, self.write_deleted()))
    }

    fn is_free(&self, _list: &Names) -> bool {
        true
    }

    fn standing(&self, list: &[Child<'_>], _own: &[Node]) -> Result<Standing, Error> {
        let write = &self.0.list()[0].name;
        match self.0.check() {
            Err(over) => {
                sys::reached("a write ends while a read is taken under it");
                Err(over)
            }
            Ok(()) if list.iter().any(|child| child.name == *write) => {
                sys::reached("a read is granted under its write");
                Ok(Standing::Granted)
            }
            Ok(()) => {
                sys::reached("a read finds that its write is gone");
                Err(self.write_deleted())
            }
        }
    }

    fn token(&self, _czxid: i64) -> u64 {
        self.0.list()[0].token
    }
}
