//! A call's stay in a queue: the state that its thread shares with the thread that delivers events.
//! This module is pure, and generic over the names of nodes and over lists, so that `tests/model`
//! checks this very code.
//!
//! When the only node ahead of ours ends, our node is granted without another list of the
//! directory. If a list contains one node before ours, and other nodes can no longer come before
//! ours, our node becomes the first when that node ends. This holds only while our node exists.
//! Therefore, our own node is watched as well: if it had been deleted first, its event would have
//! arrived first. The server sends events in the order of the changes, but does not send the events
//! of changes that happened while there was no connection.
//!
//! The assumptions behind this conclusion, and who could break them:
//! - *A new node does not come before the first node of a list*: numbers rise, and all contenders
//!   let the server number their nodes. [`Next`] rules out a read under a write. A client can break
//!   this if it chooses a node's name itself, with the number of a lower contender. A grant without
//!   a list overlooks that node; the next list contains it. That node does not hold the lock,
//!   because it did not get its position from a queue.
//! - *Our node existed when the nearest one ended*: the watch of our node ensures this. A client
//!   can break this by revoking our READ permission on our node and deleting the node, because
//!   servers send events of a node only to clients that may read it at that time. Such a hold has
//!   lost its node like any other hold whose node is deleted, and detects this at its first check.
//! - *Each change is reported*: events report changes, but a client that revokes our READ
//!   permission can suppress them. Therefore, a waiter lists again after some session timeouts,
//!   with or without events (`Requests::next_look`).
//!
//! ```text
//!                     stand                   the end of the nearest (`Next::Grant`)
//!  Unsure, Listed --------------> Behind ------------------------------------> First
//!    ^       ^                     |  |                                          |
//!    |       '--- any other event -'  '-- the end of the second: still Behind;   |
//!    |                                    the next list makes it `Next::Grant`,  |
//!    |                                    or Listed                              |
//!    '------------------------------- any event ---------------------------------'
//! ```
//! After the session is resumed, or if the end of a node cannot be the grant (`expects` is false),
//! every event counts as "any other event".

use std::collections::BTreeSet;
use std::mem;

/// The nodes ahead of another node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ahead<N> {
    /// The predecessor: the nearest lower node that blocks this one. It is the node to watch.
    pub(crate) nearest: N,
    pub(crate) next: Next<N>,
}

/// What follows when the predecessor ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Next<N> {
    /// Unknown without a list.
    List,
    /// This node is granted: no other node blocks it, and the predecessor cannot be downgraded.
    Grant,
    /// Unknown without a list, as long as this second node is ahead as well.
    Second(N),
}

impl<N> Next<N> {
    /// Returns what follows when the predecessor ends. With `may_downgrade`, the predecessor may
    /// continue as a reader at its own position. `second` is a second node ahead; `is_told` returns
    /// whether the waiter is notified when that node ends.
    pub(crate) fn of(
        may_downgrade: bool,
        second: Option<N>,
        is_told: impl FnOnce(&N) -> bool,
    ) -> Next<N> {
        match second {
            _ if may_downgrade => Next::List,
            None => Next::Grant,
            Some(second) if is_told(&second) => Next::Second(second),
            Some(_) => Next::List,
        }
    }
}

/// The stay of one call in one session. See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Stay<N, L> {
    phase: Phase<N, L>,
    /// The watched nodes, each of which will cause an event.
    watched: BTreeSet<N>,
    /// How often the session had been resumed when the nodes were watched. When a session is
    /// resumed, the events of earlier changes arrive in any order.
    epoch: u64,
    /// A list was requested and is not answered yet. It will include all changes before the answer.
    is_listing: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase<N, L> {
    /// Something has changed, or the state of the queue is unknown.
    Unsure,
    /// Like `Unsure`, and this list includes the change.
    Listed(L),
    /// Nothing has changed since the last list. Unless `expects` is true, the end of a node is not
    /// a grant.
    Behind { own: N, ahead: Ahead<N>, expects: bool },
    /// The only node ahead has ended, and our own node had not ended before it.
    First,
}

/// The next action of a waiter that was woken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Woken<L> {
    Granted,
    /// The waiter uses this list.
    Listed(L),
    Look,
}

/// The action that an event requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Wake the waiter.
    Wake,
    /// Request a list first.
    List,
    /// Do nothing: a list was already requested, and its answer wakes the waiter.
    Wait,
}

impl<N, L> Default for Stay<N, L> {
    fn default() -> Stay<N, L> {
        let (phase, watched) = (Phase::Unsure, BTreeSet::new());
        Stay { phase, watched, epoch: 0, is_listing: false }
    }
}

impl<N: Clone + Ord, L> Stay<N, L> {
    /// Records that our nodes wait behind other nodes of a list. With `expects`, the end of a node
    /// may be the grant. Returns the nodes that are not watched yet, in the order in which they
    /// have to be watched: our own, the second node ahead, the nearest node ahead. If nodes no
    /// longer exist, the server reports that at once, in the order of the request. Therefore, the
    /// end of our own node is reported before the end that would be the grant.
    ///
    /// An event that arrived after the list is not lost, because its node is among those to watch.
    pub(crate) fn stand(&mut self, epoch: u64, own: N, ahead: Ahead<N>, expects: bool) -> Vec<N> {
        if epoch != self.epoch {
            // The old watches still exist, but their events may arrive in any order: watch the
            // nodes again.
            self.watched.clear();
            self.epoch = epoch;
        }
        let second = match &ahead.next {
            Next::Second(second) => Some(second),
            Next::List | Next::Grant => None,
        };
        let all = [&own].into_iter().chain(second).chain([&ahead.nearest]);
        let new = all.filter(|name| self.watched.insert((*name).clone())).cloned().collect();
        self.phase = Phase::Behind { own, ahead, expects };
        new
    }

    /// Notes that these nodes could not be watched, or were not read.
    pub(crate) fn unwatch(&mut self, names: &[N]) {
        self.watched.retain(|name| !names.contains(name));
    }

    /// Handles an event of a node: its end, or another change. After the event, the node is no
    /// longer watched. With `lists`, an event that is not the grant requires a list.
    pub(crate) fn event(&mut self, name: &N, is_end: bool, epoch: u64, lists: bool) -> Reaction {
        self.watched.remove(name);
        let phase = mem::replace(&mut self.phase, Phase::Unsure);
        match phase {
            // If the epoch has changed, it is unknown what happened before the session was resumed.
            Phase::Behind { own, ahead, expects: true } if is_end && epoch == self.epoch => {
                match &ahead.next {
                    Next::Grant if ahead.nearest == *name => {
                        self.phase = Phase::First;
                        return Reaction::Wake;
                    }
                    Next::Second(second) if second == name => {
                        let ahead = Ahead { next: Next::List, ..ahead };
                        self.phase = Phase::Behind { own, ahead, expects: true };
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        match lists {
            false => Reaction::Wake,
            true if mem::replace(&mut self.is_listing, true) => Reaction::Wait,
            true => Reaction::List,
        }
    }

    /// Handles the list that an event required, or `None` if the list failed. `is_last` returns
    /// whether only this nearest node is ahead of ours in the list. Returns whether to wake the
    /// waiter, which is not necessary if its node has only moved closer to the front.
    pub(crate) fn listed(
        &mut self,
        list: Option<L>,
        is_last: impl FnOnce(&N, &N, &L) -> bool,
    ) -> bool {
        self.is_listing = false;
        match (&mut self.phase, list) {
            (Phase::First, _) => {}
            (Phase::Behind { own, ahead, expects: true }, Some(list))
                if is_last(own, &ahead.nearest, &list) =>
            {
                ahead.next = Next::Grant;
                return false;
            }
            (phase, list) => *phase = list.map_or(Phase::Unsure, Phase::Listed),
        }
        true
    }

    /// Returns the next action of a waiter that was woken. `None` means that the waiter continues
    /// to wait: its last list already included the change that woke it, or a list that is not
    /// answered yet will wake it.
    pub(crate) fn woken(&mut self) -> Option<Woken<L>> {
        match mem::replace(&mut self.phase, Phase::Unsure) {
            Phase::First => Some(Woken::Granted),
            Phase::Listed(list) => Some(Woken::Listed(list)),
            Phase::Unsure if self.is_listing => None,
            Phase::Unsure => Some(Woken::Look),
            behind @ Phase::Behind { .. } => {
                self.phase = behind;
                None
            }
        }
    }
}
