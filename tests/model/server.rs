//! What happens at the server: creates and deletes are applied, sessions end. Any machine of an
//! ensemble may be behind the others, but what it shows is a state that the whole was in, and not an
//! older one than the same connection has seen before: that is the same as an answer which takes
//! long, so there is one server here.

use super::names::{Make, Name};
use super::world::{Step, World};

impl World {
    /// A create is applied.
    pub(crate) fn apply(&mut self, name: Name) {
        self.server.in_flight.remove(name);
        if !self.server.directory && !self.make_directory(name) {
            return;
        }
        self.server.counter += 1;
        self.server.nodes.insert(name);
        if name.make() == Make::Queued {
            self.server.places[name.index()] = self.server.counter;
        }
    }

    /// The directory is missing: the create is refused. A client that queues then makes the
    /// directory and sends the create again, which is one step here; one that moves has learnt
    /// that its old node is gone. Nobody hears the answer on a dead connection.
    fn make_directory(&mut self, name: Name) -> bool {
        let seat = name.seat();
        if self.live_for(seat) != Some(name.connection()) {
            return false;
        }
        match name.make() {
            Make::Queued => self.server.directory = true,
            Make::Moved if self.seats[seat].step == Step::Moving => {
                self.seats[seat].step = Step::Asked { seen: false };
            }
            Make::Moved => {}
        }
        self.server.directory
    }

    /// A node on a garbage list is deleted. When the request was sent does not matter: its client
    /// has a connection now, or had one whose session still owns the node.
    pub(crate) fn delete(&mut self, name: Name) {
        self.server.nodes.remove(name);
    }

    /// A session expires and its nodes go. What was in flight may still be applied: the crate
    /// replaces an expired session silently, until its handle is closed.
    pub(crate) fn expire(&mut self, client: usize, connection: usize) {
        let names = self.nodes_of_session(client, connection);
        self.server.nodes = self.server.nodes.without(names);
    }

    /// A handle is closed, and with it its session: what is still in flight will be refused.
    pub(crate) fn close(&mut self, client: usize, connection: usize) {
        let names = self.of_session(client, connection);
        self.server.nodes = self.server.nodes.without(names);
        self.server.in_flight = self.server.in_flight.without(names);
    }

    /// The empty directory is removed. The next one numbers from the start.
    pub(crate) fn remove_directory(&mut self) {
        self.left.removals -= 1;
        self.server.directory = false;
        self.server.counter = 0;
        self.granted = 0;
    }

    pub(crate) fn exists(&self, name: Name) -> bool {
        self.server.nodes.has(name)
    }
}
