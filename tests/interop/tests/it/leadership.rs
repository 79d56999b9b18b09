//! `Leadership` and the `LeaderSelector` of Apache Curator (Java) at the same path, and `Leadership::in_latch` and its
//! `LeaderLatch`.

use std::sync::Arc;
use std::time::Duration;

use zoolock::crossbeam_channel::{Receiver, unbounded};
use zoolock::{Client, Error, Leadership, LockOptions, Term};
use zoolock_interop::{Implementation, Kind, Peer, SOON, Stage, client};
use zoolock_test_support::{Direction, connect_string, wait_until};

const TURNS: usize = 25;

/// Returns a `Leadership` whose terms visit the monitor, and a channel that receives a message after each term.
fn leads(
    stage: &Stage,
    client: &Client,
    who: &'static str,
    in_latch: bool,
) -> (Leadership, Receiver<()>) {
    let (monitor, (tell, terms)) = (Arc::clone(&stage.monitor), unbounded());
    let lead = move |_: &Term| {
        drop(monitor.enter(Kind::Lock, who, 1));
        let _ = tell.send(());
    };
    let leadership = match in_latch {
        true => Leadership::start_in_latch(client, &*stage.path, LockOptions::new(), lead),
        false => Leadership::start(client, &*stage.path, lead),
    };
    (leadership.unwrap(), terms)
}

/// Returns a function that leads until its term ends, and a channel that receives a message for each term.
fn leading() -> (impl FnMut(&Term) + Send + 'static, Receiver<()>) {
    let (tell, terms) = unbounded();
    let lead = move |term: &Term| {
        tell.send(()).unwrap();
        while !term.wait_timeout(SOON) {}
    };
    (lead, terms)
}

/// All candidates lead as often as intended, and no two of them at the same time.
pub(crate) fn excludes(curator: &Implementation, in_latch: bool) {
    let stage = Stage::new("leads");
    let mut theirs: [Peer; 2] = curator.start();
    let clients = [client(), client(), client()];
    // The hold makes all of them begin at once. At a latch's path our locks cannot be used, so there is none.
    let held = (!in_latch).then(|| stage.lock(&clients[0]).acquire().unwrap());
    let run = stage.run(TURNS, if in_latch { "latch" } else { "lead" });
    theirs.iter_mut().for_each(|peer| peer.tell(&run));
    let ours = [("ours-1", &clients[1]), ("ours-2", &clients[2])]
        .map(|(who, client)| leads(&stage, client, who, in_latch));
    if let Some(held) = held {
        stage.await_nodes(5);
        held.release().unwrap();
    }
    theirs.iter_mut().for_each(Peer::answer);
    for (leadership, terms) in ours {
        for _ in 0..TURNS {
            terms.recv_timeout(SOON).expect("a term");
        }
        leadership.shutdown();
    }
    stage.monitor.assert_sound(0);
    if !in_latch {
        stage.assert_contention(TURNS);
    }
    stage.await_nodes(0);
}

pub(crate) fn selector_hands_over(curator: &Implementation) {
    let stage = Stage::new("selector-hands-over");
    let [mut peer]: [Peer; 1] = curator.start();
    let client = client();
    peer.ask(&format!("lead {}", stage.path));
    let (lead, terms) = leading();
    let ours = Leadership::start(&client, &*stage.path, lead).unwrap();
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

/// When their leader is killed, ours leads. When ours falls silent, the next of theirs leads.
pub(crate) fn leader_is_killed(curator: &Implementation) {
    let stage = Stage::new("latch-killed");
    let [mut first, mut last]: [Peer; 2] = curator.start();
    let (proxy, cut) = stage.client_to_cut();
    let latch = format!("latch {}", stage.path);
    first.ask(&latch);
    let (lead, terms) = leading();
    let ours = Leadership::start_in_latch(&cut, &*stage.path, LockOptions::new(), lead).unwrap();
    stage.await_nodes(2);
    stage.await_watched(&stage.nodes()[0]);
    assert!(terms.is_empty(), "ours was let in");
    last.tell(&latch);
    stage.await_nodes(3);
    // Dropping it kills the process.
    drop(first);
    terms.recv_timeout(SOON).expect("ours leads");
    assert!(!last.has_answered());
    let shown = client().contenders(&stage.path).unwrap();
    assert!(
        shown[0].holds && shown.iter().all(|one| one.kind == zoolock::LockKind::Latch),
        "{shown:?}"
    );
    proxy.black_hole(Direction::Both);
    last.answer();
    assert!(!ours.is_leader(), "its lease is over");
}

/// A `Leadership` and a latch do not exclude each other at one path, so ours reports an error instead of leading.
pub(crate) fn never_leads_beside_a_latch(curator: &Implementation) {
    // If attempts to lead have failed for a session timeout, the leadership is not healthy.
    let own = Client::connect(connect_string(), Duration::from_secs(4)).unwrap();
    let stage = Stage::new("latch-beside");
    let [mut peer]: [Peer; 1] = curator.start();
    peer.ask(&format!("latch {}", stage.path));
    let error = stage.lock(&own).lock().unwrap_err();
    assert!(
        matches!(&error, Error::InvalidPath { reason, .. } if reason.contains("LeaderLatch")),
        "{error}"
    );
    let (leadership, terms) = leads(&stage, &own, "ours", false);
    wait_until("a term has failed", SOON, || !leadership.is_healthy());
    assert!(terms.is_empty());
    leadership.shutdown();
    peer.ask("unlock");
    // A latch deletes its node in the background.
    stage.await_nodes(0);

    let _held = stage.lock(&own).acquire().unwrap();
    let (leadership, terms) = leads(&stage, &own, "ours", true);
    wait_until("a term has failed", SOON, || !leadership.is_healthy());
    assert!(terms.is_empty());
}
