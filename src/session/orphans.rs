//! Creates whose answers were lost, of calls that have what they want by another node, or want nothing
//! any more. Their nodes may be there, or appear late, and would stand in everybody's way: they are
//! looked for by their ids, until they cannot appear any more.

use std::sync::{Arc, Weak};
use std::time::Instant;

use zookeeper::ErrorKind;

use super::registry::Orphan;
use super::shared::Session;
use crate::data;
use crate::names;

impl Session {
    /// Takes them over, and looks for them at once.
    pub(crate) fn adopt_orphans(&self, orphans: Vec<Orphan>) {
        let Some(until) = orphans.iter().map(|orphan| orphan.until).min() else {
            return;
        };
        let ids: Vec<_> = orphans.iter().map(|orphan| orphan.id.clone()).collect();
        self.orphans.lock().extend(orphans);
        self.attend_at(until);
        self.look_for_orphans(|orphan| ids.contains(&orphan.id));
    }

    /// Looks for those whose time is over. When to come again.
    pub(super) fn attend_orphans(&self, now: Instant) -> Option<Instant> {
        self.look_for_orphans(|orphan| orphan.until <= now);
        let orphans = self.orphans.lock();
        let again = now + self.timeout() / 4;
        orphans.iter().map(|orphan| orphan.until.max(again)).min()
    }

    /// Looks for these, if there is a connection: the next one looks for all.
    pub(super) fn look_for_orphans(&self, wanted: impl Fn(&Orphan) -> bool) {
        let orphans = self.orphans.lock();
        let wanted: Vec<_> = orphans.iter().filter(|orphan| wanted(orphan)).cloned().collect();
        drop(orphans);
        if wanted.is_empty() || !self.is_connected() {
            return;
        }
        for orphan in wanted {
            self.look_for_orphan(orphan);
        }
    }

    fn look_for_orphan(&self, orphan: Orphan) {
        let (zk, me) = (self.zk.in_session(orphan.session), Weak::clone(&self.me));
        let begun = Instant::now();
        match &orphan.single {
            None => {
                let directory = orphan.directory.as_str();
                // As new as the leader's, since this may be the last look.
                let (synced, listed) =
                    zk.submit(|batch| (batch.sync(directory), batch.get_children(directory, None)));
                drop(synced);
                listed.on_done(move |listed| {
                    let found = listed.map(|(names, _)| {
                        let found = names.iter().find(|name| names::carries(name, &orphan.id));
                        found.map(str::to_owned)
                    });
                    me.upgrade().inspect(|session| session.has_looked(&orphan, begun, found));
                });
            }
            Some(name) => {
                let name = name.clone();
                let read = zk.submit(|batch| batch.get_data(&orphan.directory.child(&name), None));
                read.on_done(move |read| {
                    let carries = |data: &[u8]| {
                        data::decode_single(data).is_some_and(|(id, _)| id == orphan.id)
                    };
                    let found = read.map(|(data, _)| carries(&data).then_some(name));
                    me.upgrade().inspect(|session| session.has_looked(&orphan, begun, found));
                });
            }
        }
    }

    fn has_looked(
        self: &Arc<Self>,
        orphan: &Orphan,
        begun: Instant,
        found: zookeeper::Result<Option<String>>,
    ) {
        let found = match found {
            Ok(found) => found,
            Err(error) => match error.kind() {
                ErrorKind::NoNode => None,
                // It is gone, or will never be seen.
                ErrorKind::SessionExpired | ErrorKind::Closed | ErrorKind::NoAuth => {
                    self.forget_orphan(orphan);
                    return;
                }
                // It is looked for again.
                _ => return,
            },
        };
        let Some(name) = found else {
            if begun >= orphan.until {
                self.forget_orphan(orphan);
            }
            return;
        };
        // Of several looks at once one deletes it: there may be another node in its place by then.
        if !self.forget_orphan(orphan) {
            return;
        }
        let path = orphan.directory.child(&name);
        match orphan.single {
            None => self.delete_eventually(orphan.session, path),
            Some(_) => self.delete_single(orphan.session, path, (orphan.id.clone(), None)),
        }
    }

    /// False if somebody else has.
    fn forget_orphan(&self, orphan: &Orphan) -> bool {
        let mut orphans = self.orphans.lock();
        let before = orphans.len();
        orphans.retain(|other| other.id != orphan.id);
        orphans.len() < before
    }
}
