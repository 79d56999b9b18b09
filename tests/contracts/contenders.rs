//! `Client::contenders` and `Client::paths_below`: holders and waiters as other clients observe them. The tests in
//! `every` cover the rest.

use std::time::SystemTime;

use zoolock::{
    Client, Contender, DistributedLock, EphemeralLock, Error, LockKind, LockOptions, Result,
};

use common::semaphore::{acquiring, await_leases, await_turns, semaphore};
use common::*;

use crate::every::each_type;
use crate::is_invalid;

pub(crate) const UUID: &str = "01234567-89ab-cdef-0123-456789abcdef";
const HEX: &str = "0123456789abcdef0123456789abcdef";

/// Unwraps the contenders, and prints them in case the test fails.
#[track_caller]
pub(crate) fn look(what: &str, seen: Result<Vec<Contender>>) -> Vec<Contender> {
    let seen = seen.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    println!("{what}: {} contenders", seen.len());
    for contender in seen.iter().take(12) {
        println!("  {contender:?}");
    }
    seen
}

/// Returns a client with this identity.
pub(crate) fn client_called(identity: &str) -> Client {
    let builder = Client::builder(connect_string()).session_timeout(SESSION);
    connected(builder.identity(identity))
}

/// Returns the full path of a contender's node.
pub(crate) fn znode(contender: &Contender) -> String {
    match contender.node.as_str() {
        "" => contender.path.clone(),
        node => format!("{}/{node}", contender.path),
    }
}

/// Checks the contender against its node. The token of a downgraded read would differ from its node's.
#[track_caller]
pub(crate) fn is_as_the_server_says(contender: &Contender) {
    let stat = stat(&znode(contender));
    let said = (stat.czxid as u64, stat.ephemeral_owner, stat.ctime as u128);
    let since = contender.since.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let seen = (contender.token, contender.session, since);
    assert_eq!(seen, said, "token, session, since of {contender:?}");
    assert_ne!(contender.session, 0);
}

/// Returns each contender's kind, and whether it is a holder.
pub(crate) fn brief(seen: &[Contender]) -> Vec<(LockKind, bool)> {
    seen.iter().map(|one| (one.kind, one.holds)).collect()
}

fn identities(seen: &[Contender]) -> Vec<Option<&str>> {
    seen.iter().map(|one| one.identity.as_deref()).collect()
}

#[test]
fn identity_is_any_text_up_to_16_kib_except_a_request() {
    let (client, path) = (client(), fresh_path("identities"));
    let longest = "x".repeat(16 * 1024);
    for identity in
        ["", " ", "a __REVOKE__", "__REVOKE__ a", "a\n_zoolock token=1 since=2", &longest]
    {
        let options = LockOptions::new().identity(identity);
        let lock = DistributedLock::with_options(&client, &path, options).unwrap();
        let guard = lock.acquire().unwrap();
        assert_eq!(identities(&lock.contenders().unwrap()), [Some(identity)]);
        guard.release().unwrap();
    }
    assert!(lock_of(&client_called(&longest), &path).try_lock().unwrap());
    for identity in ["__REVOKE__", &format!("{longest}y")] {
        let by_client = Client::builder(connect_string()).identity(identity).connect().map(drop);
        let by_lock = each_type(&client, &path, &LockOptions::new().identity(identity));
        by_lock.iter().chain([&by_client]).for_each(|seen| is_invalid("identity", seen));
    }
}

#[test]
fn contenders_lists_nodes_of_other_libraries_but_no_strangers() {
    let (client, path, probe) = (client(), fresh_path("mixed"), shared_probe().unwrap());
    probe.create_all(&path).unwrap();
    let (long, lines) = ("x".repeat(500 * 1000), "who\n_zoolock token=77 since=1000");
    // Node names of Kazoo, an older .NET recipe, go-zookeeper, Curator, and ZooKeeper's own description of the recipe.
    let made = [
        (format!("{HEX}__rlock__0000000003"), LockKind::Read, true, Some("192.168.0.1")),
        (format!("_c_{UUID}-__READ__0000000004"), LockKind::Read, true, Some("")),
        ("lock-0000000005".to_owned(), LockKind::Exclusive, false, Some("__REVOKE__ ")),
        (format!("{HEX}__lock__0000000006"), LockKind::Exclusive, false, None),
        (format!("_c_{HEX}-lock-0000000007"), LockKind::Exclusive, false, Some(&long)),
        (format!("_c_{UUID}-__WRIT__0000000008"), LockKind::Write, false, Some(lines)),
        (format!("x-{UUID}-lock-0000000009"), LockKind::Exclusive, false, None),
        (format!("_c_{UUID}-__READ__0000000010"), LockKind::Read, false, Some("somebody")),
    ];
    let lease = format!("_c_{UUID}-lease-0000000002");
    let strangers = ["0000000001", &lease, "hello", "lock-9999999999", "stays", "ß-lock-"];
    for name in strangers {
        probe.create(&format!("{path}/{name}"), b"", name != "stays", false).unwrap();
    }
    let unnamed = [&b"__REVOKE__"[..], b"\xff\xfe\x00"];
    let data = |at: usize| made[at].3.map_or(unnamed[at % 2], str::as_bytes);
    for (at, (name, ..)) in made.iter().enumerate().rev() {
        probe.create(&format!("{path}/{name}"), data(at), true, false).unwrap();
    }
    let seen = client.contenders(&path).unwrap();
    assert_eq!(seen.len(), made.len());
    for (at, (seen, (name, kind, holds, identity))) in seen.iter().zip(&made).enumerate() {
        assert_eq!((&seen.node, seen.kind, seen.holds), (name, *kind, *holds));
        assert_eq!(seen.identity.as_deref(), *identity, "{name}");
        assert_eq!(seen.sequence, Some(place(name).parse().unwrap()));
        assert_eq!(seen.session, probe.session_id());
        is_as_the_server_says(seen);
        // The node of an `EphemeralLock` with the same data.
        let single = fresh_path("single");
        probe.create(&single, data(at), true, false).unwrap();
        let alone = client.contenders(&single).unwrap();
        assert_eq!(
            (brief(&alone), identities(&alone)),
            (vec![(LockKind::Exclusive, true)], vec![*identity])
        );
    }
}

#[test]
fn contender_paths_are_relative_to_the_chroot() {
    let root = fresh_path("chroot");
    let below = client_of(&format!("{}{root}", connect_string()), SESSION);
    assert_eq!(below.contenders("/a").unwrap(), [], "there is no chroot yet");
    let guard = lock_of(&below, "/a").acquire().unwrap();
    let seen = look("inside", below.contenders("/a"));
    assert_eq!((&*seen[0].path, &*seen[0].node), ("/a", &*guard.node()));
    let mut outside = look("outside", client().contenders(format!("{root}/a")));
    assert_eq!(outside[0].path, format!("{root}/a"));
    outside[0].path = "/a".to_owned();
    assert_eq!(outside, seen);
    let asked = guard.revocation().unwrap();
    below.revoke(&seen[0]).unwrap();
    asked.recv_timeout(SOON).expect("revoked below a chroot");
}

#[test]
fn semaphore_shows_its_permits_and_then_its_waiters() {
    let clients = ["a", "b", "c"].map(client_called);
    let path = fresh_path("semaphore");
    let own = clients.each_ref().map(|client| semaphore(client, &path, 3));
    let held = own[0].acquire(2).unwrap();
    let second = acquiring(&own[1], 2);
    await_leases(&path, 4);
    let third = acquiring(&own[2], 2);
    await_turns(&path, 2);
    shared_probe().unwrap().create(&format!("{path}/notes"), b"", false, false).unwrap();

    let seen = look("semaphore", own[2].contenders());
    assert_eq!(seen, clients[0].contenders(&path).unwrap());
    // The second call has the turn node and the nodes of two permits, but is listed once.
    assert_eq!(brief(&seen), [true, true, false, false].map(|it| (LockKind::Semaphore, it)));
    assert_eq!(identities(&seen), ["a", "a", "b", "c"].map(Some));
    let limits: Vec<_> = seen.iter().map(|one| one.limit).collect();
    assert_eq!(limits, [Some(3), Some(3), Some(3), None]);
    seen.iter().for_each(is_as_the_server_says);
    let in_leases = seen.iter().map(|one| one.node.starts_with("leases/"));
    assert_eq!(in_leases.collect::<Vec<_>>(), [true, true, true, false]);
    let mut tokens: Vec<_> = held.holds().iter().map(|hold| hold.fencing_token()).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [seen[0].token, seen[1].token]);
    for one in &seen {
        let digits = Some(place(&one.node).parse().unwrap());
        assert_eq!((one.sequence, &one.path), (digits, &path), "{one:?}");
    }
    held.release().unwrap();
    second.result("the second").unwrap().release().unwrap();
    third.result("the third").unwrap().release().unwrap();
    let left = || own[1].contenders().unwrap().len();
    wait_until("no node is left", SOON, || left() == 0);
}

#[test]
fn paths_below_are_those_of_locks_and_folders() {
    let (client, root, probe) = (client(), fresh_path("below"), shared_probe().unwrap());
    let at = |name: &str| format!("{root}/{name}");
    let _held = lock_of(&client, &at("a")).acquire().unwrap();
    let _below_a_lock = lock_of(&client, &at("a/b")).acquire().unwrap();
    let _behind = lock_of(&client, &at("a-b")).acquire().unwrap();
    let _single = EphemeralLock::new(&client, at("single")).unwrap().acquire().unwrap();
    probe.create(&at("member"), b"10.0.0.1:80", true, false).unwrap();
    assert_eq!(client.paths_below(&root).unwrap(), ["a", "a-b", "member", "single"].map(at));
    // The node of the lock's contender is not included.
    assert_eq!(client.paths_below(at("a")).unwrap(), [at("a/b")]);
    assert_eq!(client.paths_below(at("nothing")).unwrap(), [""; 0]);
    let top = client.paths_below("/").unwrap();
    let is_above = |path: &String| root.starts_with(path.as_str());
    assert!(top.iter().any(is_above) && !top.contains(&"/zookeeper".to_owned()), "{top:?}");
    assert!(matches!(client.paths_below("a"), Err(Error::InvalidPath { .. })));
    probe.add_auth("digest", b"boss:secret").unwrap();
    probe.create_with_acl(&at("hidden"), b"", &[(31, "auth", "")]).unwrap();
    let seen = client.paths_below(at("hidden"));
    assert!(matches!(&seen, Err(Error::PermissionDenied { path, .. }) if *path == at("hidden")));
}
