//! Closing old handles. `close()` and `drop` of the crate may hang, may fail at once and leave an
//! I/O thread that reconnects for ever, and must not happen while a valid hold lives on the
//! handle. So each dead connection gets a thread that ends when its handle is gone.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, at, select_biased};
use log::debug;
use zookeeper::ZooKeeper;

use super::Session;
use super::connection::Connection;
use crate::clock::Moment;

/// The first pause between two tries to close, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));

/// The life of one reaper thread.
pub(super) fn run(session: &Arc<Session>, connection: &Connection) {
    let died = Instant::now();
    await_vacancy(session, connection, died);
    connection.let_go();
    let handle = connection.take_handle();
    let confirmed = handle.is_some_and(|handle| {
        let confirmed = close(&handle, connection);
        // The handle sends once more when it is dropped. If that meets the end of the I/O thread,
        // mio 0.6 may leave a pipe open: two files in one of some 10,000 connections.
        let _ = connection.crate_ended().recv_timeout(PAUSES.1);
        confirmed
    });
    connection.mark_reaped(confirmed);
    session.handle_reaped();
    debug!(
        target: "zoolock::session",
        "closed the handle to {} {:?} after its death, confirmed: {confirmed}",
        connection.address(), died.elapsed()
    );
}

/// Waits until nobody lives on the connection: they moved, let go, or, after a session timeout,
/// have no lease and no place any more.
fn await_vacancy(session: &Arc<Session>, connection: &Connection, died: Instant) {
    let (end, tenancy) = (died + connection.timeout(), connection.tenancy());
    while !tenancy.start_closing(Instant::now() < end) {
        // A seat that came just before the death may still be here when the others have left.
        thread::sleep(PAUSES.0);
        select_biased! {
            recv(tenancy.vacated()) -> _ => {}
            recv(at(end)) -> _ => {
                session.lapse(Moment::now());
            }
        }
    }
}

/// Tries to close until the server says that it is done, or the crate's I/O thread has ended. True
/// if it was the server: a crate that was cut off may give up for want of a ping, and its session
/// lives on.
fn close(handle: &ZooKeeper, connection: &Connection) -> bool {
    let mut pause = PAUSES.0;
    loop {
        if handle.close().is_ok() {
            return true;
        }
        if connection.crate_ended().recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return false;
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}
