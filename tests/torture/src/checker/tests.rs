//! What histories that are made by hand are made of.

use crate::clock::Nanos;
use crate::kinds::Kind;
use crate::paths::Mode;
use crate::protocol::{Grant, HoldId, WorkerId};

pub(super) fn hold(process: usize, number: u32) -> HoldId {
    HoldId { by: WorkerId { process, incarnation: 0, thread: 0 }, number }
}

pub(super) fn granted(hold: HoldId, path: usize, token: u64, at: Nanos) -> Grant {
    Grant {
        hold,
        under: None,
        kind: Kind::Exclusive,
        path,
        mode: Mode::Exclusive,
        member: 0,
        op: "lock".to_owned(),
        waited: true,
        nodes: vec![format!("_c_x-lock-{token:010}")],
        token: Some(token),
        started: at,
        at,
        still_held: true,
        witness_free: true,
    }
}
