//! Together with Apache Curator (Java): `InterProcessSemaphoreV2`, and
//! `InterProcessSemaphoreMutex`. The latter is such a semaphore with a single permit, and so the
//! counterpart of our semaphore, not of our lock.

use std::sync::Arc;

use zoolock::{Client, DistributedSemaphore};
use zoolock_interop::{Implementation, Kind, Peer, SOON, Stage, Task, client};
use zoolock_test_support::wait_until;

fn curator(scenario: fn(&Implementation)) {
    Implementation::curator().iter().for_each(scenario);
}

fn semaphore(stage: &Stage, client: &Client, limit: u32) -> DistributedSemaphore {
    DistributedSemaphore::new(client, &stage.path, limit).unwrap()
}

/// Takes `count` permits this many times, on a new thread.
fn turns(
    stage: &Stage,
    times: usize,
    semaphore: DistributedSemaphore,
    count: u32,
    kind: Kind,
    who: &str,
) -> Task<()> {
    let (witness, who) = (Arc::clone(&stage.witness), who.to_owned());
    Task::spawn(move || {
        for _ in 0..times {
            let permits = semaphore.acquire(count).unwrap();
            drop(witness.enter(kind, &who, count as usize));
            permits.release().unwrap();
        }
    })
}

/// Asserts that all permits are free, and that no node of one is left.
fn await_unused(stage: &Stage, semaphore: &DistributedSemaphore) {
    let parts = [stage.below("locks"), stage.below("leases")];
    wait_until("nothing is left", SOON, || parts.iter().all(|part| part.nodes().is_empty()));
    assert_eq!(semaphore.available().unwrap(), semaphore.limit());
}

#[test]
fn curator_semaphore_and_ours_never_exceed_the_limit() {
    const TURNS: usize = 15;
    curator(|curator| {
        let stage = Stage::new("semaphore");
        let mut theirs: [Peer; 2] = curator.start();
        let clients = [client(), client(), client()];
        let held = semaphore(&stage, &clients[0], 4).acquire(4).unwrap();
        // Curator takes two permits one by one. With a limit of four, neither side can be stuck
        // with a part.
        for peer in &mut theirs {
            peer.tell(&format!("{} 2 4", stage.run(TURNS, "acquire")));
        }
        let ours = [1, 2].map(|count| {
            let semaphore = semaphore(&stage, &clients[count as usize], 4);
            let who = format!("ours-{count}");
            turns(&stage, TURNS, semaphore, count, Kind::Permit, &who)
        });
        stage.below("locks").await_nodes(4);
        held.release().unwrap();
        theirs.iter_mut().for_each(Peer::answer);
        ours.iter().for_each(|ours| ours.result("ours"));

        stage.witness.assert_sound(4);
        let visits = stage.witness.visits();
        let most = visits.iter().map(|visit| visit.seen.len()).max();
        println!("{} turns, with at most {most:?} permits", visits.len());
        assert_eq!(visits.len(), 4 * TURNS);
        await_unused(&stage, &semaphore(&stage, &clients[0], 4));
    });
}

#[test]
fn curator_semaphore_shares_and_hands_over_permits_in_both_directions() {
    curator(|curator| {
        let stage = Stage::new("semaphore-shares");
        let mut theirs: [Peer; 2] = curator.start();
        let client = client();
        let ours = semaphore(&stage, &client, 2);
        let acquire = format!("acquire {} 1 2", stage.path);

        let permit = ours.acquire(1).unwrap();
        theirs[0].ask(&acquire);
        assert!(permit.is_held());
        assert_eq!(ours.available().unwrap(), 0, "one of ours, one of theirs");
        assert!(ours.try_acquire(1).unwrap().is_none(), "a third permit");
        theirs[1].tell(&acquire);
        // Curator creates its lease first, and counts afterwards.
        stage.below("leases").await_nodes(3);
        assert!(!theirs[1].has_answered(), "a third permit");
        permit.release().unwrap();
        theirs[1].answer();

        let waiting = turns(&stage, 1, ours.clone(), 1, Kind::Permit, "ours");
        stage.below("locks").await_nodes(1);
        assert!(!waiting.is_done(), "a third permit");
        theirs[0].ask("unlock");
        waiting.result("ours");
        theirs[1].ask("unlock");
        await_unused(&stage, &ours);
    });
}

#[test]
fn curator_semaphore_keeps_the_place_of_a_waiter_of_ours_that_is_cut() {
    curator(|curator| {
        let stage = Stage::new("semaphore-waiter-cut");
        let mut theirs: [Peer; 2] = curator.start();
        let holder = client();
        let (proxy, shaky) = stage.client_to_cut();
        let held = semaphore(&stage, &holder, 1).acquire(1).unwrap();
        let run = format!("{} 1 1", stage.run(1, "acquire"));
        let locks = stage.below("locks");
        // Its turn is given back in the background.
        locks.await_nodes(0);
        theirs[0].tell(&run);
        locks.await_nodes(1);
        let ours = semaphore(&stage, &shaky, 1);
        let ours = turns(&stage, 1, ours, 1, Kind::Permit, "ours");
        locks.await_nodes(2);
        theirs[1].tell(&run);
        locks.await_nodes(3);
        locks.await_watched(&locks.nodes()[1]);

        locks.cut_and_await_resume(&proxy, &shaky);
        held.release().unwrap();
        theirs.iter_mut().for_each(Peer::answer);
        ours.result("ours");
        stage.witness.assert_sound(1);
        let expected = [theirs[0].name(), "ours", theirs[1].name()];
        println!("{expected:?}");
        assert_eq!(stage.witness.order(), expected);
    });
}

#[test]
fn curator_semaphore_goes_on_waiting_while_a_permit_of_ours_is_cut() {
    curator(|curator| {
        let stage = Stage::new("semaphore-permit-cut");
        let [mut peer]: [Peer; 1] = curator.start();
        let (proxy, shaky) = stage.client_to_cut();
        let ours = semaphore(&stage, &shaky, 1);
        let permit = ours.acquire(1).unwrap();
        let inside = stage.witness.enter(Kind::Permit, "ours", 1);
        peer.tell(&format!("{} 1 1", stage.run(1, "acquire")));
        let leases = stage.below("leases");
        leases.await_nodes(2);
        leases.cut_and_await_resume(&proxy, &shaky);
        assert!(permit.is_held() && !peer.has_answered(), "{permit:?}");
        drop(inside);
        permit.release().unwrap();
        peer.answer();
        stage.witness.assert_sound(1);
        assert_eq!(stage.witness.order(), ["ours", peer.name()]);
        await_unused(&stage, &ours);
    });
}

#[test]
fn curator_semaphore_mutex_excludes_a_semaphore_of_one_permit_and_is_excluded() {
    const TURNS: usize = 15;
    curator(|curator| {
        let stage = Stage::new("semaphore-mutex");
        let mut theirs: [Peer; 2] = curator.start();
        let clients = [client(), client(), client()];
        let held = semaphore(&stage, &clients[0], 1);
        theirs[0].ask(&format!("mutex {}", stage.path));
        assert!(held.try_acquire(1).unwrap().is_none(), "beside theirs");
        theirs[0].ask("unlock");
        let permit = held.acquire(1).unwrap();
        for peer in &mut theirs {
            peer.tell(&stage.run(TURNS, "mutex"));
        }
        let ours = [1, 2].map(|number| {
            let semaphore = semaphore(&stage, &clients[number], 1);
            let who = format!("ours-{number}");
            turns(&stage, TURNS, semaphore, 1, Kind::Lock, &who)
        });
        stage.below("locks").await_nodes(4);
        permit.release().unwrap();
        theirs.iter_mut().for_each(Peer::answer);
        ours.iter().for_each(|ours| ours.result("ours"));
        stage.witness.assert_sound(0);
        println!("{} turns", stage.witness.counted());
        assert_eq!(stage.witness.counted(), 4 * TURNS);
        await_unused(&stage, &held);
    });
}
