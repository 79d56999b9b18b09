//! Timed callbacks, counters, and descriptions of the client.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, unbounded};
use zoolock_test_support::{connect_string, fresh_path, wait_until};
use zoolock_zookeeper::{
    Acl, CreateMode, Listener, SessionEvent, SessionEventKind, State, Watcher,
};

use crate::util::{BRIEFLY, SESSION, SHORT, SOON, Stage, client, client_of, logged, shared_proxy};

#[test]
fn timer_calls_back_at_its_instant_and_survives_panics() {
    let client = client();
    let (sender, called) = unbounded();
    let begun = Instant::now();
    let at = |milliseconds| begun + Duration::from_millis(milliseconds);
    // No callback runs before all are scheduled.
    let (all_asked, asking) = bounded::<()>(0);
    client.call_at(begun, move || {
        let _ = asking.recv();
    });
    client.call_at(at(20), || panic!("on purpose"));
    for milliseconds in [60, 20, 40, 20, 0] {
        let sender = sender.clone();
        client.call_at(at(milliseconds), move || {
            sender.send((milliseconds, Instant::now())).unwrap();
        });
    }
    drop((sender, all_asked));
    let mut order = Vec::new();
    while let Ok((milliseconds, now)) = called.recv_timeout(SOON) {
        assert!(now >= at(milliseconds), "{milliseconds} too early");
        order.push(milliseconds);
    }
    println!("{order:?} after {:?}", begun.elapsed());
    assert_eq!(order, [0, 20, 20, 40, 60]);
    client.close().unwrap();
}

#[test]
fn callback_may_schedule_the_next_and_none_follows_a_close() {
    let client = client();
    let (sender, called) = unbounded();
    let again = client.clone();
    client.call_at(Instant::now(), move || {
        let sender = sender.clone();
        again.call_at(Instant::now(), move || sender.send("the second").unwrap());
    });
    assert_eq!(called.recv_timeout(SOON), Ok("the second"));
    let kept = Arc::new(());
    let held = Arc::clone(&kept);
    client.call_at(Instant::now() + SOON, move || drop(held));
    client.close().unwrap();
    wait_until("what it had is given up", SOON, || Arc::strong_count(&kept) == 1);
    let held = Arc::clone(&kept);
    client.call_at(Instant::now(), move || drop(held));
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn request_made_during_the_end_of_the_client_fails() {
    for round in 0..100 {
        let (client, kept) = (client(), Arc::new(()));
        thread::scope(|scope| {
            let (asking, is_asked) = bounded(0);
            for _ in 0..4 {
                let (client, kept, asking) = (&client, &kept, asking.clone());
                scope.spawn(move || {
                    asking.send(()).unwrap();
                    while client.state() != State::Closed {
                        let held = Arc::clone(kept);
                        client.call_at(Instant::now() + SOON, move || drop(held));
                    }
                });
            }
            (0..4).for_each(|_| is_asked.recv().unwrap());
            client.close().unwrap();
        });
        wait_until(&format!("round {round}: all that was kept is given up"), SOON, || {
            Arc::strong_count(&kept) == 1
        });
    }
}

#[test]
fn client_counts_requests_events_and_connections() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("counts");
    client.create_all(&path, &Acl::open(), CreateMode::Persistent).unwrap();
    let before = client.counts();
    let (watcher, events) = Watcher::channel();
    client.get_data_w(&path, &watcher).unwrap();
    client.set_data(&path, b"x", None).unwrap();
    events.recv_timeout(SOON).unwrap();
    let after = client.counts();
    println!("{before:?}, {after:?}");
    let grown = after.requests - before.requests;
    assert!((2..4).contains(&grown), "{grown} requests, two of them asked for");
    assert_eq!((after.events - before.events, after.connections), (1, 1));
    proxy.cut();
    client.sync("/").unwrap_or_default();
    wait_until("it is back", SOON, || client.counts().connections == 2);
}

#[test]
fn servers_are_named_in_one_form() {
    let shared = connect_string();
    let client = client_of(&format!("{shared}, LOCALHOST,[::1]:7/"), SESSION);
    println!("{}", client.servers());
    let servers = client.servers();
    let mut named: Vec<&str> = servers.split(',').collect();
    assert!(named.contains(&"localhost:2181") && named.contains(&"[::1]:7"), "{servers}");
    let given = named.clone();
    named.sort_unstable();
    assert_eq!((given, client.root()), (named, ""));
}

#[test]
fn noted_line_reaches_the_log_from_another_thread() {
    let client = client();
    let mark = fresh_path("noted");
    logged(&mark);
    let (say, told) = bounded(1);
    let (caller, line) = (thread::current().id(), format!("a line about {mark}"));
    client.note(log::Level::Warn, move || {
        say.send(thread::current().id()).unwrap();
        log::warn!(target: "zookeeper", "{line}");
    });
    assert_ne!(told.recv_timeout(SOON).unwrap(), caller);
    wait_until("it is written", SOON, || !logged(&mark).is_empty());
}

#[test]
fn deferred_calls_run_in_order_even_after_a_panic() {
    let client = client();
    let ((say, told), caller) = (unbounded(), thread::current().id());
    for number in 0..1000 {
        let say = say.clone();
        client.call_aside(move || {
            say.send((number, thread::current().id())).unwrap();
            assert_ne!(number, 1, "on purpose");
        });
    }
    for number in 0..1000 {
        let (called, thread) = told.recv_timeout(SOON).unwrap();
        assert_eq!(called, number);
        assert_ne!(thread, caller);
    }
}

#[test]
fn deferred_calls_behind_a_blocked_one_use_bounded_memory() {
    const MOST: usize = 10_000;
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let (blocks, blocked) = bounded::<()>(0);
    let (say, said) = unbounded();
    logged("");
    client.call_aside(move || {
        say.send(()).unwrap();
        let _ = blocked.recv();
    });
    said.recv_timeout(SOON).unwrap();
    let called = Arc::new(AtomicUsize::new(0));
    let call = || {
        let called = Arc::clone(&called);
        client.call_aside(move || {
            called.fetch_add(1, Ordering::SeqCst);
        });
    };
    (0..MOST + 5).for_each(|_| call());
    drop(blocks);
    wait_until("those that wait are called", SOON, || called.load(Ordering::SeqCst) == MOST);
    call();
    wait_until("the next one is called", SOON, || called.load(Ordering::SeqCst) == MOST + 1);
    wait_until("the others are counted", SOON, || {
        !logged("5 callbacks were dropped: one before them took too long").is_empty()
    });
}

/// The timer reports the end of the lease to a slow listener, and the reader has the next event meanwhile.
#[test]
fn slow_listener_keeps_the_order_of_events() {
    let stage = Stage::new("order", SHORT);
    let (slow, is_told) = (Mutex::new(None), unbounded());
    let (release, released) = bounded::<()>(0);
    *slow.lock().unwrap() = Some(released);
    let first = Listener::new(move |event: &SessionEvent| {
        if event.kind == SessionEventKind::LeaseEnded {
            let released = slow.lock().unwrap().take();
            is_told.0.send(()).unwrap();
            let _ = released.map(|released| released.recv());
        }
    });
    let (second, events) = Listener::channel();
    stage.client.subscribe(&first);
    stage.client.subscribe(&second);
    let keeper = stage.client.keep_lease();
    stage.suspend();
    is_told.1.recv_timeout(SOON).unwrap();
    let connections = stage.proxy.connections();
    stage.proxy.restore();
    wait_until("there is a connection", SOON, || stage.proxy.connections() > connections);
    let kind = |event: SessionEvent| event.kind;
    // Longer than the reader takes to return, if it does not wait for its turn.
    let mut kinds = vec![events.recv_timeout(SOON).map(kind).unwrap()];
    kinds.extend(events.recv_timeout(BRIEFLY).map(kind));
    drop(release);
    while kinds.len() < 3 {
        kinds.push(events.recv_timeout(SOON).map(kind).unwrap());
    }
    println!("{kinds:?}");
    // The session is then resumed or expired.
    assert_eq!(kinds[..2], [SessionEventKind::Suspended, SessionEventKind::LeaseEnded]);
    drop(keeper);
}
