//! Together with Debian's go-zookeeper (Go, of 2018): `Lock`, in a directory without other kinds of
//! nodes.

use zoolock_interop::{Implementation, Peer, Stage, client, mutex};

fn go_zookeeper(scenario: fn(&Implementation)) {
    Implementation::go_zookeeper().iter().for_each(scenario);
}

#[test]
fn go_zookeeper_lock_excludes_ours_and_is_excluded() {
    go_zookeeper(mutex::excludes);
}

#[test]
fn go_zookeeper_lock_is_handed_over_in_both_directions() {
    go_zookeeper(mutex::hands_over);
}

#[test]
fn go_zookeeper_lock_keeps_the_place_of_a_waiter_of_ours_that_is_cut() {
    go_zookeeper(mutex::a_waiter_of_ours_is_cut);
}

#[test]
fn go_zookeeper_lock_goes_on_waiting_while_a_hold_of_ours_is_cut() {
    go_zookeeper(mutex::a_hold_of_ours_is_cut);
}

/// A limit of that version: it fails on a node that it does not understand. It then leaves its own
/// node behind, which blocks all contenders until its session ends.
#[test]
fn go_zookeeper_lock_fails_beside_a_read_write_lock_and_leaves_its_node() {
    go_zookeeper(|go_zookeeper| {
        let stage = Stage::new("mixed");
        let [mut peer]: [Peer; 1] = go_zookeeper.start();
        let client = client();
        let writing = stage.read_write(&client).write_lock();
        let guard = writing.acquire().unwrap();
        peer.tell(&format!("lock {}", stage.path));
        let failed = peer.result().expect_err("it cannot read the node");
        println!("{failed}; left {:?}", stage.nodes());
        stage.await_nodes(2);
        guard.release().unwrap();
        assert!(!writing.try_lock().unwrap(), "its node counts");
    });
}
