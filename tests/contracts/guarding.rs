//! Guarded writes on a healthy server: all are carried out together, and only while the lock is
//! held; otherwise an error says why not.

use std::thread;

use zoolock::{Client, ConflictReason, DistributedLock, Error, Hold, LossReason, Result};
use zoolock_test_support::{connect_string, fresh_path, shared_probe};

use common::{
    SOON, Subject, assert_lost, client, client_of, delete_node, every_subject, every_subject_that,
    lock_of, owner,
};

/// Creates a node with these data, at a fresh path.
fn node(name: &str, data: &[u8]) -> String {
    let path = fresh_path(name);
    shared_probe().unwrap().create(&path, data, false, false).unwrap();
    path
}

/// Returns the data on the server, and their version.
#[track_caller]
fn data(path: &str) -> Option<(String, i32)> {
    let found = shared_probe().unwrap().get(path).unwrap();
    found.map(|(data, stat)| (String::from_utf8(data).unwrap(), stat.version))
}

#[track_caller]
fn has(path: &str, expected: &str, version: i32) {
    assert_eq!(data(path), Some((expected.to_owned(), version)), "{path}");
}

fn held(client: &Client, name: &str) -> (DistributedLock, Hold) {
    let lock = lock_of(client, &fresh_path(name));
    lock.lock().unwrap();
    let hold = lock.hold().unwrap();
    (lock, hold)
}

#[test]
fn all_is_carried_out_in_order_or_nothing_and_the_error_says_what_does_not_fit() {
    let (client, [a, b]) = (client(), ["a", "b"].map(|name| node(name, b"old")));
    let (_lock, hold) = held(&client, "guard");
    let below = format!("{b}/below");
    hold.transaction().commit().unwrap();
    let all = hold.transaction().check(&a, 0).set(&a, "new", 0).create(&below, "made");
    println!("{all:?}");
    assert!(!format!("{all:?}").contains("made"), "data may be secret: {all:?}");
    all.set(&below, "set", None).delete(&below, 1).create(&below, "again").commit().unwrap();
    has(&a, "new", 1);
    has(&below, "again", 0);
    let (gone, orphan) = (format!("{a}/gone"), format!("{a}/gone/below"));
    let write = || hold.transaction().set(&a, "never", None);
    for (refused, at, expected) in [
        (write().check(&a, 7), &a, ConflictReason::BadVersion),
        (write().set(&b, "x", 1), &b, ConflictReason::BadVersion),
        (write().delete(&below, 5), &below, ConflictReason::BadVersion),
        (write().check(&gone, None), &gone, ConflictReason::NoNode),
        (write().set(&gone, "x", None), &gone, ConflictReason::NoNode),
        (write().delete(&gone, None), &gone, ConflictReason::NoNode),
        (write().create(&below, "x"), &below, ConflictReason::NodeExists),
        (write().create(&orphan, "x"), &orphan, ConflictReason::NoParent),
        (write().delete(&b, None), &b, ConflictReason::NotEmpty),
    ] {
        let error = refused.commit().unwrap_err();
        println!("{error}");
        let fits =
            matches!(&error, Error::Conflict { path, reason } if path == at && *reason == expected);
        assert!(fits, "{at}, {expected:?}: {error:?}");
        assert!(hold.is_held());
        has(&a, "new", 1);
    }
}

#[test]
fn a_node_whose_acl_does_not_allow_it_is_named() {
    let (lock, hold) = held(&client(), "denied");
    let (_owned, owners) = held(&owner(), "owned");
    let own = format!("{}/{}", owners.path(), owners.node());
    let refused = hold.transaction().set(&own, "x", None).commit();
    println!("{refused:?}");
    assert!(matches!(&refused, Err(Error::Denied { path }) if *path == own), "{refused:?}");
    lock.unlock().unwrap();
}

#[test]
fn what_cannot_be_asked_for_is_said_before_anything_is_sent() {
    let client = client();
    let (_lock, hold) = held(&client, "invalid");
    let (_other, others) = held(&self::client(), "others");
    let before = client.stats().requests;
    let too_much = hold.transaction().set("/x", vec![0; 1 << 20], None).commit();
    let foreign = hold.transaction().and_held(&others).commit();
    for (refused, says) in [(too_much, "transaction"), (foreign, "hold")] {
        println!("{refused:?}");
        assert!(matches!(&refused, Err(Error::InvalidArgument { what, .. }) if *what == says));
    }
    // What every version is to the servers, and the nodes that are to be there.
    let own = format!("{}/{}", hold.path(), hold.node());
    for (refused, says) in [
        (hold.transaction().set("/x", "", -1), "version"),
        (hold.transaction().check("/x", -1), "version"),
        (hold.transaction().delete(&own, None), "path"),
        (hold.transaction().set(&own, "", 0), "path"),
    ] {
        let refused = refused.commit();
        println!("{refused:?}");
        assert!(matches!(&refused, Err(Error::InvalidArgument { what, .. }) if *what == says));
    }
    for path in ["", "x", "/x/", "/", "/zookeeper/quota"] {
        let refused = hold.transaction().delete(path, None).commit();
        assert!(matches!(&refused, Err(Error::InvalidPath { path: at, .. }) if at == path));
        assert!(matches!(client.read(path), Err(Error::InvalidPath { .. })), "{path}");
    }
    assert_eq!(client.stats().requests, before);
}

/// Of a lock that is a single node nobody can tell.
#[test]
fn every_hold_guards_until_it_is_released() {
    every_subject(|subject| {
        let client = client_of(&connect_string(), SOON);
        let object = subject.at(&client, &fresh_path("guards"));
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
            println!("{}: {written:?}", subject.name);
            let refused = matches!(written, Err(Error::InvalidArgument { what: "hold", .. }));
            assert!(refused, "{}: {written:?}", subject.name);
            return object.unlock().unwrap();
        }
        written.unwrap();
        write("2").unwrap();
        object.unlock().unwrap();
        let late = write("3");
        assert!(matches!(late, Err(Error::NotHeld { .. })), "{}: {late:?}", subject.name);
        // Nobody else has the lock meanwhile, but it is another hold.
        object.lock().unwrap();
        let late = hold.transaction().set(&guarded, "4", None).commit();
        assert!(matches!(late, Err(Error::NotHeld { .. })), "{}: {late:?}", subject.name);
        has(&guarded, "2", 2);
        object.unlock().unwrap();
    });
}

#[test]
fn a_hold_whose_node_is_gone_guards_nothing_and_is_lost() {
    every_subject_that(
        |subject| subject.marker().is_some() && subject.is_one_lock(),
        |subject: Subject| {
            let client = client_of(&connect_string(), SOON);
            let object = subject.at(&client, &fresh_path("gone"));
            let guarded = node("guarded", b"old");
            object.lock().unwrap();
            let hold = object.hold();
            shared_probe().unwrap().delete(&subject.node_of(&hold)).unwrap();
            let refused = hold.transaction().set(&guarded, "new", None).commit();
            println!("{}: {refused:?}", subject.name);
            assert_lost(&refused, hold.path(), LossReason::NodeDeleted);
            assert!(!hold.is_held(), "{}", subject.name);
            has(&guarded, "old", 0);
            assert_lost(&object.unlock(), hold.path(), LossReason::NodeDeleted);
            assert_eq!(client.stats().holds_lost, 1, "{}", subject.name);
        },
    );
}

#[test]
fn of_several_holds_each_has_to_be_held() {
    let client = client();
    let [(_a, first), (_b, second)] = ["first", "second"].map(|name| held(&client, name));
    let guarded = node("guarded-by-two", b"old");
    let write =
        |data: &str| first.transaction().and_held(&second).set(&guarded, data, None).commit();
    write("new").unwrap();
    delete_node(&second);
    assert_lost(&write("never"), second.path(), LossReason::NodeDeleted);
    assert!(first.is_held());
    has(&guarded, "new", 1);
    // What it is not known of any more does not keep the first from being handed on, or released.
    first.transaction().set(&guarded, "alone", 1).commit().unwrap();
    has(&guarded, "alone", 2);
}

/// Without versions, each of them has read the write of the one before.
#[test]
fn who_reads_under_the_lock_reads_what_the_holder_before_has_written() {
    const EACH: usize = 25;
    let (path, counter) = (fresh_path("counting"), node("counter", b"0"));
    let count = || -> Result<()> {
        let client = client();
        let lock = lock_of(&client, &path);
        for _ in 0..EACH {
            let guard = lock.acquire()?;
            let (data, _) = client.read(&counter)?.expect("it is there");
            let count: usize = String::from_utf8(data).unwrap().parse().unwrap();
            guard.transaction().set(&counter, (count + 1).to_string(), None).commit()?;
            guard.release()?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let counting = [(); 4].map(|()| scope.spawn(count));
        counting.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    });
    println!("{:?}", data(&counter));
    has(&counter, &(4 * EACH).to_string(), 4 * EACH as i32);
    assert_eq!(client().read(&format!("{counter}/nothing")).unwrap(), None);
}
