//! Well-formed answers that no server gives: errors that prove nothing, and the path of another node.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolock::{EphemeralLock, Error};
use zoolock_test_support::{fresh_path, shared_probe, wait_until};

use common::line::has_one_node_until_unlocked;
use common::relay::{
    CREATE, DELETE, EXISTS, Fate, Frame, GET_CHILDREN, Relay, SET_DATA, SET_WATCHES, SYNC,
};
use common::{
    SESSION, SOON, await_nothing_left, children, client, client_of, exists, lock_of, locking,
    shared_address,
};

const THROTTLED: i32 = -127;

/// xid, zxid, error.
const HEADER: usize = 16;

/// The code of OperationTimeout.
const TIMED_OUT: i32 = -7;
/// Those of SystemError and MarshallingError, after which a request may have been carried out.
const FAILED: [i32; 2] = [-1, -5];

fn error(frame: &Frame<'_>, code: i32) -> Fate {
    Fate::Instead([&frame.body[..HEADER - 4], &code.to_be_bytes()].concat())
}

/// Sends a look in the place of a deletion: without its version, and without a watch.
fn look_instead(deletion: &Frame<'_>) -> Fate {
    let mut body = deletion.body[..deletion.body.len() - 4].to_vec();
    body[4..8].copy_from_slice(&EXISTS.to_be_bytes());
    body.push(0);
    Fate::Instead(body)
}

fn unknown_error(frame: &Frame<'_>) -> Fate {
    error(frame, -12345)
}

fn timed_out(frame: &Frame<'_>) -> Fate {
    error(frame, TIMED_OUT)
}

fn another_path(frame: &Frame<'_>) -> Fate {
    // The stat at the end stays.
    let (header, stat) = (&frame.body[..HEADER], &frame.body[frame.body.len() - 68..]);
    Fate::Instead([header, b"\0\0\0\x0e/somebody/else", stat].concat())
}

/// Returns the path of a directory that exists, so that creates and deletions are no part of a transaction.
fn directory(name: &str) -> String {
    let path = fresh_path(name);
    shared_probe().unwrap().create_all(&path).unwrap();
    path
}

/// Once armed, lets `fate` decide what becomes of these operations, one after another, each with its answer.
fn changing(
    ops: Vec<i32>,
    fate: impl Fn(&Frame<'_>) -> Fate + Send + Sync + 'static,
) -> (Relay, Arc<AtomicBool>) {
    let armed = Arc::new(AtomicBool::new(false));
    let (arm, [asked, answered]) = (Arc::clone(&armed), [0, 0].map(AtomicUsize::new));
    let relay = Relay::start(shared_address(), move |frame| {
        let turn = if frame.is_answer { &answered } else { &asked };
        let at = turn.load(Ordering::SeqCst);
        if !arm.load(Ordering::SeqCst) || frame.op.is_none() || frame.op != ops.get(at).copied() {
            return Fate::Pass;
        }
        turn.fetch_add(1, Ordering::SeqCst);
        fate(frame)
    });
    (relay, armed)
}

/// Changes the answers to these operations, once each and in this order.
fn damaging(ops: Vec<i32>, damage: fn(&Frame<'_>) -> Fate) -> (Relay, Arc<AtomicBool>) {
    changing(ops, move |frame| if frame.is_answer { damage(frame) } else { Fate::Pass })
}

/// Some errors do not prove whether the node exists: a server's own timeout, or a code newer than the client.
#[test]
fn create_with_an_inconclusive_error_leaves_no_node() {
    for (what, damage) in
        [("unknown", unknown_error as fn(&Frame<'_>) -> Fate), ("timeout", timed_out)]
    {
        let (relay, armed) = damaging(vec![CREATE], damage);
        let client = client_of(&relay.connect_string(), SESSION);
        let path = directory("unproven");
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

#[test]
fn client_rejects_a_create_answered_with_another_path() {
    let (relay, armed) = damaging(vec![CREATE], another_path);
    let fooled = client_of(&relay.connect_string(), SESSION);
    let path = fresh_path("another-path");
    let others = client();
    let held = lock_of(&others, &path);
    held.lock().unwrap();
    let lock = lock_of(&fooled, &path);
    armed.store(true, Ordering::SeqCst);
    let waiting = locking(&lock);
    wait_until("the answer was changed", SOON, || relay.changed() == 1);
    assert!(held.is_held());
    held.unlock().unwrap();
    waiting.result("lock()").unwrap();
    has_one_node_until_unlocked(&lock);
}

/// Answers these operations once each, in this order, with this error. Deletions are not carried out.
fn refusing(ops: Vec<i32>, code: i32) -> Relay {
    let (relay, armed) = changing(ops, move |frame| match frame.op {
        _ if frame.is_answer => error(frame, code),
        Some(DELETE) => look_instead(frame),
        _ => Fate::Pass,
    });
    armed.store(true, Ordering::SeqCst);
    relay
}

/// A busy server refuses each request of a waiting call once: to create its node, to list, to watch, to renew the
/// lease. The call keeps its place.
#[test]
fn waiting_call_gives_a_busy_server_time() {
    for busy in [-127, -122, -7] {
        for ops in [
            vec![CREATE],
            vec![GET_CHILDREN],
            vec![SET_WATCHES],
            vec![CREATE, GET_CHILDREN, SET_WATCHES],
        ] {
            let (path, count) = (directory("busy-server"), ops.len() as u64);
            let (others, relay) = (client(), refusing(ops.clone(), busy));
            let held = lock_of(&others, &path);
            held.lock().unwrap();
            let own = client_of(&relay.connect_string(), SESSION);
            let lock = lock_of(&own, &path);
            let waiting = locking(&lock);
            wait_until("all are refused", SOON, || relay.changed() == count);
            wait_until("it is in the queue, once", SOON, || {
                own.stats().deleting == 0 && children(&path).len() == 2
            });
            held.unlock().unwrap();
            let got = waiting.result("lock()");
            println!("{busy}, {ops:?}: {got:?}, {:?}", own.stats());
            got.unwrap();
            has_one_node_until_unlocked(&lock);
        }
    }
}

#[test]
fn deletion_abandoned_by_the_server_is_repeated() {
    for (times, code) in [1, 2, 3]
        .into_iter()
        .flat_map(|times| [TIMED_OUT, FAILED[0], FAILED[1]].map(|code| (times, code)))
    {
        let relay = refusing(vec![DELETE; times], code);
        let client = client_of(&relay.connect_string(), Duration::from_secs(4));
        let path = directory("gave-up");
        let lock = lock_of(&client, &path);
        lock.lock().unwrap();
        let unlocked = lock.unlock();
        assert!(unlocked.is_ok(), "{times}: {unlocked:?}");
        let took = wait_until("nothing is left", SOON, || children(&path).is_empty());
        println!("{times} times {code}: gone after {took:?}, {:?}", client.stats());
        assert_eq!(relay.changed(), 2 * times as u64);
        await_nothing_left(&client);
    }
}

/// A busy server refuses the deletion of an unlock, and then the look or the deletion in the background.
#[test]
fn single_node_that_a_busy_server_does_not_delete_is_deleted_later() {
    for busy in [-127, -122] {
        for second in [DELETE, EXISTS] {
            let relay = refusing(vec![DELETE, second], busy);
            let client = client_of(&relay.connect_string(), Duration::from_secs(4));
            let path = fresh_path("busy-single");
            let lock = EphemeralLock::new(&client, &path).unwrap();
            lock.lock().unwrap();
            let unlocked = lock.unlock();
            println!("{busy}, {second}: {unlocked:?}");
            assert!(unlocked.is_ok());
            wait_until("it is gone", SOON, || !exists(&path));
            await_nothing_left(&client);
            assert!(lock.try_lock_for(SOON).unwrap());
            lock.unlock().unwrap();
        }
    }
}

/// Lets `fate` decide what becomes of the first of each of these operations, once armed. Also returns what was asked
/// since.
fn noting(ops: [i32; 2], fate: fn(&Frame<'_>) -> Option<Fate>) -> (Relay, Asked) {
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    let relay = Relay::start(shared_address(), move |frame| {
        let (Some(op), Some(noted)) = (frame.op, &mut *noted.lock().unwrap()) else {
            return Fate::Pass;
        };
        if !frame.is_answer {
            noted.push(op);
        }
        let is_first = noted.iter().filter(|one| **one == op).count() == 1;
        (is_first && ops.contains(&op)).then(|| fate(frame)).flatten().unwrap_or(Fate::Pass)
    });
    (relay, asked)
}

/// The requests since the relay was armed.
type Asked = Arc<Mutex<Option<Vec<i32>>>>;

/// The look behind a write that the server has refused may be older than the deletion before it.
#[test]
fn single_node_is_not_deleted_by_a_look_behind_a_refused_write() {
    let (relay, asked) = noting([DELETE, SET_DATA], |frame| match frame.is_answer {
        true => Some(error(frame, THROTTLED)),
        false => (frame.op == Some(DELETE)).then(|| look_instead(frame)),
    });
    let client = client_of(&relay.connect_string(), SESSION);
    let path = fresh_path("look-behind-a-write");
    let lock = EphemeralLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    *asked.lock().unwrap() = Some(Vec::new());
    lock.unlock().unwrap();
    wait_until("it is gone", SOON, || !exists(&path));
    let asked = asked.lock().unwrap().take().unwrap();
    println!("{asked:?}");
    let second = |op| asked.iter().enumerate().filter(|(_, one)| **one == op).nth(1);
    let (written, deleted) =
        (second(SET_DATA).expect("a write"), second(DELETE).expect("a deletion"));
    assert!(written.0 < deleted.0, "{asked:?}");
    await_nothing_left(&client);
}

/// A list behind a `sync` that the server has refused may be older than the create.
#[test]
fn last_look_for_an_orphan_counts_only_behind_a_sync() {
    let (relay, asked) = noting([CREATE, SYNC], |frame| match frame.op {
        Some(CREATE) => Some(Fate::Cut),
        _ => frame.is_answer.then(|| error(frame, THROTTLED)),
    });
    let client = client_of(&relay.connect_string(), Duration::from_secs(4));
    let path = directory("look-behind-a-sync");
    let lock = lock_of(&client, &path);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    *asked.lock().unwrap() = Some(Vec::new());
    let tried = lock.try_lock();
    println!("{tried:?}");
    assert!(matches!(tried, Err(Error::Disconnected { .. })), "{tried:?}");
    await_nothing_left(&client);
    let asked = asked.lock().unwrap().take().unwrap();
    println!("{asked:?}");
    assert!(asked.iter().filter(|op| **op == SYNC).count() > 1, "{asked:?}");
    assert!(lock.try_lock_for(SOON).unwrap());
    has_one_node_until_unlocked(&lock);
}
