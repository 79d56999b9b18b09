//! Permits, and who waits for some.

use zoolock::{DistributedSemaphore, Kind};
use zoolock_test_support::{fresh_path, shared_probe, wait_until};

use super::{client_called, holding, identities, is_as_the_server_says, kinds, look, nodes};
use common::basics::await_nodes;
use common::{SOON, Task, client, place};

#[test]
fn a_semaphore_shows_its_permits_and_who_waits_behind_them() {
    let clients = ["a", "b", "c"].map(client_called);
    let path = fresh_path("semaphore");
    let semaphores =
        clients.each_ref().map(|client| DistributedSemaphore::new(client, &path, 3).unwrap());
    assert_eq!(semaphores[0].contenders().unwrap(), []);
    let held = semaphores[0].acquire(2).unwrap();
    let waits = |semaphore: &DistributedSemaphore| {
        let semaphore = semaphore.clone();
        Task::spawn(move || semaphore.acquire(2)?.release())
    };
    let (locks, leases) = (format!("{path}/locks"), format!("{path}/leases"));
    let second = waits(&semaphores[1]);
    await_nodes(&leases, 4);
    let third = waits(&semaphores[2]);
    await_nodes(&locks, 2);

    let seen = look("semaphore", semaphores[2].contenders());
    assert_eq!(seen, clients[0].contenders(&path).unwrap());
    assert_eq!(kinds(&seen), [Kind::Permit; 6]);
    assert_eq!(holding(&seen), [true, true, false, false, false, false]);
    let who = ["a", "a", "b", "b", "b", "c"].map(Some);
    assert_eq!(identities(&seen), who);
    seen.iter().for_each(is_as_the_server_says);
    let directories: Vec<_> = nodes(&seen).iter().map(|n| n.split('/').next().unwrap()).collect();
    let expected = ["leases", "leases", "leases", "leases", "locks", "locks"];
    assert_eq!(directories, expected);
    let mut tokens: Vec<_> =
        held.holds().iter().map(|hold| hold.fencing_token().unwrap()).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [seen[0].token, seen[1].token]);
    for contender in &seen {
        let digits: i64 = place(&contender.node).parse().unwrap();
        assert_eq!((contender.sequence, &contender.path), (Some(digits), &path), "{contender:?}");
    }

    held.release().unwrap();
    second.result("the second").unwrap();
    third.result("the third").unwrap();
    wait_until("nobody is left", SOON, || semaphores[1].contenders().unwrap().is_empty());
}

#[test]
fn a_stranger_in_a_semaphores_path_hides_nobody() {
    let client = client();
    let path = fresh_path("semaphore-stranger");
    let semaphore = DistributedSemaphore::new(&client, &path, 2).unwrap();
    let permits = semaphore.acquire(1).unwrap();
    let notes = format!("{path}/notes");
    shared_probe().unwrap().create(&notes, b"mine", false, false).unwrap();
    let seen = look("a permit and notes", semaphore.contenders());
    assert_eq!(kinds(&seen), [Kind::Permit, Kind::Foreign]);
    assert_eq!(holding(&seen), [true, false]);
    assert_eq!(seen[0].token, permits.holds()[0].fencing_token().unwrap(), "the permit");
    permits.release().unwrap();
}

#[test]
fn a_permit_that_was_granted_is_held_though_its_client_waits_for_more() {
    let (others, own) = (client(), client());
    let path = fresh_path("semaphore-own");
    let semaphore = |client| DistributedSemaphore::new(client, &path, 2).unwrap();
    let first = semaphore(&others);
    let (one, other) = (first.acquire(1).unwrap(), first.acquire(1).unwrap());
    let (locks, leases) = (format!("{path}/locks"), format!("{path}/leases"));
    // Somebody has the turn; behind it two objects of one client queue.
    let ahead = semaphore(&others);
    let ahead = Task::spawn(move || ahead.acquire(1));
    await_nodes(&leases, 3);
    let second = semaphore(&own);
    let second = Task::spawn(move || second.acquire(1));
    await_nodes(&locks, 2);
    let third = semaphore(&own);
    let third = Task::spawn(move || third.acquire(1));
    await_nodes(&locks, 3);
    one.release().unwrap();
    let ahead = ahead.result("who had the turn").unwrap();
    await_nodes(&locks, 2);
    await_nodes(&leases, 3);
    other.release().unwrap();
    let second = second.result("the first of the client").unwrap();
    await_nodes(&locks, 1);
    await_nodes(&leases, 3);

    let seen = look("two held, one waits", own.contenders(&path));
    let token = second.holds()[0].fencing_token().unwrap();
    let granted = seen.iter().find(|c| c.token == token).unwrap();
    assert!(granted.holds, "{granted:?}");
    assert_eq!(holding(&seen), [true, true, false, false]);
    ahead.release().unwrap();
    third.result("the last").unwrap().release().unwrap();
    second.release().unwrap();
}
