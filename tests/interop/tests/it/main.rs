//! Each lock of another implementation, together with ours. If the implementation is not installed, the test prints
//! that and passes, or fails if `ZOOLOCK_INTEROP` is `required`.

mod guide;
mod leadership;
mod limits;
mod revocation;
mod semaphore;

use zoolock_interop::scenarios::*;
use zoolock_interop::{Implementation, Kind};

/// Apache Curator, in Java.
fn curator() -> Option<Implementation> {
    Implementation::curator()
}

/// Kazoo, in Python, with `extra_lock_patterns`.
fn kazoo() -> Option<Implementation> {
    Implementation::kazoo()
}

/// Debian's go-zookeeper, in Go, from 2018. It is used only in directories that contain no other kinds of nodes.
fn go_zookeeper() -> Option<Implementation> {
    Implementation::go_zookeeper()
}

/// The crate `zookeeper-client`, in async Rust: `Client::lock` with Curator's names.
fn zookeeper_client() -> Option<Implementation> {
    Some(Implementation::zookeeper_client(env!("CARGO_BIN_EXE_zookeeper_client_peer")))
}

/// One line for each test: its name, the other client, and the scenario.
macro_rules! tests {
    ($($name:ident: $client:ident, $scenario:expr;)*) => {$(
        #[test]
        fn $name() {
            let scenario: fn(&Implementation) = $scenario;
            $client().iter().for_each(scenario);
        }
    )*};
}

tests! {
    // `contend` also covers that either side acquires the lock after the other, and that our connections are cut.
    curator_mutex_excludes_ours_and_is_excluded: curator, |it| contend(it, &MUTEX);
    curator_revoker_asks_a_hold_of_ours: curator, revocation::theirs_asks_ours;
    our_revoke_asks_a_curator_mutex: curator, revocation::ours_asks_theirs;

    curator_read_write_lock_excludes_ours_and_is_excluded: curator, |it| contend(it, &READ_WRITE);
    curator_read_write_lock_shares_reads_with_ours: curator, readers_share;
    curator_read_write_lock_honours_a_write_of_ours_that_becomes_a_read:
        curator, a_write_of_ours_becomes_a_read;

    curator_semaphore_and_ours_never_exceed_the_limit: curator, semaphore::never_exceeds_the_limit;
    curator_semaphore_shares_and_hands_over_permits_in_both_directions:
        curator, semaphore::hands_over;
    curator_semaphore_and_ours_outlive_cuts: curator, |it| outlives_cuts(it, &PERMIT);
    curator_semaphore_mutex_excludes_a_semaphore_of_one_permit_and_is_excluded:
        curator, |it| excludes(it, &SEMAPHORE_MUTEX);

    curator_leader_selector_excludes_our_leadership_and_is_excluded:
        curator, |it| leadership::excludes(it, false);
    curator_leader_selector_hands_over_in_both_directions: curator, leadership::selector_hands_over;
    curator_leader_latch_excludes_our_leadership_in_it_and_is_excluded:
        curator, |it| leadership::excludes(it, true);
    killed_leader_of_a_latch_is_followed_by_the_other_side: curator, leadership::leader_is_killed;
    leadership_beside_a_latch_of_another_kind_never_leads:
        curator, leadership::never_leads_beside_a_latch;

    curator_mutex_does_not_see_the_writer_of_a_read_write_lock:
        curator, |it| limits::does_not_see_ours(it, "lock", "write", Kind::Write);
    curator_does_not_see_kazoo: curator, limits::beside_kazoo;
    kazoo_without_extra_patterns_does_not_see_ours:
        kazoo, |it| limits::does_not_see_ours(it, "plain", "exclusive", Kind::Lock);
    go_zookeeper_lock_fails_beside_a_read_write_lock_and_leaves_its_node:
        go_zookeeper, limits::fails_beside_a_read_write_lock;

    kazoo_mutex_excludes_ours_and_is_excluded: kazoo, |it| contend(it, &MUTEX);
    kazoo_read_write_lock_excludes_ours_and_is_excluded: kazoo, |it| contend(it, &READ_WRITE);
    kazoo_read_write_lock_shares_reads_with_ours: kazoo, readers_share;
    kazoo_permit_of_the_guide_excludes_ours_and_is_excluded: kazoo, |it| excludes(it, &[PERMIT[0]; 2]);
    kazoo_permit_of_the_guide_is_handed_over_in_both_directions: kazoo, semaphore::hands_over;
    kazoo_read_write_lock_honours_a_write_of_ours_that_becomes_a_read:
        kazoo, a_write_of_ours_becomes_a_read;

    go_zookeeper_lock_excludes_ours_and_is_excluded: go_zookeeper, |it| contend(it, &MUTEX);

    zookeeper_client_lock_excludes_ours_and_is_excluded:
        zookeeper_client, |it| contend(it, &MUTEX);
}
