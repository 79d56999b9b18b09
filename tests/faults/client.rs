//! The client itself: its connection, its reports, and its end.

use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError};
use zoolock::{Client, ClientState, ConnectionEvent, Error};
use zoolock_test_support::{Direction, FaultProxy, fresh_path, wait_until};

use ConnectionEvent::{Lost, Reconnected, Suspended};
use common::{
    SESSION, SOON, Stage, Task, await_resumed, behind_a_proxy, children, client, in_time, lock_of,
};

#[track_caller]
fn tells(events: &Receiver<ConnectionEvent>, expected: &[ConnectionEvent]) {
    for event in expected {
        assert_eq!(events.recv_timeout(SOON), Ok(*event), "of {expected:?}");
    }
}

/// It is connected, and locks and unlocks.
fn works(client: &Client) {
    wait_until("connected", SOON, || client.state() == ClientState::Connected);
    let lock = lock_of(client, &fresh_path("works"));
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
}

#[test]
fn a_cut_is_told_as_suspended_and_reconnected() {
    let (proxy, client) = behind_a_proxy(SESSION);
    assert_eq!(client.state(), ClientState::Connected);
    let each = [client.subscribe(), client.subscribe()];
    for cut in [FaultProxy::cut, FaultProxy::reset] {
        cut(&proxy);
        each.iter().for_each(|events| tells(events, &[Suspended, Reconnected]));
        works(&client);
    }
    let stats = client.stats();
    assert_eq!((stats.connections, stats.sessions, stats.resumed), (3, 1, 2));
    wait_until("the old connections are closed", SOON, || proxy.open_connections() == 1);
    assert!(each[0].is_empty(), "{each:?}");
}

#[test]
fn a_black_hole_is_told_as_suspended_lost_and_reconnected() {
    thread::scope(|scope| {
        for direction in [Direction::ToServer, Direction::ToClient, Direction::Both] {
            scope.spawn(move || {
                let (proxy, client) = behind_a_proxy(Duration::from_secs(4));
                let events = client.subscribe();
                proxy.black_hole(direction);
                tells(&events, &[Suspended, Lost]);
                assert_eq!(client.state(), ClientState::Lost, "{direction:?}");
                proxy.restore();
                tells(&events, &[Reconnected]);
                works(&client);
            });
        }
    });
}

#[test]
fn close_ends_the_session_before_it_returns_also_on_a_later_connection_and_by_many_at_once() {
    for cuts in [0, 1] {
        let Stage { proxy, client, path, lock } = Stage::new("close", SESSION);
        lock.lock().unwrap();
        let events = client.subscribe();
        if cuts > 0 {
            proxy.cut();
            await_resumed(&client, cuts);
        }
        assert_eq!(children(&path).len(), 1);
        let closing = [(); 8].map(|()| {
            let client = client.clone();
            Task::spawn(move || client.close())
        });
        closing.iter().for_each(|close| close.result("close()").unwrap());
        assert_eq!(children(&path), [""; 0], "after close");
        assert_eq!((client.state(), client.session_timeout()), (ClientState::Closed, SESSION));
        client.close().unwrap();
        println!("{cuts} cuts: {:?}", events.iter().collect::<Vec<_>>());
        // Whoever subscribes later hears nothing, too.
        let seen = client.subscribe().recv_timeout(SOON);
        assert_eq!(seen, Err(RecvTimeoutError::Disconnected));
    }
}

#[test]
fn close_is_bounded_and_honest_without_a_server() {
    let session = Duration::from_secs(2);
    for gone in [true, false] {
        let (proxy, client) = behind_a_proxy(session);
        match gone {
            true => {
                proxy.cut_off();
            }
            false => proxy.black_hole(Direction::Both),
        }
        let seen = in_time("close()", session + Duration::from_secs(1), || client.close());
        // A server that nobody could talk to has not ended the session.
        let said = matches!(seen, Err(Error::Timeout { .. })) || gone && seen.is_ok();
        assert!(said, "its server gone: {gone}: {seen:?}");
    }
}

#[test]
fn the_last_of_client_locks_and_guards_ends_the_session_when_it_is_dropped_and_a_view_keeps_nothing()
 {
    let (client, path) = (client(), fresh_path("dropped"));
    let events = client.subscribe();
    let lock = lock_of(&client, &path);
    drop(client);
    // The lock still has it.
    lock.lock().unwrap();
    lock.unlock().unwrap();
    let guard = lock.acquire().unwrap();
    let view = guard.hold();
    drop(lock);
    assert!(guard.is_held(), "{guard:?}");
    assert_eq!(children(&path), [guard.node()]);
    drop(guard);
    let lost = view.lost().recv_timeout(SOON).map(drop);
    assert_eq!(lost, Err(RecvTimeoutError::Disconnected));
    assert!(!view.is_held(), "{view:?}");
    wait_until("the node is gone", SOON, || children(&path).is_empty());
    assert_eq!(events.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected));
}
