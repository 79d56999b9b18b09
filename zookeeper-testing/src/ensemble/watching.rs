//! The watches on a server.

use std::collections::BTreeMap;

/// The connections that watch each path, in the order in which they have set their watches.
#[derive(Debug, Default)]
pub(super) struct ServerWatches {
    data: Paths,
    child: Paths,
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
}

impl ServerWatches {
    pub(super) fn add_data(&mut self, path: &str, connection: u64) {
        self.data.add(path, connection);
    }

    pub(super) fn add_child(&mut self, path: &str, connection: u64) {
        self.child.add(path, connection);
    }

    pub(super) fn data_paths(&self) -> impl Iterator<Item = &String> {
        self.data.0.keys()
    }

    /// Ends the watches of a node's data and deletion. Returns their connections.
    pub(super) fn take_data(&mut self, path: &str) -> Vec<u64> {
        self.data.take(path)
    }

    pub(super) fn take_child(&mut self, path: &str) -> Vec<u64> {
        self.child.take(path)
    }

    /// Ends all watches of a deleted node. Returns their connections, each of them once.
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
    }

    pub(super) fn clear(&mut self) {
        *self = ServerWatches::default();
    }
}
