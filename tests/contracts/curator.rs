//! Apache Curator's tests of its lock recipes (`curator-recipes`, package `locks`, as of 5.9), each
//! with the test here for the same behaviour, or the reason why there is none.

use std::fs;
use std::path::Path;

/// Curator's class and test, and the tests here, or a sentence that says why there is none.
const COUNTERPARTS: &[(&str, &str, &[&str])] = &[
    // ---- InterProcessMutex, and what it shares with InterProcessSemaphoreMutex
    (
        "TestInterProcessMutexBase",
        "testLocker",
        &["every::granting::locker_holds_any_lock_until_it_is_dropped"],
    ),
    (
        "TestInterProcessMutexBase",
        "testWaitingProcessKilledServer",
        &["faults::every::outages::kill_of_the_only_server_costs_no_lock_and_no_position"],
    ),
    (
        "TestInterProcessMutexBase",
        "testKilledSession",
        &["faults::every::losing::silent_network_tells_the_holder_before_the_next_grant"],
    ),
    (
        "TestInterProcessMutexBase",
        "testContainerCleanup",
        &[
            "directories::every_directory_that_a_lock_makes_is_a_container_and_made_again_when_it_is_gone",
        ],
    ),
    (
        "TestInterProcessMutexBase",
        "testWithNamespace",
        &["every::places::everything_is_below_the_chroot_which_is_made_or_at_the_root"],
    ),
    (
        "TestInterProcessMutexBase",
        "testReentrantSingleLock",
        &["every::owning::nested_hold_ends_with_the_outermost_unlock"],
    ),
    (
        "TestInterProcessMutexBase",
        "testReentrant2Threads",
        &["every::excluding::of_clients_objects_and_threads_never_two_are_inside"],
    ),
    (
        "TestInterProcessMutexBase",
        "testReentrant",
        &["every::owning::nested_hold_ends_with_the_outermost_unlock"],
    ),
    (
        "TestInterProcessMutexBase",
        "test2Clients",
        &["every::order::clients_come_in_in_the_order_of_their_arrival"],
    ),
    (
        "TestInterProcessMutex",
        "testWithSchema",
        &["!There are no schemas of paths; the path is checked when the object is made."],
    ),
    (
        "TestInterProcessMutex",
        "testRevoking",
        &[
            "every::outside::a_revoke_reaches_the_hold_that_is_meant_whenever_it_listens_and_ends_with_it",
        ],
    ),
    (
        "TestInterProcessMutex",
        "testPersistentLock",
        &["!Nodes that outlive their session cannot be chosen: nobody would release them."],
    ),
    (
        "TestLockInternals",
        "testAttemptLockFailedException",
        &["faults::garbled::a_create_answered_with_an_error_that_proves_nothing_leaves_no_node"],
    ),
    (
        "TestLockInternals",
        "testNodeDeletedCleanlyWithFaults",
        &["faults::garbled::a_deletion_that_the_server_gave_up_on_is_repeated"],
    ),
    ("TestLockACLs", "testLockACLs", &["every::places::nodes_and_directories_get_the_clients_acl"]),
    (
        "TestLockACLs",
        "testACLsCreatingParents",
        &[
            "every::places::nodes_and_directories_get_the_clients_acl",
            "every::places::an_ancestor_that_lets_nobody_create_is_no_obstacle_where_nothing_has_to_be_made_in_it",
        ],
    ),
    // ---- InterProcessSemaphoreMutex: a mutex that any thread may unlock
    (
        "TestInterProcessSemaphoreMutex",
        "testReentrant",
        &["!Curator skips it: the mutex is not reentrant, nor is DistributedLock."],
    ),
    (
        "TestInterProcessSemaphoreMutex",
        "testReentrant2Threads",
        &["every::owning::any_thread_sees_and_unlocks_a_hold_of_the_object"],
    ),
    (
        "TestInterProcessSemaphoreMutex",
        "testReentrantSingleLock",
        &["!Curator skips it, as above."],
    ),
    // ---- InterProcessReadWriteLock
    (
        "TestInterProcessReadWriteLock",
        "testGetParticipantNodes",
        &["rwlock::downgrade::the_reads_node_says_to_others_what_the_hold_says"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testThatUpgradingIsDisallowed",
        &["rwlock::a_write_under_an_own_read_is_an_error_and_no_hang"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testThatDowngradingRespectsThreads",
        &["every::excluding::those_that_queue_exclude_each_other_on_one_path_whatever_their_type"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testDowngrading",
        &["rwlock::downgrade::every_way_in_downgrades_and_a_guard_of_either_side_goes_alone"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testContendingDowngrading",
        &["rwlock::downgrade::a_queued_writer_does_not_slip_in"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testBasic",
        &["past_the_end::crowds::readers_meet_and_writers_are_alone_over_the_end"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testSetNodeData",
        &["every::options::identity_of_the_options_overrides_the_clients"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testLockPath",
        &[
            "rwlock::downgrade::the_reads_node_is_an_ephemeral_one_in_the_writes_place_and_has_its_token",
        ],
    ),
    // ---- InterProcessSemaphoreV2
    (
        "TestInterProcessSemaphore",
        "testAcquireAfterLostServer",
        &["semaphore::without_a_connection_it_is_not_known_what_is_available"],
    ),
    (
        "TestInterProcessSemaphore",
        "testThreadedLeaseIncrease",
        &["semaphore::a_higher_limit_lets_those_who_wait_in"],
    ),
    (
        "TestInterProcessSemaphore",
        "testClientClose",
        &["faults::every::losing::silent_network_tells_the_holder_before_the_next_grant"],
    ),
    (
        "TestInterProcessSemaphore",
        "testMaxPerSession",
        &["semaphore::tries_take_nothing_that_whoever_has_the_turn_waits_for_and_write_nothing"],
    ),
    (
        "TestInterProcessSemaphore",
        "testRelease1AtATime",
        &["semaphore::permits_are_counted_and_come_back"],
    ),
    (
        "TestInterProcessSemaphore",
        "testReleaseInChunks",
        &["semaphore::ten_clients_with_random_quantities_never_have_more_than_the_limit"],
    ),
    (
        "TestInterProcessSemaphore",
        "testThreads",
        &["semaphore::ten_clients_with_random_quantities_never_have_more_than_the_limit"],
    ),
    ("TestInterProcessSemaphore", "testSimple", &["semaphore::permits_are_counted_and_come_back"]),
    ("TestInterProcessSemaphore", "testSimple2", &["semaphore::permits_are_counted_and_come_back"]),
    (
        "TestInterProcessSemaphore",
        "testGetParticipantNodes",
        &[
            "contenders::a_semaphore_shows_its_permits_and_who_waits_behind_them_and_hides_nobody_for_a_stranger",
        ],
    ),
    (
        "TestInterProcessSemaphore",
        "testNoOrphanedNodes",
        &["semaphore::a_call_that_ends_without_permits_leaves_none_behind"],
    ),
    (
        "TestInterProcessSemaphore",
        "testInterruptAcquire",
        &["every::ending::cancel_ends_only_the_waits_of_its_object"],
    ),
    (
        "TestInterProcessSemaphoreCluster",
        "testKilledServerWithEnsembleProvider",
        &["ensemble::servers::a_restart_of_all_one_after_another_costs_no_lock_and_no_place"],
    ),
    (
        "TestInterProcessSemaphoreCluster",
        "testCluster",
        &["ensemble::servers::a_killed_leader_costs_no_lock_and_no_place_and_tokens_rise_over_it"],
    ),
    // ---- InterProcessMultiLock
    (
        "TestInterProcessMultiMutex",
        "testSomeReleasesFail",
        &["multi::every_member_is_visited_and_all_failures_reported"],
    ),
    (
        "TestInterProcessMultiMutex",
        "testSomeLocksFailToLock",
        &["multi::scripted::failure_on_the_kth_releases_the_others_in_reverse"],
    ),
];

/// Returns the text of all tests in this folder and below.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all += &sources(&path),
            false if path.extension().is_some_and(|it| it == "rs") => {
                all += &fs::read_to_string(&path).unwrap();
            }
            false => {}
        }
    }
    all
}

#[test]
fn every_behaviour_that_curator_tests_has_a_test_here_or_a_reason() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"));
    let (mut covered, mut reasons, mut missing) = (0, 0, Vec::new());
    for (class, test, counterparts) in COUNTERPARTS {
        assert!(!counterparts.is_empty(), "{class}.{test}");
        for counterpart in *counterparts {
            match counterpart.strip_prefix('!') {
                Some(reason) => {
                    println!("{class}.{test}: none. {reason}");
                    reasons += 1;
                }
                None => {
                    let name = counterpart.rsplit("::").next().unwrap_or_default();
                    match sources.contains(&format!("fn {name}")) {
                        true => covered += 1,
                        false => missing.push(format!("{class}.{test}: no {counterpart}")),
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    println!("{} of Curator's tests: {covered} tests here, {reasons} reasons", COUNTERPARTS.len());
}
