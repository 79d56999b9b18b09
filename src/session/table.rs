//! The table of a client's nodes. It contains every create request from before it is sent, until it
//! is certain that the servers do not have its node. This module is pure, and generic over places
//! and instants, so that `tests/model` checks this very code.
//!
//! ```text
//!  enter -> Used --- no answer --> Unanswered --- give_up --> orphan --- shown --> Going -> gone
//!             ^------- found --------'
//! ```
//! | from | to | when |
//! |---|---|---|
//! | Used | gone | its create request is refused, its release is answered, or another client has deleted it |
//! | Used | Going | its call or its hold ends, and it is being deleted in the background |
//! | orphan | gone | it can no longer appear |
//! | Used, Going | Stuck | the servers refuse to delete it |
//! | Stuck | gone | a list that was requested later does not contain it |
//! | any | gone | its session is over |
//!
//! A call owns its nodes while they are used or unanswered, and a hold owns the nodes that it was
//! granted. The other nodes do not have an owner, and the client cleans them up. An orphan is an
//! unanswered create request that its call has given up.
//!
//! The client looks for an orphan by its id. One *look*, which is a list or a read, covers all
//! orphans of a place (a session and a path), and each place has at most one look at a time. A
//! server answers the requests of a connection in order. Therefore, if a look is answered on the
//! connection of the create request, it either finds the node, or the node does not exist and never
//! will. This is not true after the connection has broken: if the session returns to the server
//! that received the create request, that server may carry it out late. This takes at most one
//! session timeout from the first answer on another connection. By the end of that time, a server
//! that was paused has continued, and a server that lost its leader has been disconnected for
//! longer than a leader waits. (The leader refuses requests that arrive through a server that the
//! session has left.)

use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;

/// The number of a node in the table. Numbers are never used again.
pub(crate) type Key = u64;

/// The nodes of one client, in places of type `P`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Table<P, T> {
    nodes: BTreeMap<Key, Entry<P, T>>,
    /// The places with orphans, or with nodes that the servers refuse to delete.
    open: BTreeMap<P, Open<T>>,
    next: Key,
    room: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry<P, T> {
    place: P,
    bytes: usize,
    state: State<T>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State<T> {
    /// Its create request is not answered yet, or the node exists. A call or a hold owns it.
    Used,
    /// Its create request has remained unanswered. Either its call looks for it, or it is an
    /// orphan, and the client looks for it.
    Unanswered(Unanswered<T>),
    /// It is being deleted in the background.
    Going,
    /// The servers refuse to delete it.
    Stuck,
}

/// A create request without an answer. Its node may exist, or appear later.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Unanswered<T> {
    /// The id in the request.
    pub(crate) id: String,
    /// The epoch in which it was sent, which identifies the connection. `None` if a look was
    /// answered since.
    pub(crate) epoch: Option<u64>,
    /// An instant at least one session timeout after its answer was lost. A call that continues may
    /// give it up at that time. If a look for orphans begins after this and does not find it, that
    /// look is the last one.
    pub(crate) until: T,
}

/// The orphans of one place, and its nodes that the servers refuse to delete.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Open<T> {
    orphans: Vec<Key>,
    /// The look that is not answered yet.
    look: Option<Look<T>>,
    /// Another look has to follow `look`.
    again: bool,
    /// The nodes that stay because the servers refuse to delete them, by their names.
    stuck: BTreeMap<String, Key>,
}

impl<T> Default for Open<T> {
    fn default() -> Open<T> {
        Open { orphans: Vec::new(), look: None, again: false, stuck: BTreeMap::new() }
    }
}

/// A look for the orphans of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Look<T> {
    /// How many of the orphans it covers: those that existed when it began.
    covers: usize,
    begun: T,
    /// Whether the time of an orphan is over, so that this is the last look for it.
    pub(crate) is_last: bool,
}

impl<P: Clone + Ord, T: Copy + Ord> Table<P, T> {
    /// `room` limits the total bytes of all nodes.
    pub(crate) fn new(room: usize) -> Table<P, T> {
        Table { nodes: BTreeMap::new(), open: BTreeMap::new(), next: 0, room }
    }

    // ---- nodes with an owner

    /// Enters `count` nodes of `bytes` each, whose create requests are about to be sent. Enters
    /// none of them if there is not enough room for all.
    pub(crate) fn enter(&mut self, place: &P, bytes: usize, count: usize) -> Option<Range<Key>> {
        self.room = self.room.checked_sub(bytes.checked_mul(count)?)?;
        let keys = self.next..self.next + count as Key;
        self.next = keys.end;
        let entry = || Entry { place: place.clone(), bytes, state: State::Used };
        self.nodes.extend(keys.clone().map(|key| (key, entry())));
        Some(keys)
    }

    /// Notes that a create request is unanswered.
    pub(crate) fn no_answer(&mut self, key: Key, create: Unanswered<T>) {
        self.set(key, State::Unanswered(create));
    }

    /// Returns the create request of this key, if it is unanswered.
    pub(crate) fn unanswered(&self, key: Key) -> Option<&Unanswered<T>> {
        match &self.nodes.get(&key)?.state {
            State::Unanswered(create) => Some(create),
            _ => None,
        }
    }

    /// Notes that the call has found the node of an unanswered create request.
    pub(crate) fn found(&mut self, key: Key) {
        self.set(key, State::Used);
    }

    /// Turns an unanswered create request into an orphan. Returns its `until`. Returns `None` if
    /// the table does not contain it as unanswered, because its session is over.
    pub(crate) fn give_up(&mut self, key: Key) -> Option<T> {
        let until = self.unanswered(key)?.until;
        let place = self.nodes.get(&key)?.place.clone();
        self.open.entry(place).or_default().orphans.push(key);
        Some(until)
    }

    /// Begins to delete a node. Returns its place, or `None` if it is already being deleted, or is
    /// gone.
    pub(crate) fn delete(&mut self, key: Key) -> Option<P> {
        let node = self.nodes.get_mut(&key).filter(|node| matches!(node.state, State::Used))?;
        node.state = State::Going;
        Some(node.place.clone())
    }

    /// Notes that the servers do not have the node: its create request was refused, it was deleted,
    /// or its session is over.
    pub(crate) fn gone(&mut self, key: Key) {
        if let Some(node) = self.nodes.remove(&key) {
            self.room += node.bytes;
        }
    }

    fn set(&mut self, key: Key, state: State<T>) {
        if let Some(node) = self.nodes.get_mut(&key) {
            node.state = state;
        }
    }

    // ---- nodes that stay

    /// Notes that the servers refuse to delete a node. Returns false if that was already known.
    pub(crate) fn stays(&mut self, key: Key, name: &str) -> bool {
        let Some(node) = self.nodes.get_mut(&key) else {
            return false;
        };
        node.state = State::Stuck;
        let open = self.open.entry(node.place.clone()).or_default();
        match open.stuck.insert(name.to_owned(), key) {
            Some(earlier) if earlier != key => {
                self.gone(earlier);
                false
            }
            earlier => earlier.is_none(),
        }
    }

    /// Notes that a node which could not be deleted is gone, or that another node has replaced it.
    pub(crate) fn no_longer_stays(&mut self, place: &P, name: &str) {
        let Some(open) = self.open.get_mut(place) else {
            return;
        };
        let key = open.stuck.remove(name);
        self.close_if_empty(place);
        key.into_iter().for_each(|key| self.gone(key));
    }

    /// Returns the names of the nodes that the servers refuse to delete.
    pub(crate) fn stuck(&self, place: &P) -> impl Iterator<Item = &String> {
        self.open.get(place).into_iter().flat_map(|open| open.stuck.keys())
    }

    fn close_if_empty(&mut self, place: &P) {
        let is_empty = |open: &Open<T>| open.orphans.is_empty() && open.stuck.is_empty();
        if self.open.get(place).is_some_and(is_empty) {
            // All looks of an empty place are answered. Without this, a late answer would count for
            // a new look of the place.
            self.open.remove(place);
        }
    }

    // ---- orphans

    /// Returns whether there is an orphan whose request was sent on the connection of this epoch.
    pub(crate) fn has_orphan_of(&self, epoch: u64) -> bool {
        let mut orphans = self.open.values().flat_map(|open| &open.orphans);
        orphans.any(|key| self.unanswered(*key).is_some_and(|create| create.epoch == Some(epoch)))
    }

    /// Returns the earliest [`until`](Unanswered::until) of all orphans.
    pub(crate) fn due(&self) -> Option<T> {
        self.open.values().filter_map(|open| self.due_in(open)).min()
    }

    fn due_in(&self, open: &Open<T>) -> Option<T> {
        open.orphans.iter().filter_map(|key| self.unanswered(*key)).map(|create| create.until).min()
    }

    /// Returns the looks that have to be sent now for the orphans of the wanted places. `is_wanted`
    /// receives the place, and the instant when the time of its next orphan is over. If a look of
    /// the place is not answered yet, another one follows it.
    pub(crate) fn look_for(
        &mut self,
        now: T,
        is_wanted: impl Fn(&P, T) -> bool,
    ) -> Vec<(P, Look<T>)> {
        let due = |(place, open)| Some((Clone::clone(place), self.due_in(open)?));
        let places: Vec<_> = self.open.iter().filter_map(due).collect();
        let wanted = places.into_iter().filter(|(place, due)| is_wanted(place, *due));
        let begin = |(place, due)| {
            let look = self.open.get_mut(&place)?.begin(now, due <= now)?;
            Some((place, look))
        };
        wanted.filter_map(begin).collect()
    }

    /// Handles the answer to a look in the current epoch. Returns the orphans that it found, which
    /// have to be deleted now, and the look that has to be sent now. `shows` returns the node with
    /// an id, if the look found it; `shows` is `None` if the look failed. The look was sent after
    /// the orphans that it covers had remained unanswered. Therefore, if their epoch is the current
    /// one, the look was sent and answered in it as well. The client looks until `later` for
    /// orphans that another server may carry out late.
    pub(crate) fn looked<F>(
        &mut self,
        place: &P,
        shows: Option<impl Fn(&str) -> Option<F>>,
        is_answered: bool,
        epoch: u64,
        [now, later]: [T; 2],
    ) -> (Vec<(Key, F)>, Option<Look<T>>) {
        let mut found = Vec::new();
        let look = self.open.get_mut(place).and_then(|open| Some((open.look.take()?, open)));
        let Some((look, open)) = look else {
            return (found, None);
        };
        let again = mem::take(&mut open.again);
        let covered: Vec<_> = open.orphans.drain(..look.covers).collect();
        let mut left = Vec::new();
        for key in covered {
            let Some(Entry { state: State::Unanswered(create), .. }) = self.nodes.get_mut(&key)
            else {
                continue;
            };
            let is_same = create.epoch == Some(epoch);
            match shows.as_ref().map(|shows| shows(&create.id)) {
                Some(Some(node)) => {
                    self.set(key, State::Going);
                    found.push((key, node));
                }
                Some(None) if is_same || create.epoch.is_none() && look.begun >= create.until => {
                    self.gone(key);
                }
                _ => {
                    // The server that received the create request may have been paused until now.
                    if is_answered && create.epoch.take().is_some() {
                        create.until = create.until.max(later);
                    }
                    left.push(key);
                }
            }
        }
        let open = self.open.entry(place.clone()).or_default();
        open.orphans.extend(left);
        let due = self.open.get(place).and_then(|open| self.due_in(open));
        let begin = |due| self.open.get_mut(place)?.begin(now, due <= now);
        let next = due.filter(|_| again && is_answered).and_then(begin);
        self.close_if_empty(place);
        (found, next)
    }

    /// Forgets the nodes of the places whose session is over.
    pub(crate) fn forget(&mut self, is_over: impl Fn(&P) -> bool) {
        self.open.retain(|place, _| !is_over(place));
        let ended = self.nodes.iter().filter(|(_, node)| is_over(&node.place));
        let ended: Vec<_> = ended.map(|(key, _)| *key).collect();
        ended.into_iter().for_each(|key| self.gone(key));
    }

    /// Returns how many nodes are being deleted or looked for in the background.
    pub(crate) fn leaving(&self) -> usize {
        let is_going = |node: &&Entry<P, T>| matches!(node.state, State::Going);
        let orphans = self.open.values().map(|open| open.orphans.len()).sum::<usize>();
        self.nodes.values().filter(is_going).count() + orphans
    }
}

impl<T: Copy> Open<T> {
    /// Begins a look, unless one is not answered yet.
    fn begin(&mut self, begun: T, is_last: bool) -> Option<Look<T>> {
        self.again = self.look.is_some();
        if self.again {
            return None;
        }
        self.look = Some(Look { covers: self.orphans.len(), begun, is_last });
        self.look
    }
}
