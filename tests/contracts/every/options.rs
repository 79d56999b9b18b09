//! Each option, for every kind of lock that takes it. It makes no difference to the others.

use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{bounded, unbounded};
use zoolock::{HoldState, Kind, LockOptions};
use zoolock_test_support::{Op, connect_string, fresh_path, wait_until};

use common::{
    Object, SOON, Subject, Task, Visitor, await_lost, await_nothing_left, client, client_of,
    every_subject_that, in_time, shared_proxy,
};

use crate::contenders::client_called;

/// A session timeout so long that clients send nothing on their own.
const QUIET: Duration = Duration::from_secs(60);

/// Takes a turn on a new thread, and returns its token.
#[track_caller]
fn turn(object: &Object) -> u64 {
    let visitor = Visitor::start_asleep(object.clone());
    let token = visitor.hold().fencing_token();
    visitor.leaves();
    token
}

#[test]
fn local_handoff_passes_the_lock_on_without_a_request() {
    const TIMES: usize = 2;
    // In a multi-lock, a waiter for the first member has not queued for the others when they are released.
    every_subject_that(
        |subject| subject.is_plain() && subject.is_one_lock(),
        |subject| {
            let (ours, path) = (client_of(&connect_string(), QUIET), fresh_path("handed-on"));
            let object =
                subject.with(&ours, &path, LockOptions::new().local_handoffs(TIMES as u32));
            let mut turn = Visitor::start_asleep(object.clone());
            let mut held = turn.hold();
            let (mut tokens, mut cost) = (vec![held.fencing_token()], 0);
            for _ in 1..2 * (TIMES + 1) {
                let next = Visitor::start_asleep(object.clone());
                let before = ours.stats().requests;
                turn.leaves();
                let heir = next.hold();
                let token = heir.fencing_token();
                assert_eq!((held.state(), heir.state()), (HoldState::Released, HoldState::Held));
                await_lost(&held);
                if token == held.fencing_token() {
                    cost += ours.stats().requests - before;
                    assert_eq!(heir.node(), held.node(), "{}", subject.name);
                }
                tokens.push(token);
                (turn, held) = (next, heir);
            }
            turn.leaves();
            let runs: Vec<_> = tokens.chunk_by(|a, b| a == b).map(<[u64]>::len).collect();
            println!(
                "{}: turns with one token {runs:?}, {cost} requests at hand-offs",
                subject.name
            );
            match subject.may_be_left() {
                true => assert_eq!(runs, [TIMES + 1; 2], "{}", subject.name),
                false => assert_eq!(runs, [1; 2 * (TIMES + 1)], "{}", subject.name),
            }
            assert!(tokens.is_sorted(), "{}: {tokens:?}", subject.name);
            // A very slow machine may add a heartbeat.
            assert!(cost <= 1, "{}: {cost} requests", subject.name);
            subject.await_nodes(&path, 0);
            await_nothing_left(&ours);
        },
    );
}

/// Takes turns until one costs no request. By then the kept node is watched.
fn await_kept(client: &zoolock::Client, object: &Object) {
    wait_until("a turn costs no request", SOON, || {
        let before = client.stats().requests;
        turn(object);
        client.stats().requests == before
    });
}

#[test]
fn keep_idle_keeps_the_node_until_another_client_queues() {
    const TURNS: u64 = 20;
    every_subject_that(Subject::is_plain, |subject| {
        let (ours, others) = (client_of(&connect_string(), QUIET), client());
        let path = fresh_path("kept");
        let object = subject.with(&ours, &path, LockOptions::new().keep_idle(10 * SOON));
        let first = turn(&object);
        assert!(!object.is_held() && object.holds().is_empty(), "{}", subject.name);
        if !subject.may_be_left() {
            subject.await_nodes(&path, 0);
            assert!(turn(&object) > first, "{}", subject.name);
            return;
        }
        await_kept(&ours, &object);
        let before = ours.stats().requests;
        (0..TURNS).for_each(|_| assert_eq!(turn(&object), first, "{}", subject.name));
        let requests = ours.stats().requests - before;
        println!("{}: {TURNS} turns with token {first}, {requests} requests", subject.name);
        assert!(requests < TURNS / 2, "{}: {requests} requests", subject.name);
        assert_eq!(subject.nodes(&path).len(), subject.nodes_of_one(), "{}", subject.name);

        let rival = subject.rival(&others, &path);
        assert!(!rival.try_lock().unwrap(), "{}: to others it is busy", subject.name);
        assert!(rival.try_lock_for(SOON).unwrap(), "{}: it is not given back", subject.name);
        assert!(!object.try_lock().unwrap(), "{}", subject.name);
        rival.unlock().unwrap();
        assert!(turn(&object) > first, "{}", subject.name);

        // While the lock is in use, its unlock passes it to the other client.
        await_kept(&ours, &object);
        object.lock().unwrap();
        let next = Visitor::start_asleep(rival.clone());
        assert!(object.is_held() && !next.is_in(), "{}", subject.name);
        object.unlock().unwrap();
        next.hold();
        next.leaves();
        let last = turn(&object);
        drop(object);
        let options = LockOptions::new().keep_idle(10 * SOON);
        assert_eq!(turn(&subject.with(&ours, &path, options)), last, "{}", subject.name);
        turn(&rival);
        subject.await_nodes(&path, 0);
        await_nothing_left(&ours);
        assert_eq!(ours.stats().holds_lost, 0, "{}", subject.name);
    });
}

#[test]
fn background_release_does_not_wait_for_the_answer() {
    every_subject_that(Subject::releases_in_the_background, |subject| {
        let (proxy, path) = (shared_proxy(), fresh_path("background"));
        let (ours, others) = (client_of(&proxy.connect_string(), QUIET), client());
        let object = subject.at(&ours, &path);
        object.lock().unwrap();
        let (hold, nodes) = (object.hold(), subject.holding(&path));
        let deletion = proxy.on(Op::Delete).path_contains(&nodes[0]).hold_request();
        // Otherwise the unlock would wait a third of the session timeout.
        in_time(subject.name, QUIET / 6, || object.unlock()).unwrap();
        assert!(!object.is_held() && hold.state() == HoldState::Released, "{hold:?}");
        assert!(deletion.wait(SOON), "{}: {:#?}", subject.name, proxy.log());
        let rival = subject.rival(&others, &path);
        assert!(!rival.try_lock().unwrap(), "{}: its node is still there", subject.name);
        deletion.release();
        assert!(rival.try_lock_for(SOON).unwrap(), "{}", subject.name);
        rival.unlock().unwrap();
        subject.await_nodes(&path, 0);
    });
}

#[test]
fn identity_in_the_options_overrides_the_clients_identity() {
    const OWN: &str = "the l\u{f6}ck's\nown";
    every_subject_that(Subject::is_plain, |subject| {
        let (ours, path) = (client_called("the client's"), fresh_path("identity"));
        let named = || subject.with(&ours, &path, LockOptions::new().identity(OWN));
        let (object, behind) = (named(), named());
        object.lock().unwrap();
        let waiter = Visitor::start_asleep(behind.clone());
        for hold in object.holds() {
            let seen = ours.contenders(hold.path()).unwrap();
            println!("{}: {seen:?}", subject.name);
            let who: Vec<_> = seen.iter().map(|one| one.identity.as_deref()).collect();
            assert_eq!(who, vec![Some(OWN); seen.len()], "{}", subject.name);
            assert!(!seen.is_empty(), "{}", subject.name);
        }
        object.unlock().unwrap();
        waiter.hold();
        waiter.leaves();
    });
}

#[test]
fn waiter_learns_its_queue_position_and_the_first_contender() {
    every_subject_that(Subject::is_plain, |subject| {
        let path = fresh_path("observed");
        let [a, b] = ["a", "b"].map(|who| subject.rival(&client_called(who), &path));
        let (say, told) = unbounded();
        let options =
            LockOptions::new().on_queue_position(Duration::from_millis(50), move |place| {
                let _ = say.send((place.clone(), std::thread::current().id()));
            });
        // Waits for a report of this many ahead, with this first contender.
        let comes = |ahead, who: Option<&str>| loop {
            let (place, thread) = told.recv_timeout(SOON).expect("told of a place");
            let first = place.first.as_ref().and_then(|first| first.identity.as_deref());
            if (place.ahead, first) == (ahead, who) {
                println!("{}: {place:?}", subject.name);
                return thread;
            }
        };
        let first = Visitor::start(a.clone());
        first.comes_in();
        subject.await_nodes(&path, subject.nodes_of_one());
        let second = Visitor::start_asleep(b.clone());
        subject.await_nodes(&path, subject.nodes_with_waiters(1));
        let last = subject.with(&client(), &path, options);
        let (waiting, thread) = (last.clone(), bounded(1));
        let end = Task::spawn(move || {
            thread.0.send(std::thread::current().id()).unwrap();
            waiting.lock().and_then(|()| waiting.unlock())
        });
        // Holders of permits are not in the queue.
        let is_permit = subject.shown_as()[0] == Kind::Permit;
        let seen = subject.queues().then(|| match is_permit {
            true => comes(1, Some("b")),
            false => comes(2, Some("a")),
        });
        first.hold();
        first.leaves();
        second.hold();
        let moved = subject.queues().then(|| match is_permit {
            true => comes(0, None),
            false => comes(1, Some("b")),
        });
        let waiter = thread.1.recv().unwrap();
        assert_eq!((seen, moved), (seen.map(|_| waiter), moved.map(|_| waiter)));
        second.leaves();
        end.result("the last one").unwrap();
        assert!(subject.queues() || told.is_empty(), "a single node has no queue");
    });
}

/// Long enough for a look in between, on most machines.
const AT_LEAST: Duration = Duration::from_secs(1);

#[test]
fn hold_at_least_keeps_other_clients_out_after_an_early_unlock() {
    every_subject_that(Subject::is_free_with_its_unlock, |subject| {
        let [ours, others] = [(); 2].map(|()| client_of(&connect_string(), QUIET));
        let path = fresh_path("at-least");
        let object = subject.with(&ours, &path, LockOptions::new().hold_at_least(AT_LEAST));
        let (rival, begun) = (subject.rival(&others, &path), Instant::now());
        object.lock().unwrap();
        let hold = object.hold();
        object.unlock().unwrap();
        assert_eq!((object.is_held(), hold.state()), (false, HoldState::Released));
        await_lost(&hold);
        let (tried, nodes) = (rival.try_lock().unwrap(), subject.holding(&path).len());
        let seen = begun.elapsed();
        println!("{}: after {seen:?}: let in: {tried}, {nodes} nodes", subject.name);
        assert!(seen >= AT_LEAST || (!tried && nodes == subject.nodes_of_one()));
        if !tried {
            rival.lock().unwrap();
        }
        println!("{}: let in after {:?}", subject.name, begun.elapsed());
        assert!(begun.elapsed() >= AT_LEAST, "{}", subject.name);
        rival.unlock().unwrap();
        await_nothing_left(&ours);
        assert_eq!(ours.stats().holds_lost, 0, "{}", subject.name);
    });
}

#[test]
fn hold_at_least_keeps_other_threads_out() {
    every_subject_that(
        |one| one.is_exclusive() && one.is_one_lock() && one.is_free_with_its_unlock(),
        |subject| {
            let (ours, path) = (client_of(&connect_string(), QUIET), fresh_path("at-least-here"));
            let object = subject.with(&ours, &path, LockOptions::new().hold_at_least(AT_LEAST));
            let begun = Instant::now();
            object.lock().unwrap();
            let next = Visitor::start_asleep(object.clone());
            object.unlock().unwrap();
            next.comes_in();
            println!("{}: the next thread came in after {:?}", subject.name, begun.elapsed());
            assert!(begun.elapsed() >= AT_LEAST, "{}", subject.name);
            next.leaves();
        },
    );
}

#[test]
fn minimum_hold_ends_with_its_client() {
    every_subject_that(Subject::is_free_with_its_unlock, |subject| {
        let [ours, others] = [(); 2].map(|()| client_of(&connect_string(), QUIET));
        let path = fresh_path("at-least-closed");
        let options = LockOptions::new().hold_at_least(Duration::MAX);
        let object = subject.with(&ours, &path, options);
        object.lock().unwrap();
        object.unlock().unwrap();
        let rival = subject.rival(&others, &path);
        assert!(!rival.try_lock().unwrap(), "{}", subject.name);
        ours.close().unwrap();
        assert!(rival.try_lock_for(SOON).unwrap(), "{}", subject.name);
        rival.unlock().unwrap();
        assert_eq!(ours.stats().holds_lost, 0, "{}", subject.name);
    });
}
