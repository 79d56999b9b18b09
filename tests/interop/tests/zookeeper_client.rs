//! Together with the crate `zookeeper-client` (Rust, async): `Client::lock` with Curator's names.

use zoolock_interop::{Implementation, mutex};

fn zookeeper_client(scenario: fn(&Implementation)) {
    let program = env!("CARGO_BIN_EXE_zookeeper_client_peer");
    scenario(&Implementation::zookeeper_client(program));
}

#[test]
fn zookeeper_client_lock_excludes_ours_and_is_excluded() {
    zookeeper_client(mutex::excludes);
}

#[test]
fn zookeeper_client_lock_is_handed_over_in_both_directions() {
    zookeeper_client(mutex::hands_over);
}

#[test]
fn zookeeper_client_lock_keeps_the_place_of_a_waiter_of_ours_that_is_cut() {
    zookeeper_client(mutex::a_waiter_of_ours_is_cut);
}

#[test]
fn zookeeper_client_lock_goes_on_waiting_while_a_hold_of_ours_is_cut() {
    zookeeper_client(mutex::a_hold_of_ours_is_cut);
}
