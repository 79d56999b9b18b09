//! Locks that use the same directory but do not exclude each other. The documentation warns of these combinations, and
//! does not promise how they behave. These tests also prove that the monitor detects two holders at once.

use common::Subject;
use zoolock::DistributedRwLock;
use zoolock_interop::{Implementation, Kind, Peer, Stage, client};

/// Lets a peer acquire its lock although another holder is inside, and asserts that the monitor detects this.
#[track_caller]
fn comes_in_beside(stage: &Stage, kind: Kind, who: &str, peer: &mut Peer, taking: &str) {
    let inside = stage.monitor.enter(kind, who, 1);
    peer.ask(&stage.run(1, taking));
    drop(inside);
    let overlaps = stage.monitor.overlaps(0);
    println!("{} came in beside {who}: {overlaps:?}", peer.name());
    assert!(overlaps.iter().any(|visit| visit.who == peer.name()));
}

/// The peer's lock, acquired by the command `taking`, does not wait for our lock, but ours waits for the peer's.
pub(crate) fn does_not_see_ours(theirs: &Implementation, taking: &str, ours: &str, kind: Kind) {
    let stage = Stage::new("not-seen");
    let [mut peer]: [Peer; 1] = theirs.start();
    let ours = Subject::named(ours).at(&client(), &stage.path);
    ours.lock().unwrap();
    comes_in_beside(&stage, kind, "ours", &mut peer, taking);
    ours.unlock().unwrap();
    peer.ask(&format!("{taking} {}", stage.path));
    assert!(!ours.try_lock().unwrap());
}

pub(crate) fn beside_kazoo(curator: &Implementation) {
    let Some(kazoo) = Implementation::kazoo() else { return };
    let stage = Stage::new("curator-and-kazoo");
    let ([mut holder], [mut peer]): ([Peer; 1], [Peer; 1]) = (kazoo.start(), curator.start());
    holder.ask(&format!("lock {}", stage.path));
    assert!(!stage.lock(&client()).try_lock().unwrap());
    comes_in_beside(&stage, Kind::Lock, holder.name(), &mut peer, "lock");
}

/// A limitation of that version of go-zookeeper: its lock fails if it cannot parse the name of a node in the directory.
/// It leaves its own node behind, which blocks all contenders until its session ends.
pub(crate) fn fails_beside_a_read_write_lock(go_zookeeper: &Implementation) {
    let stage = Stage::new("mixed");
    let [mut peer]: [Peer; 1] = go_zookeeper.start();
    let client = client();
    let writing = DistributedRwLock::new(&client, &stage.path).unwrap().writer();
    let guard = writing.acquire().unwrap();
    peer.tell(&format!("lock {}", stage.path));
    let failed = peer.result().expect_err("it cannot read the node");
    println!("{failed}; left {:?}", stage.nodes());
    stage.await_nodes(2);
    guard.release().unwrap();
    assert!(!writing.try_lock().unwrap(), "its node counts");
}
