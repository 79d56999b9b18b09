//! The state of the world: the directory, its servers, and the client with its waiters.

use std::collections::VecDeque;
use std::mem;

use super::{Bounds, Broken, Numbers};

/// Stands for everybody behind the waiters: a client with its own session that always lists.
pub(crate) const RIVAL: usize = usize::MAX;
/// The owner of single nodes, which contend for nothing.
const SINGLE: usize = usize::MAX - 1;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Directory {
    /// The number of the directory, counted from 1.
    pub(crate) made: u8,
    pub(crate) next: u8,
    /// Numbers and owners in order. Each owner has at most one node.
    pub(crate) nodes: Vec<(u8, usize)>,
}

/// A message from the servers to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// For this waiter, with this number.
    Created(usize, u8),
    /// The directory created as this one is watched.
    Watched(u8),
    /// For this waiter.
    Deleted(usize),
    /// The event that ends the watch.
    Removed,
}

/// The client's knowledge of the directory, shared by its waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Known {
    /// Changes whenever the knowledge starts again.
    pub(crate) begun: u8,
    /// The client will hear of the end of this directory. It does not know which one that is: the server
    /// knows from the zxid of the resume.
    pub(crate) watched: Option<u8>,
    /// No node up to this number is left.
    pub(crate) number: Option<u8>,
}

/// What to note when a deletion is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Note {
    pub(crate) number: u8,
    pub(crate) begun: u8,
    /// Whether the deletion was sent under a watch, or after the read that sets it.
    pub(crate) watched: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    Creating,
    Created(u8),
    /// The number is unknown, or nobody looks at it.
    Unsure,
    Held,
    /// The deletion is due.
    Leaving(Option<Note>),
    Deleting(Option<Note>),
    /// The answer has come, and the thread takes its time.
    Noting(Note),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) directory: Option<Directory>,
    /// The number of directories so far.
    pub(crate) made: u8,
    /// Whether the client's server will report the directory's end.
    pub(crate) watching: bool,
    pub(crate) connected: bool,
    /// Messages under way to the client.
    pub(crate) inbox: VecDeque<Message>,
    pub(crate) known: Known,
    pub(crate) waiters: Vec<Phase>,
    pub(crate) rival: Phase,
    /// The rest of the bounds.
    pub(crate) left: Bounds,
}

/// The client's side.
impl World {
    pub(crate) fn new(bounds: Bounds) -> World {
        World {
            directory: None,
            made: 0,
            watching: false,
            connected: true,
            inbox: VecDeque::new(),
            known: Known::default(),
            waiters: vec![Phase::Idle; bounds.waiters],
            rival: Phase::Idle,
            left: bounds,
        }
    }

    pub(crate) fn holders(&self) -> usize {
        let all = self.waiters.iter().chain([&self.rival]);
        all.filter(|phase| **phase == Phase::Held).count()
    }

    pub(crate) fn claim(&mut self, waiter: usize) {
        self.left.claims -= 1;
        let number = self.create(waiter);
        self.inbox.push_back(Message::Created(waiter, number));
        self.waiters[waiter] = Phase::Creating;
    }

    pub(crate) fn grant(&mut self, waiter: usize, protocol: &Numbers) {
        self.waiters[waiter] = Phase::Held;
        if protocol.is(Broken::NotedAtGrant) {
            self.known.number = self.number_of(waiter);
        }
    }

    pub(crate) fn give_up(&mut self, waiter: usize, protocol: &Numbers) {
        self.left.give_ups -= 1;
        match protocol.is(Broken::NotedGivenUp) {
            true => self.release(waiter, false, protocol),
            false => self.waiters[waiter] = Phase::Leaving(None),
        }
    }

    /// A waiter that watches sends a read before the deletion.
    pub(crate) fn release(&mut self, waiter: usize, watch: bool, protocol: &Numbers) {
        let Known { begun, watched, .. } = self.known;
        let watched = watch || watched.is_some();
        let note = self.number_of(waiter).map(|number| Note { number, begun, watched });
        self.waiters[waiter] = Phase::Leaving(note);
        match watch {
            true if protocol.is(Broken::WatchedBehind) => self.remove_node(waiter),
            true => self.watch(),
            false => {}
        }
    }

    pub(crate) fn delete(&mut self, waiter: usize, protocol: &Numbers) {
        let Phase::Leaving(note) = self.waiters[waiter] else { return };
        self.waiters[waiter] = Phase::Deleting(note);
        self.remove_node(waiter);
        self.inbox.push_back(Message::Deleted(waiter));
        if protocol.is(Broken::WatchedBehind) && note.is_some_and(|note| note.watched) {
            self.watch();
        }
    }

    /// Creates and deletes in one step, since a single node contends with nobody.
    pub(crate) fn single(&mut self, looks_like: u8, protocol: &Numbers) {
        self.left.singles -= 1;
        self.create(SINGLE);
        self.remove_node(SINGLE);
        if protocol.is(Broken::NamesBelieved) {
            self.known.number = Some(looks_like);
        }
    }

    pub(crate) fn take_note(&mut self, waiter: usize, protocol: &Numbers) {
        let Phase::Noting(note) = self.waiters[waiter] else { return };
        self.waiters[waiter] = Phase::Idle;
        let in_time = note.begun == self.known.begun || protocol.is(Broken::NotedLate);
        let unwatched = [Broken::NotWatched, Broken::NotedUnwatched].map(|it| protocol.is(it));
        if in_time && (note.watched || unwatched.contains(&true)) {
            self.known.number = Some(note.number);
        }
    }

    pub(crate) fn receive(&mut self, place: usize) {
        match self.inbox.remove(place) {
            Some(Message::Created(waiter, number)) => {
                self.waiters[waiter] = Phase::Created(number);
            }
            Some(Message::Watched(directory)) => self.known.watched = Some(directory),
            Some(Message::Deleted(waiter)) => {
                let Phase::Deleting(note) = self.waiters[waiter] else { return };
                self.waiters[waiter] = note.map_or(Phase::Idle, Phase::Noting);
            }
            Some(Message::Removed) => self.forget(),
            None => {}
        }
    }

    pub(crate) fn forget(&mut self) {
        self.known = Known { begun: self.known.begun + 1, ..Known::default() };
    }

    /// Messages under way are lost. An unanswered deletion is repeated, and not noted.
    pub(crate) fn cut(&mut self) {
        self.left.cuts -= 1;
        (self.connected, self.watching) = (false, false);
        self.inbox.clear();
        for phase in &mut self.waiters {
            *phase = match *phase {
                Phase::Creating => Phase::Unsure,
                Phase::Leaving(_) => Phase::Leaving(None),
                Phase::Deleting(_) => Phase::Idle,
                phase => phase,
            };
        }
    }

    /// The watch is set again before any other request.
    pub(crate) fn resume(&mut self, protocol: &Numbers) {
        self.connected = true;
        let Some(watched) = self.known.watched else { return };
        if protocol.is(Broken::NotSetAgain) {
            return;
        }
        self.watching = self.directory.as_ref().is_some_and(|it| it.made == watched);
        if !self.watching {
            self.inbox.push_back(Message::Removed);
        }
    }

    /// The session expires, and the client connects with another one. Its holds had ended before. Slow
    /// threads remain slow.
    pub(crate) fn expire(&mut self, protocol: &Numbers) {
        self.left.expiries -= 1;
        self.connected = true;
        self.directory.iter_mut().for_each(|it| it.nodes.retain(|node| node.1 == RIVAL));
        for phase in self.waiters.iter_mut().filter(|phase| !matches!(phase, Phase::Noting(_))) {
            *phase = Phase::Idle;
        }
        if !protocol.is(Broken::KeptOverSession) {
            self.forget();
        }
    }
}

/// The servers' side.
impl World {
    /// In a new directory if there is none.
    pub(crate) fn create(&mut self, owner: usize) -> u8 {
        let made = self.made + 1;
        let new = || Directory { made, next: 0, nodes: Vec::new() };
        let directory = self.directory.get_or_insert_with(new);
        self.made = directory.made;
        let number = directory.next;
        directory.next += 1;
        directory.nodes.push((number, owner));
        number
    }

    pub(crate) fn is_first(&self, owner: usize) -> bool {
        self.directory.as_ref().and_then(|it| it.nodes.first()).is_some_and(|it| it.1 == owner)
    }

    pub(crate) fn number_of(&self, owner: usize) -> Option<u8> {
        let mut nodes = self.directory.iter().flat_map(|it| &it.nodes);
        nodes.find(|node| node.1 == owner).map(|node| node.0)
    }

    pub(crate) fn remove_node(&mut self, owner: usize) {
        self.directory.iter_mut().for_each(|it| it.nodes.retain(|node| node.1 != owner));
    }

    pub(crate) fn watch(&mut self) {
        if let Some(directory) = &self.directory {
            self.watching = true;
            self.inbox.push_back(Message::Watched(directory.made));
        }
    }

    pub(crate) fn remove(&mut self) {
        self.directory = None;
        if mem::take(&mut self.watching) {
            self.inbox.push_back(Message::Removed);
        }
    }
}
