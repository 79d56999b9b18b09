//! What depends on who leads, and on who knows.

use super::*;

/// Its own writes, those of others, and what it says.
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
fn lagging_follower_lists_the_children_that_it_knows() {
    let mut world = World::new(3, 12);
    let (leader, follower) = (world.leader(), world.follower());
    let at_follower = world.client(follower);
    for path in ["/p", "/p/a", "/p/b"] {
        world.ensemble.create(path, b"", world.now).unwrap();
    }
    world.run(TICK);
    world.ensemble.lag(follower, TICK, world.now);
    world.ensemble.delete("/p/a", world.now).unwrap();
    world.ensemble.create("/p/c", b"", world.now).unwrap();
    let children = |world: &mut World| {
        world.send(at_follower, op::GET_CHILDREN_2, |out| client::watched(out, "/p", false));
        let (code, body) = world.answer(at_follower);
        assert_eq!(code, 0);
        client::names(&body)
    };
    assert_eq!(children(&mut world), ["a", "b"]);
    world.run(TICK * 2);
    assert_eq!(children(&mut world), ["b", "c"]);
    assert_eq!(world.ensemble.leader(), Some(leader));
}

/// A sync waits for what the leader has proposed when it comes.
#[test]
fn sync_comes_after_earlier_proposals() {
    let quorum = TICK / 10;
    let mut world = World::with(Settings { servers: 3, quorum, ..Settings::default() }, 13);
    let (leader, follower) = (world.leader(), world.follower());
    let (at_leader, at_follower) = (world.client(leader), world.client(follower));
    world.run(TICK);
    world.send_create(at_leader, "/a", CreateMode::Persistent);
    world.send_sync(at_follower);
    world.send_exists(at_follower, "/a", false);
    let Some(Seen::Answer { code: 0, .. }) = world.wait(at_follower) else { panic!("the sync") };
    assert_eq!(world.answer(at_follower).0, 0);
    assert!(matches!(world.wait(at_leader), Some(Seen::Answer { code: 0, .. })));
}

#[test]
fn watch_fires_once_where_it_was_set() {
    let mut world = World::new(3, 2);
    let (leader, follower) = (world.leader(), world.follower());
    let (at_leader, at_follower) = (world.client(leader), world.client(follower));
    world.create(at_leader, "/a", CreateMode::Persistent);
    world.run(TICK);
    assert!(world.exists(at_follower, "/a", true));
    for _ in 0..2 {
        world.send(at_leader, op::SET_DATA, |out| {
            client::set_data(out, "/a", b"new");
        });
        assert_eq!(world.answer(at_leader).0, 0);
        world.run(TICK);
    }
    assert_eq!(world.take(at_follower), [Seen::Event(3, "/a".into())]);
    assert_eq!(world.take(at_leader), []);
}

#[test]
fn lagging_server_refuses_a_client_that_has_seen_more() {
    let mut world = World::new(3, 3);
    let (leader, follower) = (world.leader(), world.follower());
    let at_leader = world.client(leader);
    world.run(TICK);
    world.ensemble.lag(follower, TICK * 4, world.now);
    world.send_create(at_leader, "/a", CreateMode::Persistent);
    let Some(Seen::Answer { zxid, .. }) = world.wait(at_leader) else { panic!("no answer") };
    let late = world.ensemble.connect(follower, world.now).unwrap();
    world.receive(late, &client::connect(zxid, 5000, 0, &[0; 16]));
    assert_eq!(world.wait(late), Some(Seen::End));
}

/// Whatever a follower has heard, only what its leader was told counts, and that is told with
/// pings.
#[test]
fn only_the_leader_ends_sessions_and_never_early() {
    for seed in 0..50 {
        let mut world = World::new(3, seed);
        let follower = world.follower();
        let (connection, session) = world.open(follower, TICK * 4);
        for _ in 0..10 {
            world.run(TICK * 3);
            world.ping(connection);
        }
        assert_eq!(world.ensemble.sessions(), [session], "{:?}", world.take(connection));
        let heard = world.now;
        while world.ensemble.take_committed().is_empty() {
            world.run(TICK / 10);
            assert!(world.now - heard < TICK * 8);
        }
        let lived = world.now - heard;
        // Up to half a tick until the leader is told, and one until the next tick.
        assert!(lived >= TICK * 4 && lived <= TICK * 6, "seed {seed}: {lived:?}");
        world.run(TICK);
        assert_eq!(world.take(connection).last(), Some(&Seen::End));
    }
}

#[test]
fn sessions_of_a_cut_off_follower_continue_elsewhere() {
    let mut world = World::new(3, 5);
    let follower = world.follower();
    let (connection, session) = world.open(follower, TICK * 20);
    world.ensemble.cut_off(follower, world.now + TICK * 30, world.now);
    world.run(TICK);
    assert!(!world.exists(connection, "/a", false), "it reads on");
    world.send_create(connection, "/a", CreateMode::Ephemeral);
    assert_eq!(world.wait(connection), Some(Seen::End), "and nothing of its writes is heard");
    assert!(!world.ensemble.serves(follower));
    let elsewhere = world.greet(world.leader(), TICK * 20, session);
    assert_eq!(world.wait(elsewhere), Some(Seen::Session(session)));
    assert!(!world.exists(elsewhere, "/a", false));
    world.run(TICK * 30);
    assert!(world.ensemble.serves(follower));
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

/// The answer was never heard: it is done, or not, and all servers agree.
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
        // The number of one that is lost is given again.
        let last = world.ensemble.below("/q").pop().unwrap();
        assert_eq!(last, format!("/q/b-{:010}", nodes.len() + 1));
    }
    println!("lost and survived: {survived:?}");
    assert!(survived.iter().all(|count| *count > 5), "{survived:?}");
}

#[test]
fn moved_session_is_served_nowhere_else() {
    let mut world = World::new(3, 7);
    let (leader, follower) = (world.leader(), world.follower());
    let (first, session) = world.open(follower, TICK * 20);
    assert_eq!(world.create(first, "/a", CreateMode::Persistent), 0);
    let second = world.greet(leader, TICK * 20, session);
    assert_eq!(world.wait(second), Some(Seen::Session(session)));
    world.send_create(first, "/b", CreateMode::Persistent);
    assert_eq!(world.wait(first), Some(Seen::End));
    assert!(!world.exists(second, "/b", false));
    assert_eq!(world.create(second, "/b", CreateMode::Persistent), 0);
}

#[test]
fn closed_session_ends_everywhere() {
    let mut world = World::new(3, 8);
    let (leader, follower) = (world.leader(), world.follower());
    let (first, session) = world.open(follower, TICK * 20);
    assert_eq!(world.create(first, "/a", CreateMode::Ephemeral), 0);
    let second = world.greet(leader, TICK * 20, session);
    assert_eq!(world.wait(second), Some(Seen::Session(session)));
    assert!(world.exists(second, "/a", true));
    world.send(second, op::CLOSE, |_| {});
    assert_eq!(world.wait(second), Some(Seen::Event(2, "/a".into())));
    assert_eq!(world.answer(second).0, 0);
    world.run(TICK);
    assert_eq!((world.take(first), world.take(second)), (vec![Seen::End], vec![Seen::End]));
    assert_eq!((world.ensemble.node("/a"), world.ensemble.sessions()), (None, vec![]));
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

#[test]
fn delayed_writes_arrive_in_order_after_the_heal() {
    let mut world = World::new(3, 11);
    let (leader, follower) = (world.leader(), world.follower());
    let (at_leader, at_follower) = (world.client(leader), world.client(follower));
    world.ensemble.cut_off(follower, world.now + TICK * 100, world.now);
    world.create(at_leader, "/a", CreateMode::Persistent);
    let asked = ["/b", "/c", "/d"].map(|path| {
        world.run(TICK / 10);
        world.send_create(at_follower, path, CreateMode::Persistent)
    });
    world.run(TICK / 10);
    world.ensemble.heal(world.now);
    for asked in asked {
        let Some(Seen::Answer { xid, code: 0, .. }) = world.wait(at_follower) else { panic!() };
        assert_eq!(xid, asked);
    }
    assert!(world.exists(at_follower, "/a", false));
}

#[test]
fn no_server_leaves_its_leader_long_after_the_heal() {
    let mut world = World::new(3, 10);
    let follower = world.follower();
    world.ensemble.freeze(follower, world.now + TICK * 60, world.now);
    world.ensemble.cut_off(follower, world.now + TICK * 20, world.now);
    world.run(TICK * 20);
    world.ensemble.heal(world.now);
    world.run(TICK * 25);
    let connection = world.client(follower);
    world.run(TICK * 18);
    assert!(!world.exists(connection, "/a", false));
}

#[test]
fn leader_frozen_for_too_long_is_replaced() {
    let mut world = World::new(3, 10);
    let old = world.leader();
    let connection = world.client(old);
    world.ensemble.freeze(old, world.now + TICK * 20, world.now);
    world.run(TICK * 10);
    assert_ne!(world.leader(), old);
    world.ensemble.create("/a", b"", world.now).unwrap();
    world.send_exists(connection, "/a", false);
    let Some(Seen::Answer { code, .. }) = world.wait(connection) else { panic!("no answer") };
    assert_eq!(code, crate::terms::Refused::NO_NODE.0, "it has not found out");
    assert_eq!(world.wait(connection), Some(Seen::End));
}
