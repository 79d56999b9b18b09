//! The tests of Apache Curator's lock recipes (`curator-recipes`, package `locks`, as of 5.9). Each has a
//! counterpart here or a reason why not.

use std::fs;
use std::path::Path;

/// Curator's class and test, and the tests here or a sentence that says why there is none.
const COUNTERPARTS: &[(&str, &str, &[&str])] = &[
    // InterProcessMutex, and what it shares with InterProcessSemaphoreMutex
    (
        "TestInterProcessMutexBase",
        "testLocker",
        &["every::granting::locker_holds_any_lock_until_its_drop"],
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
        &["directories::lock_creates_its_directories_as_containers_and_recreates_them"],
    ),
    (
        "TestInterProcessMutexBase",
        "testWithNamespace",
        &["every::places::client_creates_its_chroot_and_all_nodes_below_it"],
    ),
    (
        "TestInterProcessMutexBase",
        "testReentrantSingleLock",
        &["every::owning::nested_hold_ends_with_the_outermost_unlock"],
    ),
    (
        "TestInterProcessMutexBase",
        "testReentrant2Threads",
        &["every::excluding::clients_objects_and_threads_exclude_each_other"],
    ),
    (
        "TestInterProcessMutexBase",
        "testReentrant",
        &["every::owning::nested_hold_ends_with_the_outermost_unlock"],
    ),
    (
        "TestInterProcessMutexBase",
        "test2Clients",
        &["every::order::clients_enter_in_order_of_arrival"],
    ),
    (
        "TestInterProcessMutex",
        "testWithSchema",
        &["!There are no schemas of paths; the path is checked when the object is made."],
    ),
    (
        "TestInterProcessMutex",
        "testRevoking",
        &["every::outside::revoke_reaches_its_hold_whenever_the_hold_listens"],
    ),
    (
        "TestInterProcessMutex",
        "testPersistentLock",
        &["!Nodes that outlive their session cannot be chosen: nobody would release them."],
    ),
    (
        "TestLockInternals",
        "testAttemptLockFailedException",
        &["faults::garbled::create_with_an_inconclusive_error_leaves_no_node"],
    ),
    (
        "TestLockInternals",
        "testNodeDeletedCleanlyWithFaults",
        &["faults::garbled::deletion_abandoned_by_the_server_is_repeated"],
    ),
    (
        "TestLockACLs",
        "testLockACLs",
        &["every::places::nodes_and_directories_get_the_acl_of_the_client"],
    ),
    (
        "TestLockACLs",
        "testACLsCreatingParents",
        &[
            "every::places::nodes_and_directories_get_the_acl_of_the_client",
            "every::places::closed_ancestor_matters_only_where_a_node_must_be_created",
        ],
    ),
    // InterProcessSemaphoreMutex: a mutex that any thread may unlock
    (
        "TestInterProcessSemaphoreMutex",
        "testReentrant",
        &["!Curator skips it: the mutex is not reentrant, nor is DistributedLock."],
    ),
    (
        "TestInterProcessSemaphoreMutex",
        "testReentrant2Threads",
        &["every::owning::every_thread_sees_and_unlocks_a_hold_of_the_object"],
    ),
    (
        "TestInterProcessSemaphoreMutex",
        "testReentrantSingleLock",
        &["!Curator skips it, as above."],
    ),
    // InterProcessReadWriteLock
    (
        "TestInterProcessReadWriteLock",
        "testGetParticipantNodes",
        &["rwlock::downgrade::contenders_shows_a_downgraded_read_as_its_hold"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testThatUpgradingIsDisallowed",
        &["rwlock::write_under_the_same_threads_read_is_an_error"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testThatDowngradingRespectsThreads",
        &["every::excluding::queueing_locks_of_all_types_exclude_each_other_on_one_path"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testDowngrading",
        &["rwlock::downgrade::every_read_call_downgrades_and_guards_drop_independently"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testContendingDowngrading",
        &["rwlock::downgrade::downgrade_lets_no_queued_writer_in"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testBasic",
        &["past_the_end::crowds::readers_share_and_writers_exclude_past_the_end"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testSetNodeData",
        &["every::options::identity_in_the_options_overrides_the_clients_identity"],
    ),
    (
        "TestInterProcessReadWriteLock",
        "testLockPath",
        &["rwlock::downgrade::downgraded_read_has_an_ephemeral_node_and_the_writes_token"],
    ),
    // InterProcessSemaphoreV2
    (
        "TestInterProcessSemaphore",
        "testAcquireAfterLostServer",
        &["semaphore::availability_is_unknown_without_a_connection"],
    ),
    (
        "TestInterProcessSemaphore",
        "testThreadedLeaseIncrease",
        &["semaphore::raised_limit_lets_waiters_in"],
    ),
    (
        "TestInterProcessSemaphore",
        "testClientClose",
        &["faults::every::losing::silent_network_tells_the_holder_before_the_next_grant"],
    ),
    (
        "TestInterProcessSemaphore",
        "testMaxPerSession",
        &["semaphore::try_takes_no_permit_that_a_waiter_needs_and_writes_nothing"],
    ),
    (
        "TestInterProcessSemaphore",
        "testRelease1AtATime",
        &["semaphore::permits_are_counted_and_returned"],
    ),
    (
        "TestInterProcessSemaphore",
        "testReleaseInChunks",
        &["semaphore::ten_clients_with_random_requests_never_exceed_the_limit"],
    ),
    (
        "TestInterProcessSemaphore",
        "testThreads",
        &["semaphore::ten_clients_with_random_requests_never_exceed_the_limit"],
    ),
    ("TestInterProcessSemaphore", "testSimple", &["semaphore::permits_are_counted_and_returned"]),
    ("TestInterProcessSemaphore", "testSimple2", &["semaphore::permits_are_counted_and_returned"]),
    (
        "TestInterProcessSemaphore",
        "testGetParticipantNodes",
        &["contenders::semaphore_shows_its_permits_and_then_its_waiters"],
    ),
    (
        "TestInterProcessSemaphore",
        "testNoOrphanedNodes",
        &["semaphore::failed_call_leaves_no_permits"],
    ),
    (
        "TestInterProcessSemaphore",
        "testInterruptAcquire",
        &["every::ending::cancel_ends_only_the_waits_of_its_object"],
    ),
    (
        "TestInterProcessSemaphoreCluster",
        "testKilledServerWithEnsembleProvider",
        &["ensemble::servers::rolling_restart_costs_no_lock_and_no_position"],
    ),
    (
        "TestInterProcessSemaphoreCluster",
        "testCluster",
        &["ensemble::servers::killed_leader_costs_no_lock_and_no_position"],
    ),
    // InterProcessMultiLock
    (
        "TestInterProcessMultiMutex",
        "testSomeReleasesFail",
        &["multi::unlock_visits_every_member_and_reports_all_failures"],
    ),
    (
        "TestInterProcessMultiMutex",
        "testSomeLocksFailToLock",
        &["multi::scripted::failed_member_releases_the_others_in_reverse"],
    ),
];

/// The sources of the tests in this folder and those below.
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
fn every_curator_test_has_a_counterpart_or_a_reason() {
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
