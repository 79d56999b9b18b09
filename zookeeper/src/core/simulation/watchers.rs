//! Which listeners are to be told of what, and whether they are.

use super::super::watches::{Listen, WatchKind};
use super::ensemble::Ensemble;
use super::stage::{Property, Stage};
use super::tree::{self, Change, ChangeKind};
use crate::types::EventType;

/// A listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ear(pub(super) u32);

impl Listen for Ear {
    fn is_live(&self) -> bool {
        true
    }

    fn id(&self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
struct Watch {
    ear: Ear,
    kind: WatchKind,
    path: String,
    /// The first transaction that it may be for, as an index into the log.
    from: usize,
}

#[derive(Debug, Default)]
pub(super) struct Watchers {
    watches: Vec<Watch>,
    absences: usize,
    restored: bool,
}

impl Watch {
    fn is_for(&self, change: &Change) -> bool {
        let own = change.path == self.path;
        match (self.kind, change.kind) {
            (WatchKind::Data, ChangeKind::Created { .. }) => false,
            (WatchKind::Data, _) => own,
            (WatchKind::Exist, kind) => own && matches!(kind, ChangeKind::Created { .. }),
            (WatchKind::Child, ChangeKind::Set) => false,
            (WatchKind::Child, ChangeKind::Deleted) if own => true,
            (WatchKind::Child, _) => tree::parent(&change.path) == self.path,
        }
    }

    /// The number of the first transaction that it is for.
    fn due(&self, ensemble: &Ensemble) -> Option<i64> {
        let later = ensemble.log.get(self.from..).unwrap_or_default();
        let mut own =
            later.iter().filter(|done| done.changes.iter().any(|change| self.is_for(change)));
        own.next().map(|done| done.zxid)
    }
}

impl Watchers {
    pub(super) fn open(&self) -> usize {
        if self.restored { 0 } else { self.watches.len() }
    }

    pub(super) fn add(
        &mut self,
        ensemble: &Ensemble,
        ear: Ear,
        kind: WatchKind,
        path: &str,
        zxid: i64,
    ) {
        let same = |watch: &Watch| watch.ear == ear && watch.kind == kind && watch.path == path;
        if self.watches.iter().any(same) {
            return;
        }
        let from = ensemble.log.partition_point(|done| done.zxid <= zxid);
        self.watches.push(Watch { ear, kind, path: path.to_owned(), from });
    }

    /// An answer has come that speaks of this transaction: all before it must have been told.
    pub(super) fn answered(&mut self, stage: &mut Stage, ensemble: &Ensemble, zxid: i64) {
        self.restored |= ensemble.restored;
        if self.restored {
            return;
        }
        for (path, zxid) in &ensemble.absent[self.absences..] {
            let from = ensemble.log.partition_point(|done| done.zxid <= *zxid);
            let own = |watch: &&mut Watch| watch.kind == WatchKind::Exist && watch.path == *path;
            self.watches.iter_mut().filter(own).for_each(|watch| watch.from = watch.from.max(from));
        }
        self.absences = ensemble.absent.len();
        for watch in &mut self.watches {
            match watch.due(ensemble) {
                Some(due) if due <= zxid => {
                    stage.fail(Property::Watches, || {
                        format!("{watch:?} was not told of {due:x} before {zxid:x}")
                    });
                }
                Some(_) => {}
                None => watch.from = ensemble.log.len(),
            }
        }
    }

    pub(super) fn told(
        &mut self,
        stage: &mut Stage,
        ensemble: &Ensemble,
        ears: &[Ear],
        event: EventType,
        path: &str,
    ) {
        self.restored |= ensemble.restored;
        stage.note(|| format!("{ears:?} are told {event:?} of {path}"));
        let kinds: &[WatchKind] = match event {
            EventType::NodeCreated | EventType::NodeDataChanged => {
                &[WatchKind::Data, WatchKind::Exist]
            }
            EventType::NodeChildrenChanged => &[WatchKind::Child],
            EventType::NodeDeleted | EventType::WatchEnded => {
                &[WatchKind::Data, WatchKind::Exist, WatchKind::Child]
            }
        };
        for ear in ears {
            let own = |watch: &mut Watch| {
                watch.ear == *ear && watch.path == path && kinds.contains(&watch.kind)
            };
            let own: Vec<Watch> = self.watches.extract_if(.., own).collect();
            stage.figures.told += 1;
            if self.restored {
                continue;
            }
            stage.check(!own.is_empty(), Property::Watches, || {
                format!("{ear:?} is told {event:?} of {path}, which it does not watch")
            });
            let due = own.iter().any(|watch| watch.due(ensemble).is_some());
            stage.check(due || event == EventType::WatchEnded, Property::Watches, || {
                format!("{ear:?} is told {event:?} of {path}, which has not happened")
            });
        }
    }
}
