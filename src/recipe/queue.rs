//! Exclusive, read and write: whoever is lowest of those that count, and who waits for whom else.

use zookeeper::{CreateMode, Names};

use super::rule::{New, Recipe, Step};
use crate::names::{self, Child, Mode, Standing};
use crate::session::Node;

/// A place at the end of a queue.
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

    fn step(&self, list: &[Child<'_>], own: &[Node]) -> Step {
        match names::decide(self.0, list, &own[0].name) {
            Standing::Granted => Step::Granted,
            Standing::Behind(ahead) => Step::Behind(Some(ahead)),
            Standing::NeedsCzxid(names) => Step::NeedsCzxid(names),
            Standing::Gone => Step::Gone,
        }
    }

    fn ahead<'l>(&self, list: &'l Names, own: &[Node]) -> Vec<&'l str> {
        names::ahead(list, &own[0].name)
    }
}
