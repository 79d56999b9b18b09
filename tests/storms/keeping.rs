//! All at once: threads, rivals, cancels and cuts on one kept lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{DistributedLock, Error, LockOptions, Result};
use zoolock_test_support::{connect_string, fresh_path, wait_until};

use common::{SOON, Task, await_nothing_left, children, client_of, lock_of, shared_proxy};

const T: Duration = Duration::from_secs(10);
const STORM: Duration = Duration::from_secs(8);

/// One try of at most `limit`; whether it was let in, and what else it came to.
fn visit(lock: &DistributedLock, inside: &AtomicU32, limit: Duration) -> Result<bool> {
    if !lock.try_lock_for(limit)? {
        return Ok(false);
    }
    // Whoever has lost it may still be there.
    let twice = inside.fetch_add(1, Ordering::SeqCst) > 0 && lock.is_held();
    assert!(!twice, "two are inside");
    thread::sleep(Duration::from_micros(fastrand::u64(..15_000)));
    inside.fetch_sub(1, Ordering::SeqCst);
    match lock.unlock() {
        Ok(()) | Err(Error::Lost { .. }) => Ok(true),
        Err(other) => panic!("{other}"),
    }
}

fn storm(options: LockOptions) {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), T);
    let rivals = [(); 2].map(|()| client_of(&connect_string(), T));
    let path = fresh_path("storm");
    let lock = DistributedLock::with(&own, &path, options).unwrap();
    let (inside, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    // Threads that are in a hurry, and rivals that have to be let in each time.
    let threads = (0..8).map(|_| (lock.clone(), false));
    let rivals = rivals.iter().map(|rival| (lock_of(rival, &path), true));
    let tasks: Vec<_> = threads
        .chain(rivals)
        .map(|(lock, is_rival)| {
            let (inside, over) = (Arc::clone(&inside), Arc::clone(&over));
            Task::spawn(move || {
                let mut entries = 0;
                while !over.load(Ordering::SeqCst) {
                    let limit = Duration::from_micros(fastrand::u64(..30_000));
                    let seen = visit(&lock, &inside, if is_rival { SOON / 2 } else { limit });
                    match seen {
                        Ok(true) => entries += 1,
                        seen if is_rival => {
                            panic!("a rival was kept out: {seen:?}, by {:#?}", lock.contenders())
                        }
                        Ok(false) | Err(Error::Cancelled { .. } | Error::Disconnected { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                    if is_rival {
                        thread::sleep(Duration::from_millis(fastrand::u64(..40)));
                    }
                }
                entries
            })
        })
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < STORM {
        thread::sleep(Duration::from_millis(fastrand::u64(50..150)));
        lock.cancel_waiters();
        thread::sleep(Duration::from_millis(100));
        proxy.cut();
    }
    over.store(true, Ordering::SeqCst);
    let entries: Vec<_> = tasks.iter().map(|task| task.result("one of the storm")).collect();
    println!("entries {entries:?}; {:?}", own.stats());
    assert!(entries[8..].iter().all(|entries| *entries > 0), "{entries:?}");
    drop(lock);
    await_nothing_left(&own);
    wait_until("nothing is left", SOON, || children(&path).is_empty());
}

#[test]
fn in_a_storm_nobody_is_kept_out() {
    let options = LockOptions::new().keep_idle(Duration::from_secs(60));
    storm(options.clone());
    storm(options.local_handoffs(5).background_release(true));
}
