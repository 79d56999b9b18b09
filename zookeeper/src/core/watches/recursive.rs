//! A table of the listeners of everything at and below a path. Their watches end with the
//! connection. Pure: it neither sets watches nor calls listeners.

use std::collections::BTreeMap;

use super::Listen;
use crate::core::path::at_and_above;

/// The recursive watches of the current connection.
#[derive(Debug)]
pub(crate) struct Recursive<W>(BTreeMap<String, Vec<W>>);

impl<W: Listen> Recursive<W> {
    pub(crate) fn new() -> Recursive<W> {
        Recursive(BTreeMap::new())
    }

    /// Adds a watch that the server set. A listener that already has it receives each event once.
    pub(crate) fn add(&mut self, path: String, listener: W) {
        let ears = self.0.entry(path).or_default();
        ears.retain(|other| other.is_live() && other.id() != listener.id());
        ears.push(listener);
    }

    /// Returns the listeners of a change at this path, and the paths of watches that nobody listens
    /// to any more.
    pub(crate) fn hear(&self, path: &str) -> (Vec<W>, Vec<String>) {
        let (mut heard, mut idle): (Vec<W>, _) = (Vec::new(), Vec::new());
        if self.0.is_empty() {
            return (heard, idle);
        }
        for above in at_and_above(path) {
            let Some(ears) = self.0.get(above) else { continue };
            if !ears.iter().any(W::is_live) {
                idle.push(above.to_owned());
            }
            for ear in ears.iter().filter(|ear| ear.is_live()) {
                if heard.iter().all(|other| other.id() != ear.id()) {
                    heard.push(ear.clone());
                }
            }
        }
        (heard, idle)
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.0.remove(path);
    }

    /// Ends all watches. Returns their listeners by path.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (String, Vec<W>)> + use<W> {
        std::mem::take(&mut self.0).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[derive(Clone)]
    struct Ear(usize, Rc<Cell<bool>>);

    impl Listen for Ear {
        fn is_live(&self) -> bool {
            self.1.get()
        }

        fn id(&self) -> usize {
            self.0
        }
    }

    fn ear(number: usize) -> Ear {
        Ear(number, Rc::new(Cell::new(true)))
    }

    #[test]
    fn listeners_hear_of_their_path_and_below_alone() {
        let mut watches = Recursive::new();
        for (number, path) in [(1, "/"), (2, "/a"), (3, "/a/b"), (1, "/a"), (2, "/a")] {
            watches.add(path.into(), ear(number));
        }
        for (path, wanted) in [
            ("/", vec![1]),
            ("/a", vec![1, 2]),
            ("/ab", vec![1]),
            ("/a/b", vec![1, 2, 3]),
            ("/a/b/c/d", vec![1, 2, 3]),
            ("/a/c", vec![1, 2]),
        ] {
            let (heard, idle) = watches.hear(path);
            let mut heard: Vec<_> = heard.iter().map(|ear| ear.0).collect();
            heard.sort_unstable();
            println!("{path}: {heard:?}");
            assert_eq!((heard, idle), (wanted, vec![]), "{path}");
        }
        assert_eq!(
            watches.take_all().map(|(path, _)| path).collect::<Vec<_>>(),
            ["/", "/a", "/a/b"]
        );
        assert!(watches.hear("/a/b").0.is_empty());
    }

    #[test]
    fn watch_without_a_listener_is_named_by_its_next_event() {
        let mut watches = Recursive::new();
        let (stays, goes) = (ear(1), ear(2));
        watches.add("/a".into(), stays);
        watches.add("/a/b".into(), goes.clone());
        goes.1.set(false);
        assert_eq!(watches.hear("/a/c").1, Vec::<String>::new());
        let (heard, idle) = watches.hear("/a/b/c");
        assert_eq!((heard.len(), &idle[..]), (1, &["/a/b".to_owned()][..]));
        watches.remove("/a/b");
        assert_eq!(watches.hear("/a/b/c").1, Vec::<String>::new());
    }
}
