//! Watches of held and kept nodes: their own data tell of revocation requests and deletions, and
//! their directory tells of other contenders.

use std::sync::{Arc, Weak};
use std::time::Duration;

use zookeeper::{ErrorKind, EventType, Stat, WatchedEvent, Watcher};

use super::holds::Holds;
use super::nodes::{FirstLevel, Grant, Nodes};
use crate::data;
use crate::names;
use crate::sys;

impl Holds {
    // ---- the nodes

    /// Looks at nodes that are held or kept, whatever events were received.
    pub(super) fn look_at(&self, nodes: &Arc<Nodes>) {
        match self.read_all(nodes) {
            true => sys::reached("what is held is looked at though nothing was told"),
            false => self.watch(nodes),
        }
        self.look_around(nodes);
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
            let read = |node| batch.get_data(&nodes.claim.path_of(node), Some(&watcher));
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
        let is_single = nodes.claim.kind.is_single_node();
        match read {
            // The node of another owner, at the path of a single node.
            Ok((_, stat)) if stat.czxid != node.czxid => {
                sys::reached("a single node that is held is another one by now");
                self.node_gone(nodes);
            }
            Ok((data, stat)) if data::asks(&data, is_single.then_some(node.token)) => {
                sys::reached("a holder is asked to let go");
                nodes.mark_requested(index, stat.mzxid);
                // A request for a single node stays, because whoever wrote it reads it again.
                if !is_single {
                    self.answer_request(nodes, index, stat.version);
                }
                // If the nodes are kept, there is no holder to ask.
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
            (nodes.claim.path_of(&nodes.list[index]), data::answer(&nodes.claim.identity));
        // The data are for people, who can do without.
        drop(zk.submit(|batch| batch.set_data(&path, &data, Some(version))));
    }

    // ---- the directory of what is kept

    /// Keeps the nodes of a hold for the next thread, until another contender comes and for at most
    /// `time` after the grant. The first level lasts as long. Returns false if the nodes have to be
    /// deleted or to stay.
    pub(crate) fn keep(&self, grant: &Arc<Grant>, time: Duration, level: FirstLevel) -> bool {
        let nodes = grant.nodes();
        let Some(until) = nodes.may_keep(time) else {
            sys::reached("a hold is not kept as its time is over or somebody has come");
            return false;
        };
        if !nodes.hand_over(grant) {
            return false;
        }
        sys::reached("a hold is kept for whoever comes");
        self.watch_directory(nodes, level);
        self.attend_at(until);
        true
    }

    /// Watches the directory from now on, and lists the contenders that are there already.
    fn watch_directory(&self, nodes: &Arc<Nodes>, level: FirstLevel) {
        let (watched, me) = (Arc::downgrade(nodes), Weak::clone(&self.me));
        let watcher = Watcher::new(move |_: &WatchedEvent| {
            if let (Some(holds), Some(nodes)) = (me.upgrade(), watched.upgrade()) {
                holds.on_contender(&nodes);
            }
        });
        if nodes.watch_directory(&watcher, level) {
            self.look_around(nodes);
        }
    }

    /// Looks for other contenders while the nodes are kept.
    fn look_around(&self, nodes: &Arc<Nodes>) {
        let Some(watcher) = nodes.kept_watcher() else {
            return;
        };
        let zk = self.requests.zk.in_session(nodes.term.session_id());
        let directory = nodes.claim.directory.as_str();
        let listed = zk.submit(|batch| batch.get_children(directory, Some(&watcher)));
        let (me, nodes) = (Weak::clone(&self.me), Arc::clone(nodes));
        listed.on_done(move |listed| {
            let own = &nodes.list[0].name;
            let contends = |name: &str| names::mode_of(name).is_some() && name != own;
            let has_come = listed.map_or(true, |(names, _)| names.iter().any(contends));
            me.upgrade().filter(|_| has_come).inspect(|holds| holds.on_contender(&nodes));
        });
    }

    /// Handles the event that another contender wants the nodes, or may want them.
    fn on_contender(&self, nodes: &Nodes) {
        sys::reached("somebody may want what is kept");
        nodes.mark_wanted();
        self.end_unwanted(nodes);
    }
}
