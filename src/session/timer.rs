//! The thread of a client that watches the clocks. It does no I/O and waits for nobody, so that a
//! loss is announced in time whatever the network does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Session;
use crate::clock::Moment;

/// How late the timer may wake before it suspects that the whole process stood still.
const STALL: Duration = Duration::from_millis(250);

/// The life of the timer thread.
pub(super) fn run(session: &Arc<Session>) {
    let mut planned = Instant::now();
    let mut excused = false;
    while !session.is_closed() {
        let now = Instant::now();
        // Once: a machine that is always late must not excuse a silent server.
        excused = !excused && now.saturating_duration_since(planned) > STALL;
        let mut next = now + session.timeout();
        if let Some(left) = session.lapse(Moment::now()) {
            next = next.min(now + session.tick().min(left));
        }
        match session.live() {
            // Answers that came while the process stood still get a tick to be read.
            Some(_) if excused => next = next.min(now + session.tick()),
            Some(connection) => {
                let pressed = session.pressed(Moment::now());
                next = next.min(connection.examine(now, pressed));
            }
            None => {
                if let Some(end) = session.lose_link(Moment::now()) {
                    next = next.min(now + end);
                }
            }
        }
        planned = session.timer.sleep(next);
    }
}
