//! What is done with `DistributedLock`s.

use super::{Answer, Die, Forever, Given, Long, Op, Short, Wish, op};
use crate::held::{Got, called, dropped, released};
use crate::locks::Locks;
use crate::places::Share::Alone;

#[rustfmt::skip]
pub(super) const MIX: &[Op] = &[
    op(300, "lock",             Forever, Short, lock),
    op(250, "try_lock_for",     Given,   Short, try_lock_for),
    op(150, "try_lock",         Answer,  Short, |on, at| called((at.path, Alone), &on[at.path].plain, on[at.path].plain.try_lock())),
    op(150, "acquire, release", Forever, Short, |on, at| on[at.path].plain.acquire().map(|guard| released((at.path, Alone), guard))),
    op(100, "acquire, drop",    Forever, Short, |on, at| on[at.path].plain.acquire().map(|guard| dropped((at.path, Alone), guard))),
    op(100, "try_acquire_for",  Given,   Short, |on, at| Ok(on[at.path].plain.try_acquire_for(at.time)?.and_then(|guard| released((at.path, Alone), guard)))),
    op(  6, "long lock",        Forever, Long,  lock),
    op( 40, "long try_lock_for",Given,   Long,  try_lock_for),
    op(  2, "lock, then die",   Forever, Die,   lock),
];

fn lock<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let lock = &on[at.path].plain;
    called((at.path, Alone), lock, lock.lock().map(|()| true))
}

fn try_lock_for<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let lock = &on[at.path].plain;
    called((at.path, Alone), lock, lock.try_lock_for(at.time))
}
