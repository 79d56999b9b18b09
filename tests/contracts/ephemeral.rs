//! `EphemeralLock` has no queue. Covers other nodes at its path, and the events that wake its waiters.

use crate::every::client;
use common::*;
use zoolock::{EphemeralLock, Error};

/// Expects that every way to lock reports an invalid path.
#[track_caller]
fn refuses_every_call(object: &Object) {
    object.is_refused(SOON, |ask, seen| {
        println!("{ask:?}: {seen:?}");
        let invalid = matches!(&seen, Err(Error::InvalidPath { path, reason, .. })
            if path == object.path() && !reason.is_empty());
        assert!(invalid, "{object:?}, {ask:?}: {seen:?}");
    });
}

#[test]
fn persistent_node_or_other_lock_at_the_path_is_an_error() {
    let (client, path, probe) = (client(), fresh_path("persistent"), shared_probe().unwrap());
    probe.create_all(&path).unwrap();
    probe.set(&path, b"of somebody").unwrap();
    let [single, directory] =
        ["single node", "exclusive"].map(|name| Subject::named(name).at(&client, &path));
    refuses_every_call(&single);
    assert_eq!(probe.get(&path).unwrap().unwrap().0, b"of somebody");
    await_nothing_left(&client);
    probe.delete(&path).unwrap();
    assert!(single.try_lock().unwrap(), "the object can be locked again");
    // The node of the held `EphemeralLock` is at the path that the other lock needs for a directory.
    refuses_every_call(&directory);
    assert!(single.is_held());
    single.unlock().unwrap();
    // While the other lock is used, the path is a directory.
    directory.lock().unwrap();
    refuses_every_call(&single);
    directory.unlock().unwrap();
    assert!(single.try_lock().unwrap());
    single.unlock().unwrap();
}

/// After the node has been deleted, the waiter creates its own without reading again. After the data have changed, it
/// reads the node again and continues to wait.
#[test]
fn only_the_end_of_the_node_lets_a_waiter_in() {
    let (holders, path) = (client(), fresh_path("woken"));
    let ((proxy, waiters), probe) = (behind_a_proxy(SOON), shared_probe().unwrap());
    let [holder, lock] =
        [&holders, &waiters].map(|client| EphemeralLock::new(client, &path).unwrap());
    for (round, is_changed) in [(1, false), (2, false), (3, true)] {
        holder.lock().unwrap();
        let waiting = locking(&lock);
        // The last request of a waiter before it sleeps is a read that sets a watch.
        wait_until("it watches", SOON, || proxy.requests(Op::GetData) >= round);
        if is_changed {
            // The change is repeated, because the waiter may not have set its watch when the first one is made.
            wait_until("the waiter reads repeatedly", SOON, || {
                probe.set(&path, b"__REVOKE__").unwrap();
                proxy.requests(Op::GetData) > round + 3
            });
            // The holder reads its node too, before this list.
            let _ = holder.hold().unwrap().revocation().unwrap();
            holders.contenders(&path).unwrap();
        } else {
            let seen = [Op::GetData, Op::Multi].map(|op| proxy.requests(op));
            println!("round {round}: {seen:?} reads and creates");
            assert_eq!(seen[0], round);
            // A create before each read, another one after each deletion, and the creates of the directories.
            assert!(seen[1] <= 2 * round + 2, "{seen:?}");
        }
        assert!(!waiting.is_done() && holder.is_held(), "acquired a held lock");
        holder.unlock().unwrap();
        waiting.result("the waiter").unwrap();
        assert_ne!(stat(&path).ephemeral_owner, 0);
        lock.unlock().unwrap();
        assert!(!exists(&path));
    }
}
