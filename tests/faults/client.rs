//! The client itself: its connection, what it tells of it, and its end.

use std::env;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError};
use zoolock::{Client, ClientState, ConnectionEvent, Error};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Server, Then, connect_string, fresh_path, wait_until,
};

use ConnectionEvent::{Lost, Reconnected, Suspended};
use common::{
    SESSION, SOON, Stage, Task, await_resumed, children, client, client_of, in_time, lock_of,
    shared_proxy,
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
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
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
                let proxy = shared_proxy();
                let client = client_of(&proxy.connect_string(), Duration::from_secs(4));
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
fn a_server_that_stops_for_long_is_told_as_lost_and_come_back_to() {
    let server = Server::start().unwrap();
    let client = client_of(&server.connect_string(), Duration::from_secs(3));
    let events = client.subscribe();
    server.stop().unwrap();
    tells(&events, &[Suspended, Lost]);
    assert_eq!(client.state(), ClientState::Lost);
    server.start_again().unwrap();
    tells(&events, &[Reconnected]);
    works(&client);
}

#[test]
fn dead_and_silent_hosts_of_a_list_are_passed_over() {
    let [dead, closing] = [shared_proxy(), shared_proxy()];
    dead.refuse(true);
    closing.accept_and_close(true);
    // The kernel accepts, nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = [
        dead.connect_string(),
        closing.connect_string(),
        silent.local_addr().unwrap().to_string(),
        "no-such-host.invalid".to_owned(),
    ];
    for bad in hosts.iter().chain([&hosts.join(",")]) {
        let all = format!("{bad},{}", connect_string());
        works(&client_of(&all, SESSION));
    }
}

#[test]
fn reconnects_to_another_host_when_its_own_is_gone_or_silent() {
    let proxies = [shared_proxy(), shared_proxy()];
    let hosts = proxies.each_ref().map(FaultProxy::connect_string).join(",");
    let client = client_of(&hosts, SESSION);
    for silent in [false, true] {
        // Its own is the one with an open connection; handshakes have ended by then.
        let mut open = [0; 2];
        wait_until("one proxy is in use", SOON, || {
            open = proxies.each_ref().map(FaultProxy::open_connections);
            client.state() == ClientState::Connected && open.iter().sum::<usize>() == 1
        });
        let (own, other) = (&proxies[open[1]], &proxies[open[0]]);
        let events = client.subscribe();
        match silent {
            true => own.black_hole(Direction::Both),
            false => {
                own.refuse(true);
                own.cut();
            }
        }
        tells(&events, &[Suspended]);
        // Lost first on a machine that is too busy for it.
        let told = events.recv_timeout(SOON);
        println!("silent: {silent}, {told:?}, {:?}", client.stats());
        works(&client);
        assert!(other.open_connections() > 0, "{:?}", other.log());
        own.restore();
    }
}

#[test]
fn the_session_timeout_is_the_servers() {
    if env::var("ZOOKEEPER_CONNECT").is_ok() {
        println!("its limits are unknown");
        return;
    }
    // Of a test server: from 1 s to 60 s.
    for (asked, given) in [(100, 1_000), (1_500, 1_500), (10_000, 10_000), (3_600_000, 60_000)] {
        let client = client_of(&connect_string(), Duration::from_millis(asked));
        assert_eq!(client.session_timeout(), Duration::from_millis(given), "asked for {asked} ms");
    }
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
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), session);
        match gone {
            true => {
                proxy.refuse(true);
                proxy.cut();
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
fn close_after_a_session_timeout_without_a_connection_returns_at_once() {
    let session = Duration::from_secs(4);
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), session);
    proxy.refuse(true);
    proxy.cut();
    wait_until("it is lost", SOON, || client.state() == ClientState::Lost);
    let seen = in_time("close()", session / 2, || client.close());
    assert!(matches!(seen, Err(Error::Timeout { .. })), "{seen:?}");
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

#[test]
fn a_server_that_hangs_up_at_once_is_not_stormed() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    proxy.accept_and_close(true);
    let before = proxy.connections();
    proxy.cut();
    // Not a condition: nothing is to happen meanwhile.
    thread::sleep(Duration::from_secs(2));
    let count = proxy.connections() - before;
    assert_eq!(client.session_timeout(), SESSION, "known without a connection");
    assert!((1..200).contains(&count), "{count} connections in 2 s");
    proxy.accept_and_close(false);
    works(&client);
}

#[test]
fn a_session_is_ended_though_its_first_ends_got_lost() {
    let Stage { proxy, client, path, lock } = Stage::new("close-lost", Duration::from_secs(60));
    lock.lock().unwrap();
    let lost = [1, 2, 3].map(|nth| proxy.drop_request(Op::CloseSession, nth, Then::Cut));
    client.close().unwrap();
    assert!(lost.iter().all(|rule| rule.fired()), "{:#?}", proxy.log());
    assert_eq!(children(&path), [""; 0], "{:#?}", proxy.log());
}
