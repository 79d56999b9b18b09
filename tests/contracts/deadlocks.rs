//! `Client::deadlocks_below`: threads of several clients that wait for each other.

use std::sync::{Arc, Barrier};

use zoolock::{Client, Lock, MultiLock, Result};
use zoolock_test_support::{fresh_path, wait_until};

use common::{SOON, Task, client, lock_of};

/// Takes the lock `has`, meets the others, and waits for `wants`.
fn member(client: &Client, barrier: &Arc<Barrier>, has: &str, wants: &str) -> Task<Result<()>> {
    let [has, wants] = [has, wants].map(|path| lock_of(client, path));
    let barrier = Arc::clone(barrier);
    Task::spawn(move || {
        has.lock()?;
        barrier.wait();
        let waited = wants.lock().and_then(|()| wants.unlock());
        has.unlock()?;
        waited
    })
}

#[test]
fn circle_of_three_clients_is_found_until_one_gives_up() {
    let (root, clients) = (fresh_path("deadlock"), [(); 3].map(|()| client()));
    let path = |index: usize| format!("{root}/{}", index % 3);
    let barrier = Arc::new(Barrier::new(3));
    let members: Vec<_> = clients
        .iter()
        .enumerate()
        .map(|(index, client)| member(client, &barrier, &path(index), &path(index + 1)))
        .collect();
    let observer = client();
    wait_until("all three are in the circle", SOON, || {
        let found = observer.deadlocks_below(&root).unwrap();
        found.iter().any(|deadlock| deadlock.waits.len() == 3)
    });
    let found = observer.deadlocks_below(&root).unwrap();
    println!("{found:#?}");
    assert_eq!(found.len(), 1);
    let waits = &found[0].waits;
    for ((waiting, ahead), (next, _)) in waits.iter().zip(waits.iter().cycle().skip(1)) {
        assert!(!waiting.holds && ahead.holds && waiting.path == ahead.path);
        assert_eq!((ahead.session, &ahead.identity), (next.session, &next.identity));
    }
    clients[0].cancel_waiters();
    let ends: Vec<_> = members.iter().map(|member| member.result("a member")).collect();
    assert!(ends[0].as_ref().is_err_and(|error| error.is_cancelled()), "{ends:?}");
    assert!(ends[1].is_ok() && ends[2].is_ok(), "{ends:?}");
    assert_eq!(observer.deadlocks_below(&root).unwrap(), []);
}

#[test]
fn chains_and_several_locks_at_once_are_no_deadlock() {
    let (root, clients) = (fresh_path("chain"), [(); 3].map(|()| client()));
    let path = |name: &str| format!("{root}/{name}");
    let barrier = Arc::new(Barrier::new(3));
    // The first waits for the second, which waits for the third.
    let members = [("a", "b"), ("b", "c")].map(|(has, wants)| {
        member(&clients[usize::from(has == "b")], &barrier, &path(has), &path(wants))
    });
    let last = lock_of(&clients[2], &path("c"));
    last.lock().unwrap();
    barrier.wait();
    // Users of several locks take them in one order.
    let both = ["a", "b"].map(|name| lock_of(&clients[2], &path(name)).into());
    let both = MultiLock::new(both).unwrap();
    let waiting = Task::spawn(move || both.lock().and_then(|()| both.unlock()));
    let waits = |client: &Client| client.stats().waiting == 1;
    wait_until("all of them wait", SOON, || clients.iter().all(waits));
    assert_eq!(clients[0].deadlocks_below(&root).unwrap(), []);
    last.unlock().unwrap();
    members.iter().for_each(|member| member.result("a member").unwrap());
    waiting.result("a call for both").unwrap();
}
