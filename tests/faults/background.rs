//! `LockOptions::background_release`: an unlock that does not wait for its answer.

mod ending;
mod faults;
mod returning;

use std::time::Duration;

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    EphemeralLock, Lock, LockOptions, Result,
};

fn behind() -> LockOptions {
    LockOptions::new().background_release(true)
}

fn lock_with(client: &Client, path: &str) -> DistributedLock {
    DistributedLock::with(client, path, behind()).unwrap()
}

/// What is held, and the node it is held by.
struct Held {
    what: &'static str,
    nodes: Vec<String>,
    release: Box<dyn FnOnce() -> Result<()>>,
    /// Takes it again and releases it again.
    again: Box<dyn FnOnce() -> Result<()>>,
}

impl Held {
    fn lock<L: Lock + 'static>(what: &'static str, lock: L) -> Held {
        lock.lock().unwrap();
        let hold = lock.holds().remove(0);
        let nodes = vec![match what {
            "single" => lock.path().to_owned(),
            _ => format!("{}/{}", lock.path(), hold.node()),
        }];
        let lock = std::sync::Arc::new(lock);
        let other = std::sync::Arc::clone(&lock);
        Held {
            what,
            nodes,
            release: Box::new(move || lock.unlock()),
            again: Box::new(move || {
                let entered = other.try_lock_for(Duration::from_secs(60))?;
                assert!(entered, "{what}: not again");
                other.unlock()
            }),
        }
    }
}

/// Every kind of hold that is released in the background.
const KINDS: [&str; 7] = ["any", "own", "write", "read", "single", "guard", "permits"];

/// One of a kind, held, on a path of its own below `root`.
fn hold(client: &Client, root: &str, what: &'static str) -> Held {
    let path = format!("{root}/{what}");
    let rw = || DistributedRwLock::with(client, &path, behind()).unwrap();
    match what {
        "any" => Held::lock(what, lock_with(client, &path)),
        "own" => {
            let lock = DistributedReentrantLock::with(client, &path, behind());
            Held::lock(what, lock.unwrap())
        }
        "write" => Held::lock(what, rw().write_lock()),
        "read" => Held::lock(what, rw().read_lock()),
        "single" => {
            let lock = EphemeralLock::with(client, &path, behind());
            Held::lock(what, lock.unwrap())
        }
        "guard" => {
            let lock = lock_with(client, &path);
            let guard = lock.acquire().unwrap();
            Held {
                what,
                nodes: vec![format!("{path}/{}", guard.node())],
                release: Box::new(move || {
                    drop(guard);
                    Ok(())
                }),
                again: Box::new(move || lock.acquire()?.release()),
            }
        }
        _ => {
            let permits = DistributedSemaphore::with(client, &path, 3, behind()).unwrap();
            let out = permits.acquire(2).unwrap();
            let nodes = out.holds().into_iter();
            let nodes = nodes.map(|hold| format!("{path}/leases/{}", hold.node()));
            Held {
                what,
                nodes: nodes.collect(),
                release: Box::new(move || out.release()),
                again: Box::new(move || permits.acquire(3)?.release()),
            }
        }
    }
}
