//! The tests that run with every lock of another implementation that excludes one of ours.

use common::{Object, Subject};
use zoolock::{Client, DistributedRwLock};
use zoolock_test_support::wait_until;

use crate::{Implementation, Kind, Peer, SOON, Stage, client};

const TURNS: usize = 20;

/// A lock of the other implementation, and a lock of ours; at the same path, they exclude each other.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    /// The command that acquires the other lock: the text before the path, and the text after it.
    theirs: (&'static str, &'static str),
    /// The name of our lock in the table of subjects.
    ours: &'static str,
    /// The kind of a hold of our lock.
    kind: Kind,
    /// The directories, below the path, of the nodes of waiters and of holders.
    waiting: &'static str,
    holding: &'static str,
}

/// Their mutex with each of our two mutexes.
pub const MUTEX: [Pair; 2] =
    [pair("lock", "exclusive", Kind::Lock), pair("lock", "reentrant", Kind::Lock)];

/// The pairs of sides of a read-write lock that exclude each other.
pub const READ_WRITE: [Pair; 3] = [
    pair("read", "write", Kind::Write),
    pair("write", "read", Kind::Read),
    pair("write", "write", Kind::Write),
];

/// A semaphore that has one permit.
pub const PERMIT: [Pair; 1] = [semaphore(("acquire", " 1 1"), Kind::Permit)];

/// A mutex that is built on a semaphore.
pub const SEMAPHORE_MUTEX: [Pair; 2] = [semaphore(("mutex", ""), Kind::Lock); 2];

const fn pair(theirs: &'static str, ours: &'static str, kind: Kind) -> Pair {
    Pair { theirs: (theirs, ""), ours, kind, waiting: "", holding: "" }
}

const fn semaphore(theirs: (&'static str, &'static str), kind: Kind) -> Pair {
    Pair { theirs, ours: "permit", kind, waiting: "locks", holding: "leases" }
}

impl Pair {
    fn take(&self, stage: &Stage) -> String {
        format!("{} {}{}", self.theirs.0, stage.path, self.theirs.1)
    }

    fn run(&self, stage: &Stage, times: usize) -> String {
        stage.run(times, self.theirs.0) + self.theirs.1
    }

    fn ours(&self, stage: &Stage, client: &Client) -> Object {
        Subject::named(self.ours).at(client, &stage.path)
    }

    /// Waits until this many contenders wait, in addition to the holder.
    fn await_waiting(&self, stage: &Stage, count: usize) {
        let is_holder_beside = self.waiting == self.holding;
        stage.below(self.waiting).await_nodes(count + usize::from(is_holder_beside));
    }

    fn await_nothing(&self, stage: &Stage) {
        [self.waiting, self.holding].iter().for_each(|part| stage.below(part).await_nodes(0));
    }
}

/// All scenarios of locks that exclude each other.
pub fn contend(theirs: &Implementation, pairs: &[Pair]) {
    excludes(theirs, pairs);
    hands_over(theirs, pairs);
    outlives_cuts(theirs, pairs);
}

/// While its connection is cut, our lock keeps its position in the queue, or its hold.
pub fn outlives_cuts(theirs: &Implementation, pairs: &[Pair]) {
    a_waiter_of_ours_is_cut(theirs, pairs);
    a_hold_of_ours_is_cut(theirs, pairs);
}

/// Two of their locks and two of ours alternate, and no two of these are held at the same time.
pub fn excludes(theirs: &Implementation, pairs: &[Pair]) {
    let stage = Stage::new("excludes");
    let stage = if pairs[0].holding.is_empty() { stage } else { stage.with_directories() };
    let mut peers: [Peer; 2] = theirs.start();
    let clients = [client(), client(), client()];
    // Holding the lock makes all contenders begin at the same time.
    let held = pairs[0].ours(&stage, &clients[0]);
    held.lock().expect("locked");
    let mut ours = Vec::new();
    for (number, pair) in pairs[..2].iter().enumerate() {
        peers[number].tell(&pair.run(&stage, TURNS));
        let lock = pair.ours(&stage, &clients[number + 1]);
        ours.push(stage.turns(TURNS, lock, pair.kind, &format!("ours-{number}")));
    }
    pairs[0].await_waiting(&stage, 4);
    held.unlock().expect("unlocked");
    peers.iter_mut().for_each(Peer::answer);
    ours.iter().for_each(|ours| ours.result("ours"));

    stage.monitor.assert_sound(1);
    stage.assert_contention(TURNS);
    let order = stage.monitor.order();
    for who in [peers[0].name(), peers[1].name(), "ours-0", "ours-1"] {
        assert_eq!(order.iter().filter(|name| *name == who).count(), TURNS, "{who}");
    }
    pairs[0].await_nothing(&stage);
}

/// When either side releases the lock, the other side acquires it.
fn hands_over(theirs: &Implementation, pairs: &[Pair]) {
    let [mut peer] = theirs.start();
    let client = client();
    for pair in pairs {
        let stage = Stage::new("hands-over");
        let ours = pair.ours(&stage, &client);
        peer.ask(&pair.take(&stage));
        assert!(!ours.try_lock().expect("an answer"), "theirs is not seen");
        stage.await_nodes(1);
        let waiting = stage.turns(1, ours.clone(), pair.kind, "ours");
        stage.await_nodes(2);
        stage.await_watched(&stage.nodes()[0]);
        assert!(!waiting.is_done(), "ours was let in");
        peer.ask("unlock");
        waiting.result("ours");
        stage.await_nodes(0);

        ours.lock().expect("locked");
        stage.has_to_wait(&mut peer, pair.theirs.0);
        ours.unlock().expect("unlocked");
        peer.answer();
        peer.ask("unlock");
        stage.await_nodes(0);
    }
}

/// Our lock waits behind one of theirs and ahead of another when its connection is cut. It keeps its position.
fn a_waiter_of_ours_is_cut(theirs: &Implementation, pairs: &[Pair]) {
    let pair = pairs[0];
    let stage = Stage::new("waiter-cut");
    let mut peers: [Peer; 2] = theirs.start();
    let holder = client();
    let (proxy, shaky) = stage.client_to_cut();
    let held = pair.ours(&stage, &holder);
    held.lock().expect("locked");
    pair.await_waiting(&stage, 0);
    peers[0].tell(&pair.run(&stage, 1));
    pair.await_waiting(&stage, 1);
    let ours = stage.turns(1, pair.ours(&stage, &shaky), pair.kind, "ours");
    pair.await_waiting(&stage, 2);
    peers[1].tell(&pair.run(&stage, 1));
    pair.await_waiting(&stage, 3);

    stage.below(pair.waiting).cut_and_await_resume(&proxy, &shaky);
    assert_eq!(stage.monitor.order(), [""; 0]);
    held.unlock().expect("unlocked");
    peers.iter_mut().for_each(Peer::answer);
    ours.result("ours");
    stage.monitor.assert_sound(1);
    let expected = [peers[0].name(), "ours", peers[1].name()];
    assert_eq!(stage.monitor.order(), expected);
    assert_eq!(shaky.stats().holds_lost, 0);
}

/// Our lock is held when its connection is cut. Theirs continues to wait.
fn a_hold_of_ours_is_cut(theirs: &Implementation, pairs: &[Pair]) {
    let [mut peer] = theirs.start();
    for pair in pairs {
        let stage = Stage::new("hold-cut");
        let (proxy, shaky) = stage.client_to_cut();
        let ours = pair.ours(&stage, &shaky);
        ours.lock().expect("locked");
        let inside = stage.monitor.enter(pair.kind, "ours", 1);
        peer.tell(&pair.run(&stage, 1));
        let holding = stage.below(pair.holding);
        holding.await_nodes(2);

        holding.cut_and_await_resume(&proxy, &shaky);
        assert!(ours.is_held() && !peer.has_answered(), "{ours:?}");
        drop(inside);
        ours.unlock().expect("unlocked");
        peer.answer();
        stage.monitor.assert_sound(1);
        assert_eq!(stage.monitor.order(), ["ours", peer.name()]);
        pair.await_nothing(&stage);
    }
}

/// A reader of ours and a reader of theirs share the lock. Either may be the first.
pub fn readers_share(theirs: &Implementation) {
    let stage = Stage::new("rw-share");
    let [mut peer] = theirs.start();
    let client = client();
    let ours = DistributedRwLock::new(&client, &stage.path).expect("a path").reader();
    let read = format!("read {}", stage.path);

    peer.ask(&read);
    assert!(ours.try_lock().expect("an answer"), "theirs keeps ours out");
    peer.ask("unlock");
    wait_until("theirs is gone", SOON, || stage.nodes().len() == 1);
    peer.ask(&read);
    assert!(ours.is_held());
    stage.await_nodes(2);
    println!("together: {:?}", stage.nodes());
    ours.unlock().expect("unlocked");
    peer.ask("unlock");
}

/// Our write lock is downgraded to a read lock. Their waiting reader then shares the lock with ours, and their writer
/// acquires it after both readers have released it.
pub fn a_write_of_ours_becomes_a_read(theirs: &Implementation) {
    let stage = Stage::new("rw-downgrade");
    let [mut reader, mut writer] = theirs.start();
    let client = client();
    let lock = DistributedRwLock::new(&client, &stage.path).expect("a path");
    let writing = lock.write().expect("locked");
    stage.has_to_wait(&mut reader, "read");
    let reading = lock.read().expect("locked");
    writer.tell(&format!("write {}", stage.path));
    stage.await_nodes(4);
    writing.release().expect("released");
    reader.answer();
    assert!(reading.is_held() && !writer.has_answered());
    reader.ask("unlock");
    stage.await_nodes(2);
    stage.await_watched(&reading.node());
    assert!(!writer.has_answered(), "wrote beside our read");
    reading.release().expect("released");
    writer.answer();
    writer.ask("unlock");
}
