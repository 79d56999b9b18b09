//! A call's stay in a queue: what its thread and the thread that delivers events both know. Pure,
//! and generic over the names of nodes and over lists, so that `tests/model` checks this very code.
//!
//! The end of the only node ahead is a grant, and needs no list. When a list has shown one node
//! before ours, and no node can come before ours any more, the end of that node makes ours the
//! first. It proves that only while ours exists. So our own node is watched as well: if it had been
//! deleted first, that event would have come first. The server sends events in its order, but does
//! not send what happened without a connection.
//!
//! What the conclusion rests on, and who could break it:
//! - *No node comes before one that a list has shown first*: numbers rise, and all contenders let
//!   the server number their nodes. [`Next`] rules out a read under a write. A client can break
//!   this by creating, by hand, a node with the name of a lower contender. The grant overlooks that
//!   node; the next list does not. It holds nothing, because no queue gave it its position.
//! - *Our node existed when the nearest one ended*: its watch. A client can break this by taking
//!   READ of our node from us and deleting the node, because servers send events of a node only to
//!   clients that may read it by then. That hold has lost its node like any other whose node is
//!   deleted, and finds out at its first look.
//! - *Something has happened*: events, which the same client could suppress. So a waiter looks
//!   again after some session timeouts, with or without events (`Requests::next_look`).
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
//! Behind a resume, or if nothing is expected, every event is another event.

use std::collections::BTreeSet;
use std::mem;

use crate::base::sys;

/// The nodes ahead of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ahead<N> {
    /// The predecessor: the nearest lower node that blocks this one, and the one to watch.
    pub(crate) nearest: N,
    pub(crate) next: Next<N>,
}

/// The meaning of the predecessor's end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Next<N> {
    /// Unknown without a list.
    List,
    /// It is the grant: no other node blocks this one, and the predecessor cannot be downgraded.
    Grant,
    /// Unknown without a list, as long as this second node is ahead, too.
    Second(N),
}

impl<N> Next<N> {
    /// Returns the meaning of the predecessor's end. It may go on as a reader in its own place, or
    /// `second` may be ahead, too, of whose end the waiter `is_told`.
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

/// The stay of one call in one session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Stay<N, L> {
    phase: Phase<N, L>,
    /// The nodes of which an event will come.
    watched: BTreeSet<N>,
    /// How often the session had been resumed when they were watched. Events of what happened
    /// before a resume come in any order.
    epoch: u64,
    /// A list is under way. It will show what happened before its answer.
    is_listing: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase<N, L> {
    /// Something has happened, or nothing is known.
    Unsure,
    /// As `Unsure`, and this list shows what has happened.
    Listed(L),
    /// Nothing has happened since the last list. Unless the grant is expected, no end is one.
    Behind { own: N, ahead: Ahead<N>, expects: bool },
    /// The only node ahead has ended, and our own has not before.
    First,
}

/// What a waiter does when it is woken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Woken<L> {
    Granted,
    /// It decides from this list.
    Listed(L),
    Look,
}

/// What has to be done for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// The waiter has to know.
    Wake,
    /// A list has to be sent first.
    List,
    /// A list is under way, behind which the waiter is woken.
    Wait,
}

impl<N, L> Default for Stay<N, L> {
    fn default() -> Stay<N, L> {
        let (phase, watched) = (Phase::Unsure, BTreeSet::new());
        Stay { phase, watched, epoch: 0, is_listing: false }
    }
}

impl<N: Clone + Ord, L> Stay<N, L> {
    /// Takes a place behind other nodes, which a list has shown. `expects` says that an end may be
    /// the grant. Returns the nodes that are not watched yet: our own, the second ahead, the nearest.
    /// They have to be watched in this order. Those that are gone are told at once, in the order of
    /// the request, so the end of our own node comes before the end that would be the grant.
    ///
    /// An event that came behind the list is not lost: its node is among those to watch.
    pub(crate) fn stand(&mut self, epoch: u64, own: N, ahead: Ahead<N>, expects: bool) -> Vec<N> {
        if epoch != self.epoch {
            // They are still watched, but events may come in any order now.
            sys::reached_if(
                !self.watched.is_empty(),
                "a waiting call keeps its place over a resume",
            );
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

    /// Takes an event of a node: its end, or another change. It is not watched any more. With
    /// `lists`, an event that is not the grant needs a list.
    pub(crate) fn event(&mut self, name: &N, is_end: bool, epoch: u64, lists: bool) -> Reaction {
        self.watched.remove(name);
        let phase = mem::replace(&mut self.phase, Phase::Unsure);
        sys::reached_if(
            matches!(phase, Phase::Behind { .. }) && epoch != self.epoch,
            "an expectation is older than a resume",
        );
        match phase {
            // It is unknown what happened before the resume.
            Phase::Behind { own, ahead, expects: true } if is_end && epoch == self.epoch => {
                match &ahead.next {
                    Next::Grant if ahead.nearest == *name => {
                        self.phase = Phase::First;
                        return Reaction::Wake;
                    }
                    Next::Second(second) if second == name => {
                        sys::reached("the second ahead goes first");
                        let ahead = Ahead { next: Next::List, ..ahead };
                        self.phase = Phase::Behind { own, ahead, expects: true };
                    }
                    _ => {}
                }
            }
            Phase::First => sys::reached("an expected event does not come alone"),
            _ => {}
        }
        match lists {
            false => Reaction::Wake,
            true if mem::replace(&mut self.is_listing, true) => {
                sys::reached("an event comes while a list is under way");
                Reaction::Wait
            }
            true => Reaction::List,
        }
    }

    /// Takes the list that was sent for an event, or `None` if there is no answer. `is_last` says
    /// whether it shows our node behind this nearest one alone. Returns whether to wake the waiter:
    /// not if it has only come closer.
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
                sys::reached("a list says that the nearest is the last ahead");
                ahead.next = Next::Grant;
                return false;
            }
            (phase, list) => *phase = list.map_or(Phase::Unsure, Phase::Listed),
        }
        true
    }

    /// Returns what the waiter does now that it was woken. `None`: it waits on, because its last look
    /// has shown what it was woken for, or because a list under way will wake it.
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
