//! Behaviour that depends on which server leads, and on which transactions each server has.

use super::*;

#[test]
fn lagging_follower_reads_its_own_state_until_a_sync() {
    let mut world = World::new(3, 1);
    let (leader, follower) = (world.leader(), world.follower());
    let (at_leader, at_follower) = (world.client(leader), world.client(follower));
    world.run(TICK);
    world.ensemble.lag(follower, TICK, world.now);
    assert_eq!(world.create(at_leader, "/a", CreateMode::Persistent), 0);
    assert!(world.exists(at_leader, "/a", false));
    assert!(!world.exists(at_follower, "/a", true), "it is behind");
    world.send_sync(at_follower);
    let read = world.send_exists(at_follower, "/a", false);
    let before = world.now;
    let event = world.wait(at_follower);
    assert_eq!(event, Some(Seen::Event(1, "/a".into())), "first, what the read will show");
    assert!(world.now - before > TICK / 2);
    let Some(Seen::Answer { code: 0, .. }) = world.wait(at_follower) else { panic!("the sync") };
    let Some(Seen::Answer { xid, code: 0, .. }) = world.wait(at_follower) else {
        panic!("no read")
    };
    assert_eq!(xid, read);
    assert!(world.seen(at_leader).is_empty());
}

#[test]
fn deposed_leader_reads_and_resumes_but_writes_nothing() {
    let mut resumed = 0;
    for seed in 0..20 {
        let mut world = World::new(3, seed);
        let old = world.leader();
        let (at_old, session) = world.open(old, TICK * 20);
        world.create(at_old, "/a", CreateMode::Ephemeral);
        world.run(TICK);
        assert!(world.ensemble.depose(world.now));
        let new = world.leader();
        assert_ne!(old, new);
        assert!(world.exists(at_old, "/a", false));
        let again = world.greet(old, TICK * 20, session);
        assert_eq!(world.wait(again), Some(Seen::Session(session)), "it resumes");
        world.ensemble.delete("/a", world.now).unwrap();
        if !world.exists(again, "/a", false) {
            panic!("it cannot know");
        }
        resumed += 1;
        world.send_create(again, "/b", CreateMode::Persistent);
        assert_eq!(world.wait(again), Some(Seen::End), "it has found out");
        let at_new = world.greet(new, TICK * 20, session);
        assert_eq!(world.wait(at_new), Some(Seen::Session(session)));
        assert!(!world.exists(at_new, "/a", false));
        assert!(!world.exists(at_new, "/b", false));
    }
    println!("{resumed} resumed");
}

/// No answer has arrived, so the write may or may not have been applied, but all servers must agree.
#[test]
fn proposal_of_a_dead_leader_survives_or_vanishes_as_a_whole() {
    let mut survived = [0, 0];
    for seed in 0..40 {
        let mut world = World::new(3, seed);
        let leader = world.leader();
        let connection = world.client(leader);
        world.create(connection, "/q", CreateMode::Persistent);
        world.send_create(connection, "/q/a-", CreateMode::EphemeralSequential);
        assert_eq!(world.take(connection), []);
        world.ensemble.crash(leader, world.now);
        world.run(TICK * 4);
        let nodes = world.ensemble.below("/q");
        survived[nodes.len()] += 1;
        let others: Vec<_> = (0..3).filter(|server| *server != leader).collect();
        for server in others {
            let other = world.client(server);
            assert_eq!(world.exists(other, "/q/a-0000000000", false), nodes.len() == 1);
            assert_eq!(world.create(other, "/q/b-", CreateMode::EphemeralSequential), 0);
        }
        // The number of a node that was lost with its transaction is used again.
        let last = world.ensemble.below("/q").pop().unwrap();
        assert_eq!(last, format!("/q/b-{:010}", nodes.len() + 1));
    }
    println!("lost and survived: {survived:?}");
    assert!(survived.iter().all(|count| *count > 5), "{survived:?}");
}

#[test]
fn minority_writes_nothing_and_ends_no_session() {
    let mut world = World::new(3, 9);
    let (connection, session) = world.open(world.leader(), TICK * 2);
    let others = (0..3).filter(|server| *server != world.leader()).collect::<Vec<_>>();
    for server in &others {
        world.ensemble.crash(*server, world.now);
    }
    world.send_create(connection, "/a", CreateMode::Persistent);
    assert_eq!(world.wait(connection), Some(Seen::End));
    world.run(TICK * 30);
    assert_eq!((world.ensemble.leader(), world.ensemble.sessions()), (None, vec![session]));
    world.ensemble.heal(world.now);
    world.run(TICK / 2);
    let again = world.greet(world.leader(), TICK * 2, session);
    assert_eq!(world.wait(again), Some(Seen::Session(session)));
}
