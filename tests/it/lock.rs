//! `DistributedLock`.

use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock};
use zoolock_test_support::{connect_string, fresh_path, shared_probe};

#[test]
fn smoke() {
    let client = Client::connect(&connect_string(), Duration::from_secs(6)).unwrap();
    let path = fresh_path("smoke");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let begun = Instant::now();
    for _ in 0..100 {
        lock.lock().unwrap();
        assert!(lock.is_held());
        lock.unlock().unwrap();
    }
    println!("100 in {:?}, {:?}", begun.elapsed(), client.stats());
    lock.lock().unwrap();
    let hold = lock.hold().unwrap();
    println!("{hold:?} {:?} {:?}", hold.valid_for(), hold.fencing_token());
    println!("{:?}", shared_probe().unwrap().children(&path));
    lock.unlock().unwrap();
    assert!(lock.try_lock().unwrap());
    let other = DistributedLock::new(&client, &path).unwrap();
    assert!(!other.try_lock().unwrap());
    assert!(!other.try_lock_for(Duration::from_millis(300)).unwrap());
    lock.unlock().unwrap();
    client.close().unwrap();
}
