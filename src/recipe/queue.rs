//! Exclusive, read and write locks: a node without a blocking node before it is granted, and the
//! others wait for the nearest blocking node before them.

use zookeeper::{CreateMode, Names};

use super::rule::{New, Recipe};
use crate::error::Error;
use crate::inner::Node;
use crate::names::{self, Child, Mode, Standing};

/// A position at the end of a queue.
pub(crate) struct Queue(pub(crate) Mode);

impl Recipe for Queue {
    fn node(&self) -> New {
        let id = names::new_id();
        let name = names::new_name_prefix(&id, self.0);
        New { id, name, mode: CreateMode::EphemeralSequential }
    }

    fn is_free(&self, list: &Names) -> bool {
        names::vacant(self.0, list)
    }

    fn standing(&self, list: &[Child<'_>], own: &[Node]) -> Result<Standing, Error> {
        Ok(names::decide(self.0, list, &own[0].name))
    }

    fn ahead<'l>(&self, list: &'l Names, own: &[Node]) -> Vec<&'l str> {
        names::ahead(list, &own[0].name)
    }
}
