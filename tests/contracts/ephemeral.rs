//! `EphemeralLock` has no queue: other nodes at its path, and what wakes its waiters.

use crate::every::client;
use common::*;
use zoolock::{EphemeralLock, Error};

/// Expects all ways to lock to report an invalid path.
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
    // The held `EphemeralLock`'s node is where the other lock needs a directory.
    refuses_every_call(&directory);
    assert!(single.is_held());
    single.unlock().unwrap();
    // While the other lock is in use, the path is a directory.
    directory.lock().unwrap();
    refuses_every_call(&single);
    directory.unlock().unwrap();
    assert!(single.try_lock().unwrap());
    single.unlock().unwrap();
}

/// After the deletion of the node, the waiter creates its own without another read. After a change of the data, it
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
        // Before the waiter sleeps, its last request is a read with a watch.
        wait_until("it watches", SOON, || proxy.requests(Op::GetData) >= round);
        if is_changed {
            // Repeated, because the waiter may not have set the watch yet.
            wait_until("the waiter reads repeatedly", SOON, || {
                probe.set(&path, b"__REVOKE__").unwrap();
                proxy.requests(Op::GetData) > round + 3
            });
        } else {
            let seen = [Op::GetData, Op::Multi].map(|op| proxy.requests(op));
            println!("round {round}: {seen:?} reads and creates");
            assert_eq!(seen[0], round);
            // One create before each read, one after each deletion, and those of the directories.
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
