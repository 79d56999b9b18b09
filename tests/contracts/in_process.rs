//! All contracts of this binary run on the server of `zoolock::testing` too, without Java. There every kind
//! of lock can suffer every kind of loss.

use std::env;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::testing::Server;
use zoolock::{Client, ClientState, ConnectionEvent, HoldState, LossReason};
use zoolock_test_support::wait_until;

use common::{Object, SOON, Subject, assert_lost, every_subject, every_subject_that, in_time};

/// Contracts that do not run again, with the reason.
const NOT_AGAIN: &[(&str, &[&str])] = &[
    (
        "starts a Java server of its own, to count what that receives or to see what it cannot take",
        &[
            "ephemeral::vanished_node_wakes_the_waiter_and_leaks_no_watch",
            "every::outside::listeners_share_one_request_per_node_and_leave_no_watch",
            "every::places::client_refuses_more_path_bytes_than_the_server_survives",
            "revocation::revocation_of_the_predecessor_lets_no_waiter_in",
            "semaphore::further_permit_costs_at_most_two_requests_and_a_refusal_costs_one",
            "semaphore::release_wakes_only_the_waiter_with_the_turn",
        ],
    ),
    (
        "keeps a processor busy for most of a second or longer",
        &[
            "below::locks_below_returns_queues_of_thousands_whole",
            "below::walk_of_a_thousand_locks_costs_one_list_and_one_read_each",
        ],
    ),
    (
        "waits for 3 s or more, until leases of real servers have ended or a place is given up",
        &[
            "connecting::unreachable_hosts_fail_the_connect_in_time",
            "handoffs::losses::lock_is_not_handed_on_when_revoked_lost_or_disconnected",
            "handoffs::losses::lock_is_not_handed_on_with_under_a_third_of_its_lease",
            "handoffs::revocation_is_heard_during_repeated_handoffs",
            "multi::member_lost_during_the_wait_fails_the_call",
            "verifying::verify_token_asks_the_leader_within_a_third_of_the_timeout",
        ],
    ),
];

fn again() -> Command {
    let mut again = Command::new(env::current_exe().unwrap());
    again.args(["--skip", "in_process::"]);
    again
}

/// Runs this binary again, or a part of it, with an in-process server as the shared server.
fn hold_on_the_server_in_the_process(part: &[&str], threads: &str) {
    let server = Server::start().unwrap();
    let mut again = again();
    again.args(part).env("ZOOKEEPER_CONNECT", server.connect_string());
    // The tests mostly wait, so many run at once. Some panic on purpose, and backtraces are slow.
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
fn contracts_of_all_subjects_hold_on_the_server_in_the_process() {
    hold_on_the_server_in_the_process(&["every::"], "16");
}

#[test]
fn other_contracts_hold_on_the_server_in_the_process() {
    hold_on_the_server_in_the_process(&["--skip", "every::"], "8");
}

#[test]
fn skipped_contracts_exist() {
    let listed = again().arg("--list").output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout);
    for contract in NOT_AGAIN.iter().flat_map(|(_, contracts)| *contracts) {
        let line = format!("{contract}: test");
        assert!(listed.lines().any(|listed| listed == line), "there is no {contract}");
    }
}

const PATH: &str = "/lock";
/// The length of leases that a test lets run out.
const BRIEF: Duration = Duration::from_millis(500);

/// A server, a client and an object that the client holds.
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

/// Expects the loss, lets another client in, and then uses the object again.
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
            // A brief lease may run out here.
            Err(error) if error.is_lost() => false,
            used => used.map(|()| true).unwrap(),
        });
    }
}

#[test]
fn suspended_hold_is_held_again_after_a_resume() {
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
fn suspended_hold_is_lost_when_its_lease_ends() {
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
fn hold_of_an_expired_session_is_lost_at_once() {
    every_subject(|subject| {
        let (server, client, object) = held(subject, SOON);
        // A client that watches its node hears of the session's end as well, not of the node's.
        let asked: Vec<_> = object.holds().iter().map(|hold| hold.revocation().unwrap()).collect();
        server.expire(&client);
        drop(asked);
        is_lost(subject, &server, &object, LossReason::LeaseExpired);
        assert_eq!((client.stats().sessions, client.stats().resumed), (2, 0));
    });
}

/// The calls run on threads, because a hanging call never returns.
#[test]
fn stopped_server_lets_every_call_return() {
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
    // The order does not matter: the call waits when the server stops, or finds it stopped.
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
fn hold_with_a_deleted_node_is_lost_at_once() {
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
fn hold_of_a_closed_client_is_lost_at_once() {
    every_subject(|subject| {
        let (server, client, object) = held(subject, SOON);
        client.close().unwrap();
        is_lost(subject, &server, &object, LossReason::ClientClosed);
    });
}

#[test]
fn hold_hears_of_its_revocation() {
    every_subject_that(Subject::queues, |subject| {
        let (server, _client, object) = held(subject, SOON);
        let others = server.client().unwrap();
        for hold in object.holds() {
            let asked = hold.revocation().unwrap();
            // The turn of a permit may be deleted meanwhile.
            let contenders = others.contenders(hold.path()).unwrap();
            for holder in contenders.iter().filter(|contender| contender.holds) {
                others.revoke(holder).unwrap();
            }
            asked.recv_timeout(SOON).unwrap();
        }
        are(subject, &object, HoldState::Held);
        object.unlock().unwrap();
    });
}

/// The session's timeout passes while the server is stopped.
#[test]
fn stopped_server_accepts_no_client_and_ends_no_session() {
    let server = Server::start().unwrap();
    // Long enough for a busy machine to keep connection and session until the stop.
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
