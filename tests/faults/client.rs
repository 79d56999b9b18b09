//! The client itself: its connection, what it tells of it, and its end.

use std::env;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{Receiver, RecvTimeoutError};
use zoolock::{Client, ClientState, ConnectionEvent, DistributedLock, Error};
use zoolock_test_support::{
    Direction, FaultProxy, Op, Server, Then, connect_string, fresh_path, wait_until,
};

use common::{
    SESSION, SOON, Stage, Task, await_resumed, children, client, client_of, in_time, shared_proxy,
};

fn next_event(events: &Receiver<ConnectionEvent>) -> ConnectionEvent {
    events.recv_timeout(SOON).expect("an event")
}

/// It works: it locks and unlocks.
fn works(client: &Client) {
    let path = fresh_path("works");
    let lock = DistributedLock::new(client, &path).unwrap();
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
}

fn wait_for(client: &Client, state: ClientState) {
    let took = wait_until(&format!("the client is {state:?}"), SOON, || client.state() == state);
    println!("{state:?} after {took:?}");
}

#[test]
fn a_cut_is_told_as_suspended_and_reconnected() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    assert_eq!(client.state(), ClientState::Connected);
    let (events, others) = (client.subscribe(), client.subscribe());
    for cut in [FaultProxy::cut, FaultProxy::reset] {
        cut(&proxy);
        for events in [&events, &others] {
            assert_eq!(next_event(events), ConnectionEvent::Suspended);
            assert_eq!(next_event(events), ConnectionEvent::Reconnected);
        }
        assert_eq!(client.state(), ClientState::Connected);
        works(&client);
    }
    let stats = client.stats();
    assert_eq!((stats.connections, stats.sessions, stats.resumed), (3, 1, 2));
    wait_until("the old connections are closed", SOON, || proxy.open_connections() == 1);
    assert!(events.is_empty(), "{events:?}");
}

#[test]
fn a_black_hole_is_told_as_suspended_lost_and_reconnected() {
    let each = [Direction::ToServer, Direction::ToClient, Direction::Both];
    let tasks = each.map(|direction| {
        Task::spawn(move || {
            let proxy = shared_proxy();
            let client = client_of(&proxy.connect_string(), Duration::from_secs(2));
            let events = client.subscribe();
            let begun = Instant::now();
            proxy.black_hole(direction);
            for event in [ConnectionEvent::Suspended, ConnectionEvent::Lost] {
                assert_eq!(next_event(&events), event);
                println!("{direction:?}: {event:?} after {:?}", begun.elapsed());
            }
            assert_eq!(client.state(), ClientState::Lost);
            proxy.restore();
            assert_eq!(next_event(&events), ConnectionEvent::Reconnected);
            wait_for(&client, ClientState::Connected);
            works(&client);
        })
    });
    for task in tasks {
        task.result("a black hole");
    }
}

#[test]
fn a_server_that_restarts_is_come_back_to() {
    let server = Server::start().unwrap();
    let session = Duration::from_secs(3);
    let client = client_of(&server.connect_string(), session);
    let events = client.subscribe();
    let lock = DistributedLock::new(&client, "/lock").unwrap();
    server.restart().unwrap();
    wait_for(&client, ClientState::Connected);
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
    let seen: Vec<_> = events.try_iter().collect();
    println!("{seen:?}");
    assert_eq!(seen.first(), Some(&ConnectionEvent::Suspended), "{seen:?}");
    assert_eq!(seen.last(), Some(&ConnectionEvent::Reconnected), "{seen:?}");

    server.stop().unwrap();
    assert_eq!(next_event(&events), ConnectionEvent::Suspended);
    assert_eq!(next_event(&events), ConnectionEvent::Lost);
    assert_eq!(client.state(), ClientState::Lost);
    server.start_again().unwrap();
    assert_eq!(next_event(&events), ConnectionEvent::Reconnected);
    wait_for(&client, ClientState::Connected);
    assert!(lock.try_lock_for(SOON).unwrap());
    lock.unlock().unwrap();
}

#[test]
fn dead_and_silent_hosts_of_a_list_are_passed_over() {
    let dead = shared_proxy();
    dead.refuse(true);
    let closing = shared_proxy();
    closing.accept_and_close(true);
    // The kernel accepts, nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = [
        dead.connect_string(),
        closing.connect_string(),
        silent.local_addr().unwrap().to_string(),
        "no-such-host.invalid".to_owned(),
    ];
    for bad in &hosts {
        let all = format!("{bad},{}", connect_string());
        let client = in_time(&all, SESSION / 2, || client_of(&all, SESSION));
        works(&client);
    }
    let all = format!("{},{}", hosts.join(","), connect_string());
    works(&client_of(&all, SESSION));
}

#[test]
fn reconnects_to_another_host_when_its_own_is_gone_or_silent() {
    let proxies = [shared_proxy(), shared_proxy()];
    let hosts = proxies.each_ref().map(FaultProxy::connect_string).join(",");
    let session = Duration::from_secs(3);
    let client = client_of(&hosts, session);
    for what in ["gone", "silent"] {
        // Its own is the one with an open connection; handshakes have ended by then.
        let mut open = [0; 2];
        wait_until("one proxy is in use", SOON, || {
            open = proxies.each_ref().map(FaultProxy::open_connections);
            client.state() == ClientState::Connected && open.iter().sum::<usize>() == 1
        });
        let (own, other) = match open {
            [1, _] => (&proxies[0], &proxies[1]),
            _ => (&proxies[1], &proxies[0]),
        };
        let events = client.subscribe();
        if what == "silent" {
            own.black_hole(Direction::Both);
        } else {
            own.refuse(true);
            own.cut();
        }
        assert_eq!(next_event(&events), ConnectionEvent::Suspended);
        let begun = Instant::now();
        let mut seen = next_event(&events);
        // On a machine that is too busy for it.
        if seen == ConnectionEvent::Lost {
            seen = next_event(&events);
        }
        println!("{what}: {seen:?} {:?} after the suspension", begun.elapsed());
        assert_eq!(seen, ConnectionEvent::Reconnected);
        assert!(other.open_connections() > 0, "{:?}", other.log());
        works(&client);
        own.restore();
    }
}

#[test]
fn the_session_timeout_is_the_servers() {
    let asked = |timeout| {
        Client::builder(&connect_string())
            .session_timeout(timeout)
            .connect_timeout(SOON)
            .connect()
            .unwrap()
    };
    // Of a test server: from 1 s to 60 s.
    if env::var("ZOOKEEPER_CONNECT").is_ok() {
        println!("unknown limits: {:?}", asked(SESSION).session_timeout());
        return;
    }
    for (timeout, given) in [
        (Duration::from_millis(100), Duration::from_secs(1)),
        (Duration::from_millis(1500), Duration::from_millis(1500)),
        (SESSION, SESSION),
        (Duration::from_secs(3600), Duration::from_secs(60)),
    ] {
        let client = asked(timeout);
        assert_eq!(client.session_timeout(), given, "asked for {timeout:?}");
        client.close().unwrap();
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
        for close in closing {
            close.result("close()").unwrap();
        }
        assert_eq!(children(&path), [""; 0], "after close");
        assert_eq!(client.state(), ClientState::Closed);
        client.close().unwrap();
        assert_eq!(client.session_timeout(), SESSION);
        let told: Vec<_> = events.iter().collect();
        println!("{cuts} cuts: {told:?}");
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
        let what = format!("close() with its server gone {gone}");
        let seen = in_time(&what, session + Duration::from_secs(1), || {
            Task::spawn(move || client.close()).result("close()")
        });
        let said = matches!(seen, Ok(()) | Err(Error::Timeout { .. }));
        assert!(said, "{seen:?}");
        // A server that nobody could talk to has not ended the session.
        assert!(gone || seen.is_err(), "{seen:?}");
    }
}

#[test]
fn the_last_of_client_locks_and_guards_ends_the_session_when_it_is_dropped() {
    let (client, path) = (client(), fresh_path("dropped"));
    let events = client.subscribe();
    let lock = DistributedLock::new(&client, &path).unwrap();
    drop(client);
    // The lock still has it.
    lock.lock().unwrap();
    lock.unlock().unwrap();
    let guard = lock.acquire().unwrap();
    let hold = guard.hold();
    drop(lock);
    drop(common::client());
    assert!(guard.is_held(), "{guard:?}");
    assert_eq!(children(&path), [guard.node()]);
    drop(guard);
    assert!(!hold.is_held(), "{hold:?}");
    wait_until("the node is gone", SOON, || children(&path).is_empty());
    let seen = events.recv_timeout(SOON);
    assert_eq!(seen, Err(RecvTimeoutError::Disconnected));
}

#[test]
fn a_view_of_a_hold_does_not_keep_the_client() {
    let client = client();
    let path = fresh_path("view");
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let hold = lock.hold().unwrap();
    let (events, lost) = (client.subscribe(), hold.lost().clone());
    drop(lock);
    drop(client);
    let seen = lost.recv_timeout(SOON).map(|_| ());
    assert_eq!(seen, Err(RecvTimeoutError::Disconnected));
    let seen = events.recv_timeout(SOON);
    assert_eq!(seen, Err(RecvTimeoutError::Disconnected));
    println!("{hold:?}");
    assert!(!hold.is_held());
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
    println!("{count} connections in 2 s");
    assert_eq!(client.session_timeout(), SESSION, "known without a connection");
    assert!((1..200).contains(&count), "{count} connections in 2 s");
    proxy.accept_and_close(false);
    wait_for(&client, ClientState::Connected);
    works(&client);
}

#[test]
fn a_session_is_ended_though_its_first_ends_got_lost() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), Duration::from_secs(60));
    let path = fresh_path("close-lost");
    let lock = DistributedLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    let lost = [1, 2, 3].map(|nth| proxy.drop_request(Op::CloseSession, nth, Then::Cut));
    let closed = Task::spawn(move || client.close()).result("close()");
    println!("{closed:?}, {} connections", proxy.connections());
    closed.unwrap();
    assert!(lost.iter().all(|rule| rule.fired()), "{:#?}", proxy.log());
    assert_eq!(children(&path), [""; 0], "{:#?}", proxy.log());
}
