//! `Client::locks_below`: which locks it finds, in what order, and at what cost.

use zoolock::{Contender, EphemeralLock, Error, Kind, Result};
use zoolock_test_support::{fresh_path, shared_probe};

use common::rwlock::rw_of;
use common::semaphore::{semaphore, waiting_with_the_turn};
use common::{answered, client, lock_of};

use crate::contenders::{HEX, UUID, look};

/// Prints and returns the path of each result.
#[track_caller]
fn paths(root: &str, found: &[Result<Vec<Contender>>]) -> Vec<String> {
    let path = |found: &Result<Vec<Contender>>| match found {
        Ok(contenders) => contenders[0].path.clone(),
        Err(Error::Denied { path }) => path.clone(),
        Err(other) => panic!("{other:?}"),
    };
    let paths: Vec<_> = found.iter().map(path).collect();
    println!("below {root}: {paths:#?}");
    paths.iter().map(|path| path.strip_prefix(root).expect("it is below").to_owned()).collect()
}

#[test]
fn locks_below_finds_every_kind_of_lock_in_tree_order() {
    let (client, root, probe) = (client(), fresh_path("below"), shared_probe().unwrap());
    let at = |name: &str| format!("{root}/{name}");
    let _held = lock_of(&client, &at("a")).acquire().unwrap();
    let _below_a_lock = lock_of(&client, &at("a/b")).acquire().unwrap();
    let _behind = lock_of(&client, &at("a-b")).acquire().unwrap();
    let rw = rw_of(&client, &at("deep/er/read"));
    rw.read_lock().lock().unwrap();
    let permits = semaphore(&client, &at("permits"), 2);
    let some = permits.acquire(2).unwrap();
    let more = waiting_with_the_turn(&permits, 1);
    let _single = EphemeralLock::new(&client, at("single")).unwrap().acquire().unwrap();
    // Kazoo's name.
    probe.create_all(&at("theirs")).unwrap();
    let theirs = at(&format!("theirs/{HEX}__lock__0000000000"));
    probe.create(&theirs, b"them", true, false).unwrap();
    // These are no locks: a free one, a group member, and folders named like those of a semaphore.
    drop(lock_of(&client, &at("free")).acquire().unwrap());
    probe.create(&at("member"), b"10.0.0.1:80", true, false).unwrap();
    let _among_others = lock_of(&client, &at("service/locks/x")).acquire().unwrap();
    probe.create_all(&at("service/leases/y")).unwrap();

    let found: Vec<_> = client.locks_below(&root).unwrap().collect();
    let expected =
        "/a /a/b /a-b /deep/er/read /permits /service/locks/x /single /theirs".split(' ');
    let expected: Vec<_> = expected.collect();
    assert_eq!(paths(&root, &found), expected);
    for (found, path) in found.iter().zip(&expected) {
        let mut contenders = look(path, client.contenders(&at(&path[1..])));
        // Nodes below a lock are not its contenders.
        contenders.retain(|one| one.kind != Kind::Foreign);
        assert_eq!(found.as_ref().unwrap(), &contenders);
    }
    // The walk includes the lock at its root, and "/" is a valid root.
    let itself: Vec<_> = client.locks_below(&at("a")).unwrap().collect();
    assert_eq!(paths(&root, &itself), ["/a", "/a/b"]);
    let single: Vec<_> = client.locks_below(&at("single")).unwrap().collect();
    assert_eq!(paths(&root, &single), ["/single"]);
    // These are the locks of all tests, and some are unreadable. On a busy machine the walk may time out.
    let is_denied = |found: &Result<_>| matches!(found, Err(Error::Denied { .. }));
    let below_all = || client.locks_below("/")?.filter(|found| !is_denied(found)).collect();
    let all: Vec<_> = answered(below_all).unwrap();
    let here = all.iter().filter(|contenders| contenders[0].path.starts_with(&root));
    assert_eq!(here.count(), expected.len());
    rw.read_lock().unlock().unwrap();
    drop(some);
    drop(more.result("the waiter").unwrap());
}

#[test]
fn locks_below_names_unreadable_paths_and_finds_the_rest() {
    let (client, root) = (client(), fresh_path("denied-below"));
    let boss = shared_probe().unwrap();
    boss.add_auth("digest", b"boss:secret").unwrap();
    let boss_only = [(31, "auth", "")];
    let at = |name: &str| format!("{root}/{name}");
    let held = ["a", "y/z"].map(|name| lock_of(&client, &at(name)).acquire().unwrap());
    boss.create_with_acl(&at("hidden"), b"", &boss_only).unwrap();
    boss.create_all(&at("partly")).unwrap();
    for (number, acl) in [(1, &[(31, "world", "anyone")]), (2, &boss_only)] {
        let node = at(&format!("partly/_c_{UUID}-lock-{number:010}"));
        boss.create_with_acl(&node, b"", acl).unwrap();
    }
    boss.create_all(&at("semaphore/leases")).unwrap();
    boss.create_with_acl(&at("semaphore/locks"), b"", &boss_only).unwrap();
    let found: Vec<_> = client.locks_below(&root).unwrap().collect();
    assert_eq!(paths(&root, &found), ["/a", "/hidden", "/partly", "/semaphore/locks", "/y/z"]);
    let are_seen: Vec<_> = found.iter().map(Result::is_ok).collect();
    assert_eq!(are_seen, [true, false, false, false, true]);
    for path in [at("hidden"), at("partly")] {
        let seen = client.contenders(&path);
        assert!(matches!(&seen, Err(Error::Denied { path: at }) if *at == path), "{seen:?}");
    }
    drop(held);
}
