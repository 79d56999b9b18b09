//! The server of `zoolock::testing`. Every contract of this binary also holds on it, without Java,
//! and it can cause every kind of loss for every kind of lock.

use std::env;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::testing::Server;
use zoolock::{Client, ClientState, ConnectionEvent, HoldState, LossReason};
use zoolock_test_support::wait_until;

use common::{Object, SOON, Subject, assert_lost, every_subject, in_time};

/// The contracts that do not run on it, by reason.
const NOT_AGAIN: &[(&str, &[&str])] = &[
    (
        "starts a Java server of its own, to count what that receives or to see what it cannot take",
        &[
            "ephemeral::a_node_that_vanishes_between_create_and_look_wakes_and_leaks_no_watch",
            "every::outside::listening_costs_a_request_for_each_node_however_many_listen_and_leaves_no_watch",
            "every::places::too_many_bytes_of_paths_are_a_limit_not_a_broken_server",
            "handoffs::the_one_watch_goes_with_the_node_and_none_is_left",
            "revocation::a_request_to_the_one_ahead_wakes_its_successor_for_nothing",
            "semaphore::a_release_wakes_only_whoever_has_the_turn",
            "semaphore::each_permit_more_costs_two_requests_and_a_refusal_and_a_look_one_and_no_write",
        ],
    ),
    (
        "keeps a processor busy for most of a second or longer",
        &[
            "below::a_thousand_locks_cost_a_list_and_a_read_each_and_a_deep_path_comes_to_an_end",
            "below::queues_of_thousands_are_whole",
            "counting::on_the_server::the_counts_are_those_that_the_server_has",
            "semaphore::ten_clients_with_random_quantities_never_have_more_than_the_limit",
            "semaphore::ten_thousand_permits_are_held_by_a_few_clients",
        ],
    ),
    (
        "waits for 3 s or more, until leases of real servers have ended or a place is given up",
        &[
            "connecting::hosts_that_are_not_there_are_an_error_in_time",
            "connecting::servers_that_are_not_zookeeper_are_an_error_in_time",
            "every::leaving::failed_second_level_releases_the_first",
            "handoffs::a_node_that_is_handed_on_for_longer_than_the_session_timeout_stays_alive",
            "handoffs::losses::a_look_at_the_node_in_the_middle_of_hand_offs_is_no_loss",
            "handoffs::losses::a_loss_after_the_hand_off_is_told_to_the_one_that_took_over",
            "handoffs::losses::nothing_is_handed_on_that_is_asked_for_or_lost_or_without_a_connection",
            "handoffs::losses::nothing_is_handed_on_with_less_than_a_third_of_a_lease",
            "handoffs::who_asks_while_it_is_handed_on_and_on_is_heard",
            "multi::a_member_lost_while_waiting_for_the_others_fails_the_call",
            "observing::a_deadline_holds_and_what_is_not_asked_for_costs_nothing",
            "rwlock::a_read_whose_release_was_lost_is_not_in_the_way_of_its_thread",
            "rwlock::abnormal::a_shared_node_that_is_lost_is_told_to_both_sides",
            "rwlock::downgrade::under_a_write_whose_lease_is_over_there_is_no_read",
            "verifying::it_asks_the_leader_first_and_gives_up_in_a_third_of_the_session_timeout",
        ],
    ),
];

fn again() -> Command {
    let mut again = Command::new(env::current_exe().unwrap());
    again.args(["--skip", "in_process::"]);
    again
}

/// Runs this binary, or a part of it, again in a new process, with a server of this process as the
/// shared one.
fn hold_on_the_server_in_the_process(part: &[&str], threads: &str) {
    let server = Server::start().unwrap();
    let mut again = again();
    again.args(part).env("ZOOKEEPER_CONNECT", server.connect_string());
    // Nearly all of it is waiting; and some panic on purpose, where it takes a while to tell where.
    again.env("RUST_BACKTRACE", "0").env("RUST_TEST_THREADS", threads);
    for contract in NOT_AGAIN.iter().flat_map(|(_, contracts)| *contracts) {
        again.args(["--skip", contract]);
    }
    let begun = Instant::now();
    let output = again.output().unwrap();
    println!("{}\nin {:?}", String::from_utf8_lossy(&output.stdout), begun.elapsed());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_contract_of_every_subject_holds_on_the_server_in_the_process() {
    hold_on_the_server_in_the_process(&["every::"], "16");
}

#[test]
fn all_other_contracts_hold_on_the_server_in_the_process() {
    hold_on_the_server_in_the_process(&["--skip", "every::"], "8");
}

#[test]
fn what_is_not_run_again_is_there() {
    let listed = again().arg("--list").output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout);
    for contract in NOT_AGAIN.iter().flat_map(|(_, contracts)| *contracts) {
        let line = format!("{contract}: test");
        assert!(listed.lines().any(|listed| listed == line), "there is no {contract}");
    }
}

const PATH: &str = "/lock";
/// A short session timeout, for tests that wait for the end of the lease.
const BRIEF: Duration = Duration::from_millis(500);

/// A server, a client, and a held object of that client.
fn held(subject: Subject, session: Duration) -> (Server, Client, Object) {
    let server = Server::start().unwrap();
    let client = server.builder().session_timeout(session).connect().unwrap();
    let object = subject.at(&client, PATH);
    object.lock().unwrap();
    (server, client, object)
}

#[track_caller]
fn are(subject: Subject, object: &Object, state: HoldState) {
    let states: Vec<_> = object.holds().iter().map(|hold| hold.state()).collect();
    println!("{}: {states:?}", subject.name);
    let all = !states.is_empty() && states.iter().all(|one| *one == state);
    assert!(all, "{}: {states:?}, not {state:?}", subject.name);
}

/// Asserts that the hold is lost, that another client has the lock, and that the object can then be
/// used again.
fn is_lost(subject: Subject, server: &Server, object: &Object, why: LossReason) {
    are(subject, object, HoldState::Lost(why));
    let others = server.client().unwrap();
    let next = subject.rival(&others, PATH);
    in_time("the next one", SOON, || next.lock()).unwrap();
    if subject.is_one_lock() {
        assert_lost(&object.unlock(), object.path(), why);
    } else {
        assert!(object.unlock().is_err_and(|error| error.is_lost()));
    }
    next.unlock().unwrap();
    if why != LossReason::ClientClosed {
        let turn = || object.lock().and_then(|()| object.unlock());
        wait_until("it can be used again", SOON, || match turn() {
            // A brief lease may run out meanwhile.
            Err(error) if error.is_lost() => false,
            used => used.map(|()| true).unwrap(),
        });
    }
}

#[test]
fn whoever_is_suspended_holds_on_and_is_back_with_the_same_hold() {
    every_subject(|subject| {
        let (server, client, object) = held(subject, SOON);
        let holds = object.holds();
        server.suspend(&client);
        are(subject, &object, HoldState::Suspended);
        assert_eq!(client.state(), ClientState::Suspended);
        server.resume(&client);
        are(subject, &object, HoldState::Held);
        assert!(holds.iter().all(|hold| hold.is_held()));
        object.unlock().unwrap();
    });
}

#[test]
fn whoever_stays_suspended_has_lost_it_when_the_lease_ends_and_others_are_let_in() {
    every_subject(|subject| {
        let (server, client, object) = held(subject, BRIEF);
        server.suspend(&client);
        let begun = Instant::now();
        object.holds().iter().for_each(|hold| assert!(hold.lost().recv_timeout(SOON).is_err()));
        println!("{}: over after {:?}", subject.name, begun.elapsed());
        are(subject, &object, HoldState::Lost(LossReason::LeaseExpired));
        server.resume(&client);
        is_lost(subject, &server, &object, LossReason::LeaseExpired);
    });
}

#[test]
fn whoever_has_expired_has_lost_it_at_once() {
    every_subject(|subject| {
        let (server, client, object) = held(subject, SOON);
        // A client that watches the node still hears of the session's end, but not of the node's.
        let asked: Vec<_> = object.holds().iter().map(|hold| hold.revocation().unwrap()).collect();
        server.expire(&client);
        drop(asked);
        is_lost(subject, &server, &object, LossReason::LeaseExpired);
        assert_eq!((client.stats().sessions, client.stats().resumed), (2, 0));
    });
}

/// Each call runs in a thread, because a wrong call here never returns.
#[test]
fn calls_return_when_the_server_is_stopped_before_or_under_them() {
    let server = Arc::new(Server::start().unwrap());
    let [early, late, ended] = [(); 3].map(|()| server.client().unwrap());
    let (say, returned) = mpsc::channel();
    let call = |client: &Client, call: fn(&Server, &Client)| {
        let (server, client, say) = (Arc::clone(&server), client.clone(), say.clone());
        thread::spawn(move || {
            call(&server, &client);
            say.send(()).unwrap();
        });
    };
    server.suspend(&early);
    server.suspend(&late);
    // Whichever is first: it waits for the client when the server stops, or finds that stopped.
    call(&late, Server::resume);
    server.stop();
    call(&early, Server::resume);
    call(&ended, Server::expire);
    (0..3).for_each(|_| returned.recv_timeout(SOON).expect("each call returns"));
    server.start_again();
    for client in [&early, &late, &ended] {
        wait_until("the client is back", SOON, || client.state() == ClientState::Connected);
    }
    let sessions = [&early, &late, &ended].map(|client| client.stats().sessions);
    assert_eq!(sessions, [1, 1, 2]);
}

#[test]
fn whose_node_is_deleted_has_lost_it_at_once() {
    every_subject(|subject| {
        let (server, _client, object) = held(subject, SOON);
        for hold in object.holds() {
            server.delete(&hold).unwrap();
            assert!(server.delete(&hold).is_err(), "{}: twice", subject.name);
        }
        is_lost(subject, &server, &object, LossReason::NodeDeleted);
    });
}

#[test]
fn whose_client_is_closed_has_lost_it_at_once() {
    every_subject(|subject| {
        let (server, client, object) = held(subject, SOON);
        client.close().unwrap();
        is_lost(subject, &server, &object, LossReason::ClientClosed);
    });
}

#[test]
fn whoever_is_asked_to_let_go_hears_of_it() {
    every_subject(|subject| {
        let (server, _client, object) = held(subject, SOON);
        let others = server.client().unwrap();
        for hold in object.holds() {
            let asked = hold.revocation().unwrap();
            for holder in others.contenders(hold.path()).unwrap() {
                others.revoke(&holder).unwrap();
            }
            asked.recv_timeout(SOON).unwrap();
        }
        are(subject, &object, HoldState::Held);
        object.unlock().unwrap();
    });
}

/// Also one whose time would have been over.
#[test]
fn while_the_server_is_stopped_nobody_gets_in_and_no_session_ends() {
    let server = Server::start().unwrap();
    // Not so brief that the machine ends a connection or a session before the server is stopped.
    let client = server.builder().session_timeout(BRIEF * 4).connect().unwrap();
    let changes = client.subscribe();
    server.stop();
    assert_eq!(changes.recv_timeout(SOON), Ok(ConnectionEvent::Suspended));
    assert!(server.builder().connect_timeout(BRIEF).connect().is_err());
    wait_until("it has been away for a session timeout", SOON, || {
        client.state() == ClientState::Lost
    });
    let before = client.stats();
    server.start_again();
    wait_until("it is back", SOON, || client.state() == ClientState::Connected);
    let after = client.stats();
    println!("{after:?}");
    assert_eq!((after.sessions, after.resumed), (before.sessions, before.resumed + 1));
}
