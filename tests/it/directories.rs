//! `LockOptions::remove_empty_directory`: who removes a lock's directory, when, and that nobody
//! else notices.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolock::{
    Acl, Client, DistributedLock, DistributedReentrantLock, DistributedRwLock,
    DistributedSemaphore, EphemeralLock, Error, HoldState, Kind, LockOptions, Permissions, Result,
};
use zoolock_test_support::{
    FaultProxy, Op, Probe, Server, Then, connect_string, fresh_path, shared_probe, wait_until,
};

use crate::faults::{await_moved, lock_of};
use crate::lock::core::{await_nodes, hold_of};
use crate::util::{SESSION, SOON, Task, Witness, children, client, client_of, shared_proxy};

fn tidy() -> LockOptions {
    LockOptions::new().remove_empty_directory(true)
}

fn tidy_lock(client: &Client, path: &str) -> DistributedLock {
    DistributedLock::with(client, path, tidy()).unwrap()
}

fn exists(path: &str) -> bool {
    shared_probe().unwrap().exists(path).unwrap()
}

#[track_caller]
fn is_gone(path: &str) {
    assert!(!exists(path), "{path} is there");
}

#[track_caller]
fn is_there(path: &str) {
    assert!(exists(path), "{path} is gone");
}

fn cycle(lock: &DistributedLock) {
    lock.lock().unwrap();
    lock.unlock().unwrap();
}

/// A client with credentials, whose nodes are its own.
fn owner(hosts: &str) -> Client {
    let builder = Client::builder(hosts).session_timeout(SESSION);
    let builder = builder.auth("digest", "owner:secret");
    builder.acl(Acl::creator()).connect().unwrap()
}

// ---- when it is removed

#[test]
fn the_release_that_leaves_it_empty_removes_it_and_nothing_above_it() {
    let client = client();
    let root = fresh_path("removed");
    let at = |name: &str| format!("{root}/a/b/{name}");
    let any = tidy_lock(&client, &at("any"));
    let own = DistributedReentrantLock::with(&client, at("own"), tidy()).unwrap();
    let rw = DistributedRwLock::with(&client, at("rw"), tidy()).unwrap();
    for round in 0..3 {
        cycle(&any);
        assert!(any.try_lock().unwrap());
        is_there(&at("any"));
        any.unlock().unwrap();
        is_gone(&at("any"));

        let (outer, inner) = (own.acquire().unwrap(), own.acquire().unwrap());
        inner.release().unwrap();
        is_there(&at("own"));
        outer.release().unwrap();
        is_gone(&at("own"));

        rw.read_lock().acquire().unwrap().release().unwrap();
        is_gone(&at("rw"));
        let write = rw.write_lock().acquire().unwrap();
        let read = rw.read_lock().acquire().unwrap();
        write.release().unwrap();
        is_there(&at("rw"));
        read.release().unwrap();
        is_gone(&at("rw"));
        println!(
            "round {round}: {:?} is left",
            children(&format!("{root}/a/b"))
        );
        is_there(&format!("{root}/a/b"));
    }
    assert_eq!(client.stats().seats_lost, 0);
}

#[test]
fn a_guard_that_is_dropped_removes_it_too() {
    let client = client();
    let path = fresh_path("dropped");
    drop(tidy_lock(&client, &path).acquire().unwrap());
    is_gone(&path);
}

#[test]
fn it_stays_without_the_option() {
    let client = client();
    let path = fresh_path("stays");
    cycle(&lock_of(&client, &path));
    is_there(&path);
    cycle(&DistributedLock::with(&client, &path, LockOptions::new()).unwrap());
    let off = tidy().remove_empty_directory(false);
    cycle(&DistributedLock::with(&client, &path, off).unwrap());
    is_there(&path);
}

#[test]
fn it_stays_while_others_wait_and_the_last_one_with_the_option_removes_it() {
    let clients = [client(), client()];
    for tidy_waiter in [true, false] {
        let path = fresh_path("waited-for");
        let holder = tidy_lock(&clients[0], &path);
        holder.lock().unwrap();
        let waiting = match tidy_waiter {
            true => tidy_lock(&clients[1], &path),
            false => lock_of(&clients[1], &path),
        };
        let locks = waiting.clone();
        let waiter = Task::spawn(move || locks.lock());
        await_nodes(&path, 2);
        holder.unlock().unwrap();
        waiter.result("the waiter").unwrap();
        assert_eq!(children(&path), [hold_of(&waiting).node()]);
        waiting.unlock().unwrap();
        println!("a waiter with the option {tidy_waiter}: {}", exists(&path));
        assert_eq!(exists(&path), !tidy_waiter);
    }
}

#[test]
fn an_operators_child_keeps_it_until_it_is_taken_away() {
    let client = client();
    let path = fresh_path("operator");
    let probe = shared_probe().unwrap();
    let lock = tidy_lock(&client, &path);
    lock.lock().unwrap();
    let notes = format!("{path}/notes");
    probe.create(&notes, b"", false, false).unwrap();
    lock.unlock().unwrap();
    assert_eq!(children(&path), ["notes"]);
    cycle(&lock);
    assert_eq!(children(&path), ["notes"]);
    probe.delete(&notes).unwrap();
    cycle(&lock);
    is_gone(&path);
}

#[test]
fn a_single_node_lock_ignores_it() {
    let client = client();
    let root = fresh_path("single");
    let path = format!("{root}/a/lock");
    let lock = EphemeralLock::with(&client, &path, tidy()).unwrap();
    for _ in 0..2 {
        lock.lock().unwrap();
        lock.unlock().unwrap();
        is_gone(&path);
        assert_eq!(children(&format!("{root}/a")), [""; 0]);
        is_there(&format!("{root}/a"));
    }
}

#[test]
fn a_semaphore_removes_all_that_it_made() {
    let clients = [client(), client()];
    let root = fresh_path("semaphore");
    let path = format!("{root}/a");
    let semaphores = clients
        .each_ref()
        .map(|client| DistributedSemaphore::with(client, &path, 3, tidy()).unwrap());
    for round in 0..2 {
        let first = semaphores[0].acquire(2).unwrap();
        let second = semaphores[1].try_acquire(1).unwrap().expect("one is free");
        first.release().unwrap();
        is_there(&format!("{path}/leases"));
        second.release().unwrap();
        println!("round {round}: {:?} is left of {root}", children(&root));
        is_gone(&path);
        is_there(&root);
        drop(semaphores[1].try_acquire(3).unwrap().expect("all are free"));
        is_gone(&path);
    }
    // Whoever waits for the turn keeps all of it.
    let all = semaphores[0].acquire(3).unwrap();
    let waiting = semaphores[1].clone();
    let waiter = Task::spawn(move || waiting.acquire(3)?.release());
    await_nodes(&format!("{path}/leases"), 6);
    all.release().unwrap();
    waiter.result("the waiter").unwrap();
    is_gone(&path);
    // And an operator its path.
    let permits = semaphores[0].acquire(1).unwrap();
    let notes = format!("{path}/notes");
    let probe = shared_probe().unwrap();
    probe.create(&notes, b"", false, false).unwrap();
    permits.release().unwrap();
    assert_eq!(children(&path), ["notes"]);
    let plain = DistributedSemaphore::new(&clients[0], &path, 3).unwrap();
    drop(plain.acquire(1).unwrap());
    assert_eq!(children(&path), ["leases", "locks", "notes"]);
}

// ---- whose directory

#[test]
fn one_that_another_client_of_ours_made_is_removed() {
    let (maker, other) = (client(), client());
    let path = fresh_path("other-maker");
    cycle(&lock_of(&maker, &path));
    is_there(&path);
    cycle(&tidy_lock(&other, &path));
    is_gone(&path);
    // Or an operator, with the same ACL.
    shared_probe().unwrap().create_all(&path).unwrap();
    cycle(&tidy_lock(&other, &path));
    is_gone(&path);
}

#[test]
fn one_with_another_acl_stays() {
    let client = client();
    let probe = shared_probe().unwrap();
    probe.create_all("/zoolock-test").unwrap();
    let path = fresh_path("other-acl");
    let others = [(15, "world", "anyone"), (31, "ip", "127.0.0.1")];
    for acl in [&others[..1], &others[..], &others[1..]] {
        probe.create_with_acl(&path, b"", acl).unwrap();
        cycle(&tidy_lock(&client, &path));
        is_there(&path);
        probe.delete(&path).unwrap();
    }
}

#[test]
fn one_with_another_acl_stays_also_where_this_client_had_made_one_before() {
    let client = client();
    let probe = shared_probe().unwrap();
    let path = fresh_path("made-before");
    let lock = tidy_lock(&client, &path);
    lock.lock().unwrap();
    // Keeps it at the release; then somebody else takes the path.
    let notes = format!("{path}/notes");
    probe.create(&notes, b"", false, false).unwrap();
    lock.unlock().unwrap();
    probe.delete(&notes).unwrap();
    probe.delete(&path).unwrap();
    probe
        .create_with_acl(&path, b"", &[(15, "world", "anyone")])
        .unwrap();
    cycle(&lock);
    is_there(&path);
}

#[test]
fn an_acl_that_says_the_same_twice_is_the_same() {
    let twice = Acl::open().and("world", "anyone", Permissions::ALL);
    let builder = Client::builder(&connect_string()).session_timeout(SESSION);
    let clients = [builder.clone(), builder].map(|b| b.acl(twice.clone()).connect().unwrap());
    let path = fresh_path("twice");
    cycle(&lock_of(&clients[0], &path));
    cycle(&tidy_lock(&clients[1], &path));
    is_gone(&path);
}

#[test]
fn a_creators_own_directory_is_removed() {
    let client = owner(&connect_string());
    let path = fresh_path("creator");
    shared_probe().unwrap().create_all("/zoolock-test").unwrap();
    for _ in 0..2 {
        cycle(&tidy_lock(&client, &path));
        is_gone(&path);
    }
}

#[test]
fn a_creators_directory_stays_where_another_client_with_the_same_credentials_uses_it() {
    let (maker, other) = (owner(&connect_string()), owner(&connect_string()));
    shared_probe().unwrap().create_all("/zoolock-test").unwrap();
    let path = fresh_path("creators");
    cycle(&lock_of(&maker, &path));
    cycle(&tidy_lock(&other, &path));
    is_there(&path);
}

#[test]
fn a_creators_semaphore_removes_all_that_it_made() {
    let client = owner(&connect_string());
    shared_probe().unwrap().create_all("/zoolock-test").unwrap();
    let path = fresh_path("creators-semaphore");
    let semaphore = DistributedSemaphore::with(&client, &path, 2, tidy()).unwrap();
    drop(semaphore.try_acquire(1).unwrap().expect("free"));
    is_gone(&path);
    drop(semaphore.acquire(1).unwrap());
    let builder = Client::builder(&connect_string()).auth("digest", "owner:secret");
    let looking = builder.connect().unwrap();
    println!("left: {:?}", looking.contenders(&path));
    is_gone(&path);
}

#[test]
fn threads_of_one_creator_leave_nothing() {
    const ROUNDS: usize = 100;
    let client = owner(&connect_string());
    shared_probe().unwrap().create_all("/zoolock-test").unwrap();
    let path = fresh_path("creators-threads");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let lock = tidy_lock(&client, &path);
            Task::spawn(move || {
                (0..ROUNDS).try_for_each(|_| lock.lock().and_then(|()| lock.unlock()))
            })
        })
        .collect();
    for thread in threads {
        thread.result("a thread").unwrap();
    }
    is_gone(&path);
}

#[test]
fn a_directory_that_must_not_be_deleted_stays_and_the_release_succeeds() {
    let boss = shared_probe().unwrap();
    boss.add_auth("digest", b"boss:secret").unwrap();
    let client = client();
    let root = fresh_path("not-deletable");
    boss.create_all("/zoolock-test").unwrap();
    // Children may be made, not deleted.
    boss.create_with_acl(&root, b"", &[(31, "auth", ""), (5, "world", "anyone")])
        .unwrap();
    let path = format!("{root}/lock");
    let lock = tidy_lock(&client, &path);
    for _ in 0..2 {
        lock.lock().unwrap();
        lock.unlock().unwrap();
        assert_eq!(children(&path), [""; 0]);
        is_there(&path);
    }
    assert_eq!(client.stats().garbage, 0);
}

// ---- what it costs

#[test]
fn it_costs_two_requests_a_release() {
    let server = Server::start().unwrap();
    let probe = Probe::connect(server.address()).unwrap();
    let client = client_of(&server.connect_string(), Duration::from_secs(60));
    let cost = |lock: &DistributedLock| {
        let before = server.metric("zk_packets_received").unwrap();
        cycle(lock);
        server.metric("zk_packets_received").unwrap() - before - 1
    };
    let alone = tidy_lock(&client, "/alone");
    let own = tidy_lock(&client, "/own");
    own.lock().unwrap();
    probe.create("/own/keeps", b"", false, false).unwrap();
    own.unlock().unwrap();
    probe.create("/others", b"", false, false).unwrap();
    probe.create("/others/keeps", b"", false, false).unwrap();
    let others = tidy_lock(&client, "/others");
    let (alone, own, others) = (cost(&alone), cost(&own), cost(&others));
    println!("made and removed each time {alone}, own that stays {own}, others' {others}");
    // Refused create, directory, create, list, delete, ACL, directory.
    assert_eq!(alone, 7);
    // Create, list, delete, ACL, and the directory where the ACL is ours.
    assert_eq!(own, 5);
    assert!((4..=5).contains(&others), "{others}");
}

// ---- races

#[test]
fn releases_that_race_with_creators_disturb_nobody() {
    const THREADS: usize = 8;
    const ROUNDS: u32 = 100;
    let clients = [client(), client()];
    let path = fresh_path("race");
    let witness = Arc::new(Witness::default());
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let lock = tidy_lock(&clients[number % 2], &path);
            let (witness, tokens) = (Arc::clone(&witness), Arc::clone(&tokens));
            Task::spawn(move || -> Result<u32> {
                let mut made_again = 0;
                for round in 0..ROUNDS {
                    match round % 3 {
                        0 => lock.lock()?,
                        1 => while !lock.try_lock()? {},
                        _ => assert!(lock.try_lock_for(SOON)?),
                    }
                    let hold = hold_of(&lock);
                    let token = hold.fencing_token()?;
                    made_again += u32::from(hold.node().ends_with("0000000000"));
                    witness.visit(|| tokens.lock().unwrap().push(token));
                    lock.unlock()?;
                }
                Ok(made_again)
            })
        })
        .collect();
    let mut made_again = 0;
    for thread in threads {
        made_again += thread.result("a thread").unwrap();
    }
    witness.saw(THREADS as u32 * ROUNDS);
    let tokens = tokens.lock().unwrap();
    println!(
        "{} entries, {made_again} times in a new directory, {:?}",
        tokens.len(),
        clients.each_ref().map(|client| client.stats())
    );
    assert!(made_again > 1, "the directory never went");
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    is_gone(&path);
    for client in &clients {
        let stats = client.stats();
        assert_eq!((stats.seats_lost, stats.garbage, stats.seats), (0, 0, 0));
    }
}

#[test]
fn semaphores_that_are_removed_under_each_other_keep_the_limit() {
    const LIMIT: u32 = 2;
    const ROUNDS: usize = 25;
    let clients = [client(), client()];
    let path = fresh_path("semaphore-race");
    let out = Arc::new(Mutex::new((0, 0)));
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let client = &clients[number % 2];
            let semaphore = DistributedSemaphore::with(client, &path, LIMIT, tidy()).unwrap();
            let out = Arc::clone(&out);
            Task::spawn(move || -> Result<()> {
                for round in 0..ROUNDS {
                    let count = 1 + u32::try_from((round + number) % 2).unwrap();
                    let permits = semaphore.acquire(count)?;
                    {
                        let mut out = out.lock().unwrap();
                        out.0 += count;
                        out.1 = out.1.max(out.0);
                    }
                    std::thread::yield_now();
                    out.lock().unwrap().0 -= count;
                    permits.release()?;
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.result("a thread").unwrap();
    }
    let (left, most) = *out.lock().unwrap();
    println!(
        "at most {most} out at once, {left} left; {:?}",
        children(&path)
    );
    assert_eq!((left, most), (0, LIMIT));
    is_gone(&path);
}

// ---- faults

#[test]
fn a_waiter_whose_directory_vanished_queues_in_a_new_one() {
    let client = client();
    let path = fresh_path("vanished");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let ahead = probe
        .create(&format!("{path}/lock-"), b"", true, true)
        .unwrap();
    let lock = tidy_lock(&client, &path);
    let waits = lock.clone();
    let waiter = Task::spawn(move || waits.lock());
    let nodes = await_nodes(&path, 2);
    // The waiter's first, so that it is not let in before the directory goes.
    let own = nodes.iter().find(|node| node.starts_with("_c_")).unwrap();
    probe.delete(&format!("{path}/{own}")).unwrap();
    probe.delete(&ahead).unwrap();
    let deleted = probe.delete(&path);
    println!("the directory: {deleted:?}");
    waiter.result("the waiter").unwrap();
    let hold = hold_of(&lock);
    println!("{hold:?}");
    assert_eq!(children(&path), [hold.node()]);
    assert_ne!(&hold.node(), own);
    lock.unlock().unwrap();
    is_gone(&path);
}

/// A hold whose client knows no way to the server for now, its directory gone and made again.
struct Replaced {
    proxy: FaultProxy,
    client: Client,
    path: String,
    lock: DistributedLock,
    old: String,
}

impl Replaced {
    fn start(name: &str) -> Replaced {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SESSION);
        let path = fresh_path(name);
        let lock = tidy_lock(&client, &path);
        lock.lock().unwrap();
        let old = hold_of(&lock).node();
        proxy.refuse(true);
        proxy.cut();
        let probe = shared_probe().unwrap();
        probe.delete(&format!("{path}/{old}")).unwrap();
        probe.delete(&path).unwrap();
        Replaced {
            proxy,
            client,
            path,
            lock,
            old,
        }
    }

    fn is_lost(&self) {
        let hold = hold_of(&self.lock);
        self.proxy.refuse(false);
        wait_until("the hold is over", SOON, || !hold.is_held());
        println!("{hold:?}");
        assert!(matches!(hold.state(), HoldState::Lost(_)), "{hold:?}");
        let unlocked = self.lock.unlock();
        assert!(matches!(unlocked, Err(Error::Lost { .. })), "{unlocked:?}");
        wait_until("the client is back", SOON, || {
            let stats = self.client.stats();
            stats.connections == 2 && stats.garbage == 0
        });
    }
}

#[test]
fn a_hold_does_not_move_where_its_directory_is_gone() {
    let replaced = Replaced::start("gone");
    replaced.is_lost();
    is_gone(&replaced.path);
}

#[test]
fn a_hold_does_not_move_into_a_new_directory_and_nobody_is_granted_twice() {
    let replaced = Replaced::start("made-again");
    let rivals = client();
    let rival = tidy_lock(&rivals, &replaced.path);
    rival.lock().unwrap();
    let node = hold_of(&rival).node();
    println!("{} is gone, the rival is {node}", replaced.old);
    assert_eq!(
        node[node.len() - 10..],
        replaced.old[replaced.old.len() - 10..]
    );
    let next = tidy_lock(&rivals, &replaced.path);
    let waits = next.clone();
    let waiter = Task::spawn(move || waits.lock());
    await_nodes(&replaced.path, 2);
    replaced.is_lost();
    assert!(rival.is_held() && !waiter.is_done());
    wait_until("nothing of the old place is left", SOON, || {
        children(&replaced.path).len() == 2
    });
    assert!(!replaced.lock.try_lock().unwrap());
    rival.unlock().unwrap();
    waiter.result("the waiter").unwrap();
    next.unlock().unwrap();
    is_gone(&replaced.path);
}

#[test]
fn a_waiter_cut_off_while_its_directory_was_made_again_queues_anew() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("waiter-made-again");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    let ahead = probe
        .create(&format!("{path}/lock-"), b"", true, true)
        .unwrap();
    let lock = tidy_lock(&own, &path);
    let waits = lock.clone();
    let waiter = Task::spawn(move || waits.lock());
    let nodes = await_nodes(&path, 2);
    proxy.refuse(true);
    proxy.cut();
    let old = nodes.iter().find(|node| node.starts_with("_c_")).unwrap();
    probe.delete(&format!("{path}/{old}")).unwrap();
    probe.delete(&ahead).unwrap();
    probe.delete(&path).unwrap();
    let rivals = client();
    let rival = tidy_lock(&rivals, &path);
    rival.lock().unwrap();
    proxy.refuse(false);
    let nodes = await_nodes(&path, 2);
    println!("{nodes:?}");
    assert!(rival.is_held() && !waiter.is_done());
    assert!(!nodes.contains(old));
    assert_eq!(own.stats().seats_moved, 0);
    rival.unlock().unwrap();
    waiter.result("the waiter").unwrap();
    lock.unlock().unwrap();
    is_gone(&path);
}

#[test]
fn a_hold_that_moved_removes_it_at_its_release() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("moved");
    let lock = tidy_lock(&own, &path);
    lock.lock().unwrap();
    proxy.cut();
    await_moved(&own, 1);
    await_nodes(&path, 1);
    lock.unlock().unwrap();
    is_gone(&path);
}

#[test]
fn a_release_whose_answer_is_lost_succeeds_and_frees_the_lock() {
    for (what, op_path, nth) in [("the node's", "lock-", 1), ("the directory's", "", 2)] {
        let proxy = shared_proxy();
        let own = client_of(&proxy.connect_string(), SESSION);
        let path = fresh_path("answer-lost");
        let lock = tidy_lock(&own, &path);
        lock.lock().unwrap();
        let lost = proxy.on(Op::Delete).nth(nth).path_contains(op_path);
        let lost = lost.drop_answer(Then::Cut);
        let unlocked = lock.unlock();
        println!("{what} answer was lost: {unlocked:?}");
        unlocked.unwrap();
        assert!(lost.fired(), "{:#?}", proxy.log());
        wait_until("the lock is free", SOON, || children(&path).is_empty());
        wait_until("nothing is left to do", SOON, || {
            let stats = own.stats();
            stats.garbage == 0 && stats.handles == 1 && stats.seats == 0
        });
        let rivals = client();
        let rival = tidy_lock(&rivals, &path);
        assert!(rival.try_lock_for(SOON).unwrap());
        rival.unlock().unwrap();
        is_gone(&path);
        lock.lock().unwrap();
        lock.unlock().unwrap();
        is_gone(&path);
    }
}

#[test]
fn a_removal_that_gets_no_answer_holds_nobody_up_but_its_own_release() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), Duration::from_secs(6));
    let path = fresh_path("no-answer");
    let lock = tidy_lock(&own, &path);
    lock.lock().unwrap();
    let removal = proxy.on(Op::Delete).nth(2).hold_request();
    let unlocks = lock.clone();
    let unlocking = Task::spawn(move || unlocks.unlock());
    assert!(removal.wait(SOON), "{:#?}", proxy.log());
    // It is free for others, who may use the directory before it goes.
    let rivals = client();
    let rival = lock_of(&rivals, &path);
    assert!(rival.try_lock().unwrap());
    removal.release();
    unlocking.result("unlock()").unwrap();
    assert_eq!(children(&path), [hold_of(&rival).node()]);
    assert!(rival.is_held());
    rival.unlock().unwrap();
}

#[test]
fn who_looks_while_it_comes_and_goes_sees_one_holder_or_nobody() {
    const ROUNDS: u32 = 150;
    let clients = [client(), client(), client()];
    let path = fresh_path("looked-at");
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let lock = tidy_lock(&clients[number % 2], &path);
            Task::spawn(move || {
                (0..ROUNDS).try_for_each(|_| lock.lock().and_then(|()| lock.unlock()))
            })
        })
        .collect();
    let (mut looks, mut nobody, mut most) = (0, 0, 0);
    while !threads.iter().all(Task::is_done) {
        let seen = clients[2].contenders(&path).unwrap();
        let holders = seen.iter().filter(|contender| contender.holds).count();
        assert_eq!(holders, usize::from(!seen.is_empty()), "{seen:?}");
        assert!(
            seen.is_sorted_by(|a, b| a.sequence < b.sequence),
            "{seen:?}"
        );
        (looks, most) = (looks + 1, most.max(seen.len()));
        nobody += usize::from(seen.is_empty());
    }
    println!("{looks} looks, {nobody} times nobody, at most {most}");
    for thread in threads {
        thread.result("a thread").unwrap();
    }
    assert_eq!(clients[2].contenders(&path).unwrap(), []);
    is_gone(&path);
}

#[test]
fn contenders_of_a_removed_directory_are_none() {
    let client = client();
    let path = fresh_path("nobody");
    let lock = tidy_lock(&client, &path);
    lock.lock().unwrap();
    let seen = lock.contenders().unwrap();
    println!("{seen:?}");
    assert_eq!((seen.len(), seen[0].kind), (1, Kind::Exclusive));
    lock.unlock().unwrap();
    assert_eq!(lock.contenders().unwrap(), []);
    let gone = shared_probe().unwrap().children(&path);
    let kind = gone.map_err(|error| error.kind());
    assert_eq!(kind, Err(ErrorKind::NotFound));
    let revoked = client.revoke(&seen[0]);
    assert!(matches!(revoked, Err(Error::NotHeld { .. })), "{revoked:?}");
}
