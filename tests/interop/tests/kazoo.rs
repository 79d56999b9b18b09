//! Together with kazoo (Python): `Lock`, `ReadLock` and `WriteLock` with `extra_lock_patterns`.

use zoolock_interop::{Implementation, mutex, read_write};

fn kazoo(scenario: fn(&Implementation)) {
    Implementation::kazoo().iter().for_each(scenario);
}

#[test]
fn kazoo_mutex_excludes_ours_and_is_excluded() {
    kazoo(mutex::excludes);
}

#[test]
fn kazoo_mutex_is_handed_over_in_both_directions() {
    kazoo(mutex::hands_over);
}

#[test]
fn kazoo_mutex_keeps_the_place_of_a_waiter_of_ours_that_is_cut() {
    kazoo(mutex::a_waiter_of_ours_is_cut);
}

#[test]
fn kazoo_mutex_goes_on_waiting_while_a_hold_of_ours_is_cut() {
    kazoo(mutex::a_hold_of_ours_is_cut);
}

#[test]
fn kazoo_read_write_lock_excludes_ours_and_is_excluded() {
    kazoo(read_write::excludes);
}

#[test]
fn kazoo_read_write_lock_shares_reads_with_ours() {
    kazoo(read_write::readers_share);
}

#[test]
fn kazoo_read_write_lock_leaves_writers_alone_in_both_directions() {
    kazoo(read_write::writers_are_alone);
}

#[test]
fn kazoo_read_write_lock_keeps_the_place_of_a_waiter_of_ours_that_is_cut() {
    kazoo(read_write::a_waiter_of_ours_is_cut);
}

#[test]
fn kazoo_read_write_lock_goes_on_waiting_while_a_hold_of_ours_is_cut() {
    kazoo(read_write::a_hold_of_ours_is_cut);
}

#[test]
fn kazoo_read_write_lock_honours_a_write_of_ours_that_becomes_a_read() {
    kazoo(read_write::a_write_of_ours_becomes_a_read);
}
