//! Takes snapshots of the queues of waiters for permits. The permits do not show the order of their requests,
//! so these snapshots show whether a call overtook another.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, Sender, bounded};
use zoolock_judge::QueueSnapshot;
use zoolock_test_support::Probe;

use super::is_over;
use super::recorder::Recorder;
use crate::clock::now;
use crate::nemesis::Nemesis;
use crate::paths::{self, Use};

const PAUSE: Duration = Duration::from_millis(15);
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause after a failure, since the server may be away.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Runs until the result is dropped. With one server only: one of several may answer with old state.
pub(crate) fn start(nemesis: &Nemesis) -> Option<Sender<()>> {
    let is_semaphore = |path: &usize| matches!(paths::at(*path).what, Use::Semaphore(_));
    let mut paths = paths::used(&nemesis.kinds);
    paths.retain(is_semaphore);
    let [address] = nemesis.servers.addresses()[..] else {
        return None;
    };
    let (stop, stopped) = bounded(0);
    let recorder = Arc::clone(&nemesis.recorder);
    thread::spawn(move || {
        while !is_over(&stopped, PAUSE_AFTER_FAILURE) {
            let Ok(probe) = Probe::connect(address) else {
                continue;
            };
            if probe.set_patience(PATIENCE).is_ok() {
                look(&probe, &paths, &recorder, &stopped);
            }
        }
    });
    Some(stop)
}

/// Runs until it fails or is stopped.
fn look(probe: &Probe, paths: &[usize], recorder: &Recorder, stopped: &Receiver<()>) {
    while !is_over(stopped, PAUSE) {
        for &path in paths {
            let Some(queue) = paths::at(path).queue() else {
                continue;
            };
            let asked = now();
            let Ok(names) = probe.children(&queue) else {
                return;
            };
            let answered = now();
            let queued: Vec<_> = names.iter().filter_map(|name| number(name)).collect();
            if !queued.is_empty() {
                let snapshot = QueueSnapshot { path, asked, answered, queued };
                recorder.state().history.queue_snapshots.push(snapshot);
            }
        }
    }
}

/// The number of a contender; `None` for a node that only looks like one.
fn number(name: &str) -> Option<u32> {
    let (_, number) = name.rsplit_once("-lock-")?;
    (number.len() == 10).then(|| number.parse().ok())?
}
