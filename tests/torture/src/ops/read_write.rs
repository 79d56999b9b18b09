//! What is done with `DistributedRwLock`s, and with the plain lock that is a writer to them.

use super::{Answer, Die, Forever, Given, Long, Op, Short, Wish, op};
use crate::held::{Got, Then, called, dropped, released};
use crate::locks::Locks;
use crate::places::Share::{Alone, Reading};

#[rustfmt::skip]
pub(super) const MIX: &[Op] = &[
    op(250, "read lock",               Forever, Short, read),
    op( 60, "read lock, twice",        Forever, Short, read_twice),
    op(150, "read try_lock_for",       Given,   Short, try_read_for),
    op( 80, "read try_lock",           Answer,  Short, |on, at| called((at.path, Reading), &on[at.path].read, on[at.path].read.try_lock())),
    op(100, "read acquire",            Forever, Short, |on, at| on[at.path].read.acquire().map(|guard| dropped((at.path, Reading), guard))),
    op(120, "write lock",              Forever, Short, write),
    op( 80, "write try_lock_for",      Given,   Short, try_write_for),
    op( 50, "write try_lock",          Answer,  Short, |on, at| called((at.path, Alone), &on[at.path].write, on[at.path].write.try_lock())),
    op( 60, "write acquire",           Forever, Short, |on, at| on[at.path].write.acquire().map(|guard| released((at.path, Alone), guard))),
    op(120, "write, then read",        Forever, Short, |on, at| then_read(on, at, write(on, at))),
    op( 40, "lock beside readers",     Forever, Short, plain),
    op( 30, "try_lock beside readers", Answer,  Short, |on, at| called((at.path, Alone), &on[at.path].plain, on[at.path].plain.try_lock())),
    op( 60, "long read try_lock_for",  Given,   Long,  try_read_for),
    op( 20, "long write try_lock_for", Given,   Long,  try_write_for),
    op( 30, "long write, then read",   Given,   Long,  |on, at| then_read(on, at, try_write_for(on, at))),
    op(  6, "long lock beside readers",Forever, Long,  plain),
    op(  1, "read, then die",          Forever, Die,   read),
    op(  1, "write, then die",         Forever, Die,   write),
];

fn read<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let lock = &on[at.path].read;
    called((at.path, Reading), lock, lock.lock().map(|()| true))
}

fn try_read_for<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let lock = &on[at.path].read;
    called((at.path, Reading), lock, lock.try_lock_for(at.time))
}

fn write<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let lock = &on[at.path].write;
    called((at.path, Alone), lock, lock.lock().map(|()| true))
}

fn try_write_for<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let lock = &on[at.path].write;
    called((at.path, Alone), lock, lock.try_lock_for(at.time))
}

fn plain<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let lock = &on[at.path].plain;
    called((at.path, Alone), lock, lock.lock().map(|()| true))
}

fn read_twice<'a>(on: &'a [Locks], at: &Wish) -> Got<'a> {
    let again = &on[at.path].read;
    let re_enter = || {
        let _again = again.acquire()?;
        Ok(again.hold_count())
    };
    let held = read(on, at)?;
    Ok(held.map(|held| held.then(Then::ReEnter(Box::new(re_enter)))))
}

fn then_read<'a>(on: &'a [Locks], at: &Wish, written: Got<'a>) -> Got<'a> {
    let (path, lock) = (at.path, &on[at.path].read);
    let read = move || called((path, Reading), lock, lock.lock().map(|()| true));
    Ok(written?.map(|held| held.then(Then::Read(Box::new(read)))))
}
