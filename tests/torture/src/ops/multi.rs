//! What is done with `MultiLock`s of exclusive locks, plain and reentrant ones.

use zoolock::{Lock, MultiLock};

use super::{Answer, Die, Forever, Given, Long, Op, Short, Wish, op};
use crate::held::{Got, Held, Part};
use crate::locks::Locks;
use crate::places::{Share, lock_path};
use crate::view::View;

#[rustfmt::skip]
pub(super) const MIX: &[Op] = &[
    op(400, "several",                   Forever, Short, |on, at| take(on, at, |all| all.lock().map(|()| true))),
    op(250, "several, try_lock_for",     Given,   Short, |on, at| take(on, at, |all| all.try_lock_for(at.time))),
    op(200, "several, try_lock",         Answer,  Short, |on, at| take(on, at, |all| all.try_lock())),
    op( 60, "long several, try_lock_for",Given,   Long,  |on, at| take(on, at, |all| all.try_lock_for(at.time))),
    op(  2, "several, then die",         Forever, Die,   |on, at| take(on, at, |all| all.lock().map(|()| true))),
];

fn take<'a>(
    on: &'a [Locks],
    at: &Wish,
    call: impl FnOnce(&MultiLock) -> zoolock::Result<bool>,
) -> Got<'a> {
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
        let view = View::new(holds.extract_if(.., |hold| hold.path() == at_path).collect());
        let share = Share::Alone;
        Part { path, share, view }
    };
    let parts = at.members.iter().map(part).collect();
    Ok(Some(Held::new(parts, move || Some(all.unlock()))))
}
