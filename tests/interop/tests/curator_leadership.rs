//! Together with Apache Curator (Java): `LeaderSelector` and `Leadership` at one path.

use std::sync::Arc;

use zoolock::crossbeam_channel::{Receiver, unbounded};
use zoolock::{Client, Leadership, LockOptions};
use zoolock_interop::{Implementation, Kind, Peer, SOON, Stage, client};
use zoolock_test_support::wait_until;

const TURNS: usize = 25;

/// Returns a `Leadership` that visits the witness in each term, and a channel with a message for
/// each term that is over.
fn leads(stage: &Stage, client: &Client, who: &'static str) -> (Leadership, Receiver<()>) {
    let (witness, (tell, terms)) = (Arc::clone(&stage.witness), unbounded());
    let leadership = Leadership::new(client, &*stage.path, LockOptions::new(), move |_| {
        drop(witness.enter(Kind::Lock, who, 1));
        let _ = tell.send(());
    });
    (leadership.unwrap(), terms)
}

#[test]
fn curator_leader_selector_excludes_our_leadership_and_is_excluded() {
    let Some(curator) = Implementation::curator() else {
        return;
    };
    let stage = Stage::new("selector");
    let mut theirs: [Peer; 2] = curator.start();
    let clients = [client(), client(), client()];
    // Both begin together.
    let held = stage.lock(&clients[0]).acquire().unwrap();
    theirs.iter_mut().for_each(|peer| peer.tell(&stage.run(TURNS, "lead")));
    let ours = [leads(&stage, &clients[1], "ours-1"), leads(&stage, &clients[2], "ours-2")];
    stage.await_nodes(5);
    held.release().unwrap();
    theirs.iter_mut().for_each(Peer::answer);
    for (leadership, terms) in ours {
        for _ in 0..TURNS {
            terms.recv_timeout(SOON).expect("a term");
        }
        leadership.shutdown();
    }
    stage.witness.assert_sound(0);
    let order = stage.witness.order();
    let is_ours = |who: &String| who.starts_with("ours");
    let changes = order.windows(2).filter(|pair| is_ours(&pair[0]) != is_ours(&pair[1])).count();
    println!("{} terms, {changes} times to the other side", order.len());
    assert!(changes >= TURNS / 2, "no contention: {order:?}");
    wait_until("nothing is left", SOON, || stage.nodes().is_empty());
}

#[test]
fn curator_leader_selector_hands_over_in_both_directions() {
    let Some(curator) = Implementation::curator() else {
        return;
    };
    let stage = Stage::new("selector-hands-over");
    let [mut peer]: [Peer; 1] = curator.start();
    let client = client();
    peer.ask(&format!("lead {}", stage.path));
    let (tell, terms) = unbounded();
    let ours = Leadership::new(&client, &*stage.path, LockOptions::new(), move |term| {
        tell.send(()).unwrap();
        while !term.wait(SOON) {}
    });
    let ours = ours.unwrap();
    stage.await_nodes(2);
    stage.await_watched(&stage.nodes()[0]);
    assert!(!ours.is_leader() && terms.is_empty(), "ours was let in");
    peer.ask("unlock");
    terms.recv_timeout(SOON).expect("ours leads");
    stage.has_to_wait(&mut peer, "lead");
    ours.shutdown();
    peer.answer();
    assert!(!stage.lock(&client).try_lock().unwrap(), "theirs is not seen");
}
