//! Many at once, witnessed without the help of any lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{DistributedRwLock, Error};
use zoolock_test_support::fresh_path;

use common::rwlock::rw_of;
use common::{Task, await_nodes, client, client_of, shared_proxy};

/// Who is inside, and how many were at most.
#[derive(Debug, Default)]
struct Room {
    readers: AtomicU32,
    writers: AtomicU32,
    most_readers: AtomicU32,
    intruders: AtomicU32,
    /// Changed in two steps by writers, so that it comes out too small if two write.
    value: AtomicU64,
}

impl Room {
    fn read(&self, stay: Duration) {
        let readers = self.readers.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_readers.fetch_max(readers, Ordering::SeqCst);
        let value = self.value.load(Ordering::SeqCst);
        thread::sleep(stay);
        let changed = self.value.load(Ordering::SeqCst) != value;
        if changed || self.writers.load(Ordering::SeqCst) > 0 {
            self.intruders.fetch_add(1, Ordering::SeqCst);
        }
        self.readers.fetch_sub(1, Ordering::SeqCst);
    }

    fn write(&self, stay: Duration) {
        let writers = self.writers.fetch_add(1, Ordering::SeqCst);
        let value = self.value.load(Ordering::SeqCst);
        if writers > 0 || self.readers.load(Ordering::SeqCst) > 0 {
            self.intruders.fetch_add(1, Ordering::SeqCst);
        }
        thread::sleep(stay);
        self.value.store(value + 1, Ordering::SeqCst);
        if self.readers.load(Ordering::SeqCst) > 0 {
            self.intruders.fetch_add(1, Ordering::SeqCst);
        }
        self.writers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Written as often, never two kinds inside.
    #[track_caller]
    fn saw(&self, writes: u64) {
        let intruders = self.intruders.load(Ordering::SeqCst);
        let value = self.value.load(Ordering::SeqCst);
        assert_eq!((intruders, value), (0, writes), "{self:?}");
    }
}

const STAY: Duration = Duration::from_millis(1);

#[test]
fn eight_clients_that_read_and_write_are_never_in_each_others_way() {
    const CLIENTS: usize = 8;
    const OPERATIONS: usize = 100;
    let path = fresh_path("load");
    let room = Arc::new(Room::default());
    let begun = Instant::now();
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (client, path, room) = (client(), path.clone(), Arc::clone(&room));
            Task::spawn(move || {
                let lock = rw_of(&client, &path);
                for turn in 0..OPERATIONS {
                    // A tenth, at another time in each client.
                    if (turn + number) % 10 == 0 {
                        lock.write_lock().lock().unwrap();
                        room.write(STAY);
                        lock.write_lock().unlock().unwrap();
                    } else {
                        lock.read_lock().lock().unwrap();
                        room.read(STAY);
                        lock.read_lock().unlock().unwrap();
                    }
                }
                client.stats()
            })
        })
        .collect();
    let stats: Vec<_> = tasks.iter().map(|t| t.result("a client")).collect();
    let most = room.most_readers.load(Ordering::SeqCst);
    let lost: u64 = stats.iter().map(|stats| stats.holds_lost).sum();
    println!(
        "{CLIENTS} clients of {OPERATIONS} operations in {:?}: at most {most} readers at once",
        begun.elapsed()
    );
    room.saw((CLIENTS * OPERATIONS / 10) as u64);
    assert!(most > 1, "readers never overlapped");
    assert_eq!(lost, 0);
    await_nodes(&path, 0);
}

/// One thread's share: reads, writes and downgrades through one object.
fn work(lock: &DistributedRwLock, room: &Room, turns: usize, number: usize) -> u64 {
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let mut writes = 0;
    for turn in 0..turns {
        match (turn + number) % 5 {
            0 => {
                write.lock().unwrap();
                room.write(STAY);
                writes += 1;
                read.lock().unwrap();
                write.unlock().unwrap();
                room.read(STAY);
                read.unlock().unwrap();
            }
            1 => {
                let writing = write.acquire().unwrap();
                room.write(STAY);
                writes += 1;
                drop(writing);
            }
            2 => {
                // It does not wait for a connection.
                match read.try_lock() {
                    Ok(true) => {
                        room.read(STAY);
                        read.unlock().unwrap();
                    }
                    Ok(false) | Err(Error::Disconnected { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            _ => {
                let _reading = read.acquire().unwrap();
                let _again = read.acquire().unwrap();
                room.read(STAY);
            }
        }
    }
    writes
}

#[test]
fn threads_of_shared_objects_that_downgrade_while_connections_are_cut_keep_the_rules() {
    const CLIENTS: usize = 3;
    const THREADS: usize = 3;
    const TURNS: usize = 30;
    const CUTS: usize = 30;
    let path = fresh_path("load-cut");
    let room = Arc::new(Room::default());
    let proxies: Vec<_> = (0..CLIENTS).map(|_| shared_proxy()).collect();
    // Long enough for this machine under any load.
    let session = Duration::from_secs(20);
    let clients: Vec<_> =
        proxies.iter().map(|proxy| client_of(&proxy.connect_string(), session)).collect();
    let begun = Instant::now();
    let tasks: Vec<_> = (0..CLIENTS * THREADS)
        .map(|number| (number, number % CLIENTS))
        .map(|(number, client)| (number, rw_of(&clients[client], &path)))
        .map(|(number, lock)| {
            let room = Arc::clone(&room);
            Task::spawn(move || work(&lock, &room, TURNS, number))
        })
        .collect();
    let mut cuts = 0;
    while cuts < CUTS && tasks.iter().any(|task| !task.is_done()) {
        let before = clients[cuts % CLIENTS].stats().connections;
        proxies[cuts % CLIENTS].cut();
        zoolock_test_support::wait_until("it is back", common::SOON, || {
            clients[cuts % CLIENTS].stats().connections > before
        });
        cuts += 1;
    }
    let writes = tasks.iter().map(|t| t.result("a thread")).sum();
    let most = room.most_readers.load(Ordering::SeqCst);
    let (resumed, lost) = clients.iter().fold((0, 0), |(resumed, lost), client| {
        let stats = client.stats();
        (resumed + stats.resumed, lost + stats.holds_lost)
    });
    println!(
        "{writes} writes, at most {most} readers at once, {cuts} cuts, resumed {resumed} times, in {:?}",
        begun.elapsed()
    );
    room.saw(writes);
    assert!(most > 1, "readers never overlapped");
    assert_eq!(lost, 0);
    await_nodes(&path, 0);
}
