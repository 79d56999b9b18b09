//! Transactions guarded by a hold. They are applied as a whole while the lock is held, or rejected with a reason.

use zoolock::{Client, ConflictReason, Error, Guard, LossReason, Version};

use common::*;

use crate::every::Pair;
use crate::is_invalid;

fn at(version: i32) -> Version {
    Version::from(version)
}

/// Creates a node with this data at a fresh path.
fn node(name: &str, data: &[u8]) -> String {
    let path = fresh_path(name);
    shared_probe().unwrap().create(&path, data, false, false).unwrap();
    path
}

/// Expects that the node has this data and version on the server.
#[track_caller]
fn has(path: &str, expected: &str, version: i32) {
    let (data, stat) = shared_probe().unwrap().get(path).unwrap().expect(path);
    assert_eq!((&*data, stat.version), (expected.as_bytes(), version), "{path}");
}

fn held(client: &Client, name: &str) -> Guard {
    lock_of(client, &fresh_path(name)).acquire().unwrap()
}

#[test]
fn transaction_applies_all_in_order_or_names_the_failed_part() {
    let (client, [a, b]) = (client(), ["a", "b"].map(|name| node(name, b"old")));
    let hold = held(&client, "guard");
    let below = format!("{b}/below");
    hold.transaction().commit().unwrap();
    let all = hold.transaction().check(&a, at(0)).set(&a, "new", at(0)).create(&below, "made");
    println!("{all:?}");
    assert!(!format!("{all:?}").contains("made"), "data may be secret, but is printed: {all:?}");
    all.set(&below, "set", None).delete(&below, at(1)).create(&below, "again").commit().unwrap();
    has(&a, "new", 1);
    has(&below, "again", 0);
    let (gone, orphan) = (format!("{a}/gone"), format!("{a}/gone/below"));
    let write = || hold.transaction().set(&a, "never", None);
    for (refused, at, expected) in [
        (write().check(&a, at(7)), &a, ConflictReason::BadVersion),
        (write().set(&b, "x", at(1)), &b, ConflictReason::BadVersion),
        (write().delete(&below, at(5)), &below, ConflictReason::BadVersion),
        (write().check(&gone, None), &gone, ConflictReason::NoNode),
        (write().set(&gone, "x", None), &gone, ConflictReason::NoNode),
        (write().delete(&gone, None), &gone, ConflictReason::NoNode),
        (write().create(&below, "x"), &below, ConflictReason::NodeExists),
        (write().create(&orphan, "x"), &orphan, ConflictReason::NoParent),
        (write().delete(&b, None), &b, ConflictReason::NotEmpty),
    ] {
        let error = refused.commit().unwrap_err();
        println!("{error}");
        let fits = matches!(&error, Error::Conflict { path, reason, .. } if path == at && *reason == expected);
        assert!(fits, "{at}, {expected:?}: {error:?}");
        assert!(hold.is_held());
        has(&a, "new", 1);
    }
    let owners = held(&owner(), "owned");
    let own = format!("{}/{}", owners.path(), owners.node());
    let refused = write().set(&own, "x", None).commit();
    assert!(
        matches!(&refused, Err(Error::PermissionDenied { path, .. }) if *path == own),
        "{refused:?}"
    );
    has(&a, "new", 1);
}

#[test]
fn invalid_transaction_is_refused_before_a_request() {
    let client = client();
    let hold = held(&client, "invalid");
    let others = held(&self::client(), "others");
    let before = client.stats().requests;
    // The version that servers treat as "any", and the nodes whose existence the guard itself checks.
    let own = format!("{}/{}", hold.path(), hold.node());
    for (refused, says) in [
        (hold.transaction().set("/x", vec![0; 1 << 20], None), "transaction"),
        (hold.transaction().and_held(&others), "hold"),
        (hold.transaction().set("/x", "", at(-1)), "version"),
        (hold.transaction().check("/x", at(-1)), "version"),
        (hold.transaction().delete(&own, None), "path"),
        (hold.transaction().set(&own, "", at(0)), "path"),
    ] {
        is_invalid(says, &refused.commit());
    }
    for path in ["", "x", "/x/", "/", "/zookeeper/quota"] {
        let refused = hold.transaction().delete(path, None).commit();
        assert!(matches!(&refused, Err(Error::InvalidPath { path: at, .. }) if at == path));
        assert!(matches!(client.read(path), Err(Error::InvalidPath { .. })), "{path}");
    }
    assert_eq!(client.stats().requests, before);
}

/// The hold of an `EphemeralLock` cannot guarantee this, so it is rejected.
#[test]
fn hold_guards_transactions_until_its_release() {
    every_subject(|subject| {
        let Pair { object, .. } = Pair::of(subject, "guards", SOON);
        let guarded = node("guarded", b"");
        object.lock().unwrap();
        let hold = object.hold();
        let write = |data: &str| {
            let holds = object.holds();
            let others = holds.iter().skip(1);
            let transaction = hold.transaction().set(&guarded, data, None);
            others.fold(transaction, |all, hold| all.and_held(hold)).commit()
        };
        let written = write("1");
        if subject.marker().is_none() {
            is_invalid("hold", &written);
            return object.unlock().unwrap();
        }
        written.unwrap();
        write("2").unwrap();
        object.unlock().unwrap();
        let late = write("3");
        assert!(matches!(late, Err(Error::NotHeld { .. })), "{}: {late:?}", subject.name);
        // The lock was not held by anyone else in between, but this is a different hold.
        object.lock().unwrap();
        let late = hold.transaction().set(&guarded, "4", None).commit();
        assert!(matches!(late, Err(Error::NotHeld { .. })), "{}: {late:?}", subject.name);
        has(&guarded, "2", 2);
        object.unlock().unwrap();
    });
}

#[test]
fn transaction_requires_every_one_of_its_holds() {
    let client = client();
    let [first, second] = ["first", "second"].map(|name| held(&client, name));
    let guarded = node("guarded-by-two", b"old");
    let write =
        |data: &str| first.transaction().and_held(&second).set(&guarded, data, None).commit();
    write("new").unwrap();
    delete_node(&second);
    assert_lost(&write("never"), second.path(), LossReason::NodeDeleted);
    assert!(first.is_held());
    has(&guarded, "new", 1);
    // Transactions of the first hold, its hand-over and its release are not blocked because of the other, lost hold.
    first.transaction().set(&guarded, "alone", at(1)).commit().unwrap();
    has(&guarded, "alone", 2);
}
