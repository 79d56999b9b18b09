//! Watches of held nodes: their data tell of revocation requests and deletions.

use std::sync::{Arc, Weak};

use zookeeper::{ErrorKind, EventType, Stat, WatchedEvent, Watcher};

use super::holds::Holds;
use super::nodes::Nodes;
use crate::data;
use crate::sys;

impl Holds {
    /// Looks at nodes that are held, whatever events were received.
    pub(super) fn look_at(&self, nodes: &Arc<Nodes>) {
        match self.read_all(nodes) {
            true => sys::reached("what is held is looked at though nothing was told"),
            false => self.watch(nodes),
        }
    }

    /// Watches the nodes from now on, if they are not watched yet, and reads them.
    pub(crate) fn watch(&self, nodes: &Arc<Nodes>) {
        let (watched, me) = (Arc::downgrade(nodes), Weak::clone(&self.me));
        let watcher = Watcher::new(move |event: &WatchedEvent| {
            let (Some(holds), Some(nodes)) = (me.upgrade(), watched.upgrade()) else {
                return;
            };
            match event.event_type {
                EventType::NodeDeleted => holds.node_gone(&nodes),
                EventType::WatchEnded => {}
                _ => drop(holds.read_all(&nodes)),
            }
        });
        if nodes.watch(&watcher) {
            self.read_all(nodes);
        }
    }

    /// Reads the nodes' data, and sets the watches. Returns false if the nodes have no watcher.
    fn read_all(&self, nodes: &Arc<Nodes>) -> bool {
        let Some(watcher) = nodes.start_look(self.requests.next_look()) else {
            return false;
        };
        let zk = self.requests.zk.in_session(nodes.term.session_id());
        let reads = zk.submit(|batch| {
            let read = |node| batch.get_data(&nodes.claim.facts.path_of(node), Some(&watcher));
            nodes.list.iter().map(read).collect::<Vec<_>>()
        });
        for (index, read) in reads.into_iter().enumerate() {
            let (me, nodes) = (Weak::clone(&self.me), Arc::clone(nodes));
            read.on_done(move |read| {
                if let Some(holds) = me.upgrade() {
                    holds.on_read(&nodes, index, read);
                }
            });
        }
        true
    }

    fn on_read(&self, nodes: &Arc<Nodes>, index: usize, read: zookeeper::Result<(Vec<u8>, Stat)>) {
        let node = &nodes.list[index];
        match read {
            // The node of another owner, at the path of a single node.
            Ok((_, stat)) if stat.czxid != node.czxid => {
                sys::reached("a single node that is held is another one by now");
                self.node_gone(nodes);
            }
            // Nobody asks for a single node: the answer could be written to that of the next owner.
            Ok(_) if nodes.claim.facts.kind.is_single_node() => {}
            Ok((data, stat)) if data::is_request(&data) => {
                sys::reached("a holder is asked to let go");
                nodes.mark_requested(index, stat.mzxid);
                self.answer_request(nodes, index, stat.version);
                // If no thread holds the nodes, there is no holder to ask.
                self.end_unwanted(nodes);
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NoNode => self.node_gone(nodes),
            Err(error) => {
                sys::reached("a look at what is held has no answer");
                nodes.stop_watching();
                // Connections that break soon would let no later look through. Other errors may last.
                if error.kind() == ErrorKind::ConnectionLoss {
                    self.attend_at(sys::now());
                }
            }
        }
    }

    /// Writes the owner's identity into the node's data again, with the fact that the lock was
    /// requested.
    fn answer_request(&self, nodes: &Nodes, index: usize, version: i32) {
        let zk = self.requests.zk.in_session(nodes.term.session_id());
        let (path, data) =
            (nodes.claim.facts.path_of(&nodes.list[index]), data::answer(&nodes.claim.identity));
        // The data are for people, who can do without.
        drop(zk.submit(|batch| batch.set_data(&path, &data, Some(version))));
    }
}
