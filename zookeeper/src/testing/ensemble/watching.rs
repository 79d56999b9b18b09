//! The watches on one server.

use std::collections::BTreeMap;

use crate::core::path::at_and_above;

/// The connections that watch, by path, in the order in which their watches were set.
#[derive(Debug, Default)]
pub(super) struct ServerWatches {
    data: Paths,
    child: Paths,
    /// Those of everything at and below a path, which stay.
    recursive: Paths,
}

#[derive(Debug, Default)]
struct Paths(BTreeMap<String, Vec<u64>>);

impl Paths {
    fn add(&mut self, path: &str, connection: u64) {
        match self.0.get_mut(path) {
            Some(watching) if watching.contains(&connection) => {}
            Some(watching) => watching.push(connection),
            None => drop(self.0.insert(path.to_owned(), vec![connection])),
        }
    }

    fn take(&mut self, path: &str) -> Vec<u64> {
        match self.0.is_empty() {
            true => Vec::new(),
            false => self.0.remove(path).unwrap_or_default(),
        }
    }

    fn forget(&mut self, connection: u64) {
        self.0.retain(|_, watching| {
            watching.retain(|watching| *watching != connection);
            !watching.is_empty()
        });
    }

    /// Returns whether the connection had a watch at this path, which ends.
    fn remove(&mut self, path: &str, connection: u64) -> bool {
        let Some(watching) = self.0.get_mut(path) else {
            return false;
        };
        let before = watching.len();
        watching.retain(|watching| *watching != connection);
        let had = watching.len() < before;
        if watching.is_empty() {
            self.0.remove(path);
        }
        had
    }
}

impl ServerWatches {
    pub(super) fn add_data(&mut self, path: &str, connection: u64) {
        self.data.add(path, connection);
    }

    pub(super) fn add_child(&mut self, path: &str, connection: u64) {
        self.child.add(path, connection);
    }

    pub(super) fn add_recursive(&mut self, path: &str, connection: u64) {
        self.recursive.add(path, connection);
    }

    /// Ends the watches of a connection at a path. Returns whether there were any.
    pub(super) fn remove(&mut self, path: &str, connection: u64) -> bool {
        let all = [&mut self.data, &mut self.child, &mut self.recursive];
        all.map(|paths| paths.remove(path, connection)).contains(&true)
    }

    #[cfg(any(test, zoolock_simulation))]
    pub(super) fn data_paths(&self) -> impl Iterator<Item = &String> {
        self.data.0.keys()
    }

    /// Ends the watches of a node itself, except recursive ones. Returns the connections of both.
    pub(super) fn take_data(&mut self, path: &str) -> Vec<u64> {
        let taken = self.data.take(path);
        self.with_recursive(taken, path)
    }

    /// Adds the connections with a recursive watch of this path. Each is told of a change once.
    fn with_recursive(&self, mut watching: Vec<u64>, path: &str) -> Vec<u64> {
        if self.recursive.0.is_empty() {
            return watching;
        }
        let above = at_and_above(path).filter_map(|above| self.recursive.0.get(above));
        for connection in above.flatten() {
            if !watching.contains(connection) {
                watching.push(*connection);
            }
        }
        watching
    }

    pub(super) fn take_child(&mut self, path: &str) -> Vec<u64> {
        self.child.take(path)
    }

    /// Ends the watches of a deleted node, except recursive ones. Returns the connections of all,
    /// each once.
    pub(super) fn take_all(&mut self, path: &str) -> Vec<u64> {
        let mut watching = self.take_data(path);
        for connection in self.child.take(path) {
            if !watching.contains(&connection) {
                watching.push(connection);
            }
        }
        watching
    }

    pub(super) fn forget(&mut self, connection: u64) {
        self.data.forget(connection);
        self.child.forget(connection);
        self.recursive.forget(connection);
    }

    pub(super) fn clear(&mut self) {
        *self = ServerWatches::default();
    }
}
