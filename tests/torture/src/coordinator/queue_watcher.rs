//! Takes snapshots of the queues of calls that wait for permits. The permits themselves do not show
//! the order of the calls, so only this shows whether a call overtook another.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use zoolock_judge::QueueSnapshot;
use zoolock_test_support::Probe;

use crate::clock::now;
use crate::coordinator::recorder::Recorder;
use crate::nemesis::Nemesis;
use crate::paths::{self, Use};

const PAUSE: Duration = Duration::from_millis(15);
const PATIENCE: Duration = Duration::from_secs(2);
/// Of a server that is away.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Until the result is dropped. With one server only: of several, one may answer with what has been
/// over for a while.
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

/// Until it fails or is over.
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

/// Of a contender; what only looks like one has none.
fn number(name: &str) -> Option<u32> {
    let (_, number) = name.rsplit_once("-lock-")?;
    (number.len() == 10).then(|| number.parse().ok())?
}

fn is_over(stopped: &Receiver<()>, pause: Duration) -> bool {
    !matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout))
}
