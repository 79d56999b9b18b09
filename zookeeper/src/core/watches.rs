//! A table of the listeners and the events that they wait for. Pure: it neither sets watches nor
//! calls listeners.

use std::collections::{BTreeMap, HashMap};

use super::message::WatchedPaths;
use crate::types::EventType;

/// A receiver of events.
pub(crate) trait Listen: Clone {
    /// Returns whether it still exists.
    fn is_live(&self) -> bool;
    /// Returns a number that is unique among the known listeners.
    fn id(&self) -> usize;
}

/// The changes that a watch reports, as servers distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchKind {
    /// The data or the deletion of an existing node.
    Data,
    /// The creation of a missing node.
    Exist,
    /// The children or the deletion of a node.
    Child,
}

/// The number of bytes of paths in one request to set watches again. Servers accept a megabyte, unless
/// `jute.maxbuffer` sets another limit.
const CHUNK: usize = 32 * 1024;
/// Dropped listeners are removed when there are twice as many listeners as after the last removal, but
/// never while there are fewer than this.
const SWEEP: usize = 64;

/// The watches that are set, or will be set again on the next connection.
#[derive(Debug)]
pub(crate) struct Watches<W> {
    by_path: BTreeMap<String, Ears<W>>,
    /// The number of watches: one for each listener, path and kind.
    count: usize,
    sweep_at: usize,
}

/// The listeners of a path, each once, in the order of their first watch.
#[derive(Debug)]
struct Ears<W> {
    /// The listeners with the kinds of their watches, as a set of bits.
    list: Vec<(W, u8)>,
    /// The index of each in `list`, by its id.
    places: HashMap<usize, usize>,
}

impl WatchKind {
    const ALL: [WatchKind; 3] = [WatchKind::Data, WatchKind::Exist, WatchKind::Child];

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl<W: Listen> Ears<W> {
    /// Returns whether the listener had no such watch before.
    fn add(&mut self, kind: WatchKind, listener: W) -> bool {
        let place = *self.places.entry(listener.id()).or_insert(self.list.len());
        if place == self.list.len() {
            self.list.push((listener, 0));
        }
        let kinds = &mut self.list[place].1;
        let is_new = *kinds & kind.bit() == 0;
        *kinds |= kind.bit();
        is_new
    }

    /// Ends all watches of these kinds. Returns the listeners that had one.
    fn take(&mut self, kinds: u8) -> Vec<W> {
        let heard = self.list.iter_mut().filter(|(_, had)| *had & kinds != 0);
        let taken = heard.map(|(listener, had)| {
            *had &= !kinds;
            listener.clone()
        });
        let taken = taken.collect();
        self.keep(|_| true);
        taken
    }

    /// Forgets listeners without a watch, and those that `keep` rejects.
    fn keep(&mut self, keep: impl Fn(&W) -> bool) {
        self.list.retain(|(listener, kinds)| *kinds != 0 && keep(listener));
        let places = self.list.iter().enumerate().map(|(place, (ear, _))| (ear.id(), place));
        self.places = places.collect();
    }

    fn count(&self) -> usize {
        self.list.iter().map(|(_, kinds)| kinds.count_ones() as usize).sum()
    }

    /// Returns the kinds of all watches.
    fn kinds(&self) -> u8 {
        self.list.iter().fold(0, |all, (_, kinds)| all | kinds)
    }
}

impl<W: Listen> Watches<W> {
    pub(crate) fn new() -> Watches<W> {
        Watches { by_path: BTreeMap::new(), count: 0, sweep_at: SWEEP }
    }

    /// Adds a watch that the server set. A listener that already has the same watch receives one
    /// event.
    pub(crate) fn add(&mut self, kind: WatchKind, path: String, listener: W) {
        if self.count >= self.sweep_at {
            self.sweep();
        }
        let none = || Ears { list: Vec::new(), places: HashMap::new() };
        let ears = self.by_path.entry(path).or_insert_with(none);
        self.count += usize::from(ears.add(kind, listener));
    }

    /// Ends the watches that an event is for. Returns their listeners, each once.
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
        let Some(ears) = self.by_path.get_mut(path) else {
            return Vec::new();
        };
        let before = ears.count();
        let taken = ears.take(kinds.iter().fold(0, |all, kind| all | kind.bit()));
        self.count -= before - ears.count();
        if ears.list.is_empty() {
            self.by_path.remove(path);
        }
        taken
    }

    /// Ends all watches. Returns their listeners by path.
    pub(crate) fn take_all(&mut self) -> Vec<(String, Vec<W>)> {
        let paths: Vec<String> = self.by_path.keys().cloned().collect();
        let take = |path: String| (self.take(EventType::WatchEnded, &path), path);
        paths.into_iter().map(take).map(|(taken, path)| (path, taken)).collect()
    }

    /// Returns the watches to set again on a new connection, divided into requests that servers
    /// accept.
    pub(crate) fn chunks(&mut self) -> Vec<WatchedPaths> {
        self.sweep();
        let (mut chunks, mut left) = (Vec::new(), 0);
        for (path, ears) in &self.by_path {
            let kinds = ears.kinds();
            for kind in WatchKind::ALL.into_iter().filter(|kind| kinds & kind.bit() != 0) {
                if left < path.len() || chunks.is_empty() {
                    chunks.push(WatchedPaths::default());
                    left = CHUNK;
                }
                left = left.saturating_sub(path.len() + 4);
                if let Some(chunk) = chunks.last_mut() {
                    let lists = [&mut chunk.data, &mut chunk.exist, &mut chunk.child];
                    lists[kind as usize].push(path.clone());
                }
            }
        }
        chunks
    }

    fn sweep(&mut self) {
        self.by_path.retain(|_, ears| {
            ears.keep(W::is_live);
            !ears.list.is_empty()
        });
        self.count = self.by_path.values().map(Ears::count).sum();
        self.sweep_at = SWEEP.max(self.count * 2);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// How often listeners have been compared.
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    /// A listener that is identified by a number.
    #[derive(Debug, Clone)]
    struct Ear(u32);

    impl Listen for Ear {
        fn is_live(&self) -> bool {
            true
        }

        fn id(&self) -> usize {
            LOOKS.set(LOOKS.get() + 1);
            self.0 as usize
        }
    }

    #[test]
    fn many_listeners_of_one_path_cost_few_comparisons_each() {
        const COUNT: u32 = 10_000;
        let mut watches = Watches::new();
        let ears: Vec<Ear> = (0..COUNT).map(Ear).collect();
        LOOKS.set(0);
        for kind in WatchKind::ALL {
            ears.iter().for_each(|ear| watches.add(kind, "/a".into(), ear.clone()));
        }
        let added = LOOKS.get();
        let taken: Vec<u32> =
            watches.take(EventType::NodeDeleted, "/a").iter().map(|ear| ear.0).collect();
        println!(
            "{COUNT} listeners: {added} looks to add them, {} more to tell",
            LOOKS.get() - added
        );
        assert!(LOOKS.get() <= 12 * COUNT as usize, "{} looks", LOOKS.get());
        assert_eq!(taken, (0..COUNT).collect::<Vec<_>>());
    }
}
