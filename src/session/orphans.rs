//! Creates without an answer, of calls that have what they want by another node, or want nothing any more. Their
//! nodes may be there, or appear late, and would stand in everybody's way. They are looked for by their ids, until
//! they cannot appear any more.
//!
//! A look is one read for all orphans of a session in one place: in a lock's directory, or at a single node. There is
//! one at a time for each place, however many orphans there are and whoever asks for one. The last look for an
//! orphan comes behind a `sync`, so that it shows what the leader has.
//!
//! A server answers the requests of a connection in order. So a look that is answered on the connection that the
//! create was sent on shows its node, or there is none and never will be. After a cut that is not so: what waits in
//! a server that the session comes back to may be carried out late. That takes a session timeout at most, since
//! that server was then without a leader for longer than leaders wait. (The leader refuses what comes by a server
//! that the session has left.)
//!
//! The data of a single node, which name its maker, may be written over: by a request to let go that came late or is
//! a bare one. Then it is found by what is left: it is of our session, and nobody here holds it, nor can it be that of
//! a call that is under way. Whose of several it was remains unknown, so all of them are looked for again.
//!
//! For the same reason a call that is about to create waits for the look for creates that others gave up on this
//! connection: its own answer would come no sooner. This bounds what calls with short deadlines can leave at a
//! server that stands still: one create a thread, not one a call.

use std::collections::{BTreeMap, HashMap};
use std::sync::Weak;
use std::time::{Duration, Instant};

use zookeeper::{Batch, ErrorKind, Stat};

use super::failure::Failure;
use super::nodes::Claim;
use super::quota::Charge;
use super::registry::Registry;
use super::shared::Session;
use crate::data;
use crate::names;
use crate::path::LockPath;
use crate::signal::{Broadcast, Until};
use crate::sys::{self, Mutex, select_biased};

/// A node that may be there, or appear.
#[derive(Debug)]
pub(crate) struct Orphan {
    /// What its create carried.
    pub(crate) id: String,
    pub(crate) charge: Charge,
    /// How often the session had been resumed before it was sent. `None` if a look was answered since.
    pub(crate) sent_on: Option<u64>,
    /// A look begun after this that does not show it is the last.
    pub(crate) until: Instant,
}

/// Where orphans are looked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Spot {
    Directory(LockPath),
    SingleNode(LockPath),
}

impl Spot {
    fn of(claim: &Claim) -> Spot {
        match claim.is_single() {
            true => Spot::SingleNode(claim.lock.clone()),
            false => Spot::Directory(claim.directory.clone()),
        }
    }
}

/// A session, and a place.
type Key = (i64, Spot);

/// A node that a look shows.
struct Found<'a> {
    name: &'a str,
    /// The transaction that made it, of a single node.
    czxid: Option<i64>,
}

/// A call that may have a single node that is not held. Looks for orphans there when it has not any more.
pub(crate) struct Busy<'a> {
    session: &'a Session,
    path: LockPath,
    number: u64,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut registry = self.session.registry.lock();
        if let Some(numbers) = registry.busy.get_mut(&self.path) {
            let at = numbers.iter().position(|number| *number == self.number);
            at.map(|at| numbers.swap_remove(at));
            if numbers.is_empty() {
                registry.busy.remove(&self.path);
            }
        }
        drop(registry);
        let here = Spot::SingleNode(self.path.clone());
        self.session.look_for(|(_, spot), _| *spot == here);
    }
}

/// The orphans of one session in one place.
#[derive(Debug, Default)]
struct Search {
    orphans: Vec<Orphan>,
    /// The look that is under way.
    look: Option<Look>,
    /// Somebody has asked for another one behind it.
    again: bool,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    /// It is for so many of the orphans: those that were there when it began.
    covers: usize,
    begun: Instant,
    /// How often the session had been resumed by then.
    sent_on: u64,
    /// The time of an orphan is over: it is not looked for again.
    is_last: bool,
}

impl Search {
    /// Returns the look that has to be sent now. `None` if one is under way.
    fn begin(&mut self, sent_on: u64) -> Option<Look> {
        self.again = self.look.is_some();
        if self.again {
            sys::reached("a look for orphans waits for the one before");
            return None;
        }
        let begun = sys::now();
        let is_last = self.orphans.iter().any(|orphan| orphan.until <= begun);
        self.look = Some(Look { covers: self.orphans.len(), begun, sent_on, is_last });
        self.look
    }

    /// Ends a look that was answered, or failed. Returns the orphans that it covers.
    fn end(&mut self) -> Option<(Look, Vec<Orphan>)> {
        let look = self.look.take()?;
        Some((look, self.orphans.drain(..look.covers).collect()))
    }
}

/// All orphans of a client.
#[derive(Debug)]
pub(super) struct Orphans {
    searches: Mutex<BTreeMap<Key, Search>>,
    /// Sent when some of them are not orphans any more.
    changed: Broadcast,
}

impl Orphans {
    pub(super) fn new() -> Orphans {
        Orphans { searches: Mutex::default(), changed: Broadcast::new() }
    }

    pub(super) fn count(&self) -> usize {
        self.searches.lock().values().map(|search| search.orphans.len()).sum()
    }

    /// Forgets those of a session that is over, or all.
    pub(super) fn forget(&self, session: Option<i64>) {
        self.searches.lock().retain(|(of, _), _| session.is_some_and(|session| session != *of));
        self.changed.send();
    }

    /// Wakes whoever waits for looks on a connection that is not there any more.
    pub(super) fn resumed(&self) {
        self.changed.send();
    }

    fn has_any_sent_on(&self, connection: u64) -> bool {
        let is_sent_on = |orphan: &Orphan| orphan.sent_on == Some(connection);
        self.searches.lock().values().any(|search| search.orphans.iter().any(is_sent_on))
    }
}

impl Session {
    /// Takes over orphans of a call, and looks for them at once.
    pub(crate) fn adopt_orphans(&self, session: i64, claim: &Claim, orphans: Vec<Orphan>) {
        let Some(until) = orphans.iter().map(|orphan| orphan.until).min() else {
            return;
        };
        let key = (session, Spot::of(claim));
        let mut searches = self.orphans.searches.lock();
        searches.entry(key.clone()).or_default().orphans.extend(orphans);
        drop(searches);
        self.attend_at(until);
        self.look_for(|other, _| *other == key);
    }

    /// Looks for those whose time is over. Returns when to come again.
    pub(super) fn attend_orphans(&self, now: Instant) -> Option<Instant> {
        let ends = |search: &Search| search.orphans.iter().map(|orphan| orphan.until).min();
        self.look_for(|_, search| ends(search).is_some_and(|until| until <= now));
        let again = now + self.timeout() / 4;
        let searches = self.orphans.searches.lock();
        searches.values().filter_map(ends).min().map(|until| until.max(again))
    }

    /// Looks for those that may stand in the way of this claim.
    pub(super) fn look_for_orphans_of(&self, claim: &Claim) {
        self.look_for(|(_, spot), _| *spot == Spot::of(claim));
    }

    /// A call is about to make a single node.
    pub(crate) fn busy_making(&self, claim: &Claim) -> Option<Busy<'_>> {
        self.busy(claim, |registry| {
            registry.next += 1;
            registry.next
        })
    }

    /// A call is about to delete its single node, which it holds no more. Nobody else should do it.
    pub(super) fn busy_deleting(&self, claim: &Claim) -> Option<Busy<'_>> {
        self.busy(claim, |_| 0)
    }

    fn busy(&self, claim: &Claim, number: fn(&mut Registry) -> u64) -> Option<Busy<'_>> {
        claim.is_single().then(|| {
            let (mut registry, path) = (self.registry.lock(), claim.lock.clone());
            let number = number(&mut registry);
            registry.busy.entry(path.clone()).or_default().push(number);
            Busy { session: self, path, number }
        })
    }

    pub(super) fn look_for_all_orphans(&self) {
        self.look_for(|_, _| true);
    }

    /// Looks for these, if there is a connection: the next one looks for all.
    fn look_for(&self, is_wanted: impl Fn(&Key, &Search) -> bool) {
        let connection = self.resumed();
        if !self.is_connected() {
            return;
        }
        let mut searches = self.orphans.searches.lock();
        let wanted = searches.iter_mut().filter(|(key, search)| is_wanted(key, search));
        let begin =
            |(key, search): (&Key, &mut Search)| Some((key.clone(), search.begin(connection)?));
        let begun: Vec<_> = wanted.filter_map(begin).collect();
        drop(searches);
        begun.into_iter().for_each(|(key, look)| self.look(key, look));
    }

    /// Sends a look.
    fn look(&self, key: Key, look: Look) {
        let (zk, me) = (self.zk.in_session(key.0), Weak::clone(&self.me));
        let zk = zk.with_timeout(Duration::MAX);
        // Its answer comes before that of the read.
        let sync = |batch: &mut Batch<'_>, path: &LockPath| {
            drop(look.is_last.then(|| batch.sync(path.as_str())));
        };
        match key.1.clone() {
            Spot::Directory(directory) => {
                let listed = zk.submit(|batch| {
                    sync(batch, &directory);
                    batch.get_children(directory.as_str(), None)
                });
                listed.on_done(move |listed| {
                    let with_id = |name| Some((names::id_of(name)?, Found { name, czxid: None }));
                    let listed = listed.as_ref();
                    let found =
                        listed.map(|(names, _)| Some(names.iter().filter_map(with_id).collect()));
                    me.upgrade().inspect(|session| session.has_looked(key, found));
                });
            }
            Spot::SingleNode(path) => {
                let read = zk.submit(|batch| {
                    sync(batch, &path);
                    batch.get_data(path.as_str(), None)
                });
                // Who begins only now cannot have made what it shows.
                let begun = self.registry.lock().next;
                read.on_done(move |read| {
                    let Some(session) = me.upgrade() else {
                        return;
                    };
                    let found = read.as_ref().map(|(data, stat)| {
                        let (name, czxid) = (path.split().1, Some(stat.czxid));
                        match data::decode_single(data, stat.czxid.unsigned_abs()) {
                            Some((id, _)) => Some(HashMap::from([(id, Found { name, czxid })])),
                            None if session.delete_nameless(&key, &path, stat, begun) => None,
                            None => Some(HashMap::new()),
                        }
                    });
                    session.has_looked(key, found);
                });
            }
        }
    }

    /// Deletes this single node, which does not say whose it is, if it cannot be that of a call that had begun by then.
    /// False if it is no orphan at all.
    fn delete_nameless(&self, key: &Key, path: &LockPath, stat: &Stat, begun: u64) -> bool {
        let registry = self.registry.lock();
        let is_held = registry.holds_single(path, stat.czxid);
        let is_busy = registry.is_busy(path, begun);
        drop(registry);
        if key.0 != stat.ephemeral_owner || is_held || self.is_stuck(path.as_str()) {
            return false;
        }
        let searches = self.orphans.searches.lock();
        let search = searches.get(key).filter(|_| !is_busy);
        // There is one node less to come, whichever it is.
        let charge = search.and_then(|search| Some(search.orphans.first()?.charge.hand_over()));
        drop(searches);
        if let Some(charge) = charge {
            sys::reached("a single node that does not say whose it is is an orphan");
            self.delete_single(key.0, path.as_str().to_owned(), stat.czxid, charge);
        }
        true
    }

    /// Takes the answer to a look: the nodes that were found, by their ids. `None` if what was found may be any
    /// orphan's.
    fn has_looked(
        &self,
        key: Key,
        found: Result<Option<HashMap<&str, Found<'_>>>, &zookeeper::Error>,
    ) {
        let (found, is_answered) = match found {
            Ok(found) => (found, true),
            Err(error) => match error.kind() {
                ErrorKind::NoNode => (Some(HashMap::new()), true),
                // They went with it.
                ErrorKind::SessionExpired | ErrorKind::Closed => {
                    sys::reached("orphans are gone with their session");
                    return self.orphans.forget(Some(key.0));
                }
                // What may not be read, or was not read, says nothing. Busy servers answer with codes that look
                // like the end of a connection.
                _ => {
                    sys::reached("a look for orphans fails");
                    (None, !error.is_maybe_done() || self.is_connected())
                }
            },
        };
        let connection = self.resumed();
        let mut searches = self.orphans.searches.lock();
        let Some(search) = searches.get_mut(&key) else {
            return;
        };
        let Some((look, covered)) = search.end() else {
            return;
        };
        let (mut nodes, mut gone) = (Vec::new(), Vec::new());
        for mut orphan in covered {
            let is_same = orphan.sent_on == Some(look.sent_on) && connection == look.sent_on;
            match found.as_ref().map(|found| found.get(&*orphan.id)) {
                Some(Some(node)) => {
                    sys::reached("an orphan is found");
                    nodes.push((node, orphan));
                }
                Some(None) if is_same || look.begun >= orphan.until => {
                    sys::reached_if(
                        || is_same,
                        "an orphan is not there on the connection of its create",
                    );
                    sys::reached_if(|| !is_same, "the time of an orphan is over");
                    gone.push(orphan);
                }
                _ => {
                    sys::reached("an orphan may appear yet");
                    orphan.sent_on = orphan.sent_on.filter(|_| !is_answered);
                    search.orphans.push(orphan);
                }
            }
        }
        let is_over = search.orphans.is_empty();
        let again = !is_over && search.again && is_answered;
        let again = again.then(|| search.begin(connection)).flatten();
        if is_over {
            // No look is under way, whose answer would be taken for that of another search.
            searches.remove(&key);
        }
        drop(searches);
        for (node, orphan) in nodes {
            self.delete_orphan(&key, node, orphan);
        }
        drop(gone);
        self.orphans.changed.send();
        if let Some(look) = again {
            self.look(key, look);
        }
    }

    fn delete_orphan(&self, (session, spot): &Key, node: &Found<'_>, orphan: Orphan) {
        let path = match spot {
            Spot::Directory(directory) => directory.child(node.name),
            Spot::SingleNode(path) => path.as_str().to_owned(),
        };
        match node.czxid {
            None => self.delete_eventually(*session, path, orphan.charge),
            Some(czxid) => {
                sys::reached("the orphan of a single node is found");
                self.delete_single(*session, path, czxid, orphan.charge);
            }
        }
    }

    /// Waits until the server has answered the creates that others gave up on this connection.
    pub(crate) fn await_given_up(&self, until: &Until) -> Result<(), Failure> {
        while self.orphans.has_any_sent_on(self.resumed()) {
            let changed = self.orphans.changed.listen();
            if !self.orphans.has_any_sent_on(self.resumed()) {
                break;
            }
            select_biased! {
                recv(until.cancelled) -> _ => {
                    sys::reached("a cancel ends a wait for creates that were given up");
                    return Err(Failure::Cancelled);
                }
                recv(self.closed()) -> _ => {
                    sys::reached("the close ends a wait for creates that were given up");
                    return Err(Failure::Closed);
                }
                recv(changed) -> _ => sys::reached("a create waits for those that were given up"),
                recv(until.expiry()) -> _ => {
                    sys::reached("a deadline ends a wait for creates that were given up");
                    return Err(Failure::Deadline);
                }
            }
        }
        Ok(())
    }
}
