//! Deletes and answers that get lost behind an unlock that has returned.

use std::time::{Duration, Instant};

use zoolock_test_support::{Op, Then, fresh_path, shared_probe, wait_until};

use super::*;
use common::{
    SOON, Task, TwoWays, await_nothing_left, children, client, client_of, exists, in_time, lock_of,
    shared_proxy, warnings,
};

const SESSION: Duration = Duration::from_secs(6);

/// Releases one of a kind, whose delete or its answer is lost.
fn lost_behind_the_unlock(kind: &'static str, answer_only: bool, then: Then) {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let root = fresh_path("lost");
    warnings(&root);
    let held = hold(&client, &root, kind);
    let what = format!("{kind}, answer only: {answer_only}, {then:?}");
    let delete = proxy.on(Op::Delete).path_contains(&held.nodes[0]);
    let lost = match answer_only {
        true => delete.drop_answer(then),
        false => delete.drop_request(then),
    };
    in_time(&what, Duration::from_secs(2), held.release).unwrap();
    assert!(lost.wait(SOON), "{what}: {:#?}", proxy.log());
    let begun = Instant::now();
    (held.again)().unwrap();
    println!("{what}: again after {:?}", begun.elapsed());
    proxy.restore();
    wait_until("the nodes are gone", SOON, || held.nodes.iter().all(|node| !exists(node)));
    await_nothing_left(&client);
    let (lost, logged) = (client.stats().holds_lost, warnings(&root));
    assert_eq!(lost, 0, "{what}: {logged:#?}");
}

fn lost_behind_every_unlock(answer_only: bool, then: Then) {
    let kinds =
        KINDS.map(|kind| Task::spawn(move || lost_behind_the_unlock(kind, answer_only, then)));
    for (task, kind) in kinds.iter().zip(KINDS) {
        task.result(kind);
    }
}

#[test]
fn a_delete_that_is_cut_off_is_repeated_until_the_node_is_gone() {
    lost_behind_every_unlock(false, Then::Cut);
}

#[test]
fn a_delete_that_never_arrives_is_repeated_until_the_node_is_gone() {
    lost_behind_every_unlock(false, Then::Hold);
}

#[test]
fn a_delete_whose_answer_is_cut_off_is_no_loss() {
    lost_behind_every_unlock(true, Then::Cut);
}

#[test]
fn a_delete_whose_answer_never_arrives_is_no_loss() {
    lost_behind_every_unlock(true, Then::Hold);
}

/// The session lives on meanwhile, and its nodes with it.
#[test]
fn a_delete_that_is_lost_with_its_connection_is_repeated_on_the_next_one() {
    const LONG: Duration = Duration::from_secs(60);
    for what in ["any", "own", "write", "read", "permits"] {
        let ways = TwoWays::start(LONG);
        ways.second.refuse(true);
        let held = hold(&ways.client, &fresh_path("two-ways"), what);
        let delete = ways.first.on(Op::Delete).path_contains(&held.nodes[0]);
        let lost = delete.drop_request(Then::Cut);
        ways.first.refuse(true);
        (held.release)().unwrap();
        assert!(lost.wait(SOON), "{what}: {}", ways.log());
        wait_until("its node is still to be deleted", SOON, || {
            let stats = ways.client.stats();
            common::in_use(&stats) == 0 && stats.deleting > 0
        });
        assert!(exists(&held.nodes[0]), "{what}");
        ways.second.refuse(false);
        let took =
            wait_until("the nodes are gone", SOON, || held.nodes.iter().all(|node| !exists(node)));
        println!("{what}: gone {took:?} after the next way was there");
        assert!(took < LONG / 2, "{what}: gone with the session: {took:?}");
        await_nothing_left(&ways.client);
        assert_eq!(ways.client.stats().holds_lost, 0, "{what}");
    }
}

#[test]
fn a_delete_that_is_refused_is_said_once_and_the_node_goes_with_its_session() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("refused");
    warnings(&path);
    let (above, _) = path.rsplit_once('/').unwrap();
    let probe = shared_probe().unwrap();
    probe.create_all(above).unwrap();
    // READ, WRITE and CREATE, no DELETE.
    let acl = [(7, "world", "anyone")];
    probe.create_with_acl(&path, b"", &acl).unwrap();
    let lock = lock_with(&client, &path);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    let stays = || {
        let logged = warnings(&path);
        logged.iter().filter(|line| line.contains("stays until the session ends")).count()
    };
    wait_until("it is said", SOON, || stays() > 0);
    // Its next one would wait behind the node that nobody will delete.
    let again = lock.lock();
    assert!(matches!(again, Err(zoolock::Error::Denied { .. })), "{again:?}");
    await_nothing_left(&client);
    wait_until("each node is said once", SOON, || stays() == 2);
    assert_eq!(proxy.requests(Op::Delete), 2, "each is tried once: {:#?}", proxy.log());
    assert_eq!(client.stats().holds_lost, 0);
    client.close().unwrap();
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn a_cut_right_behind_the_unlock_leaves_nothing() {
    let proxy = shared_proxy();
    let (client, rivals) = (client_of(&proxy.connect_string(), SESSION), client());
    let path = fresh_path("cut");
    let (lock, rival) = (lock_with(&client, &path), lock_of(&rivals, &path));
    for round in 0..20 {
        lock.lock().unwrap();
        lock.unlock().unwrap();
        proxy.cut();
        let begun = Instant::now();
        assert!(rival.try_lock_for(SOON).unwrap(), "round {round}");
        let took = begun.elapsed();
        assert!(took < SESSION * 2, "round {round}: {took:?}");
        rival.unlock().unwrap();
    }
    await_nothing_left(&client);
    assert_eq!(children(&path), [""; 0]);
    assert_eq!(client.stats().holds_lost, 0);
}

#[test]
fn an_unlock_without_a_connection_is_made_up_for_on_the_next_one() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("away");
    let lock = lock_with(&client, &path);
    let guard = lock.acquire().unwrap();
    proxy.refuse(true);
    proxy.cut();
    wait_until("it is suspended", SOON, || guard.state() == zoolock::HoldState::Suspended);
    in_time("unlock", Duration::from_secs(1), || guard.release()).unwrap();
    assert_eq!(children(&path).len(), 1);
    proxy.refuse(false);
    wait_until("the node is gone", SOON, || children(&path).is_empty());
    await_nothing_left(&client);
}
