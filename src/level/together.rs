//! Several lock objects at once: their threads first, and then all nodes in one transaction. It
//! knows no kinds of locks.

use std::sync::Arc;

use super::begun::{Begun, Keep, Unlocked};
use super::raw::RawLock;
use super::site::Site;
use crate::error::{Error, Result};
use crate::inner::Grant;
use crate::recipe::{MOST, Queue, Recipe, Together, Want};
use crate::wait::Wait;

/// How many lock objects a call takes at once. After a wait it begins with few again: nodes of locks
/// that are all busy would be created and given up over and over.
pub(crate) struct AtOnce(usize);

impl AtOnce {
    pub(crate) fn new() -> AtOnce {
        AtOnce(MOST)
    }
}

/// Takes those of these lock objects that come first and are free, at once, and waits for the next
/// one. Calls `taken` for each. Returns false if the next one is busy, and `None` if this would
/// take no more than one at once.
pub(crate) fn acquire_first<'a>(
    locks: impl Iterator<Item = &'a dyn RawLock>,
    AtOnce(most): &mut AtOnce,
    wait: Wait,
    mut taken: impl FnMut(),
) -> Option<Result<bool>> {
    let (begun, keeps) = begin(locks.take(*most), wait);
    *most = MOST.min(2 * *most);
    if begun.len() < 2 {
        return None;
    }
    let (inner, waits) = (begun[0].site.inner(), !wait.is_try());
    let queues: Vec<_> = begun.iter().map(|begun| Queue(begun.claim.kind.mode())).collect();
    let mut together = Together::enter(begun.iter().zip(&queues).map(|(begun, queue)| {
        let Begun { claim, until, call, .. } = begun;
        let want = Want { inner, claim, until, waits, call: call.as_ref() };
        (want, queue as &dyn Recipe)
    }));
    let mut keeps = keeps.into_iter();
    let mut end = |index: usize, keep: Option<Keep<'_>>, got: Result<Option<Arc<Grant>>>| {
        if let (Ok(Some(grant)), Some(keep)) = (&got, keep) {
            keep(Arc::clone(grant));
            taken();
        }
        // They wait as one, and an outage may have ended the wait of any.
        let got = begun.iter().fold(got, |got, one| one.until.explain(got));
        begun[index].call.as_ref().inspect(|call| Site::end_call(call, &got));
        got.map(|grant| grant.is_some())
    };
    let mut count = 0;
    while let Some(grant) = together.next_granted() {
        let _ = end(count, keeps.next(), Ok(Some(grant)));
        count += 1;
    }
    let Some(next) = together.next_index() else {
        return Some(Ok(true));
    };
    *most = MOST.min(2 * count).max(1);
    // Whoever waits has the first levels only of locks that it has, and of that one.
    let keep = keeps.nth(next - count);
    drop(keeps);
    Some(end(next, keep, together.wait_for_next()))
}

/// Enters the first levels of the locks of one client that are free here and need a node.
fn begin<'a>(
    locks: impl Iterator<Item = &'a dyn RawLock>,
    wait: Wait,
) -> (Vec<Begun<'a>>, Vec<Keep<'a>>) {
    let mut client = None;
    let begun = locks.map_while(|lock| {
        let inner = lock.site().inner();
        let is_same = Arc::ptr_eq(client.get_or_insert(inner), inner);
        is_same.then(|| lock.begin(wait)).flatten()
    });
    begun.unzip()
}

/// Unlocks these lock objects, with one transaction for those of one client. Returns their errors.
pub(crate) fn release<'a>(locks: impl Iterator<Item = &'a dyn RawLock>) -> Vec<Error> {
    let locks: Vec<_> = locks.collect();
    let of_one_client =
        |a: &&dyn RawLock, b: &&dyn RawLock| Arc::ptr_eq(a.site().inner(), b.site().inner());
    locks.chunk_by(of_one_client).flat_map(release_together).collect()
}

fn release_together(locks: &[&dyn RawLock]) -> Vec<Error> {
    let holds = &locks[0].site().inner().holds;
    let (mut last, mut keeps) = (Vec::new(), Vec::new());
    let unlock = |unlocked| match unlocked {
        Unlocked::Done(result) => Some(result),
        Unlocked::Last(grant, keep) => {
            last.push(grant);
            keeps.push(keep);
            None
        }
    };
    let done: Vec<_> = locks.iter().map(|lock| lock.begin_release()).map(unlock).collect();
    let mut released = holds.release_together(&last, || drop(keeps)).into_iter();
    done.into_iter().filter_map(|done| done.or_else(|| released.next())?.err()).collect()
}
