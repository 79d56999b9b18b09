//! The client: its connection, the events that it reports, its first reads, and how it ends.

use std::time::Duration;

use zoolock::crossbeam_channel::RecvTimeoutError;
use zoolock::{Acl, Client, ClientState, Error, Wait};

use super::LONG;
use common::*;

#[test]
fn lazy_client_starts_without_servers() {
    let proxy = shared_proxy();
    proxy.cut_off();
    let builder = Client::builder(proxy.connect_string()).session_timeout(SESSION);
    let builder = builder.auth("digest", "lazy:secret").acl(Acl::creator());
    let client = builder.connect_lazily().unwrap();
    let (events, path) = (client.subscribe(), fresh_path("lazy"));
    let lock = lock_of(&client, &path);
    let waiting = locking(&lock);
    for wait in [Wait::TRY, Wait::FOREVER.for_connection(BRIEFLY)] {
        let got = lock_of(&client, &path).lock_within(wait.clone());
        assert!(matches!(got, Err(Error::Disconnected { .. })), "{wait:?}: {got:?}");
    }
    let before = (client.state(), client.session_timeout(), client.stats().sessions);
    assert_eq!(before, (ClientState::Suspended, SESSION, 0));
    assert!(!waiting.is_done() && events.is_empty());
    proxy.restore();
    assert_eq!(events.recv_timeout(SOON), Ok(ClientState::Connected));
    waiting.result("a call that began without servers").unwrap();
    assert_eq!((client.state(), client.stats().sessions), (ClientState::Connected, 1));
    let node = format!("{path}/{}", lock.hold().unwrap().node());
    let acl = common::owner().read(&node);
    assert!(
        matches!(acl, Err(Error::PermissionDenied { .. })),
        "its credentials were sent: {acl:?}"
    );
    lock.unlock().unwrap();
    client.close_within(SOON).unwrap();
}

#[test]
fn concurrent_close_ends_the_session_before_any_call_returns() {
    for cuts in [0, 1] {
        let ((proxy, client), path) = (behind_a_proxy(SESSION), fresh_path("close"));
        let lock = lock_of(&client, &path);
        lock.lock().unwrap();
        let events = client.subscribe();
        if cuts > 0 {
            proxy.cut();
            await_resumed(&client, cuts);
        }
        assert_eq!(children(&path).len(), 1);
        let close = proxy.on(Op::CloseSession).hold_request();
        let closing = [(); 8].map(|()| {
            let (client, path) = (client.clone(), path.clone());
            Task::spawn_blocked(move || client.close().map(|()| children(&path)))
        });
        assert!(close.wait(SOON));
        assert!(closing.iter().all(|close| !close.is_done()), "the session still exists");
        close.release();
        for close in &closing {
            assert_eq!(close.result("close()").unwrap(), [""; 0], "after close");
        }
        assert_eq!((client.state(), client.session_timeout()), (ClientState::Closed, SESSION));
        client.close().unwrap();
        println!("{cuts} cuts: {:?}", events.iter().collect::<Vec<_>>());
        // A subscriber added after the end receives no event either.
        let seen = client.subscribe().recv_timeout(SOON);
        assert_eq!(seen, Err(RecvTimeoutError::Disconnected));
    }
}

#[test]
fn close_without_a_server_is_bounded_and_honest() {
    let session = Duration::from_secs(2);
    for gone in [true, false] {
        let (proxy, client) = behind_a_proxy(session);
        if gone {
            proxy.cut_off();
        } else {
            proxy.black_hole(Direction::Both);
        }
        let seen = in_time("close()", session + Duration::from_secs(1), || client.close());
        // If the server was not reachable, its answer cannot have shown that the session has ended.
        let said = matches!(seen, Err(Error::CloseTimeout { .. }));
        assert!(said, "its server stopped: {gone}: {seen:?}");
    }
}

#[test]
fn last_drop_of_client_lock_or_guard_ends_the_session() {
    let (client, path) = (client(), fresh_path("dropped"));
    let events = client.subscribe();
    let lock = lock_of(&client, &path);
    drop(client);
    // The lock keeps its client alive after the test has dropped the client.
    lock.lock().unwrap();
    lock.unlock().unwrap();
    let guard = lock.acquire().unwrap();
    let view = guard.hold();
    drop(lock);
    assert!(guard.is_held(), "{guard:?}");
    assert_eq!(children(&path), [guard.node()]);
    drop(guard);
    let lost = view.ended().recv_timeout(SOON).map(drop);
    assert_eq!(lost, Err(RecvTimeoutError::Disconnected));
    assert!(!view.is_held(), "{view:?}");
    wait_until("the node is gone", SOON, || children(&path).is_empty());
    assert_eq!(events.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected));
}

/// An event contains no transaction id. After a reconnect, the new server may not have applied the transaction whose
/// event granted a lock, and may return data that the previous holder has since overwritten.
#[test]
fn first_read_after_a_resume_follows_a_write() {
    let data = fresh_path("data");
    shared_probe().unwrap().create(&data, b"new", false, false).unwrap();
    let (proxy, own) = behind_a_proxy(LONG);
    for round in 1..=20 {
        proxy.cut();
        await_resumed(&own, round);
        let before = proxy.log().len();
        let (read, _) = own.read(&data).unwrap().expect("it is there");
        assert_eq!(read, b"new");
        let log = proxy.log().split_off(before);
        let sent = || log.iter().filter(|line| line.contains(" > "));
        let at = |what: &str| sent().position(|line| line.contains(what));
        let (write, read_at) = (at("> SetData"), at("> GetData"));
        println!("round {round}: {:?}", sent().collect::<Vec<_>>());
        assert!(write.is_some() && write < read_at, "not after a write: {log:#?}");
    }
}

#[test]
fn drop_after_a_close_or_of_a_stale_guard_is_logged() {
    let closing = client();
    let path = fresh_path("close");
    warnings(&path);
    let [lock, raw] = ["a", "b"].map(|name| lock_of(&closing, &format!("{path}/{name}")));
    let stale = lock.acquire().unwrap();
    lock.unlock().unwrap();
    drop(stale);
    assert!(warnings(&path).iter().any(|line| line.contains("is not held")), "{path}");
    let guard = lock.acquire().unwrap();
    raw.lock().unwrap();
    let dropped = Task::spawn(move || {
        closing.close().unwrap();
        drop((guard, raw, lock));
        closing.close().unwrap();
    });
    dropped.result("drops after closing");
    let logged = warnings(&path);
    println!("{logged:#?}");
    let told = logged.iter().filter(|line| line.contains("the client was closed"));
    assert!(told.count() >= 2, "{logged:#?}");
}
