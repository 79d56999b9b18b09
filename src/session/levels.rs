//! The levels of a client's locks. A level is the in-process queue of one path and one kind of
//! lock. All objects of that path and kind share it, regardless of their number and lifetime. This
//! module does not handle the queues on the servers.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Weak};

use crossbeam_channel::Sender;

use super::facts::Facts;
use super::local::Local;
use super::nodes::{Grant, Nodes};
use super::own::OwnNodes;
use crate::base::kind::LockKind;
use crate::base::path::LockPath;
use crate::base::sys::Mutex;

/// What a thread hands over to the next thread.
pub(crate) enum Handed {
    /// The thread's nodes, which the next thread holds again.
    Nodes(Arc<Nodes>),
    /// The thread's released node, which the next thread replaces.
    Replaceable(Replaceable),
}

/// A released node that the next thread for the same lock replaces together with its directory. The
/// next thread deletes both in the transaction that creates its own node. If it does not, the
/// thread that released the node deletes it.
pub(crate) struct Replaceable {
    pub(super) nodes: Arc<Nodes>,
    /// Whether the transaction has replaced the node. If not, it may still do so.
    pub(super) replaced: Sender<bool>,
}

impl Replaceable {
    /// Returns the session of the node. Only a call in the same session can delete the node.
    pub(crate) fn session(&self) -> i64 {
        self.nodes.term.session_id()
    }

    /// Reports to the thread that released the node whether the transaction has replaced it. If
    /// `is_replaced` is false, the outcome is unknown.
    pub(crate) fn settle(self, own: &OwnNodes, is_replaced: bool) {
        if is_replaced {
            own.gone([self.nodes.list[0].key]);
        }
        // The other thread may already have stopped waiting.
        let _ = self.replaced.send(is_replaced);
    }

    pub(crate) fn path(&self) -> String {
        self.nodes.facts.path_of(&self.nodes.list[0])
    }
}

/// The in-process queue of one path. It exists as long as an object of the path uses it.
pub(crate) struct Level {
    pub(crate) local: Local<Arc<Grant>, Handed>,
    key: Key,
    levels: Weak<Levels>,
}

/// The properties that locks have in common if they share a level: the path, the directory and the
/// kind.
type Key = (LockPath, LockPath, LockKind);

fn key(facts: &Facts) -> Key {
    (facts.lock.clone(), facts.directory.clone(), facts.kind)
}

/// The levels of one client.
#[derive(Default)]
pub(crate) struct Levels(Mutex<Table>);

#[derive(Default)]
struct Table {
    levels: HashMap<Key, Weak<Level>>,
    /// How many objects were ever created.
    objects: u64,
}

impl Levels {
    /// Returns the level for a new object, and the object's number. A new level calls `discard`
    /// with each value that was handed over, but that no thread takes.
    pub(crate) fn join(
        self: &Arc<Self>,
        facts: &Facts,
        discard: impl Fn(Handed) + Send + Sync + 'static,
    ) -> (Arc<Level>, u64) {
        let key = key(facts);
        let mut table = self.0.lock();
        table.objects += 1;
        let number = table.objects;
        if let Some(level) = table.levels.get(&key).and_then(Weak::upgrade) {
            return (level, number);
        }
        let levels = Arc::downgrade(self);
        let local = Local::new(facts.kind.is_of_a_thread(), Box::new(discard));
        let level = Arc::new(Level { local, key: key.clone(), levels });
        table.levels.insert(key, Arc::downgrade(&level));
        (level, number)
    }

    /// Lets other objects enter their level, because these holds of the nodes were lost.
    pub(super) fn lost(&self, nodes: &Nodes, grants: &[Arc<Grant>]) {
        let level = self.0.lock().levels.get(&key(&nodes.facts)).and_then(Weak::upgrade);
        level.into_iter().for_each(|level| grants.iter().for_each(|grant| level.lost(grant)));
    }

    /// Returns how many levels there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().levels.len()
    }
}

impl Level {
    /// Lets other objects enter, because this hold was lost.
    pub(crate) fn lost(&self, grant: &Arc<Grant>) {
        self.local.lose(|hold| Arc::ptr_eq(hold, grant));
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        if let Some(levels) = self.levels.upgrade() {
            let mut table = levels.0.lock();
            // The path may already have another level.
            if table.levels.get(&self.key).is_some_and(|level| ptr::eq(level.as_ptr(), self)) {
                table.levels.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::options::LockOptions;

    fn facts(path: &str) -> Facts {
        let (lock, options) = (LockPath::parse(path).unwrap(), LockOptions::new());
        Facts { lock: lock.clone(), directory: lock, kind: LockKind::Exclusive, options }
    }

    #[test]
    fn table_has_no_level_without_an_object() {
        const PATHS: usize = 100_000;
        let levels = Arc::new(Levels::default());
        let join = |path: usize| levels.join(&facts(&format!("/orders/{path}")), drop).0;
        for path in 0..PATHS {
            let both = [join(path), join(path)];
            assert_eq!(levels.count(), 1, "{}", both.len());
        }
        let all: Vec<_> = (0..PATHS).map(join).collect();
        assert_eq!(levels.count(), PATHS);
        drop(all);
        assert_eq!(levels.count(), 0);
    }

    #[test]
    fn end_of_a_level_does_not_remove_the_next_one() {
        let levels = Arc::new(Levels::default());
        let facts = facts("/a");
        let (ended, _) = levels.join(&facts, drop);
        // Removes the old level from the table, so that `join` creates another one before the old
        // one is dropped. Two threads can cause the same.
        levels.0.lock().levels.clear();
        let (next, _) = levels.join(&facts, drop);
        drop(ended);
        assert!(Arc::ptr_eq(&next, &levels.join(&facts, drop).0));
    }
}
