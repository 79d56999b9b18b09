//! Holding a lock, and losing it: what the holder is told, and when.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{after, select};
use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, Error, Hold, HoldState, LossReason, Result,
};
use zoolock_test_support::{Direction, FaultProxy, fresh_path, shared_probe, wait_until};

use crate::lock::core::{await_nodes, hold_of};
use crate::util::{SOON, Task, children, client, client_of, shared_proxy, warnings};

/// The session timeout of clients that are to lose their locks.
const SHORT: Duration = Duration::from_secs(3);

const EXPIRED: HoldState = HoldState::Lost(LossReason::LeaseExpired);
const DELETED: HoldState = HoldState::Lost(LossReason::NodeDeleted);
const CLOSED: HoldState = HoldState::Lost(LossReason::ClientClosed);

/// A client behind a proxy, and its lock.
struct Stage {
    proxy: FaultProxy,
    client: Client,
    path: String,
    lock: DistributedLock,
}

impl Stage {
    fn new(name: &str) -> Stage {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SHORT);
        let path = fresh_path(name);
        let lock = DistributedLock::new(&client, &path).unwrap();
        Stage {
            proxy,
            client,
            path,
            lock,
        }
    }
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(result: &Result<T>, path: &str, why: LossReason) {
    let lost =
        matches!(result, Err(Error::Lost { path: at, reason }) if at == path && *reason == why);
    assert!(lost, "not lost because {why}: {result:?}");
}

/// Waits until `lost()` is ready; when that was.
fn lost_at(hold: &Hold) -> Instant {
    select! {
        recv(hold.lost()) -> never => assert!(never.is_err()),
        recv(after(SOON)) -> _ => panic!("not over after {SOON:?}: {hold:?}"),
    }
    Instant::now()
}

/// Waits until `is_held()` is false; when that was, and when by the last word of `valid_for()`
/// it had to be.
fn unheld_at(hold: &Hold) -> (Instant, Instant) {
    let mut ends = Instant::now();
    while hold.is_held() {
        ends = ends.max(Instant::now() + hold.valid_for());
        thread::sleep(Duration::from_millis(1));
    }
    (Instant::now(), ends)
}

fn delete_node(hold: &Hold) {
    let node = format!("{}/{}", hold.path(), hold.node());
    shared_probe().unwrap().delete(&node).unwrap();
}

/// Lost to the silence of one way or both, and told so before anybody else is let in.
fn is_lost_before_a_rival_is_granted(silent: Direction) {
    let stage = Stage::new("expired");
    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    let rivals = client();
    let rival = DistributedLock::new(&rivals, &stage.path).unwrap();
    let (waiting, seen) = (rival.clone(), hold.clone());
    // Asked by the thread that was granted, so that no other needs to be fast.
    let granted = Task::spawn(move || {
        waiting.lock().map(|()| {
            let told = seen.lost().try_recv().is_err_and(|e| e.is_disconnected());
            (seen.is_held(), told, Instant::now())
        })
    });
    await_nodes(&stage.path, 2);
    let (polled, listened) = (hold.clone(), hold.clone());
    let unheld = Task::spawn(move || unheld_at(&polled).0);
    let lost = Task::spawn(move || lost_at(&listened));
    let begun = Instant::now();
    stage.proxy.black_hole(silent);

    let (held, told, granted) = granted.result("the rival").unwrap();
    let unheld = unheld.result("is_held() is false");
    let lost = lost.result("lost() is ready");
    println!(
        "{silent:?} silent: is_held() false after {:?}, lost() ready {:?}, rival granted {:?}",
        unheld.saturating_duration_since(begun),
        lost.saturating_duration_since(begun),
        granted.saturating_duration_since(begun),
    );
    assert!(!held, "held when the rival was granted: {hold:?}");
    assert!(told, "not told of the loss when the rival was granted");
    assert_eq!(hold.state(), EXPIRED);

    let node = hold_of(&rival).node();
    let unlocked = stage.lock.unlock();
    assert_lost(&unlocked, &stage.path, LossReason::LeaseExpired);
    stage.proxy.restore();
    // A proof that the first client is back and has cleaned up after itself.
    let done = || !stage.lock.try_lock().unwrap_or(true) && stage.client.stats().garbage == 0;
    wait_until("the first client has cleaned up", SOON, done);
    assert_eq!(await_nodes(&stage.path, 1), [node]);
    assert!(rival.is_held());
    rival.unlock().unwrap();
}

#[test]
fn an_expired_session_is_lost_before_a_rival_is_granted() {
    is_lost_before_a_rival_is_granted(Direction::Both);
}

#[test]
fn a_silent_server_loses_the_lock_before_a_rival_is_granted() {
    is_lost_before_a_rival_is_granted(Direction::ToClient);
}

#[test]
fn an_unheard_client_loses_the_lock_before_a_rival_is_granted() {
    is_lost_before_a_rival_is_granted(Direction::ToServer);
}

#[test]
fn a_black_hole_is_lost_by_the_own_clock() {
    let stage = Stage::new("black_hole");
    let hold = stage.lock.acquire().unwrap();
    let (polled, listened) = (hold.hold(), hold.hold());
    let begun = Instant::now();
    stage.proxy.black_hole(Direction::Both);
    let unheld = Task::spawn(move || unheld_at(&polled));
    let lost = Task::spawn(move || lost_at(&listened));
    let (unheld, ends) = unheld.result("is_held() is false");
    let lost = lost.result("lost() is ready");
    println!(
        "the lease ended {:?} after the black hole; noticed {:?} later, announced {:?} later",
        ends - begun,
        unheld.saturating_duration_since(ends),
        lost.saturating_duration_since(ends),
    );
    assert_eq!(hold.state(), EXPIRED);
    assert!(ends - begun < SHORT, "the lease is longer than the session");
    let limit = ends + Duration::from_secs(1);
    assert!(unheld < limit && lost < limit);
    assert_lost(&hold.release(), &stage.path, LossReason::LeaseExpired);
}

#[test]
fn a_deleted_node_is_lost_also_in_the_first_quarter() {
    let stage = Stage::new("deleted");
    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    delete_node(&hold);
    let begun = Instant::now();
    let noticed = lost_at(&hold);
    println!("noticed {:?} after the deletion", noticed - begun);
    assert_eq!(hold.state(), DELETED);
    assert!(!hold.is_held() && !stage.lock.is_held());
    assert_eq!(hold.valid_for(), Duration::ZERO);
    let unlocked = stage.lock.unlock();
    assert_lost(&unlocked, &stage.path, LossReason::NodeDeleted);
    assert_eq!(hold.state(), DELETED);
    wait_until("it is counted", SOON, || {
        stage.client.stats().seats_lost == 1
    });
    let unlocked = stage.lock.unlock();
    assert!(
        matches!(unlocked, Err(Error::NotHeld { .. })),
        "{unlocked:?}"
    );
    stage.lock.lock().unwrap();
    stage.lock.unlock().unwrap();
}

#[test]
fn a_deleted_node_is_lost_at_once_when_held_for_longer() {
    let client = client();
    let path = fresh_path("deleted");
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    // The watch is set when the lock has been held for a quarter of the session timeout.
    thread::sleep(client.session_timeout() / 4 + Duration::from_millis(500));
    let begun = Instant::now();
    delete_node(&hold);
    let took = lost_at(&hold) - begun;
    println!("noticed {took:?} after the deletion");
    assert!(took < Duration::from_secs(2), "not at once: {took:?}");
    assert_eq!(hold.state(), DELETED);
    assert_lost(&lock.unlock(), &path, LossReason::NodeDeleted);
}

#[test]
fn an_unlock_tells_of_a_deleted_node_that_nobody_has_noticed() {
    let client = client();
    let path = fresh_path("deleted");
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    delete_node(&hold);
    let unlocked = lock.unlock();
    println!("unlock: {unlocked:?}");
    assert_lost(&unlocked, &path, LossReason::NodeDeleted);
    let guard = lock.acquire().unwrap();
    delete_node(&guard);
    assert_lost(&guard.release(), &path, LossReason::NodeDeleted);
    lock.lock().unwrap();
    lock.unlock().unwrap();
}

#[test]
fn tokens_rise_over_release_crash_and_a_new_directory() {
    let path = fresh_path("tokens");
    let mut tokens: Vec<(&str, u64)> = Vec::new();
    let mut enter = |how: &'static str, client: &Client| {
        let lock = DistributedLock::new(client, &path).unwrap();
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        tokens.push((how, hold.fencing_token().unwrap()));
        assert_eq!(hold.fencing_token().unwrap(), tokens.last().unwrap().1);
        (lock, hold)
    };
    let survivor = client();
    enter("first", &survivor).0.unlock().unwrap();
    enter("after a release", &survivor).0.unlock().unwrap();

    let closed = client();
    let (_closed_while_held, hold) = enter("another client", &closed);
    closed.close().unwrap();
    println!("known after the end, too: {:?}", hold.fencing_token());
    enter("after a close", &survivor).0.unlock().unwrap();

    let stage = Stage::new("tokens");
    let (_killed_while_held, hold) = enter("a third client", &stage.client);
    stage.proxy.refuse(true);
    stage.proxy.cut();
    enter("after a crash", &survivor).0.unlock().unwrap();
    assert!(!hold.is_held(), "{hold:?}");

    let sequence = |hold: &Hold| hold.node()[hold.node().len() - 10..].to_owned();
    let (lock, hold) = enter("once more", &survivor);
    let last = sequence(&hold);
    lock.unlock().unwrap();
    shared_probe().unwrap().delete(&path).unwrap();
    let (lock, hold) = enter("in a new directory", &survivor);
    let first = sequence(&hold);
    lock.unlock().unwrap();
    println!("sequences {last}, then {first}; {tokens:#?}");
    assert!(first < last, "the sequence began anew");
    assert!(tokens.is_sorted_by(|a, b| a.1 < b.1), "{tokens:?}");
}

#[test]
fn a_token_that_nobody_asked_for_in_time_is_an_error() {
    let stage = Stage::new("no_token");
    stage.lock.lock().unwrap();
    let released = hold_of(&stage.lock);
    stage.lock.unlock().unwrap();
    let token = released.fencing_token();
    assert!(matches!(token, Err(Error::NotHeld { .. })), "{token:?}");

    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    delete_node(&hold);
    assert_lost(&hold.fencing_token(), &stage.path, LossReason::NodeDeleted);
    assert_lost(&stage.lock.unlock(), &stage.path, LossReason::NodeDeleted);

    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    stage.proxy.refuse(true);
    stage.proxy.cut();
    let token = hold.fencing_token();
    println!("while disconnected: {token:?}");
    let disconnected = matches!(token, Err(Error::Disconnected { .. }));
    assert!(disconnected, "{token:?}");
    lost_at(&hold);
    assert_lost(&hold.fencing_token(), &stage.path, LossReason::LeaseExpired);
    assert_lost(&stage.lock.unlock(), &stage.path, LossReason::LeaseExpired);
    assert_lost(&hold.fencing_token(), &stage.path, LossReason::LeaseExpired);
}

#[test]
fn a_lost_nest_says_so_to_its_owner_until_the_last_unlock() {
    let client = client_of(&zoolock_test_support::connect_string(), SHORT);
    let path = fresh_path("nest");
    let lock = DistributedReentrantLock::new(&client, &path).unwrap();
    for _ in 0..3 {
        lock.lock().unwrap();
    }
    let hold = hold_of(&lock);
    delete_node(&hold);
    lost_at(&hold);
    assert_eq!(hold.state(), DELETED);

    // The owner: no way in, however it tries, and nothing is counted.
    assert_lost(&lock.lock(), &path, LossReason::NodeDeleted);
    assert_lost(&lock.try_lock(), &path, LossReason::NodeDeleted);
    assert_lost(&lock.try_lock_for(SOON), &path, LossReason::NodeDeleted);
    assert_lost(&lock.acquire().map(drop), &path, LossReason::NodeDeleted);
    assert_eq!((lock.hold_count(), lock.is_held()), (3, false));
    assert_eq!(hold_of(&lock).state(), DELETED);

    // Others wait: the code that lost the lock may still be running.
    let other = lock.clone();
    let tries = Task::spawn(move || {
        let timeout = Duration::from_millis(100);
        let begun = Instant::now();
        let tries = (
            other.try_lock(),
            other.try_lock_for(timeout),
            other.unlock(),
        );
        assert!(begun.elapsed() >= timeout, "{:?}", begun.elapsed());
        tries
    });
    let (try_lock, try_for, unlock) = tries.result("another thread");
    println!("another thread: {try_lock:?}, {try_for:?}, {unlock:?}");
    assert!(matches!(try_lock, Ok(false)), "{try_lock:?}");
    assert!(matches!(try_for, Ok(false)), "{try_for:?}");
    let owner = thread::current().id();
    assert!(
        matches!(&unlock, Err(Error::NotOwner { owner: by, .. }) if *by == owner),
        "{unlock:?}"
    );
    let other = lock.clone();
    let cancelled = Task::spawn(move || other.lock());
    wait_until("it is cancelled", SOON, || {
        lock.cancel_waiters();
        cancelled.is_done()
    });
    let cancelled = cancelled.result("cancelled");
    assert!(
        matches!(cancelled, Err(Error::Cancelled { .. })),
        "{cancelled:?}"
    );
    let other = lock.clone();
    let waiter = Task::spawn(move || other.lock().and_then(|()| other.unlock()));

    for left in [2, 1, 0] {
        assert!(!waiter.is_done(), "{left} unlocks are left after this one");
        assert_lost(&lock.unlock(), &path, LossReason::NodeDeleted);
        assert_eq!(lock.hold_count(), left);
    }
    waiter.result("the waiter gets its turn").unwrap();
    let unlocked = lock.unlock();
    assert!(
        matches!(unlocked, Err(Error::NotHeld { .. })),
        "{unlocked:?}"
    );
    lock.lock().unwrap();
    assert_eq!((lock.hold_count(), lock.is_held()), (1, true));
    lock.unlock().unwrap();
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn a_lost_hold_keeps_its_object_in_use_until_the_unlock_that_reports_it() {
    let stage = Stage::new("in_use");
    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    delete_node(&hold);
    lost_at(&hold);
    let tried = stage.lock.try_lock();
    let tried_for = stage.lock.try_lock_for(Duration::from_millis(100));
    println!("on the lost object: {tried:?}, {tried_for:?}");
    assert!(matches!(tried, Ok(false)), "{tried:?}");
    assert!(matches!(tried_for, Ok(false)), "{tried_for:?}");
    let rival = DistributedLock::new(&stage.client, &stage.path).unwrap();
    assert!(rival.try_lock().unwrap(), "the lock itself is free");
    rival.unlock().unwrap();
    assert_lost(&stage.lock.unlock(), &stage.path, LossReason::NodeDeleted);
    assert!(stage.lock.try_lock().unwrap());
    stage.lock.unlock().unwrap();
}

#[test]
fn a_lease_is_renewed_for_as_long_as_the_lock_is_held() {
    let [idle, busy] = [(); 2].map(|()| client_of(&zoolock_test_support::connect_string(), SHORT));
    let path = fresh_path("renewed");
    let at = |client: &Client, name: &str| {
        DistributedLock::new(client, format!("{path}/{name}")).unwrap()
    };
    let (held_idle, held_busy, short) = (at(&idle, "a"), at(&busy, "b"), at(&busy, "c"));
    held_idle.lock().unwrap();
    held_busy.lock().unwrap();
    let holds = [hold_of(&held_idle), hold_of(&held_busy)];
    let (begun, end) = (Instant::now(), Instant::now() + 5 * SHORT);
    let mut least = [SHORT; 2];
    let mut shrank = [0_u32; 2];
    let mut grew = [0_u32; 2];
    let mut last = holds.each_ref().map(Hold::valid_for);
    let mut cycles = 0;
    while Instant::now() < end {
        short.lock().unwrap();
        short.unlock().unwrap();
        cycles += 1;
        for (number, hold) in holds.iter().enumerate() {
            assert!(hold.is_held(), "after {:?}: {hold:?}", begun.elapsed());
            assert_eq!(hold.state(), HoldState::Held, "{:?}", begun.elapsed());
            let left = hold.valid_for();
            assert!(left <= SHORT, "a lease of {left:?}");
            shrank[number] += u32::from(left < last[number]);
            grew[number] += u32::from(left > last[number]);
            least[number] = least[number].min(left);
            last[number] = left;
        }
        thread::sleep(Duration::from_millis(5));
    }
    println!(
        "held for {:?} on an idle and a busy client ({cycles} other locks): \
         least left {least:?}, renewed {grew:?} times",
        begun.elapsed()
    );
    assert!(shrank.iter().all(|times| *times > 5), "{shrank:?}");
    assert!(grew.iter().all(|times| *times >= 5), "{grew:?}");
    held_idle.unlock().unwrap();
    held_busy.unlock().unwrap();
}

#[test]
fn a_hold_goes_from_held_over_suspended_to_lost() {
    let stage = Stage::new("states");
    let guard = stage.lock.acquire().unwrap();
    let mut seen = vec![guard.state()];
    stage.proxy.refuse(true);
    stage.proxy.cut();
    wait_until("lost", SOON, || {
        let now = guard.state();
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        // Held is what both look like.
        let looks_held = matches!(now, HoldState::Held | HoldState::Suspended);
        assert!(looks_held || !guard.is_held(), "{seen:?}");
        !looks_held
    });
    println!("{seen:?}");
    assert_eq!(seen, [HoldState::Held, HoldState::Suspended, EXPIRED]);
    stage.proxy.refuse(false);
    let connected = || stage.client.stats().connections >= 2;
    wait_until("connected again", SOON, connected);
    assert_eq!(guard.state(), EXPIRED, "a lost hold stays lost");
    assert_lost(&guard.release(), &stage.path, LossReason::LeaseExpired);
}

#[test]
fn any_number_of_threads_hear_of_the_end() {
    const THREADS: usize = 5;
    let client = client();
    let path = fresh_path("hear");
    let lock = DistributedLock::new(&client, &path).unwrap();
    let listen = |hold: &Hold| -> Vec<_> {
        let listen = |hold: Hold| {
            Task::spawn(move || {
                let began = hold.state();
                lost_at(&hold);
                (began, hold.state())
            })
        };
        (0..THREADS).map(|_| listen(hold.clone())).collect()
    };
    for (end, how) in [(HoldState::Released, "release"), (DELETED, "loss")] {
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        assert!(
            hold.lost().try_recv().is_err_and(|e| e.is_empty()),
            "{hold:?}"
        );
        let listeners = listen(&hold);
        if end == DELETED {
            delete_node(&hold);
            lost_at(&hold);
        }
        let _ = lock.unlock();
        let heard: Vec<_> = listeners.iter().map(|l| l.result(how)).collect();
        println!("{how}: {heard:?}");
        assert!(heard.iter().all(|(_, heard)| *heard == end), "{heard:?}");
        assert!(hold.lost().try_recv().is_err_and(|e| e.is_disconnected()));
    }
}

#[test]
fn a_guard_dropped_after_a_loss_writes_to_the_log() {
    let stage = Stage::new("dropped");
    warnings(&stage.path);
    let guard = stage.lock.acquire().unwrap();
    delete_node(&guard);
    lost_at(&guard);
    let mut before = Vec::new();
    wait_until("the loss is logged", SOON, || {
        before = warnings(&stage.path);
        !before.is_empty()
    });
    drop(guard);
    let logged = warnings(&stage.path).split_off(before.len());
    println!("at the loss: {before:#?}\nat the drop: {logged:#?}");
    let error = Error::Lost {
        path: stage.path.clone(),
        reason: LossReason::NodeDeleted,
    };
    assert!(before.iter().any(|l| l.starts_with("ERROR")), "{before:?}");
    let text = error.to_string();
    assert!(logged.iter().any(|l| l.contains(&text)), "{logged:?}");
    stage.lock.lock().unwrap();
    stage.lock.unlock().unwrap();
}

#[test]
fn a_close_is_told_once_to_each_hold() {
    let client = client();
    let path = fresh_path("closed");
    let by_unlock = DistributedLock::new(&client, format!("{path}/a")).unwrap();
    let by_guard = DistributedLock::new(&client, format!("{path}/b")).unwrap();
    let nested = DistributedReentrantLock::new(&client, format!("{path}/c")).unwrap();
    by_unlock.lock().unwrap();
    let guard = by_guard.acquire().unwrap();
    nested.lock().unwrap();
    nested.lock().unwrap();
    let holds = [hold_of(&by_unlock), guard.hold(), hold_of(&nested)];
    client.close().unwrap();
    for hold in &holds {
        lost_at(hold);
        assert_eq!((hold.state(), hold.is_held()), (CLOSED, false));
        assert_eq!(children(hold.path()), [""; 0], "close waits for the end");
    }
    assert_lost(&nested.lock(), nested.path(), LossReason::ClientClosed);
    assert_lost(
        &by_unlock.unlock(),
        by_unlock.path(),
        LossReason::ClientClosed,
    );
    assert_lost(&guard.release(), by_guard.path(), LossReason::ClientClosed);
    assert_lost(&nested.unlock(), nested.path(), LossReason::ClientClosed);
    assert_lost(&nested.unlock(), nested.path(), LossReason::ClientClosed);
    let later = [
        ("unlock", by_unlock.unlock()),
        ("lock", by_unlock.lock()),
        ("try_lock", by_unlock.try_lock().map(drop)),
        ("try_lock_for", by_unlock.try_lock_for(SOON).map(drop)),
        ("acquire", by_guard.acquire().map(drop)),
        ("unlock a nest", nested.unlock()),
        ("lock a nest", nested.lock()),
    ];
    println!("{later:?}");
    for (what, result) in later {
        assert!(matches!(result, Err(Error::Closed)), "{what}: {result:?}");
    }
}

#[test]
fn a_close_wakes_waiters_here_and_there() {
    let (closing, rivals) = (client(), client());
    let path = fresh_path("closed");
    let rival = DistributedLock::new(&rivals, &path).unwrap();
    rival.lock().unwrap();
    let lock = Arc::new(DistributedReentrantLock::new(&closing, &path).unwrap());
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let lock = Arc::clone(&lock);
            Task::spawn(move || lock.lock())
        })
        .collect();
    // One of the three waits in the queue, the others locally.
    await_nodes(&path, 2);
    closing.close().unwrap();
    for waiter in waiters {
        let ended = waiter.result("a waiter of a closed client");
        assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    }
    assert_eq!(await_nodes(&path, 1), [hold_of(&rival).node()]);
    rival.unlock().unwrap();
}

#[test]
fn is_held_ends_with_the_lease_whether_announced_or_not() {
    let stage = Stage::new("by_the_clock");
    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    stage.proxy.black_hole(Direction::Both);
    let mut looks = 0_u64;
    loop {
        match hold.valid_for() {
            Duration::ZERO => break,
            // No pause: the thread that announces the loss needs some microseconds to wake up.
            left if left < Duration::from_millis(50) => looks += 1,
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
    let (held, state) = (hold.is_held(), hold.state());
    println!("{held}, {state:?} after {looks} looks");
    assert_eq!((held, state), (false, EXPIRED));
}
