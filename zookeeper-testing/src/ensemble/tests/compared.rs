//! Random schedules: what is committed is what was answered, all servers have it in the end, and a
//! single server makes the same of it.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::ensemble::chance::Chance;
use crate::ensemble::{ChangeKind, Committed};
use crate::terms::Stat;

const PARENTS: [&str; 3] = ["/p", "/q", "/p/r"];

/// A request that may be refused, at random.
///
/// The number of one whose answer without an error says that it is done, in a transaction of its
/// own.
fn ask(world: &mut World, chance: &mut Chance, connection: u64) -> Option<i32> {
    let parent = PARENTS[chance.below(3) as usize];
    let path = format!("{parent}/{}", chance.below(4));
    let mode = match chance.below(4) {
        0 => CreateMode::Persistent,
        1 => CreateMode::Ephemeral,
        2 => CreateMode::PersistentSequential,
        _ => CreateMode::EphemeralSequential,
    };
    match chance.below(8) {
        0..2 => return Some(world.send_create(connection, &path, mode)),
        2 => return Some(world.send_delete(connection, &path)),
        3 => {
            return Some(world.send(connection, op::SET_DATA, |out| {
                client::set_data(out, &path, b"other");
            }));
        }
        4 | 5 => world.send_exists(connection, &path, true),
        6 => world.send_sync(connection),
        _ => world.send(connection, op::MULTI, |out| {
            let other = format!("{path}-");
            client::multi_header(out, Some((op::CREATE, -1)));
            client::create(out, &other, b"both", mode);
            client::multi_header(out, Some((op::DELETE, -1)));
            client::any_version(out, &path);
            client::multi_header(out, None);
        }),
    };
    None
}

fn fault(world: &mut World, chance: &mut Chance, servers: usize) {
    let (server, now) = (chance.below(servers as u64) as usize, world.now);
    let until = now + TICK * chance.below(8) as u32;
    match chance.below(7) {
        0 => world.ensemble.crash(server, now),
        1 => world.ensemble.start(server, now),
        2 => world.ensemble.freeze(server, until, now),
        3 => world.ensemble.cut_off(server, until, now),
        4 => drop(world.ensemble.depose(now)),
        5 => world.ensemble.lag(server, TICK * chance.below(4) as u32, now),
        _ => {
            let sessions = world.ensemble.sessions();
            if let Some(session) = sessions.get(chance.below(8) as usize) {
                world.ensemble.expire(*session, now);
            }
        }
    }
}

/// What can be compared of nodes that were made by others.
fn nodes(ensemble: &Ensemble) -> BTreeMap<String, (Vec<u8>, [i32; 4])> {
    let known = |path: String| {
        let (stat, data) = ensemble.node(&path).unwrap();
        let Stat { version, cversion, num_children, data_length, .. } = stat;
        (path, (data.to_vec(), [version, cversion, num_children, data_length]))
    };
    ensemble.below("/").into_iter().map(known).collect()
}

/// The same transactions on a single server, by nobody.
fn replay(committed: &[Committed]) -> World {
    let mut single = World::new(1, 0);
    for change in committed.iter().flat_map(|one| &one.changes) {
        let (path, now, ensemble) = (&change.path, single.now, &mut single.ensemble);
        let done = match &change.kind {
            ChangeKind::Created { data, .. } => ensemble.create(path, data, now),
            ChangeKind::Deleted => ensemble.delete(path, now),
            ChangeKind::DataSet(data) => ensemble.set_data(path, data, now),
            ChangeKind::AclSet => Ok(()),
        };
        done.unwrap_or_else(|error| panic!("{change:?}: {error}"));
    }
    single
}

fn gather(world: &mut World, all: &mut BTreeMap<u64, Vec<Seen>>) {
    for (connection, seen) in std::mem::take(&mut world.seen) {
        all.entry(connection).or_default().extend(seen);
    }
}

fn schedule(seed: u64) -> (usize, Vec<Seen>) {
    let mut chance = Chance::new(seed);
    let servers = [1, 3, 5][seed as usize % 3];
    let mut world = World::new(servers, seed);
    for path in PARENTS {
        world.ensemble.create(path, b"", world.now).unwrap();
    }
    let (mut connections, mut writes) = (Vec::new(), BTreeSet::new());
    let mut all: BTreeMap<u64, Vec<Seen>> = BTreeMap::new();
    for _ in 0..200 {
        match chance.below(12) {
            0 => {
                let (server, now) = (chance.below(servers as u64) as usize, world.now);
                if world.ensemble.connect(server, now).is_some() {
                    connections.push(world.greet(server, TICK * 8, 0));
                }
            }
            1 => fault(&mut world, &mut chance, servers),
            2 => world.run(TICK * chance.below(4) as u32),
            _ => {
                gather(&mut world, &mut all);
                connections.retain(|id| all.get(id).is_none_or(|seen| !seen.contains(&Seen::End)));
                let connection = connections.get(chance.below(connections.len() as u64) as usize);
                // Whoever is not greeted yet sends nothing.
                if let Some(&connection) = connection.filter(|id| all.contains_key(id)) {
                    writes.extend(ask(&mut world, &mut chance, connection));
                }
            }
        }
        world.run(Duration::from_micros(chance.below(800)));
    }
    world.ensemble.heal(world.now);
    world.run(TICK * 30);
    let committed = world.ensemble.take_committed();
    let rising =
        committed.windows(2).all(|two| two[0].zxid < two[1].zxid && two[0].at <= two[1].at);
    assert!(rising, "seed {seed}: {committed:?}");
    let single = replay(&committed);
    assert_eq!(nodes(&world.ensemble), nodes(&single.ensemble), "seed {seed}");
    // Each server has what there is.
    for server in 0..servers {
        let client = world.client(server);
        for path in PARENTS {
            let read = world.send(client, op::GET_CHILDREN_2, |out| {
                client::watched(out, path, false);
            });
            let Some(Seen::Answer { xid, body, code: 0, .. }) = world.wait(client) else {
                panic!()
            };
            assert_eq!(xid, read);
            let names: Vec<_> =
                client::names(&body).iter().map(|name| format!("{path}/{name}")).collect();
            let mut expected = world.ensemble.below(path);
            expected.retain(|below| !below[path.len() + 1..].contains('/'));
            assert_eq!(names, expected, "seed {seed}, server {server}");
        }
    }
    gather(&mut world, &mut all);
    let zxids: BTreeSet<i64> = committed.iter().map(|one| one.zxid).collect();
    for seen in all.values().flatten() {
        if let Seen::Answer { xid, zxid, code: 0, .. } = seen {
            let is_done = !writes.contains(xid) || zxids.contains(zxid);
            assert!(is_done, "seed {seed}: {seen:?} is not so");
        }
    }
    (committed.len(), all.into_values().flatten().collect())
}

#[test]
fn ensemble_reaches_the_same_state_as_one_server() {
    let (mut transactions, mut answers, mut events, mut ends) = (0, 0, 0, 0);
    for seed in 0..150 {
        let (committed, seen) = schedule(seed);
        transactions += committed;
        for seen in seen {
            match seen {
                Seen::Answer { .. } => answers += 1,
                Seen::Event(..) => events += 1,
                Seen::End => ends += 1,
                Seen::Session(_) => {}
            }
        }
    }
    println!("{transactions} transactions, {answers} answers, {events} events, {ends} ends");
    assert!([transactions, answers, events, ends].iter().all(|count| *count > 150));
}

#[test]
fn seed_gives_the_same_schedule_twice() {
    for seed in 0..20 {
        assert_eq!(schedule(seed), schedule(seed), "seed {seed}");
    }
}
