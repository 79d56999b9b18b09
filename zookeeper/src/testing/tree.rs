//! The nodes, and what writes make of them, by the rules of ZooKeeper's `PrepRequestProcessor` and `DataTree`.
//! Knows neither who watches nor who is connected.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use super::access::{self, Id};
use super::committed::{Change, ChangeKind};
use crate::acl::{Acl, Permissions};
use crate::batch::OpResult;
use crate::core::path;
use crate::error::ErrorKind;
use crate::types::{CreateMode, EventType, Stat};

/// What servers call an argument that they do not take.
const BAD_ARGUMENTS: ErrorKind = ErrorKind::Server(-8);
/// The version that stands for any.
pub(super) const ANY: i32 = -1;

/// One change that is asked for.
#[derive(Debug)]
pub(super) enum Op<'a> {
    Create { path: &'a str, data: &'a [u8], acl: Vec<Acl>, mode: CreateMode },
    Delete { path: &'a str, version: i32 },
    SetData { path: &'a str, data: &'a [u8], version: i32 },
    SetAcl { path: &'a str, acl: Vec<Acl>, version: i32 },
    Check { path: &'a str, version: i32 },
}

/// On whose behalf.
#[derive(Debug, Default)]
pub(super) struct Asker {
    pub(super) session: i64,
    pub(super) ids: Vec<Id>,
}

/// In no order, as in servers, but in the same one in each run.
type Children = HashSet<String, BuildHasherDefault<DefaultHasher>>;

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) data: Vec<u8>,
    /// Events refer to it, too.
    pub(super) acl: Arc<[Acl]>,
    pub(super) children: Children,
    is_container: bool,
    /// Its `cversion` counts created children only, and what can be counted is not kept.
    kept: Stat,
}

/// What is to be told of a change.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) event: EventType,
    pub(super) path: String,
    /// The ACL of that node when it happened.
    pub(super) acl: Arc<[Acl]>,
}

type Undo = Box<dyn FnOnce(&mut Tree)>;

impl Told {
    fn new(event: EventType, path: &str, node: &Node) -> Told {
        Told { event, path: path.to_owned(), acl: Arc::clone(&node.acl) }
    }
}

/// A transaction in the making.
struct Changes {
    zxid: i64,
    /// In milliseconds since 1970.
    now: i64,
    told: Vec<Told>,
    undo: Vec<Undo>,
    done: Vec<Change>,
}

#[derive(Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Node>,
    /// Those of them that belong to a session.
    ephemerals: BTreeSet<(i64, String)>,
    /// The last transaction, which may have failed.
    pub(super) zxid: i64,
    /// What the last transaction has changed.
    pub(super) done: Vec<Change>,
}

impl Changes {
    fn did(&mut self, path: &str, kind: ChangeKind) {
        self.done.push(Change { path: path.to_owned(), kind });
    }
}

impl Node {
    pub(super) fn stat(&self) -> Stat {
        let (children, created) = (self.children.len() as i32, self.kept.cversion);
        Stat {
            // Each child that is not there any more was created and deleted.
            cversion: created.wrapping_mul(2).wrapping_sub(children),
            data_length: self.data.len() as i32,
            num_children: children,
            ..self.kept
        }
    }
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(end) => &path[..end],
    }
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn check_path(path: &str) -> Result<(), ErrorKind> {
    path::check(path).map_err(|_| BAD_ARGUMENTS)
}

fn check_version(asked: i32, found: i32) -> Result<(), ErrorKind> {
    match asked == ANY || asked == found {
        true => Ok(()),
        false => Err(ErrorKind::BadVersion),
    }
}

impl Tree {
    pub(super) fn new() -> Tree {
        let mut tree =
            Tree { nodes: BTreeMap::new(), ephemerals: BTreeSet::new(), zxid: 0, done: Vec::new() };
        for (path, children) in [
            ("/", vec!["zookeeper"]),
            ("/zookeeper", vec!["config", "quota"]),
            ("/zookeeper/config", vec![]),
            ("/zookeeper/quota", vec![]),
        ] {
            let children = children.into_iter().map(str::to_owned).collect();
            let node = Node { children, acl: Acl::open().into(), ..Node::default() };
            tree.nodes.insert(path.to_owned(), node);
        }
        tree
    }

    /// The paths below this one.
    #[cfg(any(test, zoolock_simulation))]
    pub(super) fn below(&self, path: &str) -> impl Iterator<Item = &String> {
        let start = format!("{}/", path.trim_end_matches('/'));
        let later = self.nodes.range(start.clone()..).map(|(path, _)| path);
        later.take_while(move |path| path.starts_with(&start)).filter(|path| *path != "/")
    }

    pub(super) fn node(&self, path: &str) -> Result<&Node, ErrorKind> {
        check_path(path)?;
        self.nodes.get(path).ok_or(ErrorKind::NoNode)
    }

    /// A node with which these may do one of such things.
    pub(super) fn permitted(
        &self,
        path: &str,
        asker: &Asker,
        any_of: Permissions,
    ) -> Result<&Node, ErrorKind> {
        let node = self.node(path)?;
        access::check(&node.acl, &asker.ids, any_of).map(|()| node)
    }

    /// Does all of these or none, at `now` in milliseconds since 1970. An error says which of them failed.
    pub(super) fn transact(
        &mut self,
        ops: Vec<Op<'_>>,
        asker: &Asker,
        now: i64,
    ) -> Result<(Vec<OpResult>, Vec<Told>), (usize, ErrorKind)> {
        let mut changes = self.begin(now);
        let mut results = Vec::with_capacity(ops.len());
        for (index, op) in ops.into_iter().enumerate() {
            match self.apply(op, asker, &mut changes) {
                Ok(result) => results.push(result),
                Err(kind) => {
                    changes.undo.into_iter().rev().for_each(|undo| undo(self));
                    return Err((index, kind));
                }
            }
        }
        self.done = changes.done;
        Ok((results, changes.told))
    }

    /// Deletes what belongs to a session.
    pub(super) fn end_session(&mut self, session: i64, now: i64) -> Vec<Told> {
        let here = (session, String::new())..(session + 1, String::new());
        let paths = self.ephemerals.range(here).map(|(_, path)| path.clone()).collect();
        self.delete_all(paths, now)
    }

    /// The containers that have lost their last child.
    pub(super) fn empty_containers(&self) -> Vec<String> {
        let is_left =
            |node: &Node| node.is_container && node.kept.cversion > 0 && node.children.is_empty();
        let left = self.nodes.iter().filter(|(_, node)| is_left(node));
        left.map(|(path, _)| path.clone()).collect()
    }

    pub(super) fn remove_container(&mut self, path: String, now: i64) -> Vec<Told> {
        self.delete_all(vec![path], now)
    }

    fn delete_all(&mut self, paths: Vec<String>, now: i64) -> Vec<Told> {
        let mut changes = self.begin(now);
        for path in &paths {
            self.remove(path, &mut changes);
        }
        self.done = changes.done;
        changes.told
    }

    fn begin(&mut self, now: i64) -> Changes {
        self.zxid += 1;
        Changes { zxid: self.zxid, now, told: Vec::new(), undo: Vec::new(), done: Vec::new() }
    }

    fn apply(
        &mut self,
        op: Op<'_>,
        asker: &Asker,
        changes: &mut Changes,
    ) -> Result<OpResult, ErrorKind> {
        match op {
            Op::Create { path, data, acl, mode } => {
                let made = self.judge_create(path, &acl, mode, asker)?;
                Ok(self.create(made, data, mode, asker.session, changes))
            }
            Op::Delete { path, version } => {
                if matches!(path, "/" | "/zookeeper" | "/zookeeper/config" | "/zookeeper/quota") {
                    return Err(BAD_ARGUMENTS);
                }
                self.permitted(parent(path), asker, Permissions::DELETE)?;
                let node = self.node(path)?;
                check_version(version, node.kept.version)?;
                if !node.children.is_empty() {
                    return Err(ErrorKind::NotEmpty);
                }
                self.remove(path, changes);
                Ok(OpResult::Deleted)
            }
            Op::SetData { path, data, version } => {
                let node = self.permitted(path, asker, Permissions::WRITE)?;
                check_version(version, node.kept.version)?;
                changes.told.push(Told::new(EventType::NodeDataChanged, path, node));
                changes.did(path, ChangeKind::DataSet(data.into()));
                let (zxid, now) = (changes.zxid, changes.now);
                self.change(path, changes, |node| {
                    node.data = data.to_owned();
                    node.kept.version = node.kept.version.wrapping_add(1);
                    (node.kept.mzxid, node.kept.mtime) = (zxid, now);
                })
            }
            Op::SetAcl { path, acl, version } => {
                let acl = access::resolve(&acl, &asker.ids)?;
                let node = self.permitted(path, asker, Permissions::ADMIN)?;
                check_version(version, node.kept.aversion)?;
                changes.did(path, ChangeKind::AclSet);
                self.change(path, changes, |node| {
                    node.acl = acl.into();
                    node.kept.aversion = node.kept.aversion.wrapping_add(1);
                })
            }
            Op::Check { path, version } => {
                let node = self.permitted(path, asker, Permissions::READ)?;
                check_version(version, node.kept.version).map(|()| OpResult::Checked)
            }
        }
    }

    /// The path and the ACL that it will have.
    fn judge_create(
        &self,
        path: &str,
        acl: &[Acl],
        mode: CreateMode,
        asker: &Asker,
    ) -> Result<(String, Vec<Acl>), ErrorKind> {
        // Off by default in servers, too.
        if mode.ttl().is_some() {
            return Err(ErrorKind::Unimplemented);
        }
        let acl = access::resolve(acl, &asker.ids)?;
        let parent = self.permitted(parent(path), asker, Permissions::CREATE)?;
        let path = match mode.is_sequential() {
            true => format!("{path}{:010}", parent.kept.cversion),
            false => path.to_owned(),
        };
        check_path(&path)?;
        if self.nodes.contains_key(&path) {
            return Err(ErrorKind::NodeExists);
        }
        match parent.kept.ephemeral_owner {
            0 => Ok((path, acl)),
            _ => Err(ErrorKind::NoChildrenForEphemerals),
        }
    }

    fn create(
        &mut self,
        (path, acl): (String, Vec<Acl>),
        data: &[u8],
        mode: CreateMode,
        session: i64,
        changes: &mut Changes,
    ) -> OpResult {
        use CreateMode::{Container, Ephemeral, EphemeralSequential};
        let (zxid, now) = (changes.zxid, changes.now);
        let is_ephemeral = matches!(mode, Ephemeral | EphemeralSequential);
        let kept = Stat {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: now,
            mtime: now,
            ephemeral_owner: if is_ephemeral { session } else { 0 },
            ..Stat::default()
        };
        let (data, acl, is_container) = (data.to_owned(), acl.into(), mode == Container);
        let node = Node { data, acl, is_container, kept, ..Node::default() };
        changes.told.push(Told::new(EventType::NodeCreated, &path, &node));
        let (data, owner) = (node.data.as_slice().into(), kept.ephemeral_owner);
        changes.did(&path, ChangeKind::Created { data, owner });
        self.put(path.clone(), node);
        let created = path.clone();
        changes.undo.push(Box::new(move |tree| drop(tree.take(&created))));
        self.change_children(&path, changes, |node, name| {
            node.children.insert(name);
            // The numbers stick at their end.
            if let Some(next) = node.kept.cversion.checked_add(1) {
                (node.kept.cversion, node.kept.pzxid) = (next, zxid);
            }
        });
        OpResult::Created(path)
    }

    fn remove(&mut self, path: &str, changes: &mut Changes) {
        let Some(node) = self.take(path) else {
            return;
        };
        changes.told.push(Told::new(EventType::NodeDeleted, path, &node));
        changes.did(path, ChangeKind::Deleted);
        let removed = path.to_owned();
        changes.undo.push(Box::new(move |tree| tree.put(removed, node)));
        let zxid = changes.zxid;
        self.change_children(path, changes, |node, name| {
            node.children.remove(&name);
            node.kept.pzxid = zxid;
        });
    }

    fn put(&mut self, path: String, node: Node) {
        if node.kept.ephemeral_owner != 0 {
            self.ephemerals.insert((node.kept.ephemeral_owner, path.clone()));
        }
        self.nodes.insert(path, node);
    }

    fn take(&mut self, path: &str) -> Option<Node> {
        let (path, node) = self.nodes.remove_entry(path)?;
        self.ephemerals.remove(&(node.kept.ephemeral_owner, path));
        Some(node)
    }

    fn change(
        &mut self,
        path: &str,
        changes: &mut Changes,
        change: impl FnOnce(&mut Node),
    ) -> Result<OpResult, ErrorKind> {
        let node = self.nodes.get_mut(path).ok_or(ErrorKind::NoNode)?;
        let before = (node.kept, node.data.clone(), node.acl.clone());
        change(node);
        let (path, stat) = (path.to_owned(), node.stat());
        changes.undo.push(Box::new(move |tree| {
            if let Some(node) = tree.nodes.get_mut(&path) {
                (node.kept, node.data, node.acl) = before;
            }
        }));
        Ok(OpResult::Set(stat))
    }

    /// Changes the parent of a node that has come or gone, of which its watchers are told.
    fn change_children(
        &mut self,
        path: &str,
        changes: &mut Changes,
        change: impl FnOnce(&mut Node, String),
    ) {
        let (name, parent) = (name(path).to_owned(), parent(path).to_owned());
        let Some(node) = self.nodes.get_mut(&parent) else {
            return;
        };
        let (kept, was_there) = (node.kept, node.children.contains(&name));
        change(node, name.clone());
        changes.told.push(Told::new(EventType::NodeChildrenChanged, &parent, node));
        changes.undo.push(Box::new(move |tree| {
            let Some(node) = tree.nodes.get_mut(&parent) else {
                return;
            };
            node.kept = kept;
            match was_there {
                true => node.children.insert(name),
                false => node.children.remove(&name),
            };
        }));
    }
}
