//! Requests that wait for a shared transaction. While writes of the client are in flight, creates
//! and deletes that are likely to succeed gather here. They then go to the servers in one `multi`:
//! one request, one entry in the log, one sync. Pure. It decides what goes together, and sends
//! nothing.
//!
//! Servers answer the requests of a connection in their order, and callers rely on that: a list
//! behind a create shows its node. So nothing overtakes a request that waits here, with one
//! exception: a write that joins a transaction goes ahead of reads that wait behind it, and of
//! creates that could not join it. Their callers wait for answers, so they assume no order.

use std::collections::VecDeque;
use std::mem;

use super::connection::Call;
use super::message::{self, OpCode};
use crate::sys;

/// With this many writes in flight, further ones gather.
pub(super) const ENOUGH: usize = 2;
/// The most writes in one transaction.
const MOST: usize = 32;
/// The most bytes of these writes.
const MOST_BYTES: usize = 64 * 1024;

/// Requests that wait, in the order in which they are sent.
#[derive(Debug)]
pub(super) struct Gathering<S, W>(VecDeque<Group<S, W>>);

/// The writes of one transaction, and the requests behind it.
#[derive(Debug)]
pub(super) struct Group<S, W> {
    pub(super) parts: Vec<Call<S, W>>,
    pub(super) others: Vec<Call<S, W>>,
}

impl<S, W> Gathering<S, W> {
    pub(super) fn new() -> Gathering<S, W> {
        Gathering(VecDeque::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a request. A write joins the last transaction if it may.
    pub(super) fn add(&mut self, call: Call<S, W>) {
        match self.0.back_mut() {
            Some(group) if !call.shares => {
                sys::reached("a request waits behind a transaction");
                group.others.push(call);
            }
            Some(group) if group.creates_beside(&call) => {
                sys::reached("a create follows another one in its directory");
                group.others.push(call);
            }
            Some(group) if group.has_room(&call) => group.parts.push(call),
            _ => self.0.push_back(Group { parts: vec![call], others: Vec::new() }),
        }
    }

    /// Takes out the first group.
    pub(super) fn next(&mut self) -> Option<Group<S, W>> {
        self.0.pop_front()
    }

    /// Takes out all requests.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Call<S, W>> + use<S, W> {
        let groups = mem::take(&mut self.0);
        groups.into_iter().flat_map(|Group { parts, others }| parts.into_iter().chain(others))
    }

    /// Keeps the requests that `stays` accepts.
    pub(super) fn retain_mut(&mut self, mut stays: impl FnMut(&mut Call<S, W>) -> bool) {
        for Group { parts, others } in &mut self.0 {
            parts.retain_mut(&mut stays);
            others.retain_mut(&mut stays);
        }
    }
}

impl<S, W> Group<S, W> {
    /// Returns whether the transaction creates a node in the directory of this create. Two nodes of
    /// one transaction would have the same czxid, and so the same fencing token.
    fn creates_beside(&self, call: &Call<S, W>) -> bool {
        let directory = created_in(call);
        directory.is_some() && self.parts.iter().any(|part| created_in(part) == directory)
    }

    /// Returns whether this write may join the transaction.
    fn has_room(&self, call: &Call<S, W>) -> bool {
        let bytes: usize = self.parts.iter().map(|part| part.frame.len()).sum();
        // A write that nobody waits for stays before later ones.
        let is_behind = self.others.iter().any(|other| other.code.is_write() && !other.shares);
        sys::reached_if(|| is_behind, "a write waits behind one that shares no transaction");
        self.parts.len() < MOST && bytes + call.frame.len() <= MOST_BYTES && !is_behind
    }
}

/// Returns the directory in which this request creates a node, if it is a create.
fn created_in<S, W>(call: &Call<S, W>) -> Option<&[u8]> {
    let is_create = call.code == OpCode::Create2;
    is_create.then(|| message::directory_of(&call.frame))
}
