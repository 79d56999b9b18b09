//! Tests the wrapper with the server of the feature `testing`.

use std::sync::mpsc;
use std::time::Instant;

use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use zoolock::DistributedLock;
use zoolock::testing::Server;
use zoolock_test_support::{Direction, FaultProxy, wait_until};

use super::*;
use crate::task_lock::TaskLock;

const SOON: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(4).enable_time().build().expect("a runtime")
}

/// Takes a lock, and holds it until the task is cancelled.
fn holding(runtime: &Runtime, lock: &TaskLock) -> JoinHandle<()> {
    let lock = lock.clone();
    runtime.spawn(async move {
        let _guard = lock.acquire(Wait::FOREVER).await.expect("the lock").expect("never busy");
        std::future::pending().await
    })
}

fn acquired(runtime: &Runtime, lock: &TaskLock) -> TaskGuard {
    let guard = runtime.block_on(lock.acquire(Wait::FOREVER)).expect("the lock");
    guard.expect("never busy")
}

fn contenders(client: &Client, path: &str) -> usize {
    client.contenders(path).expect("a list").len()
}

#[test]
fn thousand_waits_cancelled_at_random_leave_no_node() {
    const ROUNDS: usize = 20;
    const PATHS: usize = 5;
    let (server, runtime) = (Server::start().expect("a server"), runtime());
    let clients: Vec<_> = (0..4).map(|_| server.client().expect("a client")).collect();
    let observer = server.client().expect("a client");
    let paths: Vec<_> = (0..PATHS).map(|path| format!("/locks/{path}")).collect();
    let locks: Vec<_> = clients
        .iter()
        .flat_map(|client| {
            paths.iter().map(|path| TaskLocks::new(client).at(path).expect("a path"))
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(1);
    let (mut waits, mut waited) = (0, 0);
    for round in 0..ROUNDS {
        // In every other round no other client holds the lock, so that cancellations coincide with
        // grants.
        let holds =
            |path: &String| DistributedLock::new(&observer, path).expect("a path").acquire();
        let held: Vec<_> = paths.iter().filter(|_| round.is_multiple_of(2)).map(holds).collect();
        let mut tasks: Vec<_> = (0..50)
            .map(|_| {
                let lock = &locks[random.usize(..locks.len())];
                // Some tasks use separate queues: each has a thread.
                let (client, path) =
                    (&clients[random.usize(..clients.len())], &paths[random.usize(..PATHS)]);
                let alone = TaskLocks::new(client).at(path).expect("a path");
                holding(&runtime, if random.bool() { lock } else { &alone })
            })
            .collect();
        waits += tasks.len();
        random.shuffle(&mut tasks);
        for task in tasks {
            waited += clients.iter().map(|client| client.stats().waiting).max().unwrap_or_default();
            (0..random.usize(..20)).for_each(|_| std::thread::yield_now());
            task.abort();
        }
        for path in &paths {
            let holders = usize::from(round.is_multiple_of(2));
            wait_until("only the holder's node is there", SOON, || {
                contenders(&observer, path) == holders
            });
        }
        held.into_iter().for_each(|guard| guard.and_then(|guard| guard.release()).expect("held"));
    }
    println!("{waits} waits, and {waited} calls were seen at the servers");
    assert!(waits == 1000 && waited > 0);
    for client in &clients {
        wait_until("no call waits, no lock is held", SOON, || {
            let stats = client.stats();
            (stats.waiting, stats.held, stats.deleting) == (0, 0, 0)
        });
    }
    runtime.block_on(async { drop(locks[0].acquire(Wait::FOREVER).await.expect("the lock")) });
}

#[test]
fn task_behind_a_cancelled_one_gets_the_lock() {
    let (server, runtime) = (Server::start().expect("a server"), runtime());
    let (client, other) = (server.client().expect("a client"), server.client().expect("a client"));
    let held = DistributedLock::new(&other, PATH).expect("a path").acquire().expect("the lock");
    let lock = TaskLocks::new(&client).at(PATH).expect("a path");
    let first = holding(&runtime, &lock);
    wait_until("the first task waits", SOON, || contenders(&other, PATH) == 2);
    let waiter = || other.contenders(PATH).expect("a list").pop().expect("the holder").node;
    let cancelled = waiter();
    let second = runtime.spawn(async move { lock.acquire(Wait::FOREVER).await.map(drop) });
    first.abort();
    wait_until("the second task waits instead", SOON, || {
        contenders(&other, PATH) == 2 && waiter() != cancelled
    });
    held.release().expect("it is held");
    runtime.block_on(second).expect("no panic").expect("the lock");
}

#[test]
fn waits_at_one_path_take_one_thread() {
    let server = Server::start().expect("a server");
    let (client, other) = (server.client().expect("a client"), server.client().expect("a client"));
    let _held = DistributedLock::new(&other, PATH).expect("a path").acquire().expect("the lock");
    let runtime = Builder::new_multi_thread().worker_threads(2).max_blocking_threads(2).build();
    let runtime = runtime.expect("a runtime");
    let locks = TaskLocks::new(&client);
    for _ in 0..10 {
        holding(&runtime, &locks.at(PATH).expect("a path"));
    }
    wait_until("a task waits", SOON, || contenders(&other, PATH) == 2);
    let behind = locks.at(PATH).expect("a path");
    assert!(runtime.block_on(behind.acquire(Wait::TRY)).expect("an answer").is_none());
    let free = locks.at("/locks/free").expect("a path");
    runtime.block_on(free.acquire(Wait::FOREVER)).expect("the lock");
}

#[test]
fn runtime_ends_while_tasks_wait() {
    let (server, runtime) = (Server::start().expect("a server"), runtime());
    let (client, other) = (server.client().expect("a client"), server.client().expect("a client"));
    let _held = DistributedLock::new(&other, PATH).expect("a path").acquire().expect("the lock");
    let lock = TaskLocks::new(&client).at(PATH).expect("a path");
    for _ in 0..3 {
        holding(&runtime, &lock);
    }
    wait_until("a task waits", SOON, || contenders(&other, PATH) == 2);
    drop(runtime); // waits for its threads, without a limit
    wait_until("its node is deleted", SOON, || contenders(&other, PATH) == 1);
}

#[test]
fn drop_of_a_guard_does_not_wait_for_the_servers() {
    let server = Server::start().expect("a server");
    let proxy = FaultProxy::start(server.address()).expect("a proxy");
    // An unlock in the foreground would wait for a third of this.
    let session = Duration::from_secs(90);
    let client = Client::connect(proxy.connect_string(), session).expect("a client");
    assert_eq!(client.session_timeout(), session);
    let lock = TaskLocks::new(&client).at(PATH).expect("a path");
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let guard = acquired(&runtime, &lock);
    proxy.black_hole(Direction::Both);
    let begun = Instant::now();
    runtime.block_on(async { drop(guard) });
    let took = begun.elapsed();
    println!("{took:?}");
    assert!(took < session / 6, "{took:?}");
    proxy.restore();
}

#[test]
fn each_loss_is_told_to_its_task() {
    let (server, runtime) = (Server::start().expect("a server"), runtime());
    let client = server.client().expect("a client");
    let (tell, told) = mpsc::channel();
    let holds: Vec<_> = (0..20)
        .map(|index| {
            let lock = TaskLocks::new(&client).at(&format!("/locks/{index}")).expect("a path");
            let guard = acquired(&runtime, &lock);
            let (hold, tell) = (guard.hold().clone(), tell.clone());
            runtime.spawn(async move {
                guard.ended().await;
                tell.send((index, guard.hold().is_held())).expect("a listener");
            });
            hold
        })
        .collect();
    server.delete(&holds[7]).expect("its node");
    assert_eq!(told.recv_timeout(SOON), Ok((7, false)));
    server.expire(&client);
    let mut others: Vec<_> = (0..19).map(|_| told.recv_timeout(SOON).expect("a loss")).collect();
    others.sort_unstable();
    let expected: Vec<_> =
        (0..20).filter(|&index| index != 7).map(|index| (index, false)).collect();
    assert_eq!(others, expected);
}

#[test]
fn work_ends_with_the_loss_of_its_lock() {
    let (server, runtime) = (Server::start().expect("a server"), runtime());
    let client = server.client().expect("a client");
    let lock = TaskLocks::new(&client).at(PATH).expect("a path");
    let guard = acquired(&runtime, &lock);
    let (_never, finished) = oneshot::channel();
    let working = runtime.spawn(work(guard, finished));
    server.expire(&client);
    assert!(!runtime.block_on(working).expect("no panic"));
    runtime.block_on(run(client)).expect("the whole program");
}
