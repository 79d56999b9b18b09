//! What who looks from outside is told.

use zoolock::{DistributedRwLock, DistributedSemaphore, Kind};
use zoolock_test_support::wait_until;

use super::{END, Granted, Stage};
use common::{SOON, Task};

#[test]
fn readers_hold_beside_readers_and_not_beside_a_write_before_them() {
    for begin in [END - 2, END, i32::MIN] {
        let Some(stage) = Stage::new("seen-rw", begin) else {
            return;
        };
        let clients = [stage.client(), stage.client()];
        let lock = |at: usize| DistributedRwLock::new(&clients[at % 2], &stage.path).unwrap();
        let list = Granted::default();
        let visitors = [
            stage.queues(&list, "r1", lock(0).read_lock()),
            stage.queues(&list, "r2", lock(1).read_lock()),
            stage.queues(&list, "w", lock(0).write_lock()),
            stage.queues(&list, "r3", lock(1).read_lock()),
        ];
        visitors[0].comes_in();
        visitors[1].comes_in();
        let seen = clients[0].contenders(&stage.path).unwrap();
        let seen: Vec<_> = seen.iter().map(|one| (one.kind, one.holds)).collect();
        println!("{begin}: {seen:?}");
        let read = |holds| (Kind::Read, holds);
        assert_eq!(seen, [read(true), read(true), (Kind::Write, false), read(false)]);
        assert!(!visitors[2].is_in() && !visitors[3].is_in());
        let [r1, r2, w, r3] = visitors;
        r2.leaves();
        assert!(!w.is_in());
        r1.leaves();
        w.comes_in();
        assert!(!r3.is_in());
        w.leaves();
        r3.comes_in();
        r3.leaves();
        stage.await_nodes(0);
    }
}

/// All turns have the same number, so that it does not say whose the permits are.
#[test]
fn a_permit_is_held_also_while_its_client_waits_for_another() {
    let Some(stage) = Stage::new("seen-permits", 0) else {
        return;
    };
    stage.part("locks", END);
    stage.part("leases", END);
    let client = stage.client();
    let semaphore = DistributedSemaphore::new(&client, &stage.path, 1).unwrap();
    let permits = semaphore.acquire(1).unwrap();
    let waiting = semaphore.clone();
    let waiter = Task::spawn(move || waiting.acquire(1).map(drop));
    let mut seen = Vec::new();
    wait_until("two permits and a turn are there", SOON, || {
        seen = semaphore.contenders().unwrap();
        seen.len() == 3
    });
    let holds: Vec<_> = seen.iter().map(|one| (&one.node, one.holds)).collect();
    println!("{holds:#?}");
    let held = format!("leases/{}", permits.holds()[0].node());
    let own = seen.iter().find(|one| one.node == held);
    assert!(own.is_some_and(|one| one.holds), "the permit that is held");
    assert_eq!(seen.iter().filter(|one| one.holds).count(), 1);
    permits.release().unwrap();
    waiter.result("the waiter").unwrap();
}
