//! Parts of hand-written histories.

use crate::event::{Grant, HoldId, WorkerId};
use crate::lock::{Kind, Lock, LockIndex, Mode, Use};
use crate::time::Nanos;

pub(crate) const MUTEX: LockIndex = 0;
pub(crate) const RW: LockIndex = 1;
pub(crate) const SEMAPHORE: LockIndex = 2;
pub(crate) const EPHEMERAL: LockIndex = 3;
pub(crate) const PERMITS: u32 = 3;

pub(crate) fn locks() -> Vec<Lock> {
    vec![
        Lock::new("/mutex", Use::Exclusive),
        Lock::new("/rw", Use::ReadWrite),
        Lock::new("/semaphore", Use::Semaphore(PERMITS)),
        Lock::new("/ephemeral", Use::Ephemeral),
    ]
}

pub(crate) fn hold(process: usize, number: u32) -> HoldId {
    HoldId { by: WorkerId { process, incarnation: 0, thread: 0 }, number }
}

/// Alone.
pub(crate) fn granted(hold: HoldId, path: LockIndex, token: u64, at: Nanos) -> Grant {
    Grant {
        hold,
        under: None,
        kind: Kind::Exclusive,
        path,
        mode: Mode::Exclusive,
        member: 0,
        op: "lock".into(),
        waited: true,
        nodes: vec![format!("_c_x-lock-{token:010}")],
        token: Some(token),
        started: at,
        at,
        still_held: true,
        witness_free: true,
    }
}

pub(crate) fn read(hold: HoldId, token: u64, at: Nanos) -> Grant {
    Grant { mode: Mode::Shared, ..granted(hold, RW, token, at) }
}

pub(crate) fn permits(hold: HoldId, count: u32, at: Nanos) -> Grant {
    Grant { mode: Mode::Permits(count), token: None, ..granted(hold, SEMAPHORE, 0, at) }
}
