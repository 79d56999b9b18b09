//! The nodes and sessions that servers agree on, and the transactions that change them.

use std::collections::BTreeMap;

use super::stage::Time;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Node {
    pub(super) czxid: i64,
    pub(super) mzxid: i64,
    pub(super) pzxid: i64,
    pub(super) version: i32,
    pub(super) owner: i64,
    pub(super) children: i32,
}

/// Where the answer to a write goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) server: usize,
    pub(super) conn: usize,
    pub(super) due: u64,
}

/// What is to be written.
#[derive(Debug, Clone)]
pub(super) struct Write {
    /// None for what the leader or somebody else does.
    pub(super) origin: Option<Origin>,
    pub(super) session: i64,
    pub(super) kind: WriteKind,
    pub(super) path: String,
    /// The call that it is for.
    pub(super) tag: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteKind {
    Open(Time),
    Close,
    Create {
        ephemeral: bool,
    },
    Delete,
    Set {
        version: i32,
    },
    /// Refused by the leader with this code, which still takes a proposal.
    Refused(i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Created { owner: i64 },
    Deleted,
    Set,
}

/// One change of one node.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) path: String,
    pub(super) kind: ChangeKind,
}

/// A transaction that a quorum has.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) zxid: i64,
    pub(super) write: Write,
    pub(super) code: i32,
    pub(super) changes: Vec<Change>,
}

impl Transaction {
    /// What a new leader begins with.
    pub(super) fn nothing(zxid: i64) -> Transaction {
        let (kind, tag) = (WriteKind::Refused(0), super::codec::NOBODY);
        let write = Write { origin: None, session: 0, kind, path: String::new(), tag };
        Transaction { zxid, write, code: 0, changes: Vec::new() }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    /// The last transaction.
    pub(super) zxid: i64,
    nodes: BTreeMap<String, Node>,
    pub(super) sessions: BTreeMap<i64, Time>,
}

/// The path of the parent; the root's own is empty.
pub(super) fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) => "/",
        Some(end) => &path[..end],
        None => "",
    }
}

impl Tree {
    pub(super) fn new() -> Tree {
        let mut tree = Tree::default();
        tree.nodes.insert("/".into(), Node::default());
        tree
    }

    pub(super) fn node(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    pub(super) fn children(&self, path: &str) -> Vec<&str> {
        let below = |node: &&String| parent(node) == path && *node != path;
        let from = self.nodes.range(path.to_owned()..).map(|node| node.0);
        let near = from.take_while(|node| node.starts_with(path));
        near.filter(below).map(|node| &node[path.len()..]).collect()
    }

    /// What comes of a write, as the leader finds out: its code, and what it changes.
    pub(super) fn judge(&self, write: &Write) -> (i32, Vec<Change>) {
        let change = |kind| (0, vec![Change { path: write.path.clone(), kind }]);
        let node = self.nodes.get(&write.path);
        match (write.kind, node) {
            (WriteKind::Refused(code), _) => (code, Vec::new()),
            (WriteKind::Open(_), _) => (0, Vec::new()),
            (WriteKind::Close, _) => {
                let own = self.nodes.iter().filter(|node| node.1.owner == write.session);
                let deleted =
                    |path: &String| Change { path: path.clone(), kind: ChangeKind::Deleted };
                (0, own.map(|node| deleted(node.0)).collect())
            }
            (WriteKind::Create { .. }, Some(_)) => (-110, Vec::new()),
            (WriteKind::Create { ephemeral }, None) => match self.nodes.get(parent(&write.path)) {
                None => (-101, Vec::new()),
                Some(parent) if parent.owner != 0 => (-108, Vec::new()),
                Some(_) => {
                    let owner = if ephemeral { write.session } else { 0 };
                    change(ChangeKind::Created { owner })
                }
            },
            (_, None) => (-101, Vec::new()),
            (WriteKind::Delete, Some(node)) if node.children > 0 => (-111, Vec::new()),
            (WriteKind::Delete, Some(_)) => change(ChangeKind::Deleted),
            (WriteKind::Set { version }, Some(node)) => {
                match version == -1 || version == node.version {
                    true => change(ChangeKind::Set),
                    false => (-103, Vec::new()),
                }
            }
        }
    }

    pub(super) fn apply(&mut self, transaction: &Transaction) {
        let zxid = transaction.zxid;
        self.zxid = zxid;
        let session = transaction.write.session;
        if let WriteKind::Open(timeout) = transaction.write.kind {
            self.sessions.insert(session, timeout);
        } else if transaction.write.kind == WriteKind::Close {
            self.sessions.remove(&session);
        }
        for Change { path, kind } in &transaction.changes {
            let grown = match *kind {
                ChangeKind::Created { owner } => {
                    let node =
                        Node { czxid: zxid, mzxid: zxid, pzxid: zxid, owner, ..Node::default() };
                    self.nodes.insert(path.clone(), node);
                    1
                }
                ChangeKind::Deleted => {
                    self.nodes.remove(path);
                    -1
                }
                ChangeKind::Set => {
                    if let Some(node) = self.nodes.get_mut(path) {
                        (node.mzxid, node.version) = (zxid, node.version + 1);
                    }
                    continue;
                }
            };
            if let Some(parent) = self.nodes.get_mut(parent(path)) {
                (parent.pzxid, parent.children) = (zxid, parent.children + grown);
            }
        }
    }
}
