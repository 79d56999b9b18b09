//! What a request costs, for whoever looks.

use super::*;

/// As locks do: create, list, look, delete, by eight clients on three servers.
#[test]
fn ensemble_runs_a_thousand_turns() {
    let mut world = World::new(3, 1);
    let clients: Vec<_> = (0..8).map(|number| world.client(number % 3)).collect();
    world.ensemble.create("/locks", b"", world.now).unwrap();
    let begun = Instant::now();
    let mut requests = 0;
    for turn in 0..1000_u32 {
        let client = clients[turn as usize % clients.len()];
        let path = "/locks/0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b-lock-";
        world.send_create(client, path, CreateMode::EphemeralSequential);
        assert_eq!(world.answer(client).0, 0);
        world.send(client, op::GET_CHILDREN_2, |out| {
            client::watched(out, "/locks", false);
        });
        assert_eq!(world.answer(client).0, 0);
        let path = format!("{path}{turn:010}");
        assert!(world.exists(client, &path, false));
        world.send_delete(client, &path);
        assert_eq!(world.answer(client).0, 0);
        requests += 4;
    }
    let took = begun.elapsed();
    println!("{requests} requests in {took:?}, {:?} each", took / requests);
    assert_eq!(world.ensemble.below("/locks"), [""; 0]);
    println!("{:?} of simulated time", world.now - world.start);
}
