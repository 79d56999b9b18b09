//! The tests for every mutex of another implementation.

use zoolock_test_support::wait_until;

use crate::{Implementation, Kind, Peer, SOON, Stage, Task, client};

const TURNS: usize = 25;

/// Two of theirs and two of ours take turns, and no two are inside together.
///
/// # Panics
/// When it is not so.
pub fn excludes(theirs: &Implementation) {
    let stage = Stage::new("excludes");
    let mut theirs: [Peer; 2] = theirs.start();
    let clients = [client(), client(), client()];
    // All begin together.
    let held = stage.lock(&clients[0]);
    held.lock().expect("locked");
    for peer in &mut theirs {
        peer.tell(&stage.run(TURNS, "lock"));
    }
    let plain = stage.turns(TURNS, stage.lock(&clients[1]), Kind::Lock, "ours-1");
    let reentrant = stage.reentrant(&clients[2]);
    let reentrant = stage.turns(TURNS, reentrant, Kind::Lock, "ours-2");
    stage.await_nodes(5);
    held.unlock().expect("unlocked");
    theirs.iter_mut().for_each(Peer::answer);
    plain.result("the plain lock");
    reentrant.result("the reentrant lock");

    stage.witness.assert_sound(0);
    let order = stage.witness.order();
    for who in [theirs[0].name(), theirs[1].name(), "ours-1", "ours-2"] {
        assert_eq!(order.iter().filter(|name| *name == who).count(), TURNS);
    }
    let changes = order.windows(2).filter(|pair| is_ours(&pair[0]) != is_ours(&pair[1]));
    let changes = changes.count();
    println!("{} turns, {changes} times to the other side", order.len());
    assert!(changes >= TURNS / 2, "no contention: {order:?}");
    wait_until("nothing is left", SOON, || stage.nodes().is_empty());
}

fn is_ours(name: &str) -> bool {
    name.starts_with("ours")
}

/// When one side releases the lock, the other side gets it, in both directions.
///
/// # Panics
/// When it is not so.
pub fn hands_over(theirs: &Implementation) {
    let stage = Stage::new("hands-over");
    let [mut peer] = theirs.start();
    let (client, lock) = (client(), format!("lock {}", stage.path));
    let ours = stage.lock(&client);

    peer.ask(&lock);
    assert!(!ours.try_lock().expect("an answer"), "theirs is not seen");
    let waiting = Task::spawn({
        let ours = ours.clone();
        move || ours.lock()
    });
    stage.await_nodes(2);
    stage.await_watched(&stage.nodes()[0]);
    assert!(!waiting.is_done(), "ours was let in");
    peer.ask("unlock");
    waiting.result("ours").expect("locked");

    wait_until("theirs is gone", SOON, || stage.nodes().len() == 1);
    stage.has_to_wait(&mut peer, "lock");
    ours.unlock().expect("unlocked");
    peer.answer();
    assert!(!ours.try_lock().expect("an answer"), "theirs is not seen");
    peer.ask("unlock");
    wait_until("nothing is left", SOON, || stage.nodes().is_empty());
}

/// Ours waits between two of theirs when its connection breaks, and still gets the lock in its
/// turn.
///
/// # Panics
/// When it is not so.
pub fn a_waiter_of_ours_is_cut(theirs: &Implementation) {
    let stage = Stage::new("waiter-cut");
    let mut theirs: [Peer; 2] = theirs.start();
    let holder = client();
    let (proxy, shaky) = stage.client_to_cut();
    let held = stage.lock(&holder);
    held.lock().expect("locked");
    theirs[0].tell(&stage.run(1, "lock"));
    stage.await_nodes(2);
    let ours = stage.turns(1, stage.lock(&shaky), Kind::Lock, "ours");
    stage.await_nodes(3);
    theirs[1].tell(&stage.run(1, "lock"));
    stage.await_nodes(4);
    stage.await_watched(&stage.nodes()[2]);

    stage.cut_and_await_resume(&proxy, &shaky);
    assert_eq!(stage.witness.order(), [""; 0]);
    held.unlock().expect("unlocked");
    theirs.iter_mut().for_each(Peer::answer);
    ours.result("ours");
    stage.witness.assert_sound(0);
    let expected = [theirs[0].name(), "ours", theirs[1].name()];
    println!("{expected:?}");
    assert_eq!(stage.witness.order(), expected);
    assert_eq!(shaky.stats().holds_lost, 0);
}

/// Ours holds the lock when its connection breaks, and theirs continues to wait.
///
/// # Panics
/// When it is not so.
pub fn a_hold_of_ours_is_cut(theirs: &Implementation) {
    let stage = Stage::new("hold-cut");
    let [mut peer] = theirs.start();
    let (proxy, shaky) = stage.client_to_cut();
    let lock = stage.lock(&shaky);
    let guard = lock.acquire().expect("locked");
    let inside = stage.witness.enter(Kind::Lock, "ours", 1);
    peer.tell(&stage.run(1, "lock"));
    stage.await_nodes(2);
    stage.await_watched(&guard.node());

    stage.cut_and_await_resume(&proxy, &shaky);
    assert!(guard.is_held() && !peer.has_answered(), "{guard:?}");
    drop(inside);
    guard.release().expect("released");
    peer.answer();
    stage.witness.assert_sound(0);
    assert_eq!(stage.witness.order(), ["ours", peer.name()]);
    wait_until("nothing is left", SOON, || stage.nodes().is_empty());
}
