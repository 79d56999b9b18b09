//! Waiting without a queue: who is woken, by what, and how waiting ends.

use std::sync::Arc;

use zoolock_test_support::{Op, Probe};

use super::*;
use common::{Arrivals, Witness};

/// A client whose requests are counted, and its lock.
fn counted(path: &str) -> (FaultProxy, Client, EphemeralLock) {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(60));
    let lock = lock_of(&client, path);
    (proxy, client, lock)
}

/// Until the lock's node has been read this often, with a watch: the last thing before a sleep.
fn await_looks(proxy: &FaultProxy, looks: u64) {
    wait_until("it has looked and watches", SOON, || proxy.requests(Op::GetData) >= looks);
}

#[test]
fn a_waiter_is_woken_by_a_release_an_operator_and_the_end_of_a_session() {
    let path = fresh_path("woken");
    let (proxy, _client, lock) = counted(&path);
    let probe = shared_probe().unwrap();
    let mut looks = 0;
    for what in ["release", "deletion by an operator", "close", "expiry", "drop of the last handle"]
    {
        let holders = client();
        let holder = lock_of(&holders, &path);
        let dying = (what == "expiry")
            .then(|| Probe::connect_for(common::shared_address(), SHORT).unwrap());
        match &dying {
            Some(dying) => drop(dying.create(&path, b"somebody", true, false).unwrap()),
            None => holder.lock().unwrap(),
        }
        let waiting = locking(&lock);
        looks += 1;
        await_looks(&proxy, looks);
        assert!(!waiting.is_done(), "entered a held lock");
        let begun = Instant::now();
        match what {
            "release" => holder.unlock().unwrap(),
            "close" => holders.close().unwrap(),
            "expiry" => dying.expect("a probe").abandon(),
            "drop of the last handle" => drop(holder),
            _ => probe.delete(&path).unwrap(),
        }
        waiting.result(what).unwrap();
        println!("{what}: locked {:?} later", begun.elapsed());
        assert_ne!(stat_of(&path).ephemeral_owner, 0);
        lock.unlock().unwrap();
        assert!(!exists(&path), "{what}");
    }
    // The watch that let it sleep woke it, and nothing else was asked.
    assert_eq!(proxy.requests(Op::GetData), looks);
    let creates = proxy.requests(Op::Create) - 2 * looks;
    assert!(creates <= 2, "{creates} more than one before and one after each wait");
}

#[test]
fn a_node_that_vanishes_between_create_and_look_wakes_and_leaks_no_watch() {
    let server = Server::start().unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let first = client_of(&server.connect_string(), SESSION);
    let second = client_of(&proxy.connect_string(), SESSION);
    let (holder, lock) = (lock_of(&first, "/lock"), lock_of(&second, "/lock"));
    for answer_too in [false, true].repeat(5) {
        holder.lock().unwrap();
        let look = proxy.on(Op::GetData).path_contains("/lock");
        let held = match answer_too {
            false => look.hold_request(),
            true => look.hold_answer(),
        };
        let waiting = locking(&lock);
        assert!(held.wait(SOON), "{:#?}", proxy.log());
        holder.unlock().unwrap();
        held.release();
        waiting.result("the waiter").unwrap();
        lock.unlock().unwrap();
        let mut seen = String::new();
        wait_until("no watch is left", SOON, || {
            seen = server.four_letter("wchp").unwrap();
            seen.trim().is_empty()
        });
    }
    println!("{:?}", second.stats());
}

#[test]
fn a_change_of_the_nodes_data_wakes_nobody_for_good() {
    let path = fresh_path("data");
    let holders = client();
    let holder = lock_of(&holders, &path);
    holder.lock().unwrap();
    let (proxy, _client, lock) = counted(&path);
    let waiting = locking(&lock);
    await_looks(&proxy, 1);
    for round in 2..5 {
        shared_probe().unwrap().set(&path, b"__REVOKE__").unwrap();
        await_looks(&proxy, round);
        assert!(!waiting.is_done(), "entered a held lock");
    }
    assert!(holder.is_held());
    holder.unlock().unwrap();
    waiting.result("the waiter").unwrap();
    lock.unlock().unwrap();
}

#[test]
fn of_many_waiters_all_get_it_one_at_a_time() {
    const WAITERS: usize = 20;
    const ENTRIES: u32 = 3;
    let path = fresh_path("many");
    let holders = client();
    let holder = lock_of(&holders, &path);
    holder.lock().unwrap();
    // An object each; every second one on a client of its own.
    let clients: Vec<_> = (0..WAITERS / 2).map(|_| client()).collect();
    let witness = Arc::new(Witness::default());
    let waiters: Vec<_> = (0..WAITERS)
        .map(|number| {
            let lock = lock_of(&clients[number % clients.len()], &path);
            let witness = Arc::clone(&witness);
            Task::spawn(move || {
                for _ in 0..ENTRIES {
                    lock.lock().unwrap();
                    assert_ne!(stat_of(lock.path()).ephemeral_owner, 0);
                    witness.visit(|| thread::sleep(Duration::from_millis(1)));
                    lock.unlock().unwrap();
                }
            })
        })
        .collect();
    clients.iter().for_each(|client| await_in_use(client, 2));
    let begun = Instant::now();
    holder.unlock().unwrap();
    for waiter in waiters {
        waiter.result("one of many");
    }
    println!("{witness:?} in {:?}", begun.elapsed());
    witness.saw(WAITERS as u32 * ENTRIES);
    assert!(!exists(&path));
    clients.iter().for_each(|client| is_tidy(client, SOON));
}

#[test]
fn threads_of_one_object_take_turns_in_the_order_of_their_calls() {
    const THREADS: usize = 6;
    let path = fresh_path("turns");
    let (proxy, client, lock) = counted(&path);
    lock.lock().unwrap();
    let requests = || proxy.requests(Op::Create);
    let before = requests();
    let mut arrivals = Arrivals::new();
    for _ in 0..THREADS {
        let lock = lock.clone();
        arrivals.join_asleep(move |inside| {
            lock.lock().unwrap();
            inside();
            lock.unlock().unwrap();
        });
    }
    assert_eq!(requests(), before, "they wait in this process");
    assert_eq!(common::in_use(&client.stats()), 1);
    lock.unlock().unwrap();
    assert_eq!(arrivals.order(), (0..THREADS).collect::<Vec<_>>());
}

#[test]
fn a_cancel_or_a_close_ends_every_wait_and_nothing_else() {
    let path = fresh_path("ended");
    let holders = client();
    let holder = lock_of(&holders, &path);
    holder.lock().unwrap();
    let node = node_at(&path);
    let second = client();
    let (lock, other) = (lock_of(&second, &path), lock_of(&second, &path));
    let tasks: Vec<_> = (0..3).map(|_| locking(&lock)).collect();
    let bystander = locking(&other);
    await_in_use(&second, 2);
    wait_until("all are cancelled", SOON, || {
        // A thread may still be on its way to the call.
        lock.cancel_waiters();
        tasks.iter().all(Task::is_done)
    });
    for task in &tasks {
        let seen = task.result("a cancelled waiter");
        assert!(matches!(&seen, Err(error) if error.is_cancelled()), "{seen:?}");
    }
    assert!(!bystander.is_done(), "another object is not affected");
    let later = locking(&lock);
    await_in_use(&second, 2);
    let begun = Instant::now();
    second.close().unwrap();
    for task in [bystander, later] {
        let seen = task.result("a waiter of a closed client");
        assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
    }
    println!("closed in {:?}", begun.elapsed());
    assert!(holder.is_held());
    assert_eq!(node_at(&path), node, "the holder's node is untouched");
    assert!(matches!(lock.lock(), Err(Error::Closed)));
    assert!(matches!(lock.try_lock(), Err(Error::Closed)));
    holder.unlock().unwrap();
}

#[test]
fn one_deadline_holds_under_a_churn_of_holders() {
    let path = fresh_path("churn");
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let churn: Vec<_> = (0..3)
        .map(|_| {
            let (path, stop) = (path.clone(), Arc::clone(&stop));
            Task::spawn(move || {
                let client = client();
                let lock = lock_of(&client, &path);
                while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                    lock.lock().unwrap();
                    thread::sleep(Duration::from_millis(2));
                    lock.unlock().unwrap();
                }
            })
        })
        .collect();
    let (_proxy, client, lock) = counted(&path);
    let timeout = Duration::from_millis(400);
    for round in 0..5 {
        let what = format!("round {round}");
        let got =
            common::in_time(&what, timeout + Duration::from_secs(1), || lock.try_lock_for(timeout));
        if got.unwrap() {
            lock.unlock().unwrap();
        }
    }
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    for task in churn {
        task.result("one of the churn");
    }
    is_tidy(&client, SOON);
    assert!(!exists(&path));
}

#[test]
fn a_silent_server_is_not_mistaken_for_a_busy_lock() {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), SHORT);
    let lock = lock_of(&client, "/lock");
    lock.lock().unwrap();
    lock.unlock().unwrap();
    server.pause().unwrap();
    let slack = Duration::from_secs(1);
    for (what, timeout) in [("try_lock", None), ("try_lock_for", Some(Duration::from_millis(500)))]
    {
        let limit = timeout.unwrap_or(SHORT / 3) + slack;
        let seen = common::in_time(what, limit, || match timeout {
            None => lock.try_lock(),
            Some(timeout) => lock.try_lock_for(timeout),
        });
        assert!(matches!(seen, Err(Error::Disconnected { .. })), "{what}: {seen:?}");
    }
    server.resume().unwrap();
    assert!(lock.try_lock_for(SOON).unwrap(), "{:?}", client.stats());
    lock.unlock().unwrap();
}
