//! Together with Apache Curator (Java): `InterProcessReadWriteLock`.

use zoolock_interop::{Implementation, read_write};

fn curator(scenario: fn(&Implementation)) {
    Implementation::curator().iter().for_each(scenario);
}

#[test]
fn curator_read_write_lock_excludes_ours_and_is_excluded() {
    curator(read_write::excludes);
}

#[test]
fn curator_read_write_lock_shares_reads_with_ours() {
    curator(read_write::readers_share);
}

#[test]
fn curator_read_write_lock_leaves_writers_alone_in_both_directions() {
    curator(read_write::writers_are_alone);
}

#[test]
fn curator_read_write_lock_keeps_the_place_of_a_waiter_of_ours_that_is_cut() {
    curator(read_write::a_waiter_of_ours_is_cut);
}

#[test]
fn curator_read_write_lock_goes_on_waiting_while_a_hold_of_ours_is_cut() {
    curator(read_write::a_hold_of_ours_is_cut);
}

#[test]
fn curator_read_write_lock_honours_a_write_of_ours_that_becomes_a_read() {
    curator(read_write::a_write_of_ours_becomes_a_read);
}
