//! One server.

use super::*;

#[test]
fn frames_arrive_in_any_pieces_and_garbage_ends_the_connection() {
    let mut world = World::new(1, 1);
    let connection = world.ensemble.connect(0, world.now).unwrap();
    let mut bytes = client::connect(0, 1000, 0, &[0; 16]);
    bytes.extend(client::ping());
    for byte in bytes {
        world.receive(connection, &[byte]);
    }
    // What comes before the handshake is answered is taken behind it.
    assert_eq!(world.take(connection), []);
    world.run(TICK / 100);
    let seen = world.take(connection);
    assert!(matches!(seen[..], [Seen::Session(1..), Seen::Answer { code: 0, .. }]), "{seen:?}");
    world.receive(connection, b"\xff\xff\xff\xff");
    assert_eq!(world.take(connection), [Seen::End]);
    world.receive(connection, b"more");
    assert_eq!(world.take(connection), []);
}

#[test]
fn committed_nodes_are_recorded_and_end_with_their_session() {
    let mut world = World::new(1, 1);
    let (connection, session) = world.open(0, TICK * 2);
    assert_eq!(world.create(connection, "/a", CreateMode::Ephemeral), 0);
    let (stat, data) = world.ensemble.node("/a").unwrap();
    assert_eq!((stat.ephemeral_owner, data), (session, &b"data"[..]));
    let committed = world.ensemble.take_committed();
    assert_eq!(committed.last().map(|last| (last.zxid, last.session)), Some((stat.czxid, session)));
    let heard = world.now;
    world.run(TICK * 4);
    assert_eq!((world.ensemble.node("/a"), world.ensemble.sessions()), (None, vec![]));
    let committed = world.ensemble.take_committed();
    println!("{committed:?}");
    let [last] = &committed[..] else { panic!("{committed:?}") };
    assert!(last.is_close && last.changes.len() == 1);
    let after = last.at - heard;
    assert!(after >= TICK * 2 && after <= TICK * 4, "{after:?}");
    assert_eq!(world.take(connection), [Seen::End]);
}

#[test]
fn session_lives_while_it_is_touched_and_can_be_resumed() {
    let mut world = World::new(1, 1);
    let (connection, session) = world.open(0, TICK * 2);
    for _ in 0..10 {
        world.run(TICK);
        world.ping(connection);
    }
    let other = world.greet(0, TICK * 2, session);
    assert_eq!(world.wait(other), Some(Seen::Session(session)));
    assert_eq!(world.take(connection).last(), Some(&Seen::End), "the former one ends");
    world.send(other, op::CLOSE, |_| {});
    assert_eq!(world.answer(other), (0, vec![]));
    assert_eq!(world.take(other), [Seen::End]);
    let late = world.greet(0, TICK * 2, session);
    assert_eq!((world.wait(late), world.wait(late)), (Some(Seen::Session(0)), Some(Seen::End)));
}

#[test]
fn restarted_server_keeps_its_data() {
    let mut world = World::new(1, 1);
    let (connection, session) = world.open(0, TICK * 2);
    assert_eq!(world.create(connection, "/a", CreateMode::Ephemeral), 0);
    world.ensemble.crash(0, world.now);
    assert_eq!(world.take(connection), [Seen::End]);
    world.run(TICK * 20);
    assert_eq!(world.ensemble.connect(0, world.now), None);
    // Its files can be changed.
    world.ensemble.create("/b", b"", world.now).unwrap();
    world.ensemble.start(0, world.now);
    let again = world.greet(0, TICK * 2, session);
    assert_eq!(world.wait(again), Some(Seen::Session(session)));
    assert!(world.exists(again, "/a", false) && world.exists(again, "/b", false));
    world.ensemble.crash(0, world.now);
    world.ensemble.expire(session, world.now);
    world.ensemble.start(0, world.now);
    let late = world.greet(0, TICK * 2, session);
    assert_eq!(world.wait(late), Some(Seen::Session(0)));
    assert_eq!(world.ensemble.below("/").len(), 4);
}

#[test]
fn frozen_server_continues_where_it_stopped() {
    let mut world = World::new(1, 1);
    let connection = world.client(0);
    world.ensemble.freeze(0, world.now + TICK * 4, world.now);
    world.send_create(connection, "/a", CreateMode::Persistent);
    world.run(TICK * 3);
    assert_eq!(world.take(connection), []);
    assert!(world.ensemble.create("/b", b"", world.now).is_err());
    assert_eq!(world.answer(connection).0, 0);
}

/// A container is removed when it has lost its last child, at some time.
#[test]
fn empty_containers_are_deleted() {
    let mut world = World::new(1, 1);
    let connection = world.client(0);
    world.create(connection, "/box", CreateMode::Container);
    world.ensemble.create("/box/a", b"", world.now).unwrap();
    for _ in 0..14 {
        world.run(TICK * 10);
        world.ping(connection);
    }
    assert!(world.ensemble.node("/box").is_some());
    world.ensemble.delete("/box/a", world.now).unwrap();
    world.run(Duration::from_secs(60));
    assert_eq!(world.ensemble.node("/box"), None);
    assert_eq!(world.ensemble.below("/"), ["/zookeeper", "/zookeeper/config", "/zookeeper/quota"]);
}
