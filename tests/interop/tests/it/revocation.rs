//! Requests to release a lock, sent by Curator and by us.

use zoolock_interop::{Implementation, Peer, SOON, Stage, client};

pub(crate) fn theirs_asks_ours(curator: &Implementation) {
    let stage = Stage::new("asks-ours");
    let [mut peer]: [Peer; 1] = curator.start();
    let client = client();
    let guard = stage.lock(&client).acquire().unwrap();
    let asked = guard.revocation().unwrap();
    stage.await_watched(&guard.node());
    assert!(asked.is_empty());
    peer.ask(&format!("revoke {}/{}", stage.path, guard.node()));
    asked.recv_timeout(SOON).expect("our hold received no request");
    assert!(guard.is_held(), "it is up to the holder");
    guard.release().unwrap();
}

pub(crate) fn ours_asks_theirs(curator: &Implementation) {
    let stage = Stage::new("asks-theirs");
    let [mut peer]: [Peer; 1] = curator.start();
    let client = client();
    peer.ask(&format!("lock {}", stage.path));
    let contenders = client.contenders(&stage.path).unwrap();
    println!("{contenders:?}");
    assert!(contenders.len() == 1 && contenders[0].holds);
    peer.tell("asked");
    client.revoke(&contenders[0]).unwrap();
    peer.answer();
    peer.ask("unlock");
    assert!(stage.lock(&client).try_lock().unwrap());
}
