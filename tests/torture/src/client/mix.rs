//! The operations: a table for each kind of lock, with the frequency of each operation.

use zoolock::{Lock, MultiLock, Permits};

use crate::client::granted::{Granted, Part, Response, Then, called, dropped, permits, released};
use crate::client::locks::Locks;
use crate::client::operations::Wait::{Answer, Forever, Given};
use crate::client::operations::Work::{Die, Guard, Long, Short};
use crate::client::operations::{Arguments, Op, op};
use crate::kinds::Kind;
use crate::paths::{Mode, lock_path};

pub(crate) fn of(kind: Kind) -> &'static [Op] {
    match kind {
        Kind::Exclusive => EXCLUSIVE,
        Kind::Reentrant => REENTRANT,
        Kind::ReadWrite => READ_WRITE,
        Kind::Semaphore => SEMAPHORE,
        Kind::Ephemeral => EPHEMERAL,
        Kind::Multi => MULTI,
    }
}

#[rustfmt::skip]
const EXCLUSIVE: &[Op] = &[
    op(300, "lock",              Forever, Short, |on, at| lock(at.alone(), &on[at.path].plain)),
    op(250, "try_lock_for",      Given,   Short, |on, at| try_lock_for(at.alone(), &on[at.path].plain, at)),
    op(150, "try_lock",          Answer,  Short, |on, at| try_lock(at.alone(), &on[at.path].plain)),
    op(150, "acquire, release",  Forever, Short, |on, at| Ok(released(at.alone(), on[at.path].plain.acquire()?))),
    op(100, "acquire, drop",     Forever, Short, |on, at| Ok(dropped(at.alone(), on[at.path].plain.acquire()?))),
    op(100, "try_acquire_for",   Given,   Short, |on, at| Ok(on[at.path].plain.try_acquire_for(at.time)?.and_then(|guard| released(at.alone(), guard)))),
    op(  6, "long lock",         Forever, Long,  |on, at| lock(at.alone(), &on[at.path].plain)),
    op( 40, "long try_lock_for", Given,   Long,  |on, at| try_lock_for(at.alone(), &on[at.path].plain, at)),
    op(  2, "lock, then die",    Forever, Die,   |on, at| lock(at.alone(), &on[at.path].plain)),
];

#[rustfmt::skip]
const REENTRANT: &[Op] = &[
    op(250, "reentrant lock",              Forever, Short, |on, at| lock(at.alone(), &on[at.path].reentrant)),
    op(100, "reentrant lock, twice",       Forever, Short, lock_twice),
    op(200, "reentrant try_lock_for",      Given,   Short, |on, at| try_lock_for(at.alone(), &on[at.path].reentrant, at)),
    op(100, "reentrant try_lock",          Answer,  Short, |on, at| try_lock(at.alone(), &on[at.path].reentrant)),
    op(150, "reentrant acquire",           Forever, Short, |on, at| Ok(dropped(at.alone(), on[at.path].reentrant.acquire()?))),
    op( 60, "long reentrant try_lock_for", Given,   Long,  |on, at| try_lock_for(at.alone(), &on[at.path].reentrant, at)),
];

/// With the plain lock, which is a writer to them.
#[rustfmt::skip]
const READ_WRITE: &[Op] = &[
    op(250, "read lock",                Forever, Short, |on, at| lock(at.shared(), &on[at.path].read)).reads(),
    op( 60, "read lock, twice",         Forever, Short, read_twice).reads(),
    op(150, "read try_lock_for",        Given,   Short, |on, at| try_lock_for(at.shared(), &on[at.path].read, at)).reads(),
    op( 80, "read try_lock",            Answer,  Short, |on, at| try_lock(at.shared(), &on[at.path].read)).reads(),
    op(100, "read acquire",             Forever, Short, |on, at| Ok(dropped(at.shared(), on[at.path].read.acquire()?))).reads(),
    op(120, "write lock",               Forever, Short, |on, at| lock(at.alone(), &on[at.path].write)),
    op( 80, "write try_lock_for",       Given,   Short, |on, at| try_lock_for(at.alone(), &on[at.path].write, at)),
    op( 50, "write try_lock",           Answer,  Short, |on, at| try_lock(at.alone(), &on[at.path].write)),
    op( 60, "write acquire",            Forever, Short, |on, at| Ok(released(at.alone(), on[at.path].write.acquire()?))),
    op(120, "write, then read",         Forever, Short, |on, at| then_read(on, at, lock(at.alone(), &on[at.path].write))),
    op( 40, "lock beside readers",      Forever, Short, |on, at| lock(at.alone(), &on[at.path].plain)),
    op( 30, "try_lock beside readers",  Answer,  Short, |on, at| try_lock(at.alone(), &on[at.path].plain)),
    op( 60, "long read try_lock_for",   Given,   Long,  |on, at| try_lock_for(at.shared(), &on[at.path].read, at)).reads(),
    op( 20, "long write try_lock_for",  Given,   Long,  |on, at| try_lock_for(at.alone(), &on[at.path].write, at)),
    op( 30, "long write, then read",    Given,   Long,  |on, at| then_read(on, at, try_lock_for(at.alone(), &on[at.path].write, at))),
    op(  6, "long lock beside readers", Forever, Long,  |on, at| lock(at.alone(), &on[at.path].plain)),
    op(  1, "read, then die",           Forever, Die,   |on, at| lock(at.shared(), &on[at.path].read)).reads(),
    op(  1, "write, then die",          Forever, Die,   |on, at| lock(at.alone(), &on[at.path].write)),
];

#[rustfmt::skip]
const SEMAPHORE: &[Op] = &[
    op(400, "permits",                       Forever, Short, |on, at| got(at, on[at.path].semaphore.acquire(at.permits).map(Some), false)),
    op(150, "permits, drop",                 Forever, Short, |on, at| got(at, on[at.path].semaphore.acquire(at.permits).map(Some), true)),
    op(250, "permits, try_acquire_for",      Given,   Short, |on, at| got(at, on[at.path].semaphore.try_acquire_for(at.permits, at.time), false)),
    op(250, "permits, try_acquire",          Answer,  Short, |on, at| got(at, on[at.path].semaphore.try_acquire(at.permits), false)),
    op( 10, "long permits",                  Forever, Long,  |on, at| got(at, on[at.path].semaphore.acquire(at.permits).map(Some), false)),
    op(120, "long permits, try_acquire_for", Given,   Long,  |on, at| got(at, on[at.path].semaphore.try_acquire_for(at.permits, at.time), false)),
    op(  2, "permits, then die",             Forever, Die,   |on, at| got(at, on[at.path].semaphore.acquire(at.permits).map(Some), false)),
];

#[rustfmt::skip]
const EPHEMERAL: &[Op] = &[
    op(300, "ephemeral lock",              Forever, Short, |on, at| lock(at.alone(), &on[at.path].ephemeral)),
    op(250, "ephemeral try_lock_for",      Given,   Short, |on, at| try_lock_for(at.alone(), &on[at.path].ephemeral, at)),
    op(200, "ephemeral try_lock",          Answer,  Short, |on, at| try_lock(at.alone(), &on[at.path].ephemeral)),
    op(100, "ephemeral acquire, release",  Forever, Short, |on, at| Ok(released(at.alone(), on[at.path].ephemeral.acquire()?))),
    op(100, "ephemeral acquire, drop",     Forever, Short, |on, at| Ok(dropped(at.alone(), on[at.path].ephemeral.acquire()?))),
    op( 10, "long ephemeral lock",         Forever, Long,  |on, at| lock(at.alone(), &on[at.path].ephemeral)),
    op(120, "long ephemeral try_lock_for", Given,   Long,  |on, at| try_lock_for(at.alone(), &on[at.path].ephemeral, at)),
    op(  3, "ephemeral lock, then die",    Forever, Die,   |on, at| lock(at.alone(), &on[at.path].ephemeral)),
];

/// Of exclusive locks, plain and reentrant ones.
#[rustfmt::skip]
const MULTI: &[Op] = &[
    op(400, "several",                    Forever, Short, |on, at| several(on, at, |all| all.lock().map(|()| true))),
    op(250, "several, try_lock_for",      Given,   Short, |on, at| several(on, at, |all| all.try_lock_for(at.time))),
    op(200, "several, try_lock",          Answer,  Short, |on, at| several(on, at, |all| all.try_lock())),
    op( 60, "long several, try_lock_for", Given,   Long,  |on, at| several(on, at, |all| all.try_lock_for(at.time))),
    op(  2, "several, then die",          Forever, Die,   |on, at| several(on, at, |all| all.lock().map(|()| true))),
];

/// Those who guard writes.
#[rustfmt::skip]
pub(crate) const GUARDING: &[(Kind, Op)] = &[
    (Kind::Exclusive, op(1, "guarding try_lock_for",           Given, Guard, |on, at| try_lock_for(at.alone(), &on[at.path].plain, at))),
    (Kind::Reentrant, op(1, "guarding reentrant try_lock_for", Given, Guard, |on, at| try_lock_for(at.alone(), &on[at.path].reentrant, at))),
    (Kind::ReadWrite, op(1, "guarding write try_lock_for",     Given, Guard, |on, at| try_lock_for(at.alone(), &on[at.path].write, at))),
    (Kind::Multi,     op(1, "guarding several, try_lock_for",  Given, Guard, |on, at| several(on, at, |all| all.try_lock_for(at.time)))),
];

fn lock(what: (usize, Mode), lock: &dyn Lock) -> Response<'_> {
    called(what, lock, lock.lock().map(|()| true))
}

fn try_lock(what: (usize, Mode), lock: &dyn Lock) -> Response<'_> {
    called(what, lock, lock.try_lock())
}

fn try_lock_for<'a>(what: (usize, Mode), lock: &'a dyn Lock, at: &Arguments) -> Response<'a> {
    called(what, lock, lock.try_lock_for(at.time))
}

fn lock_twice<'a>(on: &'a [Locks], at: &Arguments) -> Response<'a> {
    let reentrant = &on[at.path].reentrant;
    let again = || {
        let _again = reentrant.acquire()?;
        Ok(reentrant.hold_count())
    };
    Ok(lock(at.alone(), reentrant)?.map(|granted| granted.then(Then::ReEnter(Box::new(again)))))
}

fn read_twice<'a>(on: &'a [Locks], at: &Arguments) -> Response<'a> {
    let read = &on[at.path].read;
    let again = || {
        let _again = read.acquire()?;
        Ok(read.hold_count())
    };
    Ok(lock(at.shared(), read)?.map(|granted| granted.then(Then::ReEnter(Box::new(again)))))
}

fn then_read<'a>(on: &'a [Locks], at: &Arguments, written: Response<'a>) -> Response<'a> {
    let (what, reading) = (at.shared(), &on[at.path].read);
    let read = move || lock(what, reading);
    Ok(written?.map(|granted| granted.then(Then::Read(Box::new(read)))))
}

fn got<'a>(at: &Arguments, granted: zoolock::Result<Option<Permits>>, drops: bool) -> Response<'a> {
    let what = (at.path, Mode::Permits(at.permits));
    Ok(granted?.and_then(|granted| permits(what, granted, drops)))
}

fn several<'a>(
    on: &'a [Locks],
    at: &Arguments,
    call: impl FnOnce(&MultiLock) -> zoolock::Result<bool>,
) -> Response<'a> {
    let member = |&(path, reentrant): &(usize, bool)| -> Box<dyn Lock> {
        match reentrant {
            true => on[path].reentrant.clone().into(),
            false => on[path].plain.clone().into(),
        }
    };
    let all = MultiLock::new(at.members.iter().map(member))?;
    if !call(&all)? {
        return Ok(None);
    }
    // What was asked for, whether the library shows a hold of it or not.
    let mut holds = all.holds();
    let part = |&(path, _): &(usize, bool)| {
        let at_path = lock_path(path);
        let holds = holds.extract_if(.., |hold| hold.path() == at_path).collect();
        Part { path, mode: Mode::Exclusive, holds }
    };
    let parts = at.members.iter().map(part).collect();
    Ok(Some(Granted::new(parts, move || Some(all.unlock()))))
}
