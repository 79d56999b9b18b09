//! A thread beside a hold that does nothing but wait for its loss. It notes the loss and lets go of
//! the witness when the worker may be busy or blocked.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use zoolock::crossbeam_channel::RecvTimeoutError;

use crate::clock::{Nanos, now};
use crate::message::{HoldId, Said};
use crate::mouth::Mouth;
use crate::view::View;
use crate::witness::Witness;

#[derive(Debug)]
pub(crate) struct Guardian(JoinHandle<()>);

/// How often a hold is looked at that must not come back from a broken connection.
const LOOK_EVERY: Duration = Duration::from_millis(40);

impl Guardian {
    /// `moves` if the hold may go on with the next connection.
    pub(crate) fn start(
        id: HoldId,
        view: View,
        moves: bool,
        witness: Arc<Witness>,
        mouth: Mouth,
    ) -> Guardian {
        let work = move || {
            if !view.is_empty() {
                watch(id, &view, moves, &mouth);
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
fn watch(id: HoldId, view: &View, moves: bool, mouth: &Mouth) {
    let longest = if moves { Duration::MAX } else { LOOK_EVERY };
    let mut was_cut_off = false;
    while view.is_held() {
        let connected = view.is_connected();
        if was_cut_off && connected && !moves {
            let text = format!("{id} came back from a broken connection");
            mouth.say(&Said::Wrong(text));
        }
        // Only what was still held afterwards has not just ended.
        was_cut_off |= !connected && view.is_held();
        let wake = view.valid_for().min(longest);
        let Err(RecvTimeoutError::Timeout) = view.lost().recv_timeout(wake) else {
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
