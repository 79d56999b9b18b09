//! The tree of nodes, and how writes change it. The rules are those of ZooKeeper's `PrepRequestProcessor` and
//! `DataTree`.
//!
//! Servers apply transactions one after another, and some servers lag. Therefore, each node has several versions. A
//! server reads the version as of the last transaction that it has applied, whereas a leader validates writes against
//! the newest versions. Transactions that do not survive their leader are undone, and versions that no server reads any
//! more are dropped. Watches and connections are not handled in this module.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::access::{self, Acl, Id, permission};
use crate::committed::{Change, ChangeKind};
use crate::terms::{CreateMode, EventType, Refused, Stat, is_path};

/// A version argument that matches any version.
pub(super) const ANY: i32 = -1;

/// A change that is requested.
#[derive(Debug)]
pub(super) enum TreeOp<'a> {
    Create {
        path: &'a str,
        data: &'a [u8],
        acl: Arc<[Acl]>,
        mode: CreateMode,
        /// Whether the answer contains the stat of the new node.
        with_stat: bool,
    },
    Delete {
        path: &'a str,
        version: i32,
    },
    SetData {
        path: &'a str,
        data: &'a [u8],
        version: i32,
    },
    SetAcl {
        path: &'a str,
        acl: Arc<[Acl]>,
        version: i32,
    },
    Check {
        path: &'a str,
        version: i32,
    },
}

/// The result of a change.
#[derive(Debug)]
pub(super) enum Outcome {
    Created(Arc<str>, Option<Stat>),
    Deleted,
    Set(Stat),
    Checked,
}

/// Who requests a transaction, the transaction's id, and its time in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) session: i64,
    pub(super) ids: &'a [Id],
    pub(super) zxid: i64,
    pub(super) wall: i64,
}

/// A version of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) data: Arc<[u8]>,
    pub(super) acl: Arc<[Acl]>,
    is_container: bool,
    /// Unlike in the stat for clients, `cversion` counts only children that were created.
    kept: Stat,
}

/// A change, and what determines which watchers are notified of it.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) change: Change,
    /// The ACL of the node at the time of the change.
    pub(super) acl: Arc<[Acl]>,
    /// If the node's parent has changed: its path and its ACL.
    pub(super) parent: Option<(Arc<str>, Arc<[Acl]>)>,
}

/// The versions of the node at a path.
#[derive(Debug, Default)]
struct NodeHistory {
    /// The versions in order, each with its transaction. `None` means that the node was deleted.
    versions: Vec<(i64, Option<Node>)>,
    /// The names of all children that any version may have. They are sorted by their hashes, an order that, as in
    /// servers, has no meaning, but is the same in each run.
    names: BTreeSet<(u32, Arc<str>)>,
}

#[derive(Debug)]
pub(super) struct Tree {
    slots: BTreeMap<Arc<str>, NodeHistory>,
    /// The ephemeral nodes in the newest state, by session.
    ephemerals: BTreeSet<(i64, Arc<str>)>,
    /// The containers in the newest state.
    containers: BTreeSet<Arc<str>>,
    /// Deleted nodes whose histories can be dropped, with the transactions that have deleted them.
    deleted: VecDeque<(i64, Arc<str>)>,
    /// No server reads a version older than this transaction.
    floor: i64,
}

impl Node {
    pub(super) fn stat(&self) -> Stat {
        let (children, created) = (self.kept.num_children, self.kept.cversion);
        Stat {
            // Each child that no longer exists counts twice: it was created and deleted.
            cversion: created.wrapping_mul(2).wrapping_sub(children),
            data_length: self.data.len() as i32,
            ..self.kept
        }
    }

    fn is_left(&self) -> bool {
        self.is_container && self.kept.cversion > 0 && self.kept.num_children == 0
    }
}

impl Step {
    /// Returns the event for watchers of the node itself.
    pub(super) fn event(&self) -> Option<EventType> {
        match self.change.kind {
            ChangeKind::Created { .. } => Some(EventType::Created),
            ChangeKind::Deleted => Some(EventType::Deleted),
            ChangeKind::DataSet(_) => Some(EventType::DataChanged),
            ChangeKind::AclSet => None,
        }
    }
}

impl NodeHistory {
    fn at(&self, zxid: i64) -> Option<&Node> {
        let mut newest = self.versions.iter().rev();
        newest.find(|version| version.0 <= zxid).and_then(|version| version.1.as_ref())
    }

    fn newest(&self) -> Option<&Node> {
        self.versions.last().and_then(|version| version.1.as_ref())
    }
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(end) => &path[..end],
    }
}

/// Returns the last part of a path, together with its hash (FNV-1a).
fn name(path: &str) -> (u32, &str) {
    let name = path.rsplit('/').next().unwrap_or_default();
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    (name.bytes().fold(0x811c_9dc5, mix), name)
}

fn check_path(path: &str) -> Result<(), Refused> {
    is_path(path).then_some(()).ok_or(Refused::BAD_ARGUMENTS)
}

fn check_version(asked: i32, found: i32) -> Result<(), Refused> {
    match asked == ANY || asked == found {
        true => Ok(()),
        false => Err(Refused::BAD_VERSION),
    }
}

// ---- reading

impl Tree {
    pub(super) fn new() -> Tree {
        let mut tree = Tree {
            slots: BTreeMap::new(),
            ephemerals: BTreeSet::new(),
            containers: BTreeSet::new(),
            deleted: VecDeque::new(),
            floor: 0,
        };
        for path in ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"] {
            let (path, acl) = (Arc::from(path), access::open());
            let node = Node { acl, ..Node::default() };
            tree.set(&path, 0, Some(node));
        }
        for (path, children) in [("/", 1), ("/zookeeper", 2)] {
            let slot = tree.slots.get_mut(path).and_then(|slot| slot.versions.last_mut());
            if let Some((_, Some(node))) = slot {
                node.kept.num_children = children;
            }
        }
        tree
    }

    /// Returns a node as it was after transaction `zxid`.
    pub(super) fn node(&self, path: &str, zxid: i64) -> Result<&Node, Refused> {
        match self.slots.get(path).and_then(|slot| slot.at(zxid)) {
            Some(node) => Ok(node),
            None => check_path(path).and(Err(Refused::NO_NODE)),
        }
    }

    /// Like `node`, but only if one of these identities has one of the permissions.
    pub(super) fn permitted(
        &self,
        path: &str,
        ids: &[Id],
        any_of: i32,
        zxid: i64,
    ) -> Result<&Node, Refused> {
        let node = self.node(path, zxid)?;
        access::check(&node.acl, ids, any_of).map(|()| node)
    }

    /// Calls `each` with the names of the children that a node had after transaction `zxid`.
    pub(super) fn children(&self, path: &str, zxid: i64, mut each: impl FnMut(&str)) {
        let Some(slot) = self.slots.get(path) else {
            return;
        };
        let count = slot.at(zxid).map_or(0, |node| node.kept.num_children as usize);
        // If so, all names are those of children at that time.
        let are_all = count == slot.names.len();
        let mut child = format!("{}/", path.trim_end_matches('/'));
        let length = child.len();
        for (_, name) in &slot.names {
            child.truncate(length);
            child.push_str(name);
            let is_there = || self.slots.get(&*child).is_some_and(|slot| slot.at(zxid).is_some());
            if are_all || is_there() {
                each(name);
            }
        }
    }

    /// Returns the containers that have had children, but have none after transaction `zxid`.
    pub(super) fn empty_containers(&self, zxid: i64) -> Vec<Arc<str>> {
        let is_left = |path: &&Arc<str>| self.node(path, zxid).is_ok_and(Node::is_left);
        self.containers.iter().filter(is_left).cloned().collect()
    }
}

impl Tree {
    /// Sets how many children were created below a node before.
    pub(super) fn count_from(&mut self, path: &str, number: i32) {
        let newest = self.slots.get_mut(path).and_then(|slot| slot.versions.last_mut());
        if let Some((_, Some(node))) = newest {
            node.kept.cversion = number;
        }
    }

    /// Returns all paths below this one, as of a transaction.
    pub(super) fn below(&self, path: &str, zxid: i64) -> impl Iterator<Item = &Arc<str>> {
        let start = format!("{}/", path.trim_end_matches('/'));
        let later = self.slots.range(Arc::from(start.as_str())..);
        let below = later.take_while(move |(path, _)| path.starts_with(&start));
        let there = below.filter(move |(path, slot)| &***path != "/" && slot.at(zxid).is_some());
        there.map(|(path, _)| path)
    }
}

// ---- versions

impl Tree {
    fn newest(&self, path: &str) -> Result<&Node, Refused> {
        self.node(path, i64::MAX)
    }

    /// Adds a version of a node, which begins with this transaction.
    fn set(&mut self, path: &Arc<str>, zxid: i64, node: Option<Node>) {
        let is_new = !self.slots.contains_key(path);
        if is_new && node.is_some() && **path != *"/" {
            let (hash, name) = name(path);
            if let Some(parent) = self.slots.get_mut(parent(path)) {
                parent.names.insert((hash, Arc::from(name)));
            }
        }
        let slot = self.slots.entry(Arc::clone(path)).or_default();
        let floor = self.floor;
        if let Some(oldest) = slot.versions.iter().rposition(|version| version.0 <= floor) {
            slot.versions.drain(..oldest);
        }
        let before = facts(slot.newest());
        if node.is_none() {
            self.deleted.push_back((zxid, Arc::clone(path)));
        }
        let after = facts(node.as_ref());
        match slot.versions.last_mut() {
            Some(last) if last.0 == zxid => last.1 = node,
            _ => slot.versions.push((zxid, node)),
        }
        self.index(path, before, after);
    }

    /// Drops the versions of a node that begin with this transaction or later.
    fn unset(&mut self, path: &Arc<str>, zxid: i64) {
        let Some(slot) = self.slots.get_mut(path) else {
            return;
        };
        let before = facts(slot.newest());
        slot.versions.retain(|version| version.0 < zxid);
        let after = facts(slot.newest());
        if slot.versions.is_empty() {
            self.give_back(path);
        }
        self.index(path, before, after);
    }

    fn index(&mut self, path: &Arc<str>, before: (i64, bool), after: (i64, bool)) {
        if before == after {
            return;
        }
        if before.0 != 0 {
            self.ephemerals.remove(&(before.0, Arc::clone(path)));
        }
        if before.1 {
            self.containers.remove(path);
        }
        if after.0 != 0 {
            self.ephemerals.insert((after.0, Arc::clone(path)));
        }
        if after.1 {
            self.containers.insert(Arc::clone(path));
        }
    }

    fn give_back(&mut self, path: &Arc<str>) {
        self.slots.remove(path);
        let (hash, name) = name(path);
        if let Some(parent) = self.slots.get_mut(parent(path)) {
            parent.names.remove(&(hash, Arc::from(name)));
        }
    }

    /// Drops versions that no server reads after transaction `floor`.
    pub(super) fn forget(&mut self, floor: i64) {
        self.floor = self.floor.max(floor);
        while let Some((zxid, path)) = self.deleted.front()
            && *zxid <= self.floor
        {
            let path = Arc::clone(path);
            self.deleted.pop_front();
            let last = self.slots.get(&path).and_then(|slot| slot.versions.last());
            if last.is_some_and(|(zxid, node)| node.is_none() && *zxid <= self.floor) {
                self.give_back(&path);
            }
        }
    }

    /// Undoes a transaction, which must be the last one.
    pub(super) fn undo(&mut self, steps: &[Step], zxid: i64) {
        for step in steps.iter().rev() {
            self.unset(&step.change.path, zxid);
            if let Some((parent, _)) = &step.parent {
                self.unset(parent, zxid);
            }
        }
    }
}

/// Returns the session that owns a node, and whether the node is a container.
fn facts(node: Option<&Node>) -> (i64, bool) {
    node.map_or((0, false), |node| (node.kept.ephemeral_owner, node.is_container))
}

// ---- writing

impl Tree {
    /// Executes either all of these changes or none. The error contains the index of the operation that failed.
    pub(super) fn transact<'o>(
        &mut self,
        ops: impl IntoIterator<Item = TreeOp<'o>>,
        asker: Asker<'_>,
    ) -> Result<(Vec<Outcome>, Vec<Step>), (usize, Refused)> {
        let (mut outcomes, mut steps) = (Vec::new(), Vec::new());
        for (index, op) in ops.into_iter().enumerate() {
            match self.apply(op, asker, &mut steps) {
                Ok(outcome) => outcomes.push(outcome),
                Err(kind) => {
                    self.undo(&steps, asker.zxid);
                    return Err((index, kind));
                }
            }
        }
        Ok((outcomes, steps))
    }

    /// Deletes the ephemeral nodes of a session.
    pub(super) fn end_session(&mut self, session: i64, zxid: i64) -> Vec<Step> {
        let range = (session, Arc::from(""))..(session + 1, Arc::from(""));
        let paths: Vec<_> = self.ephemerals.range(range).map(|(_, path)| path.clone()).collect();
        paths.into_iter().map(|path| self.remove(path, zxid)).collect()
    }

    /// Deletes a container, unless it has children again.
    pub(super) fn end_container(&mut self, path: &Arc<str>, zxid: i64) -> Option<Step> {
        let is_left = self.newest(path).is_ok_and(Node::is_left);
        is_left.then(|| self.remove(Arc::clone(path), zxid))
    }

    fn apply(
        &mut self,
        op: TreeOp<'_>,
        asker: Asker<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<Outcome, Refused> {
        let Asker { ids, zxid, wall, .. } = asker;
        match op {
            TreeOp::Create { path, data, acl, mode, with_stat } => {
                let (path, acl) = self.judge_create(path, &acl, mode, ids)?;
                let (step, stat) = self.create(&path, data.into(), acl, mode, asker);
                steps.push(step);
                Ok(Outcome::Created(path, with_stat.then_some(stat)))
            }
            TreeOp::Delete { path, version } => {
                if matches!(path, "/" | "/zookeeper" | "/zookeeper/config" | "/zookeeper/quota") {
                    return Err(Refused::BAD_ARGUMENTS);
                }
                self.permitted(parent(path), ids, permission::DELETE, i64::MAX)?;
                let node = self.newest(path)?;
                check_version(version, node.kept.version)?;
                if node.kept.num_children > 0 {
                    return Err(Refused::NOT_EMPTY);
                }
                steps.push(self.remove(self.key(path), zxid));
                Ok(Outcome::Deleted)
            }
            TreeOp::SetData { path, data, version } => {
                let node = self.permitted(path, ids, permission::WRITE, i64::MAX)?;
                check_version(version, node.kept.version)?;
                let data: Arc<[u8]> = data.into();
                let mut node = Node { data: Arc::clone(&data), ..node.clone() };
                node.kept.version = node.kept.version.wrapping_add(1);
                (node.kept.mzxid, node.kept.mtime) = (zxid, wall);
                Ok(self.change(path, node, ChangeKind::DataSet(data), zxid, steps))
            }
            TreeOp::SetAcl { path, acl, version } => {
                let acl = access::resolve(&acl, ids)?;
                let node = self.permitted(path, ids, permission::ADMIN, i64::MAX)?;
                check_version(version, node.kept.aversion)?;
                let mut node = Node { acl, ..node.clone() };
                node.kept.aversion = node.kept.aversion.wrapping_add(1);
                Ok(self.change(path, node, ChangeKind::AclSet, zxid, steps))
            }
            TreeOp::Check { path, version } => {
                let node = self.permitted(path, ids, permission::READ, i64::MAX)?;
                check_version(version, node.kept.version).map(|()| Outcome::Checked)
            }
        }
    }

    /// Returns the path and the ACL of the node to be created.
    fn judge_create(
        &self,
        path: &str,
        acl: &Arc<[Acl]>,
        mode: CreateMode,
        ids: &[Id],
    ) -> Result<(Arc<str>, Arc<[Acl]>), Refused> {
        // Servers also refuse this by default.
        if matches!(mode, CreateMode::WithTtl | CreateMode::SequentialWithTtl) {
            return Err(Refused::UNIMPLEMENTED);
        }
        let acl = access::resolve(acl, ids)?;
        let parent = self.permitted(parent(path), ids, permission::CREATE, i64::MAX)?;
        let path: Arc<str> = match mode.is_sequential() {
            true => format!("{path}{:010}", parent.kept.cversion).into(),
            false => path.into(),
        };
        check_path(&path)?;
        if self.slots.get(&path).is_some_and(|slot| slot.newest().is_some()) {
            return Err(Refused::NODE_EXISTS);
        }
        match parent.kept.ephemeral_owner {
            0 => Ok((path, acl)),
            _ => Err(Refused::NO_CHILDREN_FOR_EPHEMERALS),
        }
    }

    fn create(
        &mut self,
        path: &Arc<str>,
        data: Arc<[u8]>,
        acl: Arc<[Acl]>,
        mode: CreateMode,
        Asker { session, zxid, wall, .. }: Asker<'_>,
    ) -> (Step, Stat) {
        use CreateMode::{Container, Ephemeral, EphemeralSequential};
        let is_ephemeral = matches!(mode, Ephemeral | EphemeralSequential);
        let owner = if is_ephemeral { session } else { 0 };
        let kept = Stat {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: wall,
            mtime: wall,
            ephemeral_owner: owner,
            ..Stat::default()
        };
        let is_container = mode == Container;
        let node = Node { data: Arc::clone(&data), acl: Arc::clone(&acl), is_container, kept };
        let stat = node.stat();
        self.set(path, zxid, Some(node));
        let parent = self.change_parent(path, zxid, |kept| {
            kept.num_children += 1;
            // When the last number has been reached, it is used again and again.
            if let Some(next) = kept.cversion.checked_add(1) {
                (kept.cversion, kept.pzxid) = (next, zxid);
            }
        });
        let change = Change { path: Arc::clone(path), kind: ChangeKind::Created { data, owner } };
        (Step { change, acl, parent }, stat)
    }

    fn remove(&mut self, path: Arc<str>, zxid: i64) -> Step {
        let acl = self.newest(&path).map(|node| Arc::clone(&node.acl)).unwrap_or_default();
        self.set(&path, zxid, None);
        let parent = self.change_parent(&path, zxid, |kept| {
            kept.num_children -= 1;
            kept.pzxid = zxid;
        });
        Step { change: Change { path, kind: ChangeKind::Deleted }, acl, parent }
    }

    fn change(
        &mut self,
        path: &str,
        node: Node,
        kind: ChangeKind,
        zxid: i64,
        steps: &mut Vec<Step>,
    ) -> Outcome {
        let (path, stat, acl) = (self.key(path), node.stat(), Arc::clone(&node.acl));
        self.set(&path, zxid, Some(node));
        steps.push(Step { change: Change { path, kind }, acl, parent: None });
        Outcome::Set(stat)
    }

    /// Changes the parent of a node that was created or deleted. Its watchers are notified of this as well.
    fn change_parent(
        &mut self,
        path: &str,
        zxid: i64,
        change: impl FnOnce(&mut Stat),
    ) -> Option<(Arc<str>, Arc<[Acl]>)> {
        let parent = self.key(parent(path));
        let mut node = self.newest(&parent).ok()?.clone();
        change(&mut node.kept);
        let acl = Arc::clone(&node.acl);
        self.set(&parent, zxid, Some(node));
        Some((parent, acl))
    }

    /// Returns the path that an existing node shares.
    fn key(&self, path: &str) -> Arc<str> {
        self.slots.get_key_value(path).map_or_else(|| path.into(), |(path, _)| Arc::clone(path))
    }
}
