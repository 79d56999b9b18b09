//! Callbacks: scheduled ones, deferred ones, and slow ones.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, unbounded};
use zoolock_test_support::wait_until;
use zoolock_zookeeper::{Listener, SessionEvent, SessionEventKind, State};

use crate::util::{BRIEFLY, SHORT, SOON, Stage, client, logged};

#[test]
fn timer_calls_back_at_its_instant_and_survives_panics() {
    let client = client();
    let (sender, called) = unbounded();
    let begun = Instant::now();
    let at = |milliseconds| begun + Duration::from_millis(milliseconds);
    // No callback runs until all of them have been scheduled.
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
    assert_eq!(order, [0, 20, 20, 40, 60]);
    client.close().unwrap();
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
fn deferred_calls_behind_a_blocked_one_use_bounded_memory() {
    const MOST: usize = 10_000;
    let client = client();
    let ((block, blocked), (say, told)) = (bounded::<()>(0), unbounded());
    logged("");
    let blocking = say.clone();
    client.call_aside(move || {
        blocking.send((0, thread::current().id())).unwrap();
        let _ = blocked.recv();
        panic!("on purpose, in a deferred call");
    });
    let (_, aside) = told.recv_timeout(SOON).unwrap();
    assert_ne!(aside, thread::current().id());
    let call = |number| {
        let say = say.clone();
        client.call_aside(move || say.send((number, thread::current().id())).unwrap());
    };
    (0..MOST + 5).for_each(call);
    drop(block);
    // Callbacks that wait are called in order, and before later ones.
    for number in 0..MOST {
        assert_eq!(told.recv_timeout(SOON), Ok((number, aside)));
    }
    call(MOST + 5);
    assert_eq!(told.recv_timeout(SOON).unwrap().0, MOST + 5);
    wait_until("the others are counted", SOON, || {
        !logged("5 callbacks were dropped: an earlier one took too long").is_empty()
    });
}

/// The timer reports to a slow listener that the lease has ended. Meanwhile, the reader has another event.
#[test]
fn slow_listener_keeps_the_order_of_events() {
    let stage = Stage::new("order", SHORT);
    let ((say, is_told), (release, released)) = (unbounded(), bounded::<()>(0));
    let first = Listener::new(move |event: &SessionEvent| {
        if event.kind == SessionEventKind::LeaseEnded {
            say.send(()).unwrap();
            let _ = released.recv();
        }
    });
    let (second, events) = Listener::channel();
    stage.client.subscribe(&first);
    stage.client.subscribe(&second);
    let keeper = stage.client.keep_lease();
    stage.suspend();
    is_told.recv_timeout(SOON).unwrap();
    let connections = stage.proxy.connections();
    stage.proxy.restore();
    wait_until("there is a connection", SOON, || stage.proxy.connections() > connections);
    let kind = |event: SessionEvent| event.kind;
    // Long enough for the reader to go on if it does not wait for the listener.
    let mut kinds = vec![events.recv_timeout(SOON).map(kind).unwrap()];
    kinds.extend(events.recv_timeout(BRIEFLY).map(kind));
    drop(release);
    while kinds.len() < 3 {
        kinds.push(events.recv_timeout(SOON).map(kind).unwrap());
    }
    // After these two events, the session is either resumed or expired.
    assert_eq!(kinds[..2], [SessionEventKind::Suspended, SessionEventKind::LeaseEnded]);
    drop(keeper);
}
