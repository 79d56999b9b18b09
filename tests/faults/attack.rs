//! Schedules in which guarded writes, leaderships and minimum holds do not do what their docs say. Each of these
//! fails until its finding is dealt with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{bounded, unbounded};
use zoolock::{Client, DistributedLock, Error, Leadership, LockOptions, MultiLock, Term};
use zoolock_test_support::{Op, connect_string, fresh_path, shared_probe, wait_until};

use common::relay::{CREATE, Fate, Relay, UNTOUCHED};
use common::{
    SOON, Task, Visitor, await_nodes, client, client_of, every_subject_that, lock_of,
    shared_address, shared_proxy, warnings,
};

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

/// "False if somebody else was ahead at one of them until then; the others are released again."
#[test]
fn several_locks_that_were_not_got_leave_none_of_them_busy() {
    let [ours, others] = [(); 2].map(|()| client_of(&connect_string(), LONG));
    let above = fresh_path("several");
    let (a, b) = (format!("{above}-a"), format!("{above}-b"));
    let options = LockOptions::new().hold_at_least(Duration::MAX);
    let first = DistributedLock::with(&ours, &*a, options).unwrap();
    let both = MultiLock::new([first.into(), lock_of(&ours, &b).into()]).unwrap();
    let busy = lock_of(&others, &b);
    busy.lock().unwrap();
    assert!(!both.try_lock().unwrap());
    busy.unlock().unwrap();
    let free = lock_of(&others, &a).try_lock().unwrap();
    println!("nobody has had both; the first is free: {free}; both: {:?}", both.try_lock());
    assert!(free, "nobody gets {a} for ever, though nobody has had it");
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

/// "Blocks for so long, or until the term is over if that is sooner."
#[test]
fn a_wait_for_the_end_of_a_term_that_is_over_returns_at_once_also_the_second_time() {
    let (own, path, (tell, told)) = (client(), fresh_path("waits-twice"), unbounded());
    let one = leads(&own, &path, move |term| {
        tell.send(None).unwrap();
        let first = term.wait(LONG);
        let begun = Instant::now();
        let second = term.wait(AT_LEAST);
        tell.send(Some((first, second, begun.elapsed()))).unwrap();
        while !term.is_stopping() {
            term.wait(AT_LEAST);
        }
    });
    assert_eq!(told.recv_timeout(SOON).unwrap(), None);
    own.revoke(&one.leader().unwrap().unwrap()).unwrap();
    let (first, second, took) = told.recv_timeout(SOON).unwrap().unwrap();
    one.shutdown();
    println!("{first} {second}, the second after {took:?}");
    assert!(first && second && took < AT_LEAST / 2, "a term that is over was waited for: {took:?}");
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

/// A term that went well is no failure in a row.
#[test]
fn health_is_not_false_at_once_when_two_long_terms_end_in_a_panic() {
    let (path, (tell, terms)) = (fresh_path("panics-seldom"), unbounded());
    warnings(&path);
    let own = client_of(&connect_string(), Duration::from_secs(1));
    let timeout = own.session_timeout();
    let (go_on, waits) = bounded::<()>(0);
    let one = leads(&own, &path, move |term| {
        tell.send(term.token()).unwrap();
        if waits.recv().is_ok() {
            panic!("on purpose");
        }
    });
    let mut bad = Vec::new();
    for round in 0..3 {
        terms.recv_timeout(SOON).unwrap();
        // It leads for twice the time that something may go wrong for.
        let begun = Instant::now();
        wait_until("a long term", SOON, || begun.elapsed() > timeout * 2);
        assert!(one.health(), "it leads");
        go_on.send(()).unwrap();
        let panicked = Instant::now();
        while terms.is_empty() {
            if !one.health() {
                bad.push((round, panicked.elapsed()));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
    drop(go_on);
    one.shutdown();
    println!("bad {} times: {:?}", bad.len(), bad.first());
    assert!(bad.is_empty(), "{:?} after a panic, {timeout:?} are allowed", bad.first());
}

/// "the function has not returned though its term is over", which `Term::is_over` says it is.
#[test]
fn health_is_false_when_the_function_does_not_return_though_it_was_asked_to() {
    let (path, (tell, terms)) = (fresh_path("asked"), unbounded());
    let (go_on, waits) = unbounded::<()>();
    let own = client_of(&connect_string(), Duration::from_secs(1));
    let timeout = own.session_timeout();
    let one = leads(&own, &path, move |term| {
        tell.send(()).unwrap();
        while !term.wait(LONG) {}
        tell.send(()).unwrap();
        let _ = waits.recv();
    });
    terms.recv_timeout(SOON).unwrap();
    own.revoke(&one.leader().unwrap().unwrap()).unwrap();
    terms.recv_timeout(SOON).unwrap();
    let begun = Instant::now();
    let mut health = true;
    while begun.elapsed() < timeout * 3 && health {
        health = one.health();
        thread::sleep(Duration::from_millis(20));
    }
    println!("health {health} {:?} after the end of the term", begun.elapsed());
    drop(go_on);
    one.shutdown();
    assert!(!health);
}

/// By a handle that it was given.
#[test]
fn a_shutdown_by_the_function_itself_ends_the_contest_without_a_panic() {
    let (own, path) = (client(), fresh_path("ends-itself"));
    warnings(&path);
    let slot: Arc<Mutex<Option<Leadership>>> = Arc::default();
    let (handle, (tell, told)) = (Arc::clone(&slot), unbounded());
    let (go_on, waits) = bounded::<()>(0);
    let one = leads(&own, &path, move |_| {
        waits.recv().unwrap();
        let one = handle.lock().unwrap().take().unwrap();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one.shutdown()));
        tell.send(ended.is_ok()).unwrap();
    });
    *slot.lock().unwrap() = Some(one);
    go_on.send(()).unwrap();
    let returned = told.recv_timeout(SOON);
    await_nodes(&path, 0);
    println!("{returned:?}; {:#?}", warnings(&path));
    assert_eq!(returned, Ok(true));
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

#[test]
fn no_transaction_ends_its_own_hold_unnoticed() {
    every_subject_that(
        |subject| subject.marker().is_some() && subject.is_one_lock() && subject.is_exclusive(),
        |subject| {
            let (own, others, path) =
                (client_of(&connect_string(), LONG), client(), fresh_path("deletes-itself"));
            let (object, rival) = (subject.at(&own, &path), subject.rival(&others, &path));
            object.lock().unwrap();
            let hold = object.hold();
            let deleted = hold.transaction().delete(subject.node_of(&hold), None).commit();
            let let_in = rival.try_lock().unwrap();
            println!("{}: {deleted:?}, {hold:?}; somebody else: {let_in}", subject.name);
            let both = let_in && hold.is_held();
            let _ = object.unlock();
            assert!(!both, "{}: two have it", subject.name);
        },
    );
}

/// "with this version if one is given"
#[test]
fn a_version_that_no_node_has_is_not_any_version() {
    let (own, guarded) = (client(), node("any-version"));
    let lock = lock_of(&own, &fresh_path("versions"));
    lock.lock().unwrap();
    let hold = lock.hold().unwrap();
    let written = hold.transaction().set(&guarded, "new", -1).commit();
    println!("{written:?}, now {:?}", own.read(&guarded));
    let refused = matches!(written, Err(Error::Conflict { .. } | Error::InvalidArgument { .. }));
    assert!(refused, "{written:?}");
}

/// As the example of `Transaction` and that of the guide read and write.
#[test]
fn the_documented_way_to_read_and_write_overwrites_nothing_that_came_without_the_lock() {
    let (own, path) = (client(), fresh_path("example"));
    let lock = lock_of(&own, &fresh_path("example-lock"));
    let guard = lock.acquire().unwrap();
    let (mut orders, version) = own.read(&path).unwrap().unwrap_or_default();
    shared_probe().unwrap().create(&path, b"of somebody\n", false, false).unwrap();
    orders.extend_from_slice(b"one more\n");
    let written = guard.transaction().set(&path, orders, version).commit();
    println!("{written:?}, now {:?}", own.read(&path));
    assert!(matches!(written, Err(Error::Conflict { .. })), "{written:?}");
}
