//! A follower that is cut off from its leader still answers its clients, although the leader expires their sessions.

use std::time::{Duration, Instant};

use zoolock::Error;

use super::{Ways, await_nodes, client_at, nodes, three};
use common::line::Line;
use common::*;

/// Shorter than the 10 s after which a follower detects that it is cut off.
const LONGER: Duration = Duration::from_secs(6);

#[test]
fn holder_leaves_a_cut_off_follower_before_its_session_ends() {
    let (_running, ensemble, leader, follower) = three();
    let ways = Ways::to(&ensemble);
    let leaving = ways.client_on(follower, LONGER);
    let at_leader = [(); 3].map(|()| client_at(&ensemble, leader, SESSION));
    let lock = lock_of(&leaving, "/cut-off");
    lock.lock().unwrap();
    let hold = lock.hold().unwrap();
    await_nodes(&at_leader[0], "/cut-off", 1);
    let mut line = Line::at("/cut-off");
    for client in &at_leader {
        line.join_seen_by(client, || nodes(&at_leader[0], "/cut-off").len());
    }
    let seen = || (hold.node(), hold.fencing_token(), nodes(&at_leader[0], "/cut-off"));
    let (before, begun) = (seen(), Instant::now());
    ensemble.cut_off(follower);
    wait_until("its session is resumed elsewhere", SOON, || {
        assert!(hold.is_held(), "{hold:?}");
        leaving.stats().resumed == 1
    });
    println!("resumed after {:?}; {hold:?}", begun.elapsed());
    // Wait until the session would have ended if the client had not resumed it at the other member.
    wait_until("the session would have ended", SOON, || begun.elapsed() > LONGER + LONGER / 3);
    assert!(hold.is_held() && line.let_in() == 0, "{hold:?}");
    assert_eq!(seen(), before);
    lock.unlock().unwrap();
    line.comes_in_order();
    assert_eq!(leaving.stats().holds_lost, 0);
}

#[test]
fn lagging_follower_never_verifies_a_token() {
    let (_running, ensemble, leader, follower) = three();
    let at_leader = client_at(&ensemble, leader, SESSION);
    // The client continues to query the follower as long as the follower answers.
    let asking = client_at(&ensemble, follower, SESSION);
    let lock = lock_of(&at_leader, "/verified");
    let held = lock.acquire().unwrap();
    let old = held.fencing_token();
    assert!(asking.verify_token("/verified", old).unwrap());
    ensemble.cut_off(follower);
    held.release().unwrap();
    let held = lock.acquire().unwrap();
    let new = held.fencing_token();

    let seen = asking.contenders("/verified").unwrap();
    println!("the follower lists {seen:?}");
    assert!(seen[0].holds && seen[0].token == old, "it shows the old holder");
    let answer = asking.verify_token("/verified", old);
    assert!(matches!(answer, Err(Error::Disconnected { .. })), "{answer:?}");
    ensemble.heal();
    let mut answer = asking.verify_token("/verified", new);
    wait_until("there is an answer again", SOON * 2, || {
        answer = asking.verify_token("/verified", new);
        answer.is_ok()
    });
    assert!(answer.unwrap(), "the token of the holder");
    assert!(!asking.verify_token("/verified", old).unwrap());
    held.release().unwrap();
}
