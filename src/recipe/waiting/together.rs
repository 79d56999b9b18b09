//! Several calls that queue in different directories: one transaction creates their nodes, and one
//! request lists their directories. It knows nothing of the locks that the calls are for.
//!
//! The calls are granted in their order. The first that is not granted at once is the only one that
//! waits: the nodes of those behind it are given up. So at no time does anybody wait for a node of a
//! call that waits for somebody else before it is granted, and calls that are made one after the
//! other in the same order cannot wait for these in a circle.

use std::collections::VecDeque;
use std::sync::Arc;

use zookeeper::{Batch, ErrorKind, Names};

use super::Waiter;
use super::looking::send_create;
use crate::error::Error;
use crate::inner::{Failure, Grant};
use crate::recipe::attempt::{Attempt, Create, Pass, Stop, Want, run_from};
use crate::recipe::rule::Recipe;
use crate::sys;

/// The most calls of one transaction: far less than the longest request that servers take.
pub(crate) const MOST: usize = 32;

/// Calls of one client that begin together, in different directories. Never empty.
pub(crate) struct Together<'a> {
    /// Those that are not granted yet.
    calls: VecDeque<Waiter<'a>>,
    /// How the pass of the first of them ended.
    passed: Option<Result<Pass, Stop>>,
    /// The index of the first of them.
    index: usize,
}

/// A call and its rule.
pub(crate) type Member<'a> = (Want<'a>, &'a dyn Recipe);

impl<'a> Together<'a> {
    /// Creates nodes for these calls. All of them may wait, or none.
    pub(crate) fn enter(members: impl IntoIterator<Item = Member<'a>>) -> Together<'a> {
        let call = |(want, recipe)| Waiter::new(want, recipe, None);
        let calls = members.into_iter().map(call).collect();
        let mut together = Together { calls, passed: None, index: 0 };
        match together.create() {
            Ok(()) => {}
            // Others report it when it is their turn.
            Err(_) if !together.calls[0].is_missing() => {}
            Err(stop) => together.passed = Some(Err(stop)),
        }
        together
    }

    /// Returns the grant of the next call, if that is granted already.
    pub(crate) fn next_granted(&mut self) -> Option<Arc<Grant>> {
        if self.passed.is_some() {
            return None;
        }
        match self.calls.front_mut()?.grant_listed()? {
            Ok(Pass::Held(grant)) => {
                self.calls.pop_front();
                self.index += 1;
                Some(grant)
            }
            passed => {
                sys::reached("one of several calls is first and is not granted at once");
                self.passed = Some(passed);
                None
            }
        }
    }

    /// Returns the index of the next call, or `None` if all are granted.
    pub(crate) fn next_index(&self) -> Option<usize> {
        (!self.calls.is_empty()).then_some(self.index)
    }

    /// Gives up all calls but the next one, and waits for that.
    pub(crate) fn wait_for_next(mut self) -> Result<Option<Arc<Grant>>, Error> {
        let Some(next) = self.calls.pop_front() else {
            return Ok(None);
        };
        sys::reached_if(
            || self.calls.iter().any(|call| !call.is_missing()),
            "nodes are given up as an earlier one has to wait",
        );
        let nodes = self.calls.iter_mut().flat_map(|call| {
            let (claim, session) = (call.attempt.want.claim, call.attempt.session_id);
            call.attempt.own.drain(..).map(move |node| (claim, session, node))
        });
        next.attempt.want.inner.deletions.delete_together(nodes.collect());
        drop(self.calls);
        let passed = self.passed.unwrap_or(Ok(Pass::Again));
        run_from(next, passed, Waiter::pass)
    }

    // ---- creating

    fn create(&mut self) -> Result<(), Stop> {
        for call in &mut self.calls {
            call.attempt.find_session()?;
        }
        let first = &self.calls[0].attempt;
        let (session, waits) = (first.session_id, first.want.waits);
        let may_create = |call: &Waiter<'_>| {
            call.attempt.session_id == session && (!waits || call.stuck().is_empty())
        };
        if let Some(index) = self.calls.iter().position(|call| !may_create(call)) {
            sys::reached("a directory with nodes that stay is left out of a transaction");
            if index == 0 {
                return Ok(());
            }
            self.calls.truncate(index);
        }
        if !waits && self.is_busy()? {
            return Ok(());
        }
        let mut missing: Vec<_> = self.calls.iter_mut().collect();
        while !missing.is_empty() {
            missing = create_all(missing)?;
            for call in &missing {
                call.attempt.make_directory()?;
            }
        }
        Ok(())
    }

    /// Looks at all directories, for calls that do not wait. If one is busy, the call for that one
    /// is the next, and has ended.
    fn is_busy(&mut self) -> Result<bool, Stop> {
        let mut calls: Vec<_> = self.calls.iter_mut().collect();
        let ((), listed) = ask(&calls, |_| ())?;
        let missing = take_lists(&mut calls, listed)?;
        let lists = self.calls.iter_mut().map(|call| call.listed.take());
        let lists: Vec<_> = lists.collect();
        let is_busy = |(call, list): (&Waiter<'_>, &Option<Names>)| {
            list.as_ref().is_some_and(|list| !call.recipe.is_free(list))
        };
        let Some(index) = self.calls.iter().zip(&lists).position(is_busy) else {
            // Otherwise the nodes would not be created in one transaction. Of two calls that meet, each
            // could be first somewhere, and both would find the locks busy.
            for index in missing {
                sys::reached("a try of several locks makes the directories first");
                self.calls[index].attempt.make_directory()?;
            }
            return Ok(false);
        };
        sys::reached("a try of several locks finds one of them busy");
        self.calls.drain(..index);
        self.index = index;
        self.passed = lists[index].as_ref().map(|list| Ok(self.calls[0].busy(list)));
        Ok(true)
    }
}

/// Creates a node of each call, in one transaction if that can be. Then lists the directories.
/// Returns the calls whose directory is missing.
fn create_all<'c, 'a>(mut calls: Vec<&'c mut Waiter<'a>>) -> Result<Vec<&'c mut Waiter<'a>>, Stop> {
    let mut creates = Vec::new();
    for call in &calls {
        match call.attempt.create(call.recipe.node()) {
            Ok(create) => creates.push(create),
            Err(stop) if creates.is_empty() => return Err(stop),
            // That call reports it when it is its turn.
            Err(_) => break,
        }
    }
    calls.truncate(creates.len());
    let asked = ask(&calls, |batch| {
        let send = |(call, create): (&&mut Waiter<'_>, &Create)| {
            send_create(call.attempt.want.claim, call.attempt.requests().acl(), batch, &create.new)
        };
        calls.iter().zip(&creates).map(send).collect::<Vec<_>>()
    });
    let (created, listed) = match asked {
        Ok(asked) => asked,
        Err(failure) => {
            sys::reached("a call for several locks is ended while it creates");
            calls.into_iter().zip(creates).for_each(|(call, create)| call.add_unanswered(create));
            return Err(failure.into());
        }
    };
    let mut are_missing = Vec::new();
    for ((call, create), created) in calls.iter_mut().zip(creates).zip(created) {
        // They were answered before the lists.
        let failure = call.created(create, created.wait());
        are_missing.push(failure.is_some_and(|failure| failure.is(ErrorKind::NoNode)));
    }
    take_lists(&mut calls, listed)?;
    let missing = calls.into_iter().zip(are_missing).filter(|(_, is_missing)| *is_missing);
    Ok(missing.map(|(call, _)| call).collect())
}

// ---- looking

/// The answer to a request for several lists.
type Lists = Vec<zookeeper::Result<Names>>;

/// Makes requests for these calls, and lists their directories behind that.
fn ask<T>(
    calls: &[&mut Waiter<'_>],
    make: impl FnOnce(&mut Batch<'_>) -> T,
) -> Result<(T, zookeeper::Result<Lists>), Failure> {
    let Attempt { session_id, want: Want { inner, until, .. }, .. } = &calls[0].attempt;
    let directories = directories(calls);
    inner.requests.ask(Some(*session_id), until, |batch| {
        (make(batch), batch.get_children_of_each(&directories))
    })
}

/// Passes the lists to their calls. Returns the indices of those whose directory is missing.
fn take_lists(
    calls: &mut [&mut Waiter<'_>],
    listed: zookeeper::Result<Lists>,
) -> Result<Vec<usize>, Stop> {
    let lists = match listed {
        // Servers before 3.6.
        Err(error) if error.kind() == ErrorKind::Unimplemented => {
            sys::reached("a server does not list several directories at once");
            let Attempt { session_id, want: Want { inner, until, .. }, .. } = &calls[0].attempt;
            let list = |batch: &mut Batch<'_>, path: &str| batch.get_children(path, None);
            let lists =
                inner.requests.ask_each(Some(*session_id), until, &directories(calls), list)?;
            lists.into_iter().map(|list| list.map(|(names, _)| names)).collect()
        }
        listed => listed?,
    };
    let mut missing = Vec::new();
    for (index, (call, list)) in calls.iter_mut().zip(lists).enumerate() {
        if list.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoNode) {
            missing.push(index);
        }
        call.listed = list.inspect(|_| call.note_exists()).ok();
    }
    Ok(missing)
}

fn directories(calls: &[&mut Waiter<'_>]) -> Vec<String> {
    calls.iter().map(|call| call.attempt.want.claim.directory.as_str().to_owned()).collect()
}
