//! A thread beside a hold that does nothing but wait for its loss. It notes the loss and lets go of
//! the witness when the worker may be busy or blocked.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use zoolock::crossbeam_channel::RecvTimeoutError;

use crate::clock::{Nanos, now};
use crate::message::{HoldId, Said};
use crate::mouth::Mouth;
use crate::view::View;
use crate::witness::Witness;

#[derive(Debug)]
pub(crate) struct Guardian(JoinHandle<()>);

impl Guardian {
    pub(crate) fn start(id: HoldId, view: View, witness: Arc<Witness>, mouth: Mouth) -> Guardian {
        let work = move || {
            if !view.is_empty() {
                watch(&view);
                let at = now();
                report(id, &view, at, &witness, &mouth);
            }
        };
        Guardian(thread::spawn(work))
    }

    /// Returns when the hold was seen to end.
    pub(crate) fn wait(self) {
        let _ = self.0.join();
    }
}

/// `lost()` may be up to 100 ms late, `is_held()` is not. So this wakes at the end of the lease
/// as well.
fn watch(view: &View) {
    while view.is_held() {
        let Err(RecvTimeoutError::Timeout) = view.lost().recv_timeout(view.valid_for()) else {
            return;
        };
    }
}

fn report(id: HoldId, view: &View, at: Nanos, witness: &Witness, mouth: &Mouth) {
    if let Some(reason) = view.loss() {
        witness.let_go();
        let reason = reason.to_string();
        let hold = id;
        mouth.say(&Said::Lost { hold, at, reason });
    }
}
