//! Well-formed answers that a real server does not send: inconclusive errors, and the path of another node.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zoolock::{Client, EphemeralLock, Error};

use super::SHORT;
use common::line::has_one_node_until_unlocked;
use common::relay::{
    CREATE, DELETE, EXISTS, Fate, Frame, GET_CHILDREN, MULTI, SET_DATA, SET_WATCHES, SYNC, relay,
};
use common::*;

/// Errors of a busy server.
const THROTTLED: i32 = -127;
const REQUEST_TIMEOUT: i32 = -122;
const TIMED_OUT: i32 = -7;
/// An error code that this version of the client does not know.
const UNKNOWN: i32 = -12345;
/// SystemError and MarshallingError. The request may have been executed nevertheless.
const FAILED: [i32; 2] = [-1, -5];
/// Success. As the answer to a deletion that was replaced by a read, it is malformed: it has a `Stat`.
const DONE: i32 = 0;

/// The length of a frame's header: xid, zxid and error.
const HEADER: usize = 16;

fn error(frame: &Frame<'_>, code: i32) -> Fate {
    Fate::Instead([&frame.body[..HEADER - 4], &code.to_be_bytes()].concat())
}

/// Replaces a deletion by a check whether the node exists, without a version and without setting a watch.
fn look_instead(deletion: &Frame<'_>) -> Fate {
    let mut body = deletion.body[..deletion.body.len() - 4].to_vec();
    body[4..8].copy_from_slice(&EXISTS.to_be_bytes());
    body.push(0);
    Fate::Instead(body)
}

fn another_path(frame: &Frame<'_>) -> Fate {
    // The `Stat` at the end is kept.
    let (header, stat) = (&frame.body[..HEADER], &frame.body[frame.body.len() - 68..]);
    Fate::Instead([header, b"\0\0\0\x0e/somebody/else", stat].concat())
}

/// Returns the path of an existing directory, so that creates and deletions are not sent in transactions.
fn directory(name: &str) -> String {
    let path = fresh_path(name);
    shared_probe().unwrap().create_all(&path).unwrap();
    path
}

/// A relay that changes some frames once it is armed.
struct Garbler {
    hosts: String,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    is_armed: bool,
    /// The requests received since it was armed.
    asked: Vec<i32>,
    /// How many requests for the chosen operations were received, and how many of them were answered.
    turns: [usize; 2],
    /// The number of changed frames.
    changed: u64,
}

impl Garbler {
    /// `fate` decides, for each of these operations, what happens to its request and to its answer.
    fn new(ops: Vec<i32>, fate: impl Fn(&Frame<'_>) -> Fate + Send + Sync + 'static) -> Garbler {
        let seen = Arc::<Mutex<Seen>>::default();
        let on = Arc::clone(&seen);
        let hosts = relay(move |frame| {
            let seen = &mut *on.lock().unwrap();
            let Some(op) = frame.op.filter(|_| seen.is_armed) else { return Fate::Pass };
            seen.asked.extend((!frame.is_answer).then_some(op));
            let turn = &mut seen.turns[usize::from(frame.is_answer)];
            if ops.get(*turn) != Some(&op) {
                return Fate::Pass;
            }
            *turn += 1;
            let fate = fate(frame);
            // If the connection is cut, no answer will be received.
            seen.turns[1] += usize::from(matches!(fate, Fate::Cut));
            seen.changed += u64::from(!matches!(fate, Fate::Pass));
            fate
        });
        Garbler { hosts, seen }
    }

    /// Lets the server answer these operations with this error. Deletions are replaced, so they have no effect.
    fn refusing(ops: Vec<i32>, code: i32) -> Garbler {
        Garbler::new(ops, move |frame| match frame.op {
            _ if frame.is_answer && code == DONE => Fate::Instead(frame.body.to_vec()),
            _ if frame.is_answer => error(frame, code),
            Some(DELETE) => look_instead(frame),
            _ => Fate::Pass,
        })
    }

    fn client(&self, session: Duration) -> Client {
        client_of(&self.hosts, session)
    }

    fn arm(&self) {
        self.seen.lock().unwrap().is_armed = true;
    }

    fn changed(&self) -> u64 {
        self.seen.lock().unwrap().changed
    }

    fn asked(&self) -> Vec<i32> {
        self.seen.lock().unwrap().asked.clone()
    }
}

/// Some errors do not prove that no node was created: a server's own timeout, or an unknown code.
#[test]
fn create_with_an_inconclusive_error_leaves_no_node() {
    for code in [UNKNOWN, TIMED_OUT] {
        let garbler = Garbler::refusing(vec![CREATE], code);
        let (client, path) = (garbler.client(SESSION), directory("unproven"));
        let lock = lock_of(&client, &path);
        lock.acquire().unwrap().release().unwrap();
        garbler.arm();
        let seen = lock.lock_within(SOON);
        println!("{code}: {seen:?}; then {:?}, {:?}", children(&path), client.stats());
        assert_eq!(garbler.changed(), 1);
        if matches!(seen, Ok(true)) {
            lock.unlock().unwrap();
        }
        wait_until("no node is left", SOON, || children(&path).is_empty());
        assert!(lock.lock_within(SOON).unwrap());
        has_one_node_until_unlocked(&lock);
    }
}

#[test]
fn client_rejects_a_create_answered_with_another_path() {
    let garbler = Garbler::new(vec![CREATE], |frame| match frame.is_answer {
        true => another_path(frame),
        false => Fate::Pass,
    });
    let (fooled, others, path) = (garbler.client(SESSION), client(), fresh_path("another-path"));
    let held = lock_of(&others, &path);
    held.lock().unwrap();
    let lock = lock_of(&fooled, &path);
    garbler.arm();
    let waiting = locking(&lock);
    wait_until("the answer was changed", SOON, || garbler.changed() == 1);
    assert!(held.is_held());
    held.unlock().unwrap();
    waiting.result("lock()").unwrap();
    has_one_node_until_unlocked(&lock);
}

/// A busy server refuses each request of a waiting call once: to create its node, to list, to set watches. The
/// call keeps its position in the queue.
#[test]
fn waiting_call_gives_a_busy_server_time() {
    for busy in [THROTTLED, REQUEST_TIMEOUT, TIMED_OUT] {
        for ops in [
            vec![CREATE],
            vec![GET_CHILDREN],
            vec![SET_WATCHES],
            vec![CREATE, GET_CHILDREN, SET_WATCHES],
        ] {
            let (path, others, count) = (directory("busy-server"), client(), ops.len() as u64);
            let held = lock_of(&others, &path);
            held.lock().unwrap();
            let garbler = Garbler::refusing(ops.clone(), busy);
            garbler.arm();
            let own = garbler.client(SESSION);
            let lock = lock_of(&own, &path);
            let waiting = locking(&lock);
            wait_until("all are refused", SOON, || garbler.changed() == count);
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
    let times = [1, 2, 3].map(|times| vec![DELETE; times]);
    // A busy server also refuses the reads of an `EphemeralLock`'s node that follow in the background.
    let and_then = [DELETE, EXISTS].map(|second| vec![DELETE, second]);
    for (name, below, all, codes) in [
        ("exclusive", "", &times[..], &[TIMED_OUT, FAILED[0], FAILED[1], DONE][..]),
        ("single node", "/node", &and_then, &[THROTTLED, REQUEST_TIMEOUT]),
    ] {
        for (ops, code) in all.iter().flat_map(|ops| codes.iter().map(move |code| (ops, *code))) {
            let garbler = Garbler::refusing(ops.clone(), code);
            garbler.arm();
            let (client, path) = (garbler.client(SHORT), directory("gave-up") + below);
            let subject = Subject::named(name);
            let lock = subject.at(&client, &path);
            lock.lock().unwrap();
            let unlocked = lock.unlock();
            assert!(unlocked.is_ok(), "{name}, {ops:?}: {unlocked:?}");
            subject.await_nodes(&path, 0);
            await_nothing_left(&client);
            println!("{name}: {ops:?} answered by {code}, {:?}", client.stats());
            // For a deletion, both the request and the answer are changed.
            let changed = ops.iter().map(|op| if *op == DELETE { 2 } else { 1 }).sum::<u64>();
            assert_eq!(garbler.changed(), changed);
            assert!(lock.lock_within(SOON.into()).unwrap());
            lock.unlock().unwrap();
        }
    }
}

/// If the server refused the write, the read sent after it may return data from before the deletion.
#[test]
fn single_node_is_not_deleted_by_a_look_behind_a_refused_write() {
    let garbler = Garbler::refusing(vec![DELETE, SET_DATA], THROTTLED);
    let (client, path) = (garbler.client(SESSION), fresh_path("look-behind-a-write"));
    let lock = EphemeralLock::new(&client, &path).unwrap();
    lock.lock().unwrap();
    garbler.arm();
    lock.unlock().unwrap();
    wait_until("it is gone", SOON, || !exists(&path));
    let asked = garbler.asked();
    let second = |op| asked.iter().enumerate().filter(|(_, one)| **one == op).nth(1);
    let (written, deleted) =
        (second(SET_DATA).expect("a write"), second(DELETE).expect("a deletion"));
    assert!(written.0 < deleted.0, "{asked:?}");
    await_nothing_left(&client);
}

/// If the server refused the `sync`, the list sent after it may not show a node that was created.
#[test]
fn last_look_for_an_orphan_counts_only_behind_a_sync() {
    // The node of an `EphemeralLock` is created in a transaction.
    for (name, below, create) in [("exclusive", "", CREATE), ("single node", "/node", MULTI)] {
        let garbler = Garbler::new(vec![create, SYNC], move |frame| match frame.op {
            Some(op) if op == create => Fate::Cut,
            _ if frame.is_answer => error(frame, THROTTLED),
            _ => Fate::Pass,
        });
        let (client, path) = (garbler.client(SHORT), directory("look-behind-a-sync") + below);
        let subject = Subject::named(name);
        let lock = subject.at(&client, &path);
        lock.lock().unwrap();
        lock.unlock().unwrap();
        garbler.arm();
        let tried = lock.try_lock();
        assert!(matches!(tried, Err(Error::Disconnected { .. })), "{name}: {tried:?}");
        await_nothing_left(&client);
        let asked = garbler.asked();
        assert!(asked.iter().filter(|op| **op == SYNC).count() > 1, "{name}: {asked:?}");
        assert!(lock.lock_within(SOON.into()).unwrap());
        assert!(subject.await_nodes(&path, 1)[0].ends_with(&lock.hold().node()), "{name}");
        lock.unlock().unwrap();
        subject.await_nodes(&path, 0);
    }
}
