//! What is done with `DistributedReentrantLock`s.

use super::{Answer, Forever, Given, Long, Op, Short, Wish, op};
use crate::held::{Got, Then, called, dropped};
use crate::locks::Locks;
use crate::places::Share::Alone;

#[rustfmt::skip]
pub(super) const MIX: &[Op] = &[
    op(250, "reentrant lock",              Forever, Short, lock),
    op(100, "reentrant lock, twice",       Forever, Short, twice),
    op(200, "reentrant try_lock_for",      Given,   Short, try_lock_for),
    op(100, "reentrant try_lock",          Answer,  Short, |on, at| called((at.path, Alone), &on[at.path].reentrant, on[at.path].reentrant.try_lock())),
    op(150, "reentrant acquire",           Forever, Short, |on, at| on[at.path].reentrant.acquire().map(|guard| dropped((at.path, Alone), guard))),
    op( 60, "long reentrant try_lock_for", Given,   Long,  try_lock_for),
];

fn lock<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let lock = &on[at.path].reentrant;
    called((at.path, Alone), lock, lock.lock().map(|()| true))
}

fn try_lock_for<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let lock = &on[at.path].reentrant;
    called((at.path, Alone), lock, lock.try_lock_for(at.time))
}

fn twice<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let again = &on[at.path].reentrant;
    let re_enter = || {
        let _again = again.acquire()?;
        Ok(again.hold_count())
    };
    let held = lock(on, at)?;
    Ok(held.map(|held| held.then(Then::ReEnter(Box::new(re_enter)))))
}
