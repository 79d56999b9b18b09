//! All at once: threads, rivals, cancels and cuts on one kept lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{DistributedLock, Error, LockOptions};
use zoolock_test_support::{fresh_path, wait_until};

use common::{SOON, Task, await_nothing_left, children, client_of, lock_of, shared_proxy};

const T: Duration = Duration::from_secs(3);
const STORM: Duration = Duration::from_secs(8);

#[derive(Default)]
struct Inside {
    now: AtomicU32,
    twice: AtomicU32,
    entries: AtomicU64,
    busy: AtomicU64,
    cancelled: AtomicU64,
    away: AtomicU64,
    lost: AtomicU64,
    longest: AtomicU64,
}

impl Inside {
    /// One try of at most `limit`.
    fn visit(&self, lock: &DistributedLock, limit: Duration) {
        let begun = Instant::now();
        let taken = lock.try_lock_for(limit);
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap();
        self.longest.fetch_max(took, Ordering::SeqCst);
        match taken {
            Ok(true) => {}
            Ok(false) => {
                self.busy.fetch_add(1, Ordering::SeqCst);
                return;
            }
            Err(Error::Cancelled { .. }) => {
                self.cancelled.fetch_add(1, Ordering::SeqCst);
                return;
            }
            Err(Error::Disconnected { .. }) => {
                self.away.fetch_add(1, Ordering::SeqCst);
                return;
            }
            Err(other) => panic!("{other}"),
        }
        self.entries.fetch_add(1, Ordering::SeqCst);
        let before = self.now.fetch_add(1, Ordering::SeqCst);
        if before > 0 && lock.is_held() {
            self.twice.fetch_add(1, Ordering::SeqCst);
        }
        thread::sleep(Duration::from_micros(u64::from(rand(15_000))));
        self.now.fetch_sub(1, Ordering::SeqCst);
        match lock.unlock() {
            Ok(()) => {}
            Err(Error::Lost { .. }) => {
                self.lost.fetch_add(1, Ordering::SeqCst);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

fn rand(below: u32) -> u32 {
    use std::hash::{BuildHasher, RandomState};
    let number = RandomState::new().hash_one(0_u8);
    u32::try_from(number % u64::from(below)).unwrap()
}

fn storm(options: LockOptions) {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), T);
    let rivals: Vec<_> =
        (0..2).map(|_| client_of(&zoolock_test_support::connect_string(), T)).collect();
    let path = fresh_path("storm");
    let lock = DistributedLock::with(&own, &path, options).unwrap();
    let inside = Arc::new(Inside::default());
    let rival_longest = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (lock, inside, over) = (lock.clone(), Arc::clone(&inside), Arc::clone(&over));
        tasks.push(Task::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                inside.visit(&lock, Duration::from_micros(u64::from(rand(30_000))));
            }
        }));
    }
    for rival in &rivals {
        let lock = lock_of(rival, &path);
        let (inside, over) = (Arc::clone(&inside), Arc::clone(&over));
        let longest = Arc::clone(&rival_longest);
        tasks.push(Task::spawn(move || {
            let mut entries = 0_u64;
            while !over.load(Ordering::SeqCst) {
                let begun = Instant::now();
                let in_time = lock.try_lock_for(Duration::from_secs(20)).unwrap();
                let took = u64::try_from(begun.elapsed().as_millis()).unwrap();
                longest.fetch_max(took, Ordering::SeqCst);
                assert!(in_time, "a rival waited for {took} ms");
                entries += 1;
                if inside.now.fetch_add(1, Ordering::SeqCst) > 0 && lock.is_held() {
                    inside.twice.fetch_add(1, Ordering::SeqCst);
                }
                thread::sleep(Duration::from_micros(u64::from(rand(800))));
                inside.now.fetch_sub(1, Ordering::SeqCst);
                lock.unlock().unwrap();
                thread::sleep(Duration::from_millis(u64::from(rand(40))));
            }
            println!("a rival was let in {entries} times");
        }));
    }
    let begun = Instant::now();
    while begun.elapsed() < STORM {
        thread::sleep(Duration::from_millis(u64::from(50 + rand(100))));
        lock.cancel_waiters();
        thread::sleep(Duration::from_millis(100));
        proxy.cut();
    }
    over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.result("a thread of the storm");
    }
    let longest = inside.longest.load(Ordering::SeqCst);
    let rivals_longest = rival_longest.load(Ordering::SeqCst);
    println!(
        "{} entries, {} busy, {} cancelled, {} away, {} lost, longest {longest} ms, rivals {rivals_longest} ms; {:?}",
        inside.entries.load(Ordering::SeqCst),
        inside.busy.load(Ordering::SeqCst),
        inside.cancelled.load(Ordering::SeqCst),
        inside.away.load(Ordering::SeqCst),
        inside.lost.load(Ordering::SeqCst),
        own.stats()
    );
    assert_eq!(inside.twice.load(Ordering::SeqCst), 0, "two were inside");
    drop(lock);
    await_nothing_left(&own);
    wait_until("nothing is left", SOON, || children(&path).is_empty());
}

#[test]
fn in_a_storm_nobody_is_kept_out() {
    storm(LockOptions::new().keep_idle(Duration::from_secs(60)));
}

#[test]
fn in_a_storm_with_everything_nobody_is_kept_out() {
    let options = LockOptions::new().keep_idle(Duration::from_secs(60));
    storm(options.local_handoffs(5).background_release(true));
}
