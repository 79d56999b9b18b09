//! The thread of a client that keeps it connected: opens a connection, serves it until it dies,
//! and opens the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, after, never, select_biased};

use super::Session;
use super::connection::Connection;
use super::death::Cause;
use super::opening::Opener;

/// The life of the supervisor. `first` hears how the first try went.
pub(super) fn run(session: &Arc<Session>, first: &Sender<Result<(), String>>) {
    let mut opener = Opener::new();
    let mut once = true;
    loop {
        let connection = match opener.open(session, once) {
            Ok(Some(connection)) => connection,
            Ok(None) => return,
            Err(causes) => {
                let _ = first.try_send(Err(causes));
                return;
            }
        };
        session.adopt(&connection);
        if once {
            let _ = first.try_send(Ok(()));
            once = false;
        }
        serve(session, &connection);
        session.retire(connection);
    }
}

/// What a live connection is needed for beside the requests of the locks. Nothing here blocks but
/// the last sweep.
fn serve(session: &Arc<Session>, connection: &Arc<Connection>) {
    session.garbage.expedite(connection);
    session.sweep(connection);
    loop {
        let due = session.garbage.due().filter(|_| !connection.is_sweeping());
        let retry = due.map_or_else(never, |due| {
            after(due.saturating_duration_since(Instant::now()).max(Duration::from_millis(20)))
        });
        select_biased! {
            recv(session.closed()) -> _ => {
                session.last_sweep(connection);
                connection.kill(Cause::NotWanted);
                return;
            }
            recv(connection.died()) -> _ => return,
            // An event that it could not read: whoever waits for the next one would wait in vain.
            recv(connection.crate_ended()) -> _ => {
                connection.kill(Cause::Malformed);
                return;
            }
            recv(session.seat_events()) -> seat => {
                if let Ok(seat) = seat {
                    session.review(seat, connection);
                }
            }
            recv(session.recalls()) -> seat => {
                if let Ok(seat) = seat {
                    session.recall(seat);
                }
            }
            recv(session.garbage.wake()) -> _ => {}
            recv(retry) -> _ => session.sweep(connection),
        }
    }
}
