//! The end of the client, and of directories, right behind an unlock.

use zoolock_test_support::{Op, fresh_path, wait_until};

use super::*;
use common::{SESSION, SOON, children, client, client_of, exists, shared_proxy};

#[test]
fn a_close_right_behind_the_unlock_leaves_no_node() {
    for round in 0..10 {
        let client = client();
        let root = fresh_path("closed");
        let held: Vec<_> = KINDS.map(|what| hold(&client, &root, what)).into();
        for held in held {
            (held.release)().unwrap();
        }
        client.close().unwrap();
        for kind in ["any", "own", "write", "read", "guard", "permits/leases"] {
            assert_eq!(children(&format!("{root}/{kind}")), [""; 0], "{round}: {kind}");
        }
        assert!(!exists(&format!("{root}/single")), "round {round}");
    }
}

#[test]
fn a_close_while_the_delete_is_held_up_leaves_no_node() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("held_up");
    let lock = lock_with(&client, &path);
    lock.lock().unwrap();
    let delete = proxy.hold_request(Op::Delete, 1);
    lock.unlock().unwrap();
    assert!(delete.wait(SOON));
    let closing = {
        let client = client.clone();
        common::Task::spawn(move || client.close())
    };
    wait_until("it is closed", SOON, || client.state() == zoolock::ClientState::Closed);
    delete.release();
    closing.result("the close").unwrap();
    assert_eq!(children(&path), [""; 0]);
}

#[test]
fn a_client_dropped_right_behind_the_unlock_leaves_no_node() {
    let path = fresh_path("dropped");
    for _ in 0..10 {
        let client = client();
        let lock = lock_with(&client, &path);
        lock.lock().unwrap();
        lock.unlock().unwrap();
        drop((lock, client));
        wait_until("the node is gone", SESSION, || children(&path).is_empty());
    }
}
