//! Semaphores with several permits: Curator's `InterProcessSemaphoreV2` and ours.

use std::sync::Arc;

use zoolock::{Client, DistributedSemaphore};
use zoolock_interop::{Implementation, Kind, Peer, SOON, Stage, Task, client};
use zoolock_test_support::wait_until;

fn semaphore(stage: &Stage, client: &Client, limit: u32) -> DistributedSemaphore {
    DistributedSemaphore::new(client, &stage.path, limit).unwrap()
}

/// On a new thread, acquires `count` permits at once. Repeats this `TURNS` times.
fn turns(
    stage: &Stage,
    times: usize,
    semaphore: DistributedSemaphore,
    count: u32,
    who: &str,
) -> Task<()> {
    let (monitor, who) = (Arc::clone(&stage.monitor), who.to_owned());
    Task::spawn(move || {
        for _ in 0..times {
            let permits = semaphore.acquire(count).unwrap();
            drop(monitor.enter(Kind::Permit, &who, count as usize));
            permits.release().unwrap();
        }
    })
}

/// Waits until all permits are free, and until no nodes of permits are left.
fn await_unused(stage: &Stage, semaphore: &DistributedSemaphore) {
    let parts = [stage.below("locks"), stage.below("leases")];
    wait_until("nothing is left", SOON, || parts.iter().all(|part| part.nodes().is_empty()));
    assert_eq!(semaphore.available().unwrap(), semaphore.limit());
}

pub(crate) fn never_exceeds_the_limit(curator: &Implementation) {
    const TURNS: usize = 15;
    let stage = Stage::new("semaphore");
    let mut theirs: [Peer; 2] = curator.start();
    let clients = [client(), client(), client()];
    let held = semaphore(&stage, &clients[0], 4).acquire(4).unwrap();
    // Curator acquires its two permits one by one. With four in total, two sides cannot block each other with one each.
    for peer in &mut theirs {
        peer.tell(&format!("{} 2 4", stage.run(TURNS, "acquire")));
    }
    let ours = [1, 2].map(|count| {
        let semaphore = semaphore(&stage, &clients[count as usize], 4);
        let who = format!("ours-{count}");
        turns(&stage, TURNS, semaphore, count, &who)
    });
    stage.below("locks").await_nodes(4);
    held.release().unwrap();
    theirs.iter_mut().for_each(Peer::answer);
    ours.iter().for_each(|ours| ours.result("ours"));

    stage.monitor.assert_sound(4);
    let visits = stage.monitor.visits();
    let most = visits.iter().map(|visit| visit.seen.len()).max();
    println!("{} turns, with at most {most:?} permits", visits.len());
    assert_eq!(visits.len(), 4 * TURNS);
    await_unused(&stage, &semaphore(&stage, &clients[0], 4));
}

pub(crate) fn hands_over(curator: &Implementation) {
    let stage = Stage::new("semaphore-shares").with_directories();
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
    // Curator creates its node first, and counts the nodes afterwards, so its node exists although it waits.
    stage.below("leases").await_nodes(3);
    assert!(!theirs[1].has_answered(), "a third permit");
    permit.release().unwrap();
    theirs[1].answer();

    let waiting = turns(&stage, 1, ours.clone(), 1, "ours");
    stage.below("locks").await_nodes(1);
    assert!(!waiting.is_done(), "a third permit");
    theirs[0].ask("unlock");
    waiting.result("ours");
    theirs[1].ask("unlock");
    await_unused(&stage, &ours);
}
