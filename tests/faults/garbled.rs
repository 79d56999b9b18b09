//! Answers that no server gives: cut short, too long, for another request, nonsense.
//!
//! Whatever cannot be an answer ends its connection, and nothing else: the session is resumed on the
//! next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{EphemeralLock, Error};
use zoolock_test_support::{fresh_path, wait_until};

use common::line::{Line, has_one_node_until_unlocked};
use common::relay::{
    CREATE, Fate, Frame, GET_CHILDREN, GET_DATA, Relay, SET_DATA, SET_WATCHES, framed,
};
use common::{
    SESSION, SOON, Task, await_nothing_left, children, client, client_of, exists, in_time, lock_of,
    shared_address, stat,
};

/// xid, zxid, error.
const HEADER: usize = 16;

/// The frame's header, and another body.
fn with_body(frame: &Frame<'_>, body: &[u8]) -> Fate {
    let mut bytes = frame.body[..HEADER].to_vec();
    bytes.extend(body);
    Fate::Instead(bytes)
}

fn cut_short(frame: &Frame<'_>) -> Fate {
    let whole = framed(frame.body);
    Fate::LastBytes(whole[..whole.len() - 3].to_vec())
}

fn no_body(frame: &Frame<'_>) -> Fate {
    with_body(frame, b"")
}

/// type, state, path
fn event_not_utf8(frame: &Frame<'_>) -> Fate {
    with_body(frame, &[0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, 0xff, 0xfe])
}

/// The answer with another number in its header, at a place: the id or the error.
fn with(frame: &Frame<'_>, at: usize, number: i32) -> Fate {
    let mut bytes = frame.body[..if at == 0 { frame.body.len() } else { HEADER }].to_vec();
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    Fate::Instead(bytes)
}

fn unknown_error(frame: &Frame<'_>) -> Fate {
    with(frame, 12, -12345)
}

/// OperationTimeout
fn timed_out(frame: &Frame<'_>) -> Fate {
    with(frame, 12, -7)
}

fn another_path(frame: &Frame<'_>) -> Fate {
    // The stat behind it stays.
    let stat = &frame.body[frame.body.len() - 68..];
    with_body(frame, &[b"\0\0\0\x0e/somebody/else", stat].concat())
}

type Damage = (&'static str, fn(&Frame<'_>) -> Fate);

const DAMAGES: [Damage; 10] = [
    ("cut short", cut_short),
    ("never complete", |frame| {
        let mut bytes = framed(frame.body);
        bytes[2] += 1;
        Fate::Bytes(bytes)
    }),
    ("without a body", no_body),
    ("without a header", |frame| Fate::Instead(frame.body[..5].to_vec())),
    ("empty", |_| Fate::Instead(Vec::new())),
    ("of a negative length", |_| Fate::Bytes(vec![0xff; 4])),
    ("of a negative count", |frame| with_body(frame, &[0xff; 4])),
    // A list of one name, or a path, by what is expected.
    ("not UTF-8", |frame| match frame.op {
        Some(GET_CHILDREN) => with_body(frame, &[0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xfe]),
        _ => with_body(frame, &[0, 0, 0, 2, 0xff, 0xfe]),
    }),
    ("an unknown error", unknown_error),
    ("of another id", |frame| with(frame, 0, 77_777)),
];

/// Damages the first answer to such a request once it is told to, then that to the next one, then no more.
fn damaging(ops: Vec<i32>, damage: fn(&Frame<'_>) -> Fate) -> (Relay, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let (arm, turn) = (Arc::clone(&armed), AtomicUsize::new(0));
    let relay = Relay::start(shared_address(), move |frame| {
        let at = turn.load(Ordering::SeqCst);
        let is_it = arm.load(Ordering::SeqCst) && frame.is_answer;
        let is_it = is_it && frame.op.is_some() && frame.op == ops.get(at).copied();
        let take_turn = || turn.compare_exchange(at, at + 1, Ordering::SeqCst, Ordering::SeqCst);
        match is_it && take_turn().is_ok() {
            true => damage(frame),
            false => Fate::Pass,
        }
    });
    (relay, armed)
}

/// An acquisition during which one answer is damaged ends in time and without a panic, whatever
/// it ends with, and the next one works.
fn survives(op: i32, (what, damage): Damage) {
    const DEADLINE: Duration = Duration::from_secs(5);
    let (relay, armed) = damaging(vec![op], damage);
    let client = client_of(&relay.connect_string(), Duration::from_secs(3));
    let [lock, rival] = {
        let (path, rivals) = (fresh_path("garbled"), common::client());
        [lock_of(&client, &path), lock_of(&rivals, &path)]
    };
    // Makes the directory. Only who waits reads a node.
    rival.lock().unwrap();
    if op != GET_DATA {
        rival.unlock().unwrap();
    }
    armed.store(true, Ordering::SeqCst);
    let trying = {
        let (lock, what) = (lock.clone(), format!("op {op}, {what}"));
        let limit = DEADLINE + Duration::from_secs(1);
        Task::spawn(move || in_time(&what, limit, || lock.try_lock_for(DEADLINE)))
    };
    if op == GET_DATA {
        wait_until("the answer was damaged", SOON, || relay.changed() == 1);
        rival.unlock().unwrap();
    }
    let seen = trying.result(what);
    assert_eq!(relay.changed(), 1, "op {op}, {what}: no such answer came");
    if matches!(seen, Ok(true)) {
        lock.unlock().unwrap();
    }
    assert!(lock.try_lock_for(SOON).unwrap(), "op {op}, {what}: {client:?}");
    has_one_node_until_unlocked(&lock);
    assert!(rival.try_lock_for(SOON).unwrap());
    rival.unlock().unwrap();
}

fn all_damages(op: i32, survives: fn(i32, Damage)) {
    // An error in place of a create's answer has a test of its own.
    let is_one = |what| op != CREATE || what != "an unknown error";
    thread::scope(|scope| {
        for (what, damage) in DAMAGES.into_iter().filter(|(what, _)| is_one(*what)) {
            scope.spawn(move || survives(op, (what, damage)));
        }
    });
}

#[test]
fn a_garbled_answer_to_a_list_a_create_or_a_read_ends_no_caller_and_nothing_else() {
    for op in [GET_CHILDREN, CREATE, GET_DATA] {
        all_damages(op, survives);
    }
}

/// A resume during which one answer is damaged: there is time for another one, on a busy machine, too.
fn a_hold_survives(op: i32, (what, damage): Damage) {
    const SHORT: Duration = Duration::from_secs(8);
    let (relay, armed) = damaging(vec![op], damage);
    let client = client_of(&relay.connect_string(), SHORT);
    let path = fresh_path("garbled-resume");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    let hold = lock.hold().unwrap();
    let node = hold.node();
    let rivals = common::client();
    let mut line = Line::at(&path);
    line.join(&rivals);
    // From a quarter of the session timeout on it is watched, and so there is a watch to set again.
    let begun = Instant::now();
    wait_until("it was held for a while", SOON, || begun.elapsed() > SHORT / 2);
    armed.store(true, Ordering::SeqCst);
    relay.cut();
    let mut least = hold.valid_for();
    let begun = Instant::now();
    // As long as it takes to notice that an answer is missing, and to be back.
    wait_until("the answer was damaged, and it is settled", SOON, || {
        let let_in = line.is_let_in();
        let (held, left) = (hold.is_held(), hold.valid_for());
        assert!(!let_in || !held, "op {op}, {what}: two holders: {hold:?}");
        least = least.min(left);
        relay.changed() == 1 && (!held || begun.elapsed() > SHORT)
    });
    println!("op {op}, {what}: {hold:?}, at least {least:?} left, {:?}", client.stats());
    let unlocked = lock.unlock();
    assert!(unlocked.is_ok(), "op {op}, {what}: {unlocked:?}");
    assert_eq!((hold.node(), client.stats().sessions), (node, 1), "op {op}, {what}");
    line.comes_in_order();
    wait_until("no node is left", SOON, || children(&path).is_empty());
    lock.lock().unwrap();
    has_one_node_until_unlocked(&lock);
}

#[test]
fn a_garbled_answer_during_a_resume_costs_no_hold() {
    for op in [SET_WATCHES, SET_DATA] {
        all_damages(op, a_hold_survives);
    }
}

/// It ends its connection. On the next one the watch is set again, and tells what was missed.
#[test]
fn a_garbled_event_costs_a_connection_and_wakes_all_the_same() {
    let damages: [Damage; 3] =
        [("without a body", no_body), ("not UTF-8", event_not_utf8), ("cut short", cut_short)];
    for (what, damage) in damages {
        let [watched, damaged] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (watches, damages) = (Arc::clone(&watched), Arc::clone(&damaged));
        let relay = Relay::start(shared_address(), move |frame| {
            let is_event = frame.is_answer && frame.body.starts_with(&[0xff; 4]);
            if frame.is_answer && frame.op == Some(GET_DATA) {
                watches.store(true, Ordering::SeqCst);
            }
            match is_event && !damages.swap(true, Ordering::SeqCst) {
                true => damage(frame),
                false => Fate::Pass,
            }
        });
        let (others, waiting) = (client(), client_of(&relay.connect_string(), SESSION));
        let path = fresh_path("garbled-event");
        let held = lock_of(&others, &path);
        held.lock().unwrap();
        let mut line = Line::at(&path);
        line.join(&waiting);
        line.join(&others);
        wait_until("it watches", SOON, || watched.load(Ordering::SeqCst));
        held.unlock().unwrap();
        line.comes_in_order();
        println!("{what}: {:?}", waiting.stats());
        assert_eq!(waiting.stats().sessions, 1, "{what}");
        assert!(damaged.load(Ordering::SeqCst), "{what}: no event came");
    }
}

/// Some errors do not say whether the node was made: a time-out of the server's own, or one that
/// is newer than the client.
#[test]
fn a_create_answered_with_an_error_that_proves_nothing_leaves_no_node() {
    for (what, damage) in
        [("unknown", unknown_error as fn(&Frame<'_>) -> Fate), ("timeout", timed_out)]
    {
        let (relay, armed) = damaging(vec![CREATE], damage);
        let client = client_of(&relay.connect_string(), SESSION);
        let path = fresh_path("unproven");
        let lock = lock_of(&client, &path);
        lock.lock().unwrap();
        lock.unlock().unwrap();
        armed.store(true, Ordering::SeqCst);
        let seen = lock.try_lock_for(SOON);
        println!("{what}: {seen:?}; then {:?}, {:?}", children(&path), client.stats());
        assert_eq!(relay.changed(), 1);
        if matches!(seen, Ok(true)) {
            lock.unlock().unwrap();
        }
        wait_until("no node is left", SOON, || children(&path).is_empty());
        assert!(lock.try_lock_for(SOON).unwrap());
        has_one_node_until_unlocked(&lock);
    }
}

/// The name of a single node does not say who made it, but its data do. Where the look at them is
/// refused, too, it is looked for once more before the client forgets it.
#[test]
fn a_single_node_whose_create_and_look_are_refused_is_deleted_later() {
    // So long that a slow machine does not end a connection.
    const SHORT: Duration = Duration::from_secs(8);
    for refused in [vec![CREATE], vec![CREATE, GET_DATA]] {
        for waits in [true, false] {
            let what = format!("refused {refused:?}, waits: {waits}");
            let (relay, armed) = damaging(refused.clone(), unknown_error);
            let client = client_of(&relay.connect_string(), SHORT);
            let path = fresh_path("single-unproven");
            let lock = EphemeralLock::new(&client, &path).unwrap();
            lock.lock().unwrap();
            lock.unlock().unwrap();
            armed.store(true, Ordering::SeqCst);
            let locked = match waits {
                true => lock.lock().map(|()| true),
                false => lock.try_lock(),
            };
            println!("{what}: {locked:?}, {:?}", client.stats());
            match locked {
                Err(Error::ZooKeeper { path: at, .. }) => assert_eq!(at, path),
                Ok(true) => {
                    let token = lock.hold().unwrap().fencing_token().unwrap();
                    assert_eq!(token, stat(&path).czxid as u64, "{what}: not its own node");
                    lock.unlock().unwrap();
                }
                other => panic!("{what}: {other:?}"),
            }
            wait_until("nothing is left", SOON, || !exists(&path));
            await_nothing_left(&client);
            assert_eq!(relay.changed(), refused.len() as u64, "{what}");
            assert!(lock.try_lock_for(SOON).unwrap(), "{what}");
            assert_eq!(client.stats().connections, 1, "{what}");
            lock.unlock().unwrap();
            let rivals = common::client();
            let rival = EphemeralLock::new(&rivals, &path).unwrap();
            assert!(rival.try_lock().unwrap(), "{what}: a rival");
            rival.unlock().unwrap();
        }
    }
}

#[test]
fn a_create_that_is_answered_with_the_path_of_another_node_is_not_believed() {
    let (relay, armed) = damaging(vec![CREATE], another_path);
    let fooled = client_of(&relay.connect_string(), SESSION);
    let path = fresh_path("another-path");
    let others = client();
    let held = lock_of(&others, &path);
    held.lock().unwrap();
    let lock = lock_of(&fooled, &path);
    armed.store(true, Ordering::SeqCst);
    let locks = lock.clone();
    let locking = Task::spawn(move || locks.lock());
    wait_until("the answer was changed", SOON, || relay.changed() == 1);
    assert!(held.is_held());
    held.unlock().unwrap();
    locking.result("lock()").unwrap();
    has_one_node_until_unlocked(&lock);
}

/// Takes these deletions away, and answers that the server's own time limit has passed.
fn giving_up_deletions(times: usize) -> Relay {
    const DELETE: i32 = 2;
    const EXISTS: i32 = 3;
    let (asked, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let next = move |count: &AtomicUsize| count.fetch_add(1, Ordering::SeqCst) < times;
    Relay::start(shared_address(), move |frame| match (frame.op, frame.is_answer) {
        (Some(DELETE), true) if next(&answered) => timed_out(frame),
        (Some(DELETE), false) if next(&asked) => {
            // Without its version, and not to be watched.
            let mut body = frame.body[..frame.body.len() - 4].to_vec();
            body[4..8].copy_from_slice(&EXISTS.to_be_bytes());
            body.push(0);
            Fate::Instead(body)
        }
        _ => Fate::Pass,
    })
}

#[test]
fn a_deletion_that_the_server_gave_up_on_is_repeated() {
    for times in 1..=3 {
        let relay = giving_up_deletions(times);
        let client = client_of(&relay.connect_string(), Duration::from_secs(4));
        let path = fresh_path("gave-up");
        let lock = lock_of(&client, &path);
        lock.lock().unwrap();
        let unlocked = lock.unlock();
        assert!(unlocked.is_ok(), "{times}: {unlocked:?}");
        let took = wait_until("nothing is left", SOON, || children(&path).is_empty());
        println!("{times}: gone after {took:?}, {:?}", client.stats());
        assert_eq!(relay.changed(), 2 * times as u64);
        await_nothing_left(&client);
    }
}
