//! Together with Apache Curator (Java): `InterProcessMutex`, and its requests to holders to
//! release.

use zoolock_interop::{Implementation, Peer, SOON, Stage, client, mutex};

fn curator(scenario: fn(&Implementation)) {
    Implementation::curator().iter().for_each(scenario);
}

#[test]
fn curator_mutex_excludes_ours_and_is_excluded() {
    curator(mutex::excludes);
}

#[test]
fn curator_mutex_is_handed_over_in_both_directions() {
    curator(mutex::hands_over);
}

#[test]
fn curator_mutex_keeps_the_place_of_a_waiter_of_ours_that_is_cut() {
    curator(mutex::a_waiter_of_ours_is_cut);
}

#[test]
fn curator_mutex_goes_on_waiting_while_a_hold_of_ours_is_cut() {
    curator(mutex::a_hold_of_ours_is_cut);
}

#[test]
fn curator_revoker_asks_a_hold_of_ours() {
    curator(|curator| {
        let stage = Stage::new("asks-ours");
        let [mut peer]: [Peer; 1] = curator.start();
        let client = client();
        let guard = stage.lock(&client).acquire().unwrap();
        let asked = guard.revocation().unwrap();
        stage.await_watched(&guard.node());
        assert!(asked.is_empty());
        peer.ask(&format!("revoke {}/{}", stage.path, guard.node()));
        asked.recv_timeout(SOON).expect("our hold was not asked");
        assert!(guard.is_held(), "it is up to the holder");
        guard.release().unwrap();
    });
}

#[test]
fn our_revoke_asks_a_curator_mutex() {
    curator(|curator| {
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
    });
}
