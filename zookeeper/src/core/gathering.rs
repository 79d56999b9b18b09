//! Requests that wait for a shared transaction. While writes of the client are in flight, creates and
//! deletes that are likely to succeed gather here, and so do those of one batch. The client then sends
//! them in one `multi`: one request, one entry in the servers' log, one sync. Pure: this module decides
//! what is sent together, but does not send it.
//!
//! Servers answer the requests of a connection in order, and callers rely on that: a caller that lists
//! a directory after a create finds the new node. If a transaction is refused, its parts are sent
//! again. Therefore all later requests wait for its answer, and only a write that shares a transaction
//! may overtake them.

use std::collections::VecDeque;
use std::mem;

use super::connection::Call;

/// With this many writes in flight, further ones gather.
const ENOUGH: usize = 2;
/// The maximum number of writes in one transaction.
const MOST: usize = 32;
/// The maximum number of bytes of these writes. It is halved when a connection ends with a transaction
/// in flight, because a server hangs up on a request that is too long for it (`jute.maxbuffer`).
const MOST_BYTES: usize = 32 * 1024;
/// The lower bound of that maximum. It still leaves room for several writes; with less, the client
/// would stop sharing transactions for good.
const LEAST_BYTES: usize = 4096;
/// The maximum is doubled again after this many answered transactions, because most connections end for
/// another reason.
const FITTING: u32 = 1000;

/// Requests that wait, in the order in which they are sent.
#[derive(Debug)]
pub(super) struct Gathering<S, W> {
    in_flight: VecDeque<InFlight<S, W>>,
    groups: VecDeque<Group<S, W>>,
    most_bytes: usize,
    /// How many transactions were answered since the maximum number of bytes last changed.
    fitted: u32,
}

/// A transaction in flight.
#[derive(Debug)]
struct InFlight<S, W> {
    /// How many writes share it.
    parts: usize,
    behind: Vec<Call<S, W>>,
}

/// The writes of one transaction, and the requests after it.
#[derive(Debug)]
pub(super) struct Group<S, W> {
    pub(super) parts: Vec<Call<S, W>>,
    pub(super) others: Vec<Call<S, W>>,
}

impl<S, W> Gathering<S, W> {
    pub(super) fn new() -> Gathering<S, W> {
        let (in_flight, groups) = (VecDeque::new(), VecDeque::new());
        Gathering { in_flight, groups, most_bytes: MOST_BYTES, fitted: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty() && self.groups.is_empty()
    }

    /// Returns whether a request has to wait here while this many writes are in flight. `is_followed`
    /// means that a shared write comes next.
    pub(super) fn takes(&self, call: &Call<S, W>, is_followed: bool, writes: usize) -> bool {
        let gathers = call.share.is_some() && (is_followed || writes >= ENOUGH);
        gathers || !self.is_empty()
    }

    /// Adds a request. A write joins the last transaction if it may.
    pub(super) fn add(&mut self, call: Call<S, W>) {
        match (self.groups.back_mut(), self.in_flight.back_mut()) {
            (None, Some(last)) if call.share.is_none() => last.behind.push(call),
            (Some(group), _) if call.share.is_none() => group.others.push(call),
            (Some(group), _) if group.creates_beside(&call) => group.others.push(call),
            (Some(group), _) if group.has_room(&call, self.most_bytes) => group.parts.push(call),
            _ => self.groups.push_back(Group { parts: vec![call], others: Vec::new() }),
        }
    }

    /// Takes out the writes that are to be sent next, if any may be sent while this number of writes is
    /// in flight. They form a transaction unless there is only one write. The requests after a
    /// transaction wait until it has been [answered](Gathering::answered); those after a single write
    /// are returned with it.
    pub(super) fn next(&mut self, writes: usize) -> Option<Group<S, W>> {
        if writes >= ENOUGH || (writes > 0 && self.may_grow()) {
            return None;
        }
        let mut group = self.groups.pop_front()?;
        let parts = group.parts.len();
        match self.in_flight.back_mut() {
            _ if parts > 1 => {
                let behind = mem::take(&mut group.others);
                self.in_flight.push_back(InFlight { parts, behind });
            }
            Some(last) => last.behind.append(&mut group.others),
            None => {}
        }
        Some(group)
    }

    /// Returns whether the next transaction is smaller than one in flight. If so, it should wait for
    /// more writes, from callers that have just received their answers.
    fn may_grow(&self) -> bool {
        let most = self.in_flight.iter().map(|one| one.parts).max().unwrap_or(0);
        self.groups.len() == 1 && self.groups[0].parts.len() < most
    }

    /// Returns the requests that waited for the oldest transaction in flight, which has been answered.
    pub(super) fn answered(&mut self) -> Vec<Call<S, W>> {
        let Some(answered) = self.in_flight.pop_front() else {
            return Vec::new();
        };
        self.fitted += 1;
        if self.fitted >= FITTING {
            self.fit(MOST_BYTES.min(2 * self.most_bytes));
        }
        answered.behind
    }

    fn fit(&mut self, most_bytes: usize) {
        self.most_bytes = most_bytes;
        self.fitted = 0;
    }

    /// Takes out all requests, because the connection has ended.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Call<S, W>> + use<S, W> {
        let (in_flight, groups) = (mem::take(&mut self.in_flight), mem::take(&mut self.groups));
        if !in_flight.is_empty() {
            self.fit(LEAST_BYTES.max(self.most_bytes / 2));
        }
        let groups = groups.into_iter().flat_map(|group| [group.parts, group.others]);
        in_flight.into_iter().map(|one| one.behind).chain(groups).flatten()
    }

    /// Keeps the requests that `stays` accepts.
    pub(super) fn retain_mut(&mut self, mut stays: impl FnMut(&mut Call<S, W>) -> bool) {
        let groups = self.groups.iter_mut().flat_map(|group| [&mut group.parts, &mut group.others]);
        let behind = self.in_flight.iter_mut().map(|one| &mut one.behind);
        behind.chain(groups).for_each(|calls| calls.retain_mut(&mut stays));
    }
}

impl<S, W> Group<S, W> {
    /// Returns whether the transaction creates a node in the directory of this create, or in one
    /// above or below it. Both nodes would have the same czxid, but callers rely on different ones.
    fn creates_beside(&self, call: &Call<S, W>) -> bool {
        let is_beside = |one: &[u8], other: &[u8]| {
            one.strip_prefix(other).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
        };
        let created = self.parts.iter().filter_map(created_in);
        created_in(call).is_some_and(|own| {
            created.into_iter().any(|part| is_beside(part, own) || is_beside(own, part))
        })
    }

    /// Returns whether this write may join the transaction.
    fn has_room(&self, call: &Call<S, W>, most_bytes: usize) -> bool {
        let bytes: usize = self.parts.iter().map(|part| part.frame.len()).sum();
        self.parts.len() < MOST && bytes + call.frame.len() <= most_bytes
    }
}

/// If this write creates a node, returns the directory in which no other node may get the same czxid.
fn created_in<S, W>(call: &Call<S, W>) -> Option<&[u8]> {
    call.frame.get(call.share.as_ref()?.created_in.clone()?)
}
