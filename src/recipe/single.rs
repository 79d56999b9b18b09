//! The single node: whoever makes it has it. The list is that node, if it is there.

use zookeeper::{CreateMode, Names};

use super::rule::{New, Recipe, Step};
use crate::names::{self, Child};
use crate::session::Node;

/// The node of this name.
pub(crate) struct Single<'a>(pub(crate) &'a str);

impl Recipe for Single<'_> {
    fn node(&self) -> New {
        New { id: names::new_id(), name: self.0.to_owned(), mode: CreateMode::Ephemeral }
    }

    fn is_free(&self, list: &Names) -> bool {
        list.is_empty()
    }

    fn step(&self, _list: &[Child<'_>], _own: &[Node]) -> Step {
        Step::Granted
    }
}
