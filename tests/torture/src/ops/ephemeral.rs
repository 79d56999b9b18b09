//! What is done with `EphemeralLock`s.

use super::{Answer, Die, Forever, Given, Long, Op, Short, Wish, op};
use crate::held::{Got, called, dropped, released};
use crate::locks::Locks;
use crate::places::Share::Alone;

#[rustfmt::skip]
pub(super) const MIX: &[Op] = &[
    op(300, "ephemeral lock",              Forever, Short, lock),
    op(250, "ephemeral try_lock_for",      Given,   Short, try_lock_for),
    op(200, "ephemeral try_lock",          Answer,  Short, |on, at| called((at.path, Alone), &on[at.path].ephemeral, on[at.path].ephemeral.try_lock())),
    op(100, "ephemeral acquire, release",  Forever, Short, |on, at| on[at.path].ephemeral.acquire().map(|guard| released((at.path, Alone), guard))),
    op(100, "ephemeral acquire, drop",     Forever, Short, |on, at| on[at.path].ephemeral.acquire().map(|guard| dropped((at.path, Alone), guard))),
    op( 10, "long ephemeral lock",         Forever, Long,  lock),
    op(120, "long ephemeral try_lock_for", Given,   Long,  try_lock_for),
    op(  3, "ephemeral lock, then die",    Forever, Die,   lock),
];

fn lock<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let lock = &on[at.path].ephemeral;
    called((at.path, Alone), lock, lock.lock().map(|()| true))
}

fn try_lock_for<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let lock = &on[at.path].ephemeral;
    called((at.path, Alone), lock, lock.try_lock_for(at.time))
}
