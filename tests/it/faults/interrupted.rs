//! Moves that are interrupted: by the next fault, an operator, the server or the caller.

use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, Error, Hold, HoldState, LossReason};
use zoolock_test_support::{FaultProxy, Op, fresh_path, shared_probe, wait_until};

use super::relay::{Frame, Relay, UNTOUCHED};
use super::{Line, await_moved, has_one_node_until_unlocked, lock_of, place, places};
use crate::lock::core::{await_nodes, hold_of};
use crate::util::{
    SESSION, SOON, Task, children, client, client_of, in_time, shared_address, shared_proxy,
};

const NOT_CONFIRMED: HoldState = HoldState::Lost(LossReason::NotConfirmed);

/// The requests of a move, and whether they are interrupted before or after the server has them.
const STEPS: [(Op, bool); 4] = [
    (Op::Create, false),
    (Op::Create, true),
    (Op::GetData, false),
    (Op::GetData, true),
];

/// Of a move that begins with a look at what it does not know yet: the second look.
const LOOK_AGAIN: u64 = 2;

/// Holds a step of the next move of the seat whose node is `node`, or its answer: the `nth` of its
/// kind.
fn hold_step(
    proxy: &FaultProxy,
    (op, answer): (Op, bool),
    nth: u64,
    path: &str,
    node: &str,
) -> zoolock_test_support::Hold {
    let part = match op {
        Op::Create => path,
        _ => node,
    };
    let rule = proxy.on(op).path_contains(part).nth(nth);
    match answer {
        true => rule.hold_answer(),
        false => rule.hold_request(),
    }
}

fn await_no_garbage(client: &Client) {
    wait_until("no garbage is left", SOON, || client.stats().garbage == 0);
}

#[test]
fn a_move_of_a_hold_that_is_cut_is_completed_on_the_next_connection() {
    for step in STEPS {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SESSION);
        let path = fresh_path("hold-cut-again");
        let lock = lock_of(&client, &path);
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let (first, token) = (hold.node(), hold.fencing_token().unwrap());
        // Kept until the connections they are about are gone.
        let mut interrupted = Vec::new();
        for _ in 0..2 {
            let held = hold_step(&proxy, step, 1, &path, &first);
            proxy.cut();
            assert!(held.wait(SOON), "{step:?}: {:#?}", proxy.log());
            assert_eq!(
                (hold.state(), hold.node()),
                (HoldState::Suspended, first.clone())
            );
            interrupted.push(held);
        }
        proxy.cut();
        let took = await_moved(&client, 1);
        println!(
            "{step:?} interrupted {} times, moved after {took:?}: {hold:?}",
            interrupted.len()
        );
        assert_eq!(hold.state(), HoldState::Held);
        assert_eq!(place(&hold.node()), place(&first));
        assert_eq!(hold.fencing_token().unwrap(), token);
        has_one_node_until_unlocked(&lock);
        let stats = client.stats();
        assert_eq!((stats.seats_moved, stats.seats_lost), (1, 0), "{stats:?}");
    }
}

#[test]
fn a_move_of_a_waiter_that_is_cut_is_completed_on_the_next_connection() {
    let steps = STEPS.map(|step| match step.0 {
        Op::GetData => (step, LOOK_AGAIN),
        _ => (step, 1),
    });
    let first_looks = [false, true].map(|answer| ((Op::GetData, answer), 1));
    for (step, mut nth) in steps.into_iter().chain(first_looks) {
        let proxy = shared_proxy();
        let cut = client_of(&proxy.connect_string(), SESSION);
        let others = client();
        let path = fresh_path("waiter-cut-again");
        let held = lock_of(&others, &path);
        held.lock().unwrap();
        let ahead = hold_of(&held).node();
        let mut line = Line::at(&path);
        line.join(&cut);
        line.join(&others);
        let before = places(&path);
        let node = children(&path).into_iter().filter(|node| *node != ahead);
        let node = node.min_by_key(|node| place(node).to_owned()).unwrap();
        let mut interrupted = Vec::new();
        for _ in 0..2 {
            let held = hold_step(&proxy, step, nth, &path, &node);
            proxy.cut();
            assert!(held.wait(SOON), "{step:?}: {:#?}", proxy.log());
            // What it has learnt it knows.
            nth = 1;
            assert!(children(&path).contains(&node), "its old node is there");
            interrupted.push(held);
        }
        proxy.cut();
        let took = await_moved(&cut, 1);
        wait_until("one node each is there", SOON, || places(&path) == before);
        println!(
            "{step:?}, {nth}: {before:?} again {took:?} after cut {}",
            interrupted.len() + 1
        );
        held.unlock().unwrap();
        line.comes_in_order();
        await_nodes(&path, 0);
        assert_eq!(cut.stats().seats_moved, 1);
    }
}

/// Nothing ends the sessions that were left behind: there is no way back to their handles' server.
#[test]
fn nodes_on_sessions_that_live_on_are_deleted_by_the_connection_that_completes_the_move() {
    for waits in [false, true] {
        let ways = [(); 3].map(|()| shared_proxy());
        let hosts = ways.each_ref().map(FaultProxy::connect_string).join(",");
        ways[1..].iter().for_each(|way| way.refuse(true));
        let client = client_of(&hosts, Duration::from_secs(60));
        let path = fresh_path("live-on");
        let rivals = crate::util::client();
        let (lock, rival) = (lock_of(&client, &path), lock_of(&rivals, &path));
        let mut line = Line::at(&path);
        if waits {
            rival.lock().unwrap();
            line.join(&client);
        } else {
            lock.lock().unwrap();
            line.join(&rivals);
        }
        let before = places(&path);
        let caught = ways[1].on(Op::Create).path_contains(&path).hold_answer();
        ways[1].refuse(false);
        ways[0].refuse(true);
        ways[0].cut();
        assert!(caught.wait(SOON), "{:#?}", ways[1].log());
        assert_eq!(children(&path).len(), 3);
        ways[1].refuse(true);
        ways[2].refuse(false);
        ways[1].cut();
        await_moved(&client, 1);
        // The garbage list alone would come back to them after 20 s.
        let prompt = Duration::from_secs(10);
        let took = wait_until("one node each is left", prompt, || places(&path) == before);
        println!(
            "waits: {waits}, {before:?} after {took:?}, {:?}",
            client.stats()
        );
        assert!(!line.is_let_in());
        match waits {
            true => rival.unlock().unwrap(),
            false => lock.unlock().unwrap(),
        }
        line.comes_in_order();
        await_nodes(&path, 0);
    }
}

fn lost_at(hold: &Hold) {
    let lost = hold.lost().recv_timeout(SOON);
    assert!(lost.is_err_and(|error| error.is_disconnected()), "{hold:?}");
}

/// The old node of a hold is deleted at some time between the cut and the look for it.
fn a_hold_whose_old_node_is_deleted(before_the_move: bool) {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("hold-deleted");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let node = hold.node();
    // Else the move begins by asking for it.
    hold.fencing_token().unwrap();
    let created = proxy.on(Op::Create).path_contains(&path).hold_answer();
    proxy.refuse(before_the_move);
    proxy.cut();
    if !before_the_move {
        assert!(created.wait(SOON), "{:#?}", proxy.log());
    }
    shared_probe()
        .unwrap()
        .delete(&format!("{path}/{node}"))
        .unwrap();
    wait_until("it is suspended", SOON, || {
        hold.state() == HoldState::Suspended
    });
    proxy.refuse(false);
    assert!(created.wait(SOON), "{:#?}", proxy.log());
    let rivals = crate::util::client();
    let mut line = Line::at(&path);
    line.join(&rivals);
    // Nobody is held up by the new node for longer than it takes to look.
    created.release();
    lost_at(&hold);
    println!(
        "deleted before the move: {before_the_move}: {hold:?}, {:?}",
        client.stats()
    );
    assert_eq!(hold.state(), NOT_CONFIRMED);
    line.comes_in_order();
    let unlocked = lock.unlock();
    let told = matches!(
        unlocked,
        Err(Error::Lost {
            reason: LossReason::NotConfirmed,
            ..
        })
    );
    assert!(told, "{unlocked:?}");
    await_nodes(&path, 0);
    await_no_garbage(&client);
    assert_eq!(
        (client.stats().seats_moved, client.stats().seats_lost),
        (0, 1)
    );
    lock.lock().unwrap();
    has_one_node_until_unlocked(&lock);
}

#[test]
fn a_hold_whose_node_was_deleted_before_its_move_is_lost() {
    a_hold_whose_old_node_is_deleted(true);
}

#[test]
fn a_hold_whose_node_was_deleted_before_anybody_knew_its_token_is_lost() {
    let proxy = shared_proxy();
    let client = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("token-unknown");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    proxy.refuse(true);
    proxy.cut();
    let node = format!("{path}/{}", hold.node());
    shared_probe().unwrap().delete(&node).unwrap();
    proxy.refuse(false);
    lost_at(&hold);
    println!("{hold:?}, {:?}", client.stats());
    assert_eq!(hold.state(), NOT_CONFIRMED);
    assert!(lock.unlock().is_err_and(|error| error.is_lost()));
    await_no_garbage(&client);
    lock.lock().unwrap();
    has_one_node_until_unlocked(&lock);
}

#[test]
fn a_hold_whose_node_is_deleted_during_its_move_is_lost() {
    a_hold_whose_old_node_is_deleted(false);
}

#[test]
fn a_waiter_whose_node_is_deleted_around_its_move_queues_again() {
    for before_the_move in [true, false] {
        let proxy = shared_proxy();
        let cut = client_of(&proxy.connect_string(), SESSION);
        let others = client();
        let path = fresh_path("waiter-deleted");
        let held = lock_of(&others, &path);
        held.lock().unwrap();
        let lock = lock_of(&cut, &path);
        let waiting = {
            let lock = lock.clone();
            Task::spawn(move || lock.lock())
        };
        let nodes = await_nodes(&path, 2);
        let own = hold_of(&held).node();
        let node = nodes.into_iter().find(|node| *node != own).unwrap();
        let mut line = Line::at(&path);
        line.join(&others);
        let created = proxy.on(Op::Create).path_contains(&path).hold_answer();
        proxy.refuse(before_the_move);
        proxy.cut();
        if !before_the_move {
            assert!(created.wait(SOON), "{:#?}", proxy.log());
        }
        shared_probe()
            .unwrap()
            .delete(&format!("{path}/{node}"))
            .unwrap();
        proxy.refuse(false);
        assert!(created.wait(SOON), "{:#?}", proxy.log());
        created.release();
        let last = || places(&path).pop().unwrap_or_default();
        let old = places(&path);
        wait_until("it is the last of three", SOON, || {
            children(&path).len() == 3 && !places(&path).contains(&place(&node).to_owned())
        });
        println!(
            "{node} of {old:?}, deleted before: {before_the_move}, then {:?}",
            places(&path)
        );
        assert!(last().as_str() > place(&node));
        held.unlock().unwrap();
        line.comes_in_order();
        waiting.result("the waiter").unwrap();
        assert_eq!(cut.stats().seats_moved, 0);
        has_one_node_until_unlocked(&lock);
        await_no_garbage(&cut);
    }
}

/// A waiter that is caught in the middle of its move, with the answer to one of its requests on
/// its way.
struct Caught {
    proxy: FaultProxy,
    client: Client,
    path: String,
    lock: DistributedLock,
    waiting: Task<zoolock::Result<bool>>,
    answer: zoolock_test_support::Hold,
    rival: (Client, DistributedLock),
}

impl Caught {
    fn start(
        name: &str,
        session: Duration,
        step: Op,
        wait: impl FnOnce(&DistributedLock) -> zoolock::Result<bool> + Send + 'static,
    ) -> Caught {
        let path = fresh_path(name);
        let rivals = client();
        let held = lock_of(&rivals, &path);
        held.lock().unwrap();
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), session);
        let lock = lock_of(&client, &path);
        let waiting = {
            let lock = lock.clone();
            Task::spawn(move || wait(&lock))
        };
        let (ahead, nodes) = (hold_of(&held).node(), await_nodes(&path, 2));
        let node = nodes.into_iter().find(|node| *node != ahead).unwrap();
        let nth = if step == Op::GetData { LOOK_AGAIN } else { 1 };
        let answer = hold_step(&proxy, (step, true), nth, &path, &node);
        proxy.cut();
        assert!(answer.wait(SOON), "{:#?}", proxy.log());
        // What its old session had may be gone by now; the new node is there.
        assert!(children(&path).len() >= 2, "{:#?}", proxy.log());
        Caught {
            proxy,
            client,
            path,
            lock,
            waiting,
            answer,
            rival: (rivals, held),
        }
    }

    /// Only the rival's node is left, soon after the answer has come.
    fn leaves_nothing(&self) {
        self.answer.release();
        let own = hold_of(&self.rival.1).node();
        let took = wait_until("only the rival is left", SOON, || {
            children(&self.path) == [own.clone()]
        });
        await_no_garbage(&self.client);
        println!(
            "nothing left {took:?} after the answer, {:?}",
            self.client.stats()
        );
        self.rival.1.unlock().unwrap();
        assert!(
            self.lock.try_lock_for(SOON).unwrap(),
            "{:#?}",
            self.proxy.log()
        );
        has_one_node_until_unlocked(&self.lock);
    }
}

#[test]
fn a_waiter_cancelled_during_its_move_leaves_no_node() {
    for step in [Op::Create, Op::GetData] {
        let caught = Caught::start("cancelled", SESSION, step, |lock| {
            lock.lock().map(|()| true)
        });
        caught.lock.cancel_waiters();
        let seen = caught.waiting.result("the cancelled waiter");
        println!("{step:?}: {seen:?}");
        assert!(matches!(seen, Err(Error::Cancelled { .. })), "{seen:?}");
        caught.leaves_nothing();
    }
}

#[test]
fn a_waiter_whose_deadline_comes_during_its_move_leaves_no_node() {
    const DEADLINE: Duration = Duration::from_secs(4);
    // Longer than it takes for a request without an answer to end the connection.
    let session = Duration::from_secs(30);
    let caught = Caught::start("deadline", session, Op::Create, |lock| {
        in_time("try_lock_for()", DEADLINE + Duration::from_secs(1), || {
            lock.try_lock_for(DEADLINE)
        })
    });
    let seen = caught.waiting.result("the waiter with a deadline");
    let none = matches!(seen, Ok(false) | Err(Error::Disconnected { .. }));
    assert!(none, "{seen:?}");
    caught.leaves_nothing();
}

#[test]
fn a_close_during_a_move_leaves_no_node() {
    const SHORT: Duration = Duration::from_secs(3);
    for answered in [true, false] {
        let caught = Caught::start("closed", SHORT, Op::Create, |lock| {
            lock.lock().map(|()| true)
        });
        let own = hold_of(&caught.rival.1).node();
        let begun = Instant::now();
        if answered {
            caught.answer.release();
        }
        let client = caught.client.clone();
        let limit = SHORT + Duration::from_secs(1);
        let closed = in_time("close()", limit, || client.close());
        let seen = caught.waiting.result("the waiter");
        assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
        let left = children(&caught.path);
        println!("answered {answered}: {closed:?}, {left:?} is left");
        assert!(
            closed.is_err() || left == [own.clone()],
            "{closed:?}, {left:?}"
        );
        wait_until("only the rival is left", SOON, || {
            children(&caught.path) == [own.clone()]
        });
        println!(
            "only the rival is left {:?} after the close",
            begun.elapsed()
        );
        caught.rival.1.unlock().unwrap();
    }
}

#[test]
fn a_close_during_the_move_of_a_hold_lets_the_next_one_in() {
    const SHORT: Duration = Duration::from_secs(3);
    for answered in [true, false] {
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), SHORT);
        let path = fresh_path("hold-closed");
        let lock = lock_of(&client, &path);
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let others = crate::util::client();
        let mut line = Line::at(&path);
        line.join(&others);
        let answer = proxy.on(Op::Create).path_contains(&path).hold_answer();
        proxy.cut();
        assert!(answer.wait(SOON), "{:#?}", proxy.log());
        if answered {
            answer.release();
        }
        let begun = Instant::now();
        let limit = SHORT + Duration::from_secs(1);
        let closed = in_time("close()", limit, || client.close());
        assert!(!hold.is_held(), "{hold:?}");
        line.comes_in_order();
        println!(
            "answered {answered}: {closed:?}; the next one was in after {:?}",
            begun.elapsed()
        );
        await_nodes(&path, 0);
    }
}

/// Makes a move's create one that every server refuses: without an ACL.
fn without_acl(path: &'static str) -> impl Fn(&Frame<'_>) -> super::relay::Fate + Send + Sync {
    move |frame| match frame.moving_create_below(path) {
        Some(create) => super::relay::Fate::Instead(create.without_acl()),
        None => UNTOUCHED,
    }
}

#[test]
fn a_hold_whose_move_the_server_refuses_ends_with_its_lease() {
    const SHORT: Duration = Duration::from_secs(3);
    let path: &'static str = fresh_path("hold-refused").leak();
    let relay = Relay::start(shared_address(), without_acl(path));
    let client = client_of(&relay.connect_string(), SHORT);
    let lock = lock_of(&client, path);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let others = crate::util::client();
    let mut line = Line::at(path);
    line.join(&others);
    let left = hold.valid_for();
    relay.cut();
    lost_at(&hold);
    assert!(!line.is_let_in() || !hold.is_held());
    println!("{left:?} were left at the cut; {hold:?}");
    assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));
    assert!(relay.changed() >= 1, "no create was refused");
    line.comes_in_order();
    let unlocked = lock.unlock();
    assert!(unlocked.as_ref().is_err_and(Error::is_lost), "{unlocked:?}");
    lock.lock().unwrap();
    has_one_node_until_unlocked(&lock);
}

#[test]
fn a_waiter_whose_move_the_server_refuses_is_told_and_leaves_no_node() {
    let path: &'static str = fresh_path("waiter-refused").leak();
    let relay = Relay::start(shared_address(), without_acl(path));
    let others = client();
    let held = lock_of(&others, path);
    held.lock().unwrap();
    let refused = client_of(&relay.connect_string(), SESSION);
    let lock = lock_of(&refused, path);
    let waiting = {
        let lock = lock.clone();
        Task::spawn(move || lock.lock())
    };
    await_nodes(path, 2);
    relay.cut();
    let seen = waiting.result("the waiter");
    println!(
        "{seen:?}, {} refused, {:?}",
        relay.changed(),
        refused.stats()
    );
    assert!(
        matches!(seen, Err(Error::InvalidArgument { .. })),
        "{seen:?}"
    );
    await_nodes(path, 1);
    assert!(held.is_held());
    held.unlock().unwrap();
    lock.lock().unwrap();
    has_one_node_until_unlocked(&lock);
}
