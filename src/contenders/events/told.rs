//! The locks that a watch has told of, until the stream of events looks at them.

use std::collections::BTreeSet;
use std::mem;

use crossbeam_channel::{Receiver, Sender, bounded};
use zookeeper::{EventType, WatchedEvent};

use super::super::{LEASES, LOCKS};
use crate::names;
use crate::path::LockPath;
use crate::sys::Mutex;

/// With more locks than this, everything is looked at instead.
const MOST: usize = 10_000;

/// What the watch has told.
#[derive(Debug)]
pub(super) struct Told {
    root: LockPath,
    changed: Mutex<Changed>,
    bell: Sender<()>,
}

/// What has changed since the last look.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// The watch has ended, or too much has changed.
    pub(super) is_unknown: bool,
    /// Paths of locks that may have changed.
    pub(super) locks: BTreeSet<LockPath>,
}

impl Told {
    /// Returns it with a channel that is ready when there is something new.
    pub(super) fn below(root: LockPath) -> (Told, Receiver<()>) {
        let (bell, rung) = bounded(1);
        (Told { root, changed: Mutex::default(), bell }, rung)
    }

    /// Notes an event. Never blocks.
    pub(super) fn note(&self, event: &WatchedEvent) {
        let mut changed = self.changed.lock();
        match event.event_type {
            EventType::WatchEnded => changed.is_unknown = true,
            _ if changed.is_unknown => return,
            _ => changed.locks.extend(candidates(&self.root, &event.path)),
        }
        if changed.locks.len() > MOST {
            changed.is_unknown = true;
        }
        if changed.is_unknown {
            changed.locks.clear();
        }
        drop(changed);
        // If it is full, it rings already.
        let _ = self.bell.try_send(());
    }

    pub(super) fn take(&self) -> Changed {
        mem::take(&mut *self.changed.lock())
    }
}

/// Returns the locks that a change of the node at `path` may concern: one whose directory has the
/// node, a single node, and the parts of a semaphore, whose names tell nothing.
fn candidates(root: &LockPath, path: &str) -> Vec<LockPath> {
    let Ok(node) = LockPath::parse_node(path) else {
        return Vec::new();
    };
    let (directory, name) = node.split();
    // There is no lock below a contender.
    let between = directory.as_str().strip_prefix(root.as_str()).unwrap_or_default();
    if between.split('/').any(|part| names::mode_of(part).is_some()) {
        return Vec::new();
    }
    let mut all = Vec::new();
    if names::mode_of(name).is_none() {
        all.push(node.clone());
    }
    if [LOCKS, LEASES].contains(&name) {
        all.extend([LOCKS, LEASES].map(|part| directory.below(part)));
    }
    all.push(directory);
    all.retain(|path| !path.is_root() && path.is_in(root));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(root: &str, path: &str) -> Vec<String> {
        let root = LockPath::parse_directory(root).expect(root);
        let mut all: Vec<_> =
            candidates(&root, path).iter().map(|path| path.as_str().to_owned()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn event_concerns_the_locks_that_may_have_the_node() {
        for (root, path, wanted) in [
            ("/", "/a/b/lock-0000000001", vec!["/a/b"]),
            ("/", "/a/b", vec!["/a", "/a/b"]),
            ("/", "/a", vec!["/a"]),
            ("/a", "/a", vec!["/a"]),
            ("/a", "/a/lock-0000000001", vec!["/a"]),
            ("/a", "/ab/lock-0000000001", vec![]),
            (
                "/",
                "/s/leases/x-lease-0000000001",
                vec!["/s/leases", "/s/leases/x-lease-0000000001"],
            ),
            ("/", "/s/leases", vec!["/s", "/s/leases", "/s/locks"]),
            ("/s/locks", "/s/locks", vec!["/s/locks"]),
            ("/", "/a/lock-0000000001/b/c", vec![]),
            ("/", "/zookeeper/quota", vec![]),
            ("/", "/", vec![]),
        ] {
            assert_eq!(all(root, path), wanted, "{path} below {root}");
        }
    }

    #[test]
    fn too_many_changes_and_the_end_of_the_watch_say_that_anything_may_have_changed() {
        let event = |event_type, path| WatchedEvent { event_type, path };
        let (told, rung) = Told::below(LockPath::parse_directory("/").expect("the root"));
        assert!(rung.try_recv().is_err());
        for number in 0..=MOST {
            told.note(&event(EventType::NodeCreated, format!("/{number}")));
        }
        assert!(rung.try_recv().is_ok() && rung.try_recv().is_err(), "it rings once");
        let changed = told.take();
        assert!(changed.is_unknown && changed.locks.is_empty());
        told.note(&event(EventType::NodeDeleted, "/a/lock-0000000001".into()));
        let changed = told.take();
        assert!(!changed.is_unknown && changed.locks.len() == 1);
        told.note(&event(EventType::WatchEnded, "/".into()));
        assert!(told.take().is_unknown && rung.try_recv().is_ok());
    }
}
