//! That a contender is the same one when its session is resumed on another connection.

use zoolock::{
    Client, Contender, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore, Hold,
    Kind,
};
use zoolock_test_support::{fresh_path, wait_until};

use super::{holding, is_as_the_server_says, look};
use common::basics::await_nodes;
use common::{SESSION, Task, await_resumed, client, client_of, lock_of, shared_proxy};

#[test]
fn a_hold_and_a_waiter_are_shown_the_same_over_cuts() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), SESSION);
    let other = client();
    let root = fresh_path("resumed");
    let (held, waited) = (format!("{root}/held"), format!("{root}/waited"));
    let guard = lock_of(&own, &held).acquire().unwrap();
    let ahead = lock_of(&other, &waited).acquire().unwrap();
    let lock = lock_of(&own, &waited);
    let waiter = Task::spawn(move || {
        let guard = lock.acquire()?;
        let seen = (guard.fencing_token()?, guard.node());
        guard.release().map(|()| seen)
    });
    await_nodes(&waited, 2);
    let look_at_both = || {
        let mut seen = other.contenders(&held).unwrap();
        seen.push(other.contenders(&waited).unwrap().pop().unwrap());
        seen
    };
    let before = look("before", Ok(look_at_both()));
    before.iter().for_each(is_as_the_server_says);
    for round in 1..=2 {
        proxy.cut();
        await_resumed(&own, round);
        let after = look("after", Ok(look_at_both()));
        assert_eq!(after, before);
        assert_eq!(holding(&after), [true, false]);
        assert_eq!(guard.fencing_token().unwrap(), after[0].token);
    }
    ahead.release().unwrap();
    let seen = waiter.result("the waiter").unwrap();
    assert_eq!(seen, (before[1].token, before[1].node.clone()), "of the waiter, when it held");
    guard.release().unwrap();
}

#[test]
fn holds_of_every_kind_are_shown_the_same_over_a_cut() {
    let proxy = shared_proxy();
    let builder = Client::builder(&proxy.connect_string()).session_timeout(SESSION);
    let own = builder.identity("cut off").connect().unwrap();
    let other = client();
    let root = fresh_path("all-resumed");
    let at = |name: &str| format!("{root}/{name}");
    let rw = DistributedRwLock::new(&own, at("rw")).unwrap();
    let reentrant = DistributedReentrantLock::new(&own, at("own")).unwrap();
    let semaphore = DistributedSemaphore::new(&own, at("permits"), 3).unwrap();
    let write = rw.write_lock().acquire().unwrap();
    let read = rw.read_lock().acquire().unwrap();
    let nested = reentrant.acquire().unwrap();
    let permits = semaphore.acquire(3).unwrap();
    let by_token = |path: &str| {
        let mut seen = other.contenders(path).unwrap();
        seen.sort_by_key(|c| (c.token, c.kind == Kind::Read));
        seen
    };
    let look_at_all = || ["rw", "own", "permits"].map(|name| by_token(&at(name)));
    let count = || look_at_all().each_ref().map(Vec::len);
    wait_until("the turn is given back", common::SOON, || count() == [2, 1, 3]);
    let before = look_at_all();
    proxy.cut();
    await_resumed(&own, 1);
    let after = look_at_all();
    println!("{after:#?}");
    assert_eq!(after, before);
    for seen in after.iter().flatten() {
        assert!(seen.holds);
        assert_eq!(seen.identity.as_deref(), Some("cut off"));
    }
    let of = |hold: &Hold, all: &[Contender]| {
        let is_it = |c: &&Contender| c.node.ends_with(&hold.node());
        let token = all.iter().find(is_it).map(|contender| contender.token);
        assert_eq!(token, hold.fencing_token().ok(), "{hold:?}");
    };
    let [rw, own, permit] = &after;
    of(&write, rw);
    of(&read, rw);
    of(&nested, own);
    permits.holds().iter().for_each(|hold| of(hold, permit));
    permits.release().unwrap();
}
