//! Who is told of the end of a hold, and how often.

use std::sync::Arc;

use zoolock::{DistributedLock, DistributedReentrantLock, Error, Hold, HoldState, LossReason};
use zoolock_test_support::fresh_path;

use super::{DELETED, lost_at};
use common::basics::{await_nodes, hold_of};
use common::{SOON, Task, assert_lost, children, client, delete_node};

const CLOSED: HoldState = HoldState::Lost(LossReason::ClientClosed);

#[test]
fn any_number_of_threads_hear_of_the_end() {
    const THREADS: usize = 5;
    let client = client();
    let path = fresh_path("hear");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let listen = |hold: &Hold| -> Vec<_> {
        let listen = |hold: Hold| {
            Task::spawn(move || {
                let began = hold.state();
                lost_at(&hold);
                (began, hold.state())
            })
        };
        (0..THREADS).map(|_| listen(hold.clone())).collect()
    };
    for (end, how) in [(HoldState::Released, "release"), (DELETED, "loss")] {
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        assert!(hold.lost().try_recv().is_err_and(|e| e.is_empty()), "{hold:?}");
        let listeners = listen(&hold);
        if end == DELETED {
            delete_node(&hold);
            lost_at(&hold);
        }
        let _ = lock.unlock();
        let heard: Vec<_> = listeners.iter().map(|l| l.result(how)).collect();
        println!("{how}: {heard:?}");
        assert!(heard.iter().all(|(_, heard)| *heard == end), "{heard:?}");
        assert!(hold.lost().try_recv().is_err_and(|e| e.is_disconnected()));
    }
}

#[test]
fn a_close_is_told_once_to_each_hold() {
    let client = client();
    let path = fresh_path("closed");
    let by_unlock = DistributedLock::new(&client, format!("{path}/a")).unwrap();
    let by_guard = DistributedLock::new(&client, format!("{path}/b")).unwrap();
    let nested = DistributedReentrantLock::new(&client, format!("{path}/c")).unwrap();
    by_unlock.lock().unwrap();
    let guard = by_guard.acquire().unwrap();
    nested.lock().unwrap();
    nested.lock().unwrap();
    let holds = [hold_of(&by_unlock), guard.hold(), hold_of(&nested)];
    client.close().unwrap();
    for hold in &holds {
        lost_at(hold);
        assert_eq!((hold.state(), hold.is_held()), (CLOSED, false));
        assert_eq!(children(hold.path()), [""; 0], "close waits for the end");
    }
    assert_lost(&nested.lock(), nested.path(), LossReason::ClientClosed);
    assert_lost(&by_unlock.unlock(), by_unlock.path(), LossReason::ClientClosed);
    assert_lost(&guard.release(), by_guard.path(), LossReason::ClientClosed);
    assert_lost(&nested.unlock(), nested.path(), LossReason::ClientClosed);
    assert_lost(&nested.unlock(), nested.path(), LossReason::ClientClosed);
    let later = [
        ("unlock", by_unlock.unlock()),
        ("lock", by_unlock.lock()),
        ("try_lock", by_unlock.try_lock().map(drop)),
        ("try_lock_for", by_unlock.try_lock_for(SOON).map(drop)),
        ("acquire", by_guard.acquire().map(drop)),
        ("unlock a nest", nested.unlock()),
        ("lock a nest", nested.lock()),
    ];
    println!("{later:?}");
    for (what, result) in later {
        assert!(matches!(result, Err(Error::Closed)), "{what}: {result:?}");
    }
}

#[test]
fn a_close_wakes_waiters_here_and_there() {
    let (closing, rivals) = (client(), client());
    let path = fresh_path("closed");
    let rival = DistributedLock::new(&rivals, &path).unwrap();
    rival.lock().unwrap();
    let lock = Arc::new(DistributedReentrantLock::new(&closing, &path).unwrap());
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let lock = Arc::clone(&lock);
            Task::spawn(move || lock.lock())
        })
        .collect();
    // One of the three waits in the queue, the others locally.
    await_nodes(&path, 2);
    closing.close().unwrap();
    for waiter in waiters {
        let ended = waiter.result("a waiter of a closed client");
        assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    }
    assert_eq!(await_nodes(&path, 1), [hold_of(&rival).node()]);
    rival.unlock().unwrap();
}
