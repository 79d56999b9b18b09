//! The state of the world: the directory, its servers, and the client with its waiters.

use std::collections::VecDeque;
use std::mem;

use super::{Bounds, Broken, Numbers};

/// Stands behind all waiters: somebody with a session of its own, who always lists.
pub(crate) const RIVAL: usize = usize::MAX;
/// Whose single nodes are: nobody's who contends.
const SINGLE: usize = usize::MAX - 1;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Directory {
    /// Which one it is, counted from 1.
    pub(crate) made: u8,
    pub(crate) next: u8,
    /// Numbers and owners, of whom each has one node at most, in the order of the numbers.
    pub(crate) nodes: Vec<(u8, usize)>,
}

/// What the servers send to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// To this waiter, with this number.
    Created(usize, u8),
    /// The directory that was made as this one is watched.
    Watched(u8),
    /// To this waiter.
    Deleted(usize),
    /// The event that ends the watch.
    Removed,
}

/// What the client knows of the directory, for all its waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Known {
    /// Another one whenever it is begun anew.
    pub(crate) begun: u8,
    /// The client is to hear of the end of this directory. It does not know which one that is: the
    /// zxid that it sends when it resumes tells the server.
    pub(crate) watched: Option<u8>,
    /// Nothing is left up to this number.
    pub(crate) number: Option<u8>,
}

/// What is to be noted when a deletion is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Note {
    pub(crate) number: u8,
    pub(crate) begun: u8,
    /// The deletion was sent under a watch, or behind the read that sets it.
    pub(crate) watched: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    Creating,
    Created(u8),
    /// The number is not known, or nobody looks at it.
    Unsure,
    Held,
    /// The deletion is to be sent.
    Leaving(Option<Note>),
    Deleting(Option<Note>),
    /// The answer has come. The thread takes its time.
    Noting(Note),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) directory: Option<Directory>,
    /// How many there have been.
    pub(crate) made: u8,
    /// The client's server tells it of the directory's end.
    pub(crate) watching: bool,
    pub(crate) connected: bool,
    /// On the way to the client.
    pub(crate) inbox: VecDeque<Message>,
    pub(crate) known: Known,
    pub(crate) waiters: Vec<Phase>,
    pub(crate) rival: Phase,
    /// What is left of the bounds.
    pub(crate) left: Bounds,
}

/// The client.
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

    /// Whoever watches sends a read, and then the deletion.
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

    /// In one step: while it is there it contends with nobody.
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

    /// What was on the way is lost. What was not answered is deleted again, and not noted.
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

    /// The watch is set again before anything else is asked.
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

    /// The session expires, and the client is connected with another one. Its holds were over
    /// before that; threads that take their time do so still.
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

/// The servers.
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
