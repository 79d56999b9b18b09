//! What is done with `DistributedSemaphore`s.

use zoolock::Permits;

use super::{Answer, Die, Forever, Given, Long, Op, Short, Wish, op};
use crate::held::{Got, permits};
use crate::locks::Locks;
use crate::places::Share;

#[rustfmt::skip]
pub(super) const MIX: &[Op] = &[
    op(400, "permits",                      Forever, Short, |on, at| got(at, acquire(on, at).map(Some), false)),
    op(150, "permits, drop",                Forever, Short, |on, at| got(at, acquire(on, at).map(Some), true)),
    op(250, "permits, try_acquire_for",     Given,   Short, |on, at| got(at, try_acquire_for(on, at), false)),
    op(250, "permits, try_acquire",         Answer,  Short, |on, at| got(at, on[at.path].semaphore.try_acquire(at.permits), false)),
    op( 10, "long permits",                 Forever, Long,  |on, at| got(at, acquire(on, at).map(Some), false)),
    op(120, "long permits, try_acquire_for",Given,   Long,  |on, at| got(at, try_acquire_for(on, at), false)),
    op(  2, "permits, then die",            Forever, Die,   |on, at| got(at, acquire(on, at).map(Some), false)),
];

fn acquire(on: &[Locks], at: &Wish) -> zoolock::Result<Permits> {
    on[at.path].semaphore.acquire(at.permits)
}

fn try_acquire_for(on: &[Locks], at: &Wish) -> zoolock::Result<Option<Permits>> {
    on[at.path].semaphore.try_acquire_for(at.permits, at.time)
}

fn got<'a>(at: &Wish, granted: zoolock::Result<Option<Permits>>, drops: bool) -> Got<'a> {
    let what = (at.path, Share::Permits(at.permits));
    Ok(granted?.and_then(|granted| permits(what, granted, drops)))
}
