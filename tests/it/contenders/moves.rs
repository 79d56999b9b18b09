//! What of a contender lasts when it moves to another session.

use zoolock::{
    Client, Contender, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore, Hold,
    Kind,
};
use zoolock_test_support::{fresh_path, wait_until};

use super::{holding, is_as_the_server_says, look};
use crate::lock::core::await_nodes;
use crate::util::{
    SESSION, SOON, Task, await_moved, children, client, client_of, lock_of, shared_proxy, stat,
};

/// Everything but what a move changes.
fn lasting(contender: &Contender) -> Contender {
    let mut lasting = contender.clone();
    (lasting.node, lasting.session) = (String::new(), 0);
    lasting
}

#[test]
fn a_hold_and_a_waiter_that_moved_are_shown_as_before_but_for_node_and_session() {
    for know_tokens_before in [true, false] {
        let proxy = shared_proxy();
        let own = client_of(&proxy.connect_string(), SESSION);
        let other = client();
        let root = fresh_path("moved");
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
        if know_tokens_before {
            guard.fencing_token().unwrap();
        }
        let look_at_both = || {
            let mut seen = other.contenders(&held).unwrap();
            seen.push(other.contenders(&waited).unwrap().pop().unwrap());
            seen
        };
        let before = look("before", Ok(look_at_both()));
        before.iter().for_each(is_as_the_server_says);
        for round in 1..=2 {
            proxy.cut();
            await_moved(&own, 2 * round);
            let one_each = || children(&held).len() == 1 && children(&waited).len() == 2;
            wait_until("the old nodes are gone", SOON, one_each);
            let after = look("after", Ok(look_at_both()));
            for (before, after) in before.iter().zip(&after) {
                assert_eq!(lasting(after), lasting(before));
                assert_ne!(after.node, before.node);
                assert_ne!(after.session, before.session);
                let node = stat(&format!("{}/{}", after.path, after.node));
                assert_eq!(after.session, node.ephemeral_owner);
                assert_ne!(after.token, node.czxid as u64, "the first node's");
            }
            assert_eq!(holding(&after), [true, false]);
            assert_eq!(guard.fencing_token().unwrap(), after[0].token);
        }
        ahead.release().unwrap();
        let (token, _) = waiter.result("the waiter").unwrap();
        assert_eq!(token, before[1].token, "of the waiter, when it held");
        guard.release().unwrap();
    }
}

#[test]
fn holds_of_every_kind_keep_token_since_and_identity_over_a_move() {
    let proxy = shared_proxy();
    let builder = Client::builder(&proxy.connect_string()).session_timeout(SESSION);
    let own = builder.identity("mover").connect().unwrap();
    let other = client();
    let root = fresh_path("all-moved");
    let at = |name: &str| format!("{root}/{name}");
    let rw = DistributedRwLock::new(&own, at("rw")).unwrap();
    let reentrant = DistributedReentrantLock::new(&own, at("own")).unwrap();
    let semaphore = DistributedSemaphore::new(&own, at("permits"), 3).unwrap();
    let write = rw.write_lock().acquire().unwrap();
    write.fencing_token().unwrap();
    let read = rw.read_lock().acquire().unwrap();
    let nested = reentrant.acquire().unwrap();
    let permits = semaphore.acquire(3).unwrap();
    wait_until("the turn is given back", SOON, || own.stats().seats == 6);
    let by_token = |path: &str| {
        let mut seen = other.contenders(path).unwrap();
        seen.sort_by_key(|c| (c.token, c.kind == Kind::Read));
        seen
    };
    let look_at_all = || ["rw", "own", "permits"].map(|name| by_token(&at(name)));
    let before = look_at_all();
    proxy.cut();
    await_moved(&own, 6);
    let gone = || look_at_all().each_ref().map(Vec::len) == [2, 1, 3];
    wait_until("the old nodes are gone", SOON, gone);
    let after = look_at_all();
    println!("{before:#?}\n{after:#?}");
    for (before, after) in before.iter().flatten().zip(after.iter().flatten()) {
        assert_eq!(lasting(after), lasting(before));
        assert_ne!(after.session, before.session);
        assert!(after.holds);
        assert_eq!(after.identity.as_deref(), Some("mover"));
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
