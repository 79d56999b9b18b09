//! The changes that servers have applied below the programs' root: the states that each node has had, and when each of
//! them began.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zookeeper::Stat;
use zookeeper_testing::ensemble::{ChangeKind, Committed};

use super::ROOT;

#[derive(Debug, Clone, Default)]
pub(super) struct State {
    czxid: i64,
    mzxid: i64,
    version: i32,
    pub(super) owner: i64,
    data: Arc<[u8]>,
}

/// For each path, its states, including absence, each with the transaction with which it began.
#[derive(Debug, Default)]
pub(super) struct Spells<T>(BTreeMap<String, Vec<(i64, Option<T>)>>);

impl<T: Clone> Spells<T> {
    fn of(&self, path: &str) -> &[(i64, Option<T>)] {
        self.0.get(path).map_or(&[], Vec::as_slice)
    }

    fn last(&self, path: &str) -> Option<T> {
        self.of(path).last()?.1.clone()
    }

    fn begin(&mut self, path: &str, from: i64, what: Option<T>) {
        self.0.entry(path.to_owned()).or_default().push((from, what));
    }

    /// Returns the states that a session may still read if it has seen the transaction `seen`.
    fn since(&self, path: &str, seen: i64) -> impl Iterator<Item = (i64, Option<&T>)> {
        let spells = self.of(path);
        let begin = spells.first().map_or(i64::MAX, |(from, _)| *from);
        let before = (begin > seen).then_some((0, None));
        let next = spells.iter().skip(1).map(|(from, _)| *from).chain([i64::MAX]);
        let later = spells.iter().zip(next).filter(move |(_, next)| *next > seen);
        before.into_iter().chain(later.map(|((from, what), _)| (*from, what.as_ref())))
    }

    /// Returns the first transaction after `behind` that changed the state.
    pub(super) fn changed(&self, path: &str, behind: i64) -> Option<i64> {
        self.of(path).iter().map(|(from, _)| *from).find(|from| *from > behind)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    pub(super) zxid: i64,
    pub(super) session: i64,
}

#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) nodes: Spells<State>,
    /// The names of each node's children.
    pub(super) children: Spells<BTreeSet<String>>,
    /// For each call, the writes whose data contain the number of the call.
    pub(super) done: BTreeMap<usize, Vec<Done>>,
    pub(super) zxid: i64,
}

pub(super) fn mark(call: usize) -> Vec<u8> {
    format!("#{call}").into_bytes()
}

fn marked(data: &[u8]) -> Option<usize> {
    std::str::from_utf8(data).ok()?.strip_prefix('#')?.parse().ok()
}

impl History {
    pub(super) fn committed(&mut self, one: &Committed) {
        self.zxid = one.zxid;
        let done = Done { zxid: one.zxid, session: one.session };
        let zxid = one.zxid;
        for change in one.changes.iter().filter(|change| change.path.starts_with(ROOT)) {
            let path = &*change.path;
            match &change.kind {
                ChangeKind::Created { data, owner } => {
                    let (data, owner) = (Arc::clone(data), *owner);
                    self.mark(&data, done);
                    let state = State { czxid: zxid, mzxid: zxid, version: 0, owner, data };
                    self.nodes.begin(path, zxid, Some(state));
                    self.children.begin(path, zxid, Some(BTreeSet::new()));
                    self.change_children(path, zxid, true);
                }
                ChangeKind::Deleted => {
                    self.nodes.begin(path, zxid, None);
                    self.children.begin(path, zxid, None);
                    self.change_children(path, zxid, false);
                }
                ChangeKind::DataSet(data) => {
                    self.mark(data, done);
                    let data = Arc::clone(data);
                    let state = self.nodes.last(path).map(|before| State {
                        mzxid: zxid,
                        version: before.version + 1,
                        data,
                        ..before
                    });
                    self.nodes.begin(path, zxid, state);
                }
                ChangeKind::AclSet => {}
            }
        }
    }

    pub(super) fn done_for(&self, call: usize) -> &[Done] {
        self.done.get(&call).map_or(&[], Vec::as_slice)
    }

    fn mark(&mut self, data: &[u8], done: Done) {
        if let Some(call) = marked(data) {
            self.done.entry(call).or_default().push(done);
        }
    }

    fn change_children(&mut self, path: &str, from: i64, is_there: bool) {
        let (parent, name) = path.rsplit_once('/').expect("it is below the root");
        if let Some(mut names) = self.children.last(parent) {
            match is_there {
                true => names.insert(name.to_owned()),
                false => names.remove(name),
            };
            self.children.begin(parent, from, Some(names));
        }
    }

    /// Returns whether a session that has seen `seen` may find the node, in a state that `like` accepts.
    pub(super) fn may_be(&self, path: &str, seen: i64, like: impl Fn(&State) -> bool) -> bool {
        self.nodes.since(path, seen).any(|(_, state)| state.is_some_and(&like))
    }

    /// If a session that has seen `seen` may find that the node does not exist, returns the first and the last
    /// transaction with which such an absence began.
    pub(super) fn may_be_absent(&self, path: &str, seen: i64) -> Option<(i64, i64)> {
        let mut absent = self.nodes.since(path, seen).filter(|(_, state)| state.is_none());
        let (first, _) = absent.next()?;
        Some((first, absent.last().map_or(first, |(last, _)| last)))
    }

    pub(super) fn fits(&self, path: &str, seen: i64, stat: &Stat, data: Option<&[u8]>) -> bool {
        self.may_be(path, seen, |state| {
            state.czxid == stat.czxid
                && state.mzxid == stat.mzxid
                && state.version == stat.version
                && state.owner == stat.ephemeral_owner
                && state.data.len() as i32 == stat.data_length
                && data.is_none_or(|data| *data == *state.data)
        })
    }

    pub(super) fn has_children(
        &self,
        path: &str,
        seen: i64,
        stat: &Stat,
        names: Option<&BTreeSet<String>>,
    ) -> bool {
        let mut fitting = self.children.since(path, seen).filter(|(from, _)| *from == stat.pzxid);
        fitting.any(|(_, known)| {
            known.is_some_and(|known| {
                known.len() as i32 == stat.num_children && names.is_none_or(|names| names == known)
            })
        })
    }

    pub(super) fn is_there(&self, path: &str) -> bool {
        self.nodes.last(path).is_some()
    }

    /// Returns whether the node has been created or changed after the transaction `behind`.
    pub(super) fn was_created_behind(&self, path: &str, behind: i64) -> bool {
        self.nodes.of(path).iter().any(|(from, what)| *from > behind && what.is_some())
    }
}
