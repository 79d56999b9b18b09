//! A read that a thread takes under its own write: granted at once, in the write's place in the queue, so
//! that no writer that waits comes between when the write is released. The read's node is made first, and
//! the list behind it shows both: so at no instant was the place empty.
//!
//! That the write in the list is ours is known by its name, which has an id. Only somebody who makes a node by hand
//! with that very name could pretend it. The number in the read's own name is chosen here, not given by the server:
//! it tells its place, and nothing about what else was made in the directory.

use std::sync::Arc;

use zookeeper::{CreateMode, Names, Stat};

use super::rule::{New, Recipe, Step};
use crate::error::{Error, LossReason};
use crate::names::{self, Child};
use crate::session::{Grant, Node};
use crate::sys;

/// Under this write, whose sequence tells its place.
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

    /// Without it there is no write either.
    fn no_directory(&self) -> Option<Error> {
        Some(self.write_deleted())
    }

    fn is_free(&self, _list: &Names) -> bool {
        true
    }

    fn step(&self, list: &[Child<'_>], _own: &[Node]) -> Step {
        let write = &self.0.list()[0].name;
        match self.0.check() {
            Err(over) => {
                sys::reached("a write ends while a read is taken under it");
                Step::Refused(over)
            }
            Ok(()) if list.iter().any(|child| child.name == *write) => {
                sys::reached("a read is granted under its write");
                Step::Granted
            }
            Ok(()) => {
                sys::reached("a read finds that its write is gone");
                Step::Refused(self.write_deleted())
            }
        }
    }

    fn token(&self, _stat: &Stat) -> u64 {
        self.0.list()[0].token
    }
}
