//! The thread of a connection that sends signs of life: write heartbeats while something is held,
//! read probes otherwise. It blocks when the server is silent; the timer notices.

use std::sync::Arc;
use std::time::Instant;

use log::{error, trace};

use super::Session;
use super::call::Failure;
use super::connection::Connection;
use super::seat::Seat;
use super::vitals::Pulse;

/// The life of the pulse thread.
pub(super) fn run(session: &Arc<Session>, connection: &Arc<Connection>) {
    while !connection.is_dead() {
        let again = match connection.next_pulse() {
            Pulse::Rest(until) => until,
            Pulse::Read => {
                // Its answer counts, whatever it is.
                connection.step(|wire| wire.probe());
                continue;
            }
            Pulse::Write => match beat(session, connection) {
                true => continue,
                false => Instant::now() + connection.timeout() / 32,
            },
        };
        let watch = session.watch_holds(connection);
        connection.pulse.sleep(again.min(watch));
    }
}

/// One heartbeat at the node of any hold. False if it certified nothing.
fn beat(session: &Arc<Session>, connection: &Arc<Connection>) -> bool {
    let Some((seat, name)) = session.any_held_on(connection) else {
        return false;
    };
    let path = seat.claim().directory.child(&name);
    trace!(target: "zoolock::session", "heartbeat at {path}");
    match connection.step(|wire| wire.heartbeat(&path)) {
        Some(Ok(there)) => {
            if !there {
                session.node_gone(&seat, &name);
            }
            true
        }
        Some(Err(Failure::Refused(refused))) => {
            complain(&seat, &path, &refused);
            false
        }
        _ => false,
    }
}

fn complain(seat: &Seat, path: &str, refused: &zookeeper::ZkError) {
    error!(
        target: "zoolock::session",
        "the server does not let this client write to its own node {path}, so the lease of {} \
         runs out: {refused}", seat.path()
    );
}
