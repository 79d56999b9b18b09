//! `list -r`: which nodes of a tree count as locks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use zoolock::EphemeralLock;

use common::semaphore::{semaphore, waiting_with_the_turn};

use crate::util::*;

const HEX: &str = "0123456789abcdef0123456789abcdef";

/// Returns the paths of all locks below the root, relative to it, and checks their contenders.
fn locks_below(root: &str) -> Vec<String> {
    let all = json(&["list", "-r", "--json", root]);
    let all = all.as_array().expect("an array").iter().map(|lock| {
        let path = lock["path"].as_str().expect("a path");
        assert_eq!(lock["contenders"], json(&["list", "--json", path]), "{path}");
        path.strip_prefix(root).expect("below").to_owned()
    });
    all.collect()
}

#[test]
fn every_kind_of_lock_is_found_in_tree_order() {
    let (client, root, probe) = (client(), fresh_path("below"), probe());
    let at = |name: &str| format!("{root}/{name}");
    let _held = held(&at("a"));
    let _below_a_lock = held(&at("a/b"));
    let _behind = held(&at("a-b"));
    let _called_locks = held(&at("app/locks"));
    let rw = rw_of(&client, &at("deep/er/read"));
    rw.reader().lock().expect("locked");
    let permits = semaphore(&client, &at("permits"), 2);
    let some = permits.acquire(2).expect("permits");
    let more = waiting_with_the_turn(&permits, 1);
    let single = EphemeralLock::new(&client, at("single")).expect("a path");
    let _single = single.acquire().expect("locked");
    // A node name of kazoo.
    probe.create_all(&at("theirs")).expect("made");
    let theirs = at(&format!("theirs/{HEX}__lock__0000000000"));
    probe.create(&theirs, b"them", true, false).expect("made");
    // None of these is a lock: a free lock's path, a group member, and folders named like those of a semaphore.
    drop(held(&at("free")));
    probe.create(&at("member"), b"10.0.0.1:80", true, false).expect("made");
    let _among_others = held(&at("service/locks/x"));
    probe.create_all(&at("service/leases/y")).expect("made");

    let expected =
        "/a /a/b /a-b /app/locks /deep/er/read /permits /service/locks/x /single /theirs";
    assert_eq!(locks_below(&root).join(" "), expected);
    // The root itself is included.
    assert_eq!(locks_below(&at("a")), ["", "/b"]);
    assert_eq!(locks_below(&at("single")), [""]);
    // This lists the locks of all tests that run now, some of which may be unreadable.
    let (_, all, _) = ends(zoolock(&["list", "-r", "/"]));
    assert!(all.contains(&at("service/locks/x")), "{all}");
    rw.reader().unlock().expect("unlocked");
    drop(some);
    drop(more.result("the waiter").expect("permits"));
}

#[test]
fn unreadable_paths_are_named_and_the_rest_is_found() {
    let (root, boss) = (fresh_path("denied-below"), probe());
    boss.add_auth("digest", b"boss:secret").expect("told");
    let boss_only = [(31, "auth", "")];
    let at = |name: &str| format!("{root}/{name}");
    let _held = ["a", "partly/b", "y/z"].map(|name| held(&at(name)));
    boss.create_with_acl(&at("hidden"), b"", &boss_only).expect("made");
    for (number, acl) in [(1, &[(31, "world", "anyone")]), (2, &boss_only)] {
        let node = at(&format!("partly/_c_01234567-89ab-cdef-0123-456789abcdef-lock-{number:010}"));
        boss.create_with_acl(&node, b"", acl).expect("made");
    }
    boss.create_all(&at("semaphore/leases")).expect("made");
    boss.create_with_acl(&at("semaphore/locks"), b"", &boss_only).expect("made");
    for json in [&[][..], &["--json"]] {
        let (code, said, errors) = ends(zoolock(&[&["list", "-r", &root], json].concat()));
        assert_eq!(code, Some(77), "not all was seen");
        let denied = ["hidden", "partly", "semaphore", "semaphore/locks"];
        let denied = denied.map(|name| format!("denied at {:?}", at(name)));
        assert_eq!(errors.lines().count(), denied.len(), "{errors}");
        assert!(denied.iter().all(|one| errors.contains(one)), "{errors}");
        assert!(["a", "partly/b", "y/z"].iter().all(|name| said.contains(&at(name))), "{said}");
    }
}

#[test]
fn locks_of_a_large_tree_are_found_while_they_come_and_go() {
    let (client, root, probe) = (client(), fresh_path("many-below"), probe());
    let at = |number: usize| format!("{root}/{}/{number:03}", number % 7);
    let _held: Vec<_> =
        (0..300).map(|number| lock_of(&client, &at(number)).acquire().expect("locked")).collect();
    let other = lock_of(&client, &format!("{root}/3/comes-and-goes"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                other.lock().and_then(|()| other.unlock()).expect("a turn");
                probe.create_all(&format!("{root}/5/x/y")).expect("made");
                let _ = probe.delete(&format!("{root}/5/x/y"));
                let _ = probe.delete(&format!("{root}/5/x"));
            }
        });
        for _ in 0..5 {
            let mut found = json(&["list", "-r", "--json", &root]);
            let found = found.as_array_mut().expect("an array");
            found.retain(|lock| lock["path"] != other.path());
            assert_eq!(found.len(), 300);
            let paths: Vec<_> = found.iter().map(|lock| lock["path"].as_str()).collect();
            assert!(paths.is_sorted());
        }
        is_over.store(true, Ordering::SeqCst);
    });
}
