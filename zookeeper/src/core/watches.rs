//! Who waits for which event. Pure: it neither sets watches nor tells anybody.

use std::collections::HashMap;

use super::message::WatchedPaths;
use crate::types::EventType;

/// Somebody who can be told of an event.
pub(crate) trait Listen: Clone {
    /// Does it still want to hear?
    fn is_live(&self) -> bool;
    fn is_same(&self, other: &Self) -> bool;
}

/// Which change a watch is for, as servers tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchKind {
    /// The data, or the end, of a node that is there.
    Data,
    /// The creation of a node that is not.
    Exist,
    /// The children, or the end, of a node.
    Child,
}

/// The bytes of paths in one request to set watches again, as Java's client has it: the server takes
/// no request beyond a megabyte.
const CHUNK: usize = 128 * 1024;
/// Listeners that are gone are looked for when there are twice as many as were left the last time,
/// and never below so many.
const SWEEP: usize = 64;

/// The watches that are set, or will be again on the next connection.
#[derive(Debug)]
pub(crate) struct Watches<W> {
    by_path: HashMap<String, [Vec<W>; 3]>,
    count: usize,
    sweep_at: usize,
}

impl<W: Listen> Watches<W> {
    pub(crate) fn new() -> Watches<W> {
        Watches { by_path: HashMap::new(), count: 0, sweep_at: SWEEP }
    }

    /// The server has set it. Whoever has the same watch already hears of it once.
    pub(crate) fn add(&mut self, kind: WatchKind, path: String, listener: W) {
        if self.count >= self.sweep_at {
            self.sweep();
        }
        let listeners = &mut self.by_path.entry(path).or_default()[kind as usize];
        if !listeners.iter().any(|known| known.is_same(&listener)) {
            listeners.push(listener);
            self.count += 1;
        }
    }

    /// Takes out those whom an event is for, each once: their watches are over.
    pub(crate) fn take(&mut self, event: EventType, path: &str) -> Vec<W> {
        let kinds: &[WatchKind] = match event {
            EventType::NodeCreated | EventType::NodeDataChanged => {
                &[WatchKind::Data, WatchKind::Exist]
            }
            EventType::NodeChildrenChanged => &[WatchKind::Child],
            EventType::NodeDeleted | EventType::WatchEnded => {
                &[WatchKind::Data, WatchKind::Exist, WatchKind::Child]
            }
        };
        let Some(lists) = self.by_path.get_mut(path) else {
            return Vec::new();
        };
        let mut taken: Vec<W> = Vec::new();
        for kind in kinds {
            for listener in lists[*kind as usize].drain(..) {
                self.count -= 1;
                if !taken.iter().any(|known| known.is_same(&listener)) {
                    taken.push(listener);
                }
            }
        }
        if lists.iter().all(Vec::is_empty) {
            self.by_path.remove(path);
        }
        taken
    }

    /// Takes out all, by path.
    pub(crate) fn take_all(&mut self) -> Vec<(String, Vec<W>)> {
        let paths: Vec<String> = self.by_path.keys().cloned().collect();
        let take = |path: String| (self.take(EventType::WatchEnded, &path), path);
        paths.into_iter().map(take).map(|(taken, path)| (path, taken)).collect()
    }

    /// What to set again on a new connection, in requests that are not too long.
    pub(crate) fn chunks(&mut self) -> Vec<WatchedPaths> {
        self.sweep();
        let (mut chunks, mut left) = (Vec::new(), 0);
        for (path, lists) in &self.by_path {
            for (kind, listeners) in lists.iter().enumerate() {
                if listeners.is_empty() {
                    continue;
                }
                if left < path.len() || chunks.is_empty() {
                    chunks.push(WatchedPaths::default());
                    left = CHUNK;
                }
                left = left.saturating_sub(path.len() + 4);
                if let Some(chunk) = chunks.last_mut() {
                    let lists = [&mut chunk.data, &mut chunk.exist, &mut chunk.child];
                    lists[kind].push(path.clone());
                }
            }
        }
        chunks
    }

    fn sweep(&mut self) {
        self.by_path.retain(|_, lists| {
            lists.iter_mut().for_each(|list| list.retain(W::is_live));
            lists.iter().any(|list| !list.is_empty())
        });
        self.count = self.by_path.values().flatten().map(Vec::len).sum();
        self.sweep_at = SWEEP.max(self.count * 2);
    }
}
