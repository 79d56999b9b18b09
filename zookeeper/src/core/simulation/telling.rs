//! What servers tell the client unasked: transactions as they are applied, and what was missed.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::super::served;
use super::ensemble::Ensemble;
use super::network::{Network, Way};
use super::stage::Stage;
use super::tree::{self, ChangeKind, Transaction, WriteKind};
use super::world::Fault;

impl Ensemble {
    /// As `DataTree.setWatches` has it.
    pub(super) fn set_watches(
        &mut self,
        stage: &mut Stage,
        network: &mut Network,
        conn: usize,
        zxid: i64,
        lists: &[Vec<String>; 3],
    ) {
        let tree = &self.servers[network.conns[conn].server].tree;
        let mut missed = Vec::new();
        let known = &mut network.conns[conn];
        for path in &lists[0] {
            match tree.node(path) {
                None => missed.push((2, path)),
                Some(node) if node.mzxid > zxid => missed.push((3, path)),
                Some(_) => drop(known.data.insert(path.clone())),
            }
        }
        for path in &lists[1] {
            match tree.node(path) {
                Some(_) => missed.push((1, path)),
                None => {
                    self.absent.push((path.clone(), tree.zxid));
                    known.data.insert(path.clone());
                }
            }
        }
        for path in &lists[2] {
            match tree.node(path) {
                None => missed.push((2, path)),
                Some(node) if node.pzxid > zxid => missed.push((4, path)),
                Some(_) => drop(known.child.insert(path.clone())),
            }
        }
        stage.figures.set_again += 1;
        for (kind, path) in missed {
            stage.figures.missed_events += 1;
            self.tell(stage, network, conn, -1, kind, path);
        }
    }

    // ---- transactions

    pub(super) fn apply(
        &mut self,
        stage: &mut Stage,
        network: &mut Network,
        server: usize,
        upto: usize,
    ) {
        while self.servers[server].applied < upto {
            let known = &mut self.servers[server];
            let transaction = Rc::clone(&self.log[known.applied]);
            known.tree.apply(&transaction);
            known.applied += 1;
            for conn in 0..network.conns.len() {
                if network.conns[conn].server == server && network.conns[conn].open_there {
                    self.fire(stage, network, conn, &transaction);
                }
            }
            self.applied_own(stage, network, server, &transaction);
        }
    }

    fn applied_own(
        &mut self,
        stage: &mut Stage,
        network: &mut Network,
        server: usize,
        done: &Transaction,
    ) {
        if let Some(origin) = done.write.origin.filter(|origin| origin.server == server) {
            let known = &mut network.conns[origin.conn];
            if let WriteKind::Open(_) = done.write.kind {
                return self.resume(stage, network, origin.conn, true);
            }
            if let Some(due) = known.due.iter_mut().find(|due| due.number == origin.due) {
                due.ready = Some(done.code);
            }
            self.answer_due(stage, network, origin.conn);
        }
        if done.write.kind == WriteKind::Close {
            for conn in 0..network.conns.len() {
                let known = &network.conns[conn];
                if known.server == server && known.session == done.write.session {
                    self.hang_up(stage, network, conn);
                }
            }
        }
    }

    /// Tells of a transaction on a connection.
    fn fire(&mut self, stage: &mut Stage, network: &mut Network, conn: usize, done: &Transaction) {
        for change in &done.changes {
            let path = change.path.as_str();
            let parent = tree::parent(path);
            let known = &mut network.conns[conn];
            let took = |watches: &mut BTreeSet<String>, path: &str| watches.remove(path);
            let (event, own) = match change.kind {
                ChangeKind::Created { .. } => (1, took(&mut known.data, path)),
                ChangeKind::Set => (3, took(&mut known.data, path)),
                ChangeKind::Deleted => {
                    (2, took(&mut known.data, path) | took(&mut known.child, path))
                }
            };
            let parents = change.kind != ChangeKind::Set && took(&mut known.child, parent);
            if own {
                self.tell(stage, network, conn, done.zxid, event, path);
            }
            // The same transaction is told twice, or half of it.
            let half = own && parents && !stage.healed && stage.chance(0.05);
            if half && stage.world.faults.contains(&Fault::Cut) {
                stage.figures.half_told += 1;
                return self.hang_up(stage, network, conn);
            }
            if parents {
                self.tell(stage, network, conn, done.zxid, 4, parent);
            }
        }
    }

    fn tell(
        &self,
        stage: &mut Stage,
        network: &mut Network,
        conn: usize,
        zxid: i64,
        kind: i32,
        path: &str,
    ) {
        let zxid = if stage.world.numbered_events { zxid } else { -1 };
        stage.note(|| format!("connection {conn}: event {kind} of {path}"));
        network.conns[conn].tags.push_back(None);
        network.send(stage, conn, Way::Down, served::event(zxid, kind, path));
    }
}
