//! Schedules in which guarded writes, leaderships and minimum holds do not do what their docs say. Each of these
//! fails until its finding is dealt with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, Leadership, LockOptions, Term};
use zoolock_test_support::{Op, connect_string, fresh_path, shared_probe, wait_until};

use common::relay::{CREATE, Fate, Relay, UNTOUCHED};
use common::{SOON, Task, Visitor, client, client_of, lock_of, shared_address, shared_proxy};

/// No lease ends in it, however slow the machine is.
const LONG: Duration = Duration::from_secs(30);
const AT_LEAST: Duration = Duration::from_secs(2);

fn node(name: &str) -> String {
    let path = fresh_path(name);
    shared_probe().unwrap().create(&path, b"old", false, false).unwrap();
    path
}

// ---- hold_at_least

/// "Nobody gets the lock for `time` after its grant, however early it is unlocked."
#[test]
fn hold_at_least_counts_from_the_grant_also_where_nodes_were_handed_on_or_kept() {
    let options = || LockOptions::new().hold_at_least(AT_LEAST);
    let mut early = Vec::new();
    for (what, options) in
        [("kept", options().keep_idle(LONG)), ("handed on", options().local_handoffs(8))]
    {
        let (ours, others) = (client_of(&connect_string(), LONG), client());
        let path = fresh_path("at-least-again");
        let lock = DistributedLock::with(&ours, &*path, options).unwrap();
        let first = Visitor::start_asleep(lock.clone());
        first.comes_in();
        let begun = Instant::now();
        wait_until("its time is over", SOON, || begun.elapsed() > AT_LEAST);
        let second = Visitor::start_asleep(lock.clone());
        let before = first.hold().node();
        let granted = Instant::now();
        first.leaves();
        let after = second.hold().node();
        assert_eq!(before, after, "{what}: the second has it without the servers");
        second.leaves();
        let rival = lock_of(&others, &path);
        rival.lock().unwrap();
        let passed = granted.elapsed();
        println!("{what}: somebody else has it {passed:?} after the grant");
        rival.unlock().unwrap();
        if passed < AT_LEAST {
            early.push((what, passed));
        }
    }
    assert!(early.is_empty(), "{early:?}");
}

/// "It is refused as well when the hold was released." Nobody else has the lock, but its owner has let go of it.
#[test]
fn no_write_is_carried_out_behind_the_release_of_its_hold_where_the_node_stays() {
    let (proxy, guarded) = (shared_proxy(), node("behind-its-release"));
    let own = client_of(&proxy.connect_string(), LONG);
    let options = LockOptions::new().hold_at_least(LONG);
    let lock = DistributedLock::with(&own, fresh_path("stays"), options).unwrap();
    lock.lock().unwrap();
    let hold = lock.hold().unwrap();
    let on_its_way = proxy.hold_request(Op::Multi, 1);
    let write = hold.transaction().set(&guarded, "late", None);
    let commit = Task::spawn(move || write.commit());
    assert!(on_its_way.wait(LONG));
    lock.unlock().unwrap();
    let state = hold.state();
    on_its_way.release();
    let written = commit.result("a commit");
    println!("{state:?}, then {written:?}");
    assert!(written.is_err(), "carried out though the hold was {state:?}");
}

// ---- leadership

/// Leads until it is told to return, with every `Term` method at hand.
fn leads(client: &Client, path: &str, lead: impl FnMut(&Term) + Send + 'static) -> Leadership {
    Leadership::new(client, path, LockOptions::new(), lead).unwrap()
}

#[test]
fn no_term_begins_behind_a_shutdown_that_comes_while_it_asks_for_the_lock() {
    let (own, path) = (client(), fresh_path("begins-late"));
    let (late, rounds) = (Arc::new(Mutex::new(0)), 100);
    for round in 0..rounds {
        let count = Arc::clone(&late);
        let one = leads(&own, &path, move |term| {
            *count.lock().unwrap() += u32::from(term.is_stopping());
        });
        let spin = Instant::now();
        while spin.elapsed() < Duration::from_micros(20 * round) {
            std::hint::spin_loop();
        }
        one.shutdown();
    }
    let late = *late.lock().unwrap();
    println!("{late} of {rounds} terms began when they were to stop");
    assert_eq!(late, 0);
}

/// "False .. when for longer than a session timeout there was no connection, or calls for the lock failed."
#[test]
fn health_is_false_where_no_call_for_the_lock_ever_comes_to_anything() {
    let (path, cuts) = (fresh_path("cut-each-time"), Arc::new(AtomicBool::new(false)));
    let on = Arc::clone(&cuts);
    // As a server does whose `jute.maxbuffer` is too small for the request, or that refuses the credentials.
    let relay = Relay::start(shared_address(), move |frame| {
        match !frame.is_answer && frame.op == Some(CREATE) && on.load(Ordering::SeqCst) {
            true => Fate::LastBytes(Vec::new()),
            false => UNTOUCHED,
        }
    });
    let own = client_of(&relay.connect_string(), Duration::from_secs(1));
    cuts.store(true, Ordering::SeqCst);
    let one = leads(&own, &path, |term| while !term.wait(LONG) {});
    let timeout = own.session_timeout();
    let begun = Instant::now();
    let (mut looks, mut well) = (0, 0);
    while begun.elapsed() < timeout * 6 {
        let passed = begun.elapsed();
        if passed > timeout * 2 {
            looks += 1;
            well += u32::from(one.health());
        }
        thread::sleep(Duration::from_millis(10));
    }
    println!(
        "{} cuts in {:?}; {well} of {looks} looks: well; {:?}; {:?}",
        relay.changed(),
        begun.elapsed(),
        own.state(),
        own.stats()
    );
    cuts.store(false, Ordering::SeqCst);
    one.shutdown();
    assert!(well < looks / 2, "{well} of {looks} looks say that all is well");
}

// ---- guarded writes

/// Lost says that somebody else may have the lock; here its owner has let go.
#[test]
fn a_write_that_comes_behind_the_release_is_not_said_to_have_lost_the_lock() {
    let (own, checked) = (client_of(&connect_string(), LONG), node("checked"));
    let mut seen = Vec::new();
    for round in 0..30 {
        let lock = lock_of(&own, &fresh_path("released-meanwhile"));
        lock.lock().unwrap();
        let hold = lock.hold().unwrap();
        // A request that takes a while to be written.
        let many = (0..12_000).fold(hold.transaction(), |all, _| all.check(&checked, None));
        let commit = Task::spawn(move || many.commit());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(500 * round) {
            std::hint::spin_loop();
        }
        lock.unlock().unwrap();
        seen.push(format!("{:?}", commit.result("a commit")));
    }
    println!("{seen:#?}");
    assert!(seen.iter().any(|said| said.contains("NotHeld")), "it was never too late");
    let lost = seen.iter().filter(|said| said.contains("Lost")).count();
    assert_eq!(lost, 0, "{lost} times Lost, {:?}", seen.iter().find(|said| said.contains("Lost")));
}
