//! Who has permits and who waits.

use std::time::{Duration, SystemTime};

use zoolock::{Client, Contender, DistributedSemaphore, Kind, LockOptions};
use zoolock_test_support::{connect_string, fresh_path, shared_probe, wait_until};

use super::{
    LEASES, LOCKS, acquiring, await_leases, await_turns, is_free, leases, semaphore, turns,
    waiting_with_the_turn,
};
use common::{SESSION, SOON, await_resumed, client, client_of, shared_proxy};

fn named(identity: &str) -> Client {
    let builder = Client::builder(&connect_string()).identity(identity);
    builder.session_timeout(SESSION).connect().unwrap()
}

/// What of a contender is known beforehand.
fn brief(contender: &Contender) -> (&str, bool, Kind, &str) {
    let (directory, _) = contender.node.split_once('/').expect("a directory");
    let identity = contender.identity.as_deref().unwrap_or_default();
    (directory, contender.holds, contender.kind, identity)
}

#[test]
fn holders_come_first_then_those_who_wait_in_order() {
    let clients = ["a", "b", "c", "d"].map(named);
    let path = fresh_path("sem-contenders");
    let [a, b, c, d] = clients.each_ref().map(|client| semaphore(client, &path, 3));
    assert_eq!(a.contenders().unwrap(), []);
    let (one, other) = (a.acquire(2).unwrap(), b.acquire(1).unwrap());
    let third = waiting_with_the_turn(&c, 2);
    let fourth = acquiring(&d, 1);
    await_turns(&path, 2);
    let all = a.contenders().unwrap();
    for contender in &all {
        println!("{contender:?}");
        assert_eq!(contender.path, path);
        assert!(contender.since <= SystemTime::now() + Duration::from_secs(1));
        assert!(contender.sequence.is_some());
    }
    let permit = Kind::Permit;
    let expected = [
        (LEASES, true, permit, "a"),
        (LEASES, true, permit, "a"),
        (LEASES, true, permit, "b"),
        (LEASES, false, permit, "c"),
        (LEASES, false, permit, "c"),
        (LOCKS, false, permit, "c"),
        (LOCKS, false, permit, "d"),
    ];
    assert_eq!(all.iter().map(brief).collect::<Vec<_>>(), expected);
    let mut tokens: Vec<_> = one
        .holds()
        .iter()
        .chain(&other.holds())
        .map(|hold| (hold.fencing_token().unwrap(), format!("{LEASES}/{}", hold.node())))
        .collect();
    tokens.sort();
    let seen: Vec<_> = all[..3].iter().map(|c| (c.token, c.node.clone())).collect();
    assert_eq!(seen, tokens);
    assert_eq!(all[3].session, all[5].session);
    assert_ne!(all[0].session, all[2].session);
    let queued: Vec<_> = all[5..].iter().map(|c| c.sequence).collect();
    assert!(queued[0] < queued[1], "{queued:?}");
    assert_eq!(clients[3].contenders(&path).unwrap(), all);

    one.release().unwrap();
    let third = third.result("the third").unwrap();
    await_leases(&path, 4);
    wait_until("the fourth one waits", SOON, || {
        let all = a.contenders().unwrap();
        let now: Vec<_> = all.iter().map(brief).collect();
        now == [
            (LEASES, true, permit, "b"),
            (LEASES, true, permit, "c"),
            (LEASES, true, permit, "c"),
            (LEASES, false, permit, "d"),
            (LOCKS, false, permit, "d"),
        ]
    });
    drop((third, other));
    drop(fourth.result("the fourth").unwrap());
    assert_eq!(a.contenders().unwrap(), []);
    let clients: Vec<&Client> = clients.iter().collect();
    is_free(&a, &clients);
}

/// A client that holds some, waits for more, and was cut off.
#[test]
fn a_client_that_has_permits_and_waits_for_more_is_told_apart_also_after_a_cut() {
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("sem-contenders-cut");
    let own = semaphore(&cut, &path, 3);
    let held = own.acquire(2).unwrap();
    let waiter = waiting_with_the_turn(&own, 3);
    let count = |own: &DistributedSemaphore| {
        let all = own.contenders().unwrap();
        let leases = all.iter().filter(|c| c.node.starts_with(LEASES));
        let (hold, wait): (Vec<_>, Vec<_>) = leases.partition(|c| c.holds);
        let tokens: Vec<_> = hold.iter().map(|c| c.token).collect();
        (tokens, wait.len(), all.len())
    };
    let before = count(&own);
    println!("{before:?}");
    assert_eq!((before.0.len(), before.1, before.2), (2, 3, 6));
    let nodes = || (leases(&path), turns(&path));
    let seen = nodes();
    proxy.cut();
    await_resumed(&cut, 1);
    assert_eq!(nodes(), seen);
    let others = client();
    assert_eq!(count(&semaphore(&others, &path, 3)), before);
    let held_tokens: Vec<_> = {
        let mut tokens: Vec<_> = held.holds().iter().map(|h| h.fencing_token().unwrap()).collect();
        tokens.sort();
        tokens
    };
    assert_eq!(before.0, held_tokens);
    held.release().unwrap();
    waiter.result("all three").unwrap().release().unwrap();
    is_free(&own, &[&cut]);
}

#[test]
fn the_identity_of_the_options_is_on_every_node() {
    let client = named("client");
    let path = fresh_path("sem-identity");
    let options = LockOptions::new().identity("object");
    let own = DistributedSemaphore::with(&client, &path, 1, options).unwrap();
    let held = own.acquire(1).unwrap();
    let waiter = waiting_with_the_turn(&own, 1);
    let all = own.contenders().unwrap();
    let identities: Vec<_> = all.iter().map(|c| c.identity.as_deref()).collect();
    println!("{identities:?}");
    assert_eq!(identities, [Some("object"); 3]);
    held.release().unwrap();
    waiter.result("the waiter").unwrap().release().unwrap();
}

#[test]
fn a_holder_is_asked_to_let_go() {
    let (holder, others) = (client(), client());
    let path = fresh_path("sem-revoke");
    let permits = semaphore(&holder, &path, 2).acquire(2).unwrap();
    let asked: Vec<_> = permits.holds().iter().map(|h| h.revocation().unwrap()).collect();
    let own = semaphore(&others, &path, 2);
    let all = own.contenders().unwrap();
    let second = permits.holds()[1].node();
    let wanted = all.iter().find(|c| c.node.ends_with(&second)).unwrap();
    others.revoke(wanted).unwrap();
    asked[1].recv_timeout(SOON).unwrap();
    assert!(asked[0].is_empty(), "the other one was not meant");
    assert!(permits.is_held());
    permits.release().unwrap();
    is_free(&own, &[&holder, &others]);
}

/// Somebody else's node beside the two directories, such as a note for operators.
#[test]
fn a_foreign_node_beside_the_directories_hides_nobody() {
    let client = client();
    let path = fresh_path("sem-note");
    let own = semaphore(&client, &path, 2);
    let held = own.acquire(2).unwrap();
    let probe = shared_probe().unwrap();
    let note = format!("{path}/note");
    probe.create(&note, b"", false, false).unwrap();
    let all = own.contenders().unwrap();
    println!("{all:#?}");
    let holds = all.iter().filter(|contender| contender.holds).count();
    assert_eq!((holds, own.available().unwrap()), (2, 0));
    drop(held);
}
