//! Measures how long the servers take for a write, beside the clients and their networks. A server that stands still
//! may cost a hold, as a late machine may.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, Sender, bounded};
use zoolock_test_support::Probe;

use super::is_over;
use super::recorder::Recorder;
use crate::clock::now;
use crate::nemesis::Nemesis;

const PAUSE: Duration = Duration::from_millis(20);
/// The pause after a failure, since the server may be away.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Runs until the result is dropped.
pub(crate) fn start(nemesis: &Nemesis) -> Sender<()> {
    let (stop, stopped) = bounded(0);
    for address in nemesis.servers.addresses() {
        let (recorder, stopped) = (Arc::clone(&nemesis.recorder), stopped.clone());
        thread::spawn(move || {
            while !is_over(&stopped, PAUSE_AFTER_FAILURE) {
                measure(address, &recorder, &stopped);
            }
        });
    }
    stop
}

/// Runs until it fails or is stopped.
fn measure(address: SocketAddr, recorder: &Recorder, stopped: &Receiver<()>) {
    let Ok(probe) = Probe::connect(address) else {
        return;
    };
    while !is_over(stopped, PAUSE) {
        let since = now();
        // No lock is there.
        if probe.set("/", b"").is_err() {
            return;
        }
        recorder.state().history.served(since, now());
    }
}
