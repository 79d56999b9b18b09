//! Orphans: creates without an answer that their calls gave up. Their nodes may exist, or appear
//! late, and would stand in everybody's way. The client looks for them by their ids until they
//! cannot appear any more.
//!
//! One look is a read for all orphans of a session in one place: in a lock's directory, whose names
//! have the ids, or at a single node, whose data have one. Each place has one look at a time, however
//! many orphans and requests for a look there are. The last look for an orphan follows a `sync`, so
//! that it shows what the leader has.
//!
//! A server answers the requests of a connection in order. So a look that is answered on the
//! connection of the create shows its node, or the node does not exist and never will. This does
//! not hold after a cut: if the session returns to the server of the create, that server may carry
//! it out late. That takes a session timeout at most from the first answer on another connection: by
//! then a server that stood still goes on, and one without a leader was so for longer than leaders
//! wait. (The leader refuses what comes through a server that the session has left.)
//!
//! A call that is about to create waits until the creates that others gave up on this connection
//! were looked for: its own answer would come no sooner. So at a server that stands still, calls
//! with short deadlines leave one create a thread, not one a call.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use zookeeper::{Batch, ErrorKind};

use super::claim::Claim;
use super::deletions::Deletions;
use super::failure::Failure;
use super::quota::Charge;
use super::requests::Requests;
use super::timer::Timer;
use crate::data;
use crate::names;
use crate::path::LockPath;
use crate::signal::Broadcast;
use crate::sys::{self, Mutex, select_biased};
use crate::wait::Until;

/// A create without an answer: of a call, or an orphan. Its node may exist, or appear late.
#[derive(Debug)]
pub(crate) struct Unanswered {
    /// The id that it carried.
    pub(crate) id: String,
    pub(crate) charge: Charge,
    /// How often the session had been resumed when it was sent. `None` if a look was answered
    /// since.
    pub(crate) sent_on: Option<u64>,
    /// A session timeout after its answer was lost, or later. Then the call that goes on gives it up.
    /// A look for orphans that begins after this and does not show it is the last.
    pub(crate) until: Instant,
}

/// Where the orphans of a session are looked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    session: i64,
    /// The directory of the nodes, or a single node.
    path: LockPath,
    is_single: bool,
}

impl Place {
    fn of(session: i64, claim: &Claim) -> Place {
        let is_single = claim.facts.kind.is_single_node();
        let path = if is_single { &claim.facts.lock } else { &claim.facts.directory };
        Place { session, path: path.clone(), is_single }
    }
}

/// A node that a look shows: its name in a directory, or the transaction that created a single one.
#[derive(Clone, Copy)]
enum Found<'a> {
    Name(&'a str),
    Single(i64),
}

/// What a look shows, by the ids of the creates.
type Seen<'a> = HashMap<&'a str, Found<'a>>;

/// The orphans of one session in one place.
#[derive(Debug, Default)]
struct Search {
    orphans: Vec<Unanswered>,
    /// The look that is under way.
    look: Option<Look>,
    /// Another look has to follow it.
    again: bool,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    /// How many of the orphans it covers: those that were there when it began.
    covers: usize,
    begun: Instant,
    /// How often the session had been resumed by then.
    sent_on: u64,
    /// Whether the time of an orphan is over, so that it is not looked for again.
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

    /// Ends a look, which has shown `found`, or failed. `connection` is the current one. Returns
    /// those that are no orphans any more, each with its node, or `None` if it cannot appear.
    fn end<'f>(
        &mut self,
        found: Option<&Seen<'f>>,
        is_answered: bool,
        connection: u64,
        timeout: Duration,
    ) -> Option<Vec<(Option<Found<'f>>, Unanswered)>> {
        let look = self.look.take()?;
        let covered: Vec<_> = self.orphans.drain(..look.covers).collect();
        let mut ended = Vec::new();
        for mut orphan in covered {
            let is_same = orphan.sent_on == Some(look.sent_on) && connection == look.sent_on;
            match found.map(|found| found.get(&*orphan.id)) {
                Some(Some(&node)) => {
                    sys::reached("an orphan is found");
                    ended.push((Some(node), orphan));
                }
                Some(None) if is_same || orphan.sent_on.is_none() && look.begun >= orphan.until => {
                    sys::reached_if(
                        || is_same,
                        "an orphan is not there on the connection of its create",
                    );
                    sys::reached_if(|| !is_same, "the time of an orphan is over");
                    ended.push((None, orphan));
                }
                _ => {
                    sys::reached("an orphan may appear yet");
                    // The server of the create may have stood still until now.
                    if is_answered && orphan.sent_on.take().is_some() {
                        orphan.until = orphan.until.max(sys::now() + timeout);
                    }
                    self.orphans.push(orphan);
                }
            }
        }
        Some(ended)
    }
}

/// All orphans of a client.
#[derive(Debug)]
pub(crate) struct Orphans {
    me: Weak<Orphans>,
    deletions: Arc<Deletions>,
    searches: Mutex<BTreeMap<Place, Search>>,
    /// Sent when some of them are not orphans any more.
    changed: Broadcast,
    timer: Timer,
}

impl Orphans {
    pub(super) fn new(deletions: Arc<Deletions>) -> Arc<Orphans> {
        Arc::new_cyclic(|me| Orphans {
            me: Weak::clone(me),
            deletions,
            searches: Mutex::default(),
            changed: Broadcast::new(),
            timer: Timer::default(),
        })
    }

    fn requests(&self) -> &Requests {
        &self.deletions.requests
    }

    pub(super) fn count(&self) -> usize {
        self.searches.lock().values().map(|search| search.orphans.len()).sum()
    }

    /// Forgets those of a session that is over, or all.
    pub(super) fn forget(&self, session: Option<i64>) {
        let stays = |place: &Place| session.is_some_and(|session| session != place.session);
        self.searches.lock().retain(|place, _| stays(place));
        self.changed.send();
    }

    /// Looks for all of them on a new connection, and wakes those who wait for looks on the one
    /// before. Orphans of a session that is over by now are found to be gone.
    pub(super) fn on_connected(&self) {
        self.changed.send();
        self.look_for(|_, _| true);
    }

    /// Takes over orphans of a call, and looks for them at once.
    pub(crate) fn adopt(&self, session: i64, claim: &Claim, orphans: Vec<Unanswered>) {
        let Some(until) = orphans.iter().map(|orphan| orphan.until).min() else {
            return;
        };
        let place = Place::of(session, claim);
        let mut searches = self.searches.lock();
        searches.entry(place.clone()).or_default().orphans.extend(orphans);
        drop(searches);
        self.attend_at(until);
        self.look_for(|other, _| *other == place);
    }

    /// Has [`attend`](Orphans::attend) called at this instant or before.
    fn attend_at(&self, when: Instant) {
        self.timer.set(when, &self.requests().zk, &self.me, Orphans::attend);
    }

    /// Looks for those whose time is over.
    fn attend(&self, due: Instant) {
        if !self.timer.fires(due) {
            return;
        }
        let now = sys::now();
        let end = |search: &Search| search.orphans.iter().map(|orphan| orphan.until).min();
        self.look_for(|_, search| end(search).is_some_and(|until| until <= now));
        let next = self.searches.lock().values().filter_map(end).min();
        if let Some(next) = next {
            self.attend_at(next.max(now + self.requests().timeout() / 4));
        }
    }

    /// Looks for orphans that may block this claim.
    pub(super) fn look_for_those_of(&self, claim: &Claim) {
        self.look_for(|place, _| *place == Place::of(place.session, claim));
    }

    fn has_any_sent_on(&self, connection: u64) -> bool {
        let is_sent_on = |orphan: &Unanswered| orphan.sent_on == Some(connection);
        self.searches.lock().values().any(|search| search.orphans.iter().any(is_sent_on))
    }

    /// Looks for these, if there is a connection. The next connection looks for all.
    fn look_for(&self, is_wanted: impl Fn(&Place, &Search) -> bool) {
        let connection = self.requests().resumed();
        if !self.requests().is_connected() {
            return;
        }
        let mut searches = self.searches.lock();
        let wanted = searches.iter_mut().filter(|(place, search)| is_wanted(place, search));
        let begin = |(place, search): (&Place, &mut Search)| {
            Some((place.clone(), search.begin(connection)?))
        };
        let begun: Vec<_> = wanted.filter_map(begin).collect();
        drop(searches);
        begun.into_iter().for_each(|(place, look)| self.look(place, look));
    }

    /// Sends a look.
    fn look(&self, place: Place, look: Look) {
        let (zk, me) = (self.requests().zk.in_session(place.session), Weak::clone(&self.me));
        let zk = zk.with_timeout(Duration::MAX);
        let path = place.path.clone();
        // Its answer comes before that of the read.
        let sync = |batch: &mut Batch<'_>| {
            drop(look.is_last.then(|| batch.sync(path.as_str())));
        };
        if place.is_single {
            let read = zk.submit(|batch| {
                sync(batch);
                batch.get_data(path.as_str(), None)
            });
            return read.on_done(move |read| {
                let found = read.as_ref().map(|(data, stat)| {
                    let id = data::decode_single(data).map(|(id, _)| id);
                    id.map(|id| (id, Found::Single(stat.czxid))).into_iter().collect()
                });
                me.upgrade().inspect(|orphans| orphans.on_looked(place, found));
            });
        }
        let listed = zk.submit(|batch| {
            sync(batch);
            batch.get_children(path.as_str(), None)
        });
        listed.on_done(move |listed| {
            let node = |name| Some((names::id_of(name)?, Found::Name(name)));
            let listed = listed.as_ref();
            let found = listed.map(|(names, _)| names.iter().filter_map(node).collect());
            me.upgrade().inspect(|orphans| orphans.on_looked(place, found));
        });
    }

    /// Takes the answer to a look.
    fn on_looked(&self, place: Place, found: Result<Seen<'_>, &zookeeper::Error>) {
        let (found, is_answered) = match found {
            Ok(found) => (Some(found), true),
            Err(error) => match error.kind() {
                ErrorKind::NoNode => (Some(HashMap::new()), true),
                // Their nodes ended with it.
                ErrorKind::SessionExpired | ErrorKind::Closed => {
                    sys::reached("orphans are gone with their session");
                    return self.forget(Some(place.session));
                }
                // Busy servers answer with codes that look like the end of a connection.
                _ => {
                    sys::reached("a look for orphans fails");
                    (None, !error.is_maybe_done() || self.requests().is_connected())
                }
            },
        };
        let (connection, timeout) = (self.requests().resumed(), self.requests().timeout());
        let mut searches = self.searches.lock();
        let Some(search) = searches.get_mut(&place) else {
            return;
        };
        let Some(ended) = search.end(found.as_ref(), is_answered, connection, timeout) else {
            return;
        };
        let is_over = search.orphans.is_empty();
        let again = !is_over && search.again && is_answered;
        let again = again.then(|| search.begin(connection)).flatten();
        if is_over {
            // No look is under way whose answer could be taken for that of a later search.
            searches.remove(&place);
        }
        drop(searches);
        for (node, orphan) in ended {
            node.inspect(|node| self.delete_orphan(&place, *node, orphan.charge));
        }
        self.changed.send();
        if let Some(look) = again {
            self.look(place, look);
        }
    }

    fn delete_orphan(&self, place: &Place, node: Found<'_>, charge: Charge) {
        match node {
            Found::Name(name) => {
                let path = place.path.child(name);
                self.deletions.delete_eventually(place.session, path, charge);
            }
            Found::Single(czxid) => {
                sys::reached("the orphan of a single node is found");
                let path = place.path.as_str().to_owned();
                self.deletions.delete_single(place.session, path, czxid, charge);
            }
        }
    }

    /// Waits until the server has answered the creates that other calls gave up on this connection.
    pub(crate) fn await_given_up(&self, until: &Until) -> Result<(), Failure> {
        while self.has_any_sent_on(self.requests().resumed()) {
            let changed = self.changed.listen();
            if !self.has_any_sent_on(self.requests().resumed()) {
                break;
            }
            select_biased! {
                recv(until.cancelled) -> _ => {
                    sys::reached("a cancel ends a wait for creates that were given up");
                    return Err(Failure::Cancelled);
                }
                recv(self.requests().closed()) -> _ => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inner::quota::Quota;

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Looks on this connection, sees nothing, and returns how many orphans are given up.
    fn look(search: &mut Search, connection: u64) -> usize {
        search.begin(connection).expect("no other look");
        search.end(Some(&HashMap::new()), true, connection, TIMEOUT).expect("a look").len()
    }

    fn search(sent_on: u64) -> Search {
        let charge = Quota::default().take(1, 1, 1).unwrap();
        let until = sys::now();
        let orphan = Unanswered { id: "id".to_owned(), charge, sent_on: Some(sent_on), until };
        Search { orphans: vec![orphan], ..Search::default() }
    }

    #[test]
    fn orphan_is_looked_for_until_its_server_cannot_carry_it_out() {
        let mut search = search(1);
        // The time of its call is over, and that of its server begins with this answer.
        for _ in 0..2 {
            assert_eq!(look(&mut search, 2), 0);
            assert!(search.orphans[0].until > sys::now() + TIMEOUT / 2);
        }
        search.orphans[0].until = sys::now();
        assert_eq!(look(&mut search, 2), 1);
    }
}
