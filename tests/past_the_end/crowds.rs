//! Contended runs over the end of the numbers, with a witness that does not trust the lock.

use std::thread;
use std::time::Duration;

use zoolock::{
    Client, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore, Lock, Permits,
};
use zoolock_test_support::crowd::{self, Access, Seen, Taker};

use super::{END, Stage, nodes, number};
use common::hold_of;

const WITHIN: Duration = Duration::from_secs(120);

/// Inside for so long that a second one would be seen.
fn stay() {
    thread::sleep(Duration::from_millis(1));
}

/// And so long that others get their permits meanwhile.
fn stay_long() {
    thread::sleep(Duration::from_millis(20));
}

fn alone(lock: impl Lock + 'static) -> Taker {
    Box::new(move |witness| {
        lock.lock()?;
        let hold = hold_of(&lock);
        witness.visit(Access::Alone, hold.fencing_token(), &hold.node(), stay);
        Ok(lock.unlock()?)
    })
}

fn run(what: &str, takers: Vec<Taker>, times: usize) -> Seen {
    let seen = crowd::run(takers, times, WITHIN);
    println!("{what}: {seen:?}");
    seen
}

/// Three clients: four threads with a plain lock each, and four that share two reentrant ones.
fn exclusive(stage: &Stage, clients: &[Client; 3]) -> Vec<Taker> {
    let reentrant = |client| DistributedReentrantLock::new(client, &stage.path).unwrap();
    let shared = [reentrant(&clients[0]), reentrant(&clients[1])];
    let plain = (0..4).map(|at| alone(stage.lock(&clients[at % 3])));
    let in_pairs = (0..4).map(|at| alone(shared[at % 2].clone()));
    plain.chain(in_pairs).collect()
}

#[test]
fn turns_over_the_end_and_behind_it_are_alone_and_in_order() {
    let numbers = [END - 47, END - 1, END, i32::MIN, i32::MIN + 1, -1_000_000_010, -10_000];
    for (begin, times) in numbers.into_iter().zip([25, 5, 5, 5, 5, 5, 5]) {
        let Some(stage) = Stage::new("crowd", begin) else {
            return;
        };
        let seen = run(&begin.to_string(), exclusive(&stage, &stage.clients()), times);
        assert_eq!(seen.visits.len(), 8 * times);
        seen.assert_apart();
        seen.assert_in_order();
        let normal = seen.visits.iter().filter(|visit| (0..END).contains(&number(&visit.node)));
        let left = if begin > 0 { END - begin } else { 0 };
        assert_eq!(normal.count(), left as usize, "normal ones from {begin}");
        stage.await_nodes(0);
    }
}

/// Reads, writes, and writes that become reads, by one thread.
fn reads_and_writes(lock: DistributedRwLock, mut turn: usize) -> Taker {
    Box::new(move |witness| {
        turn += 1;
        let (read, write) = (lock.read_lock(), lock.write_lock());
        if !turn.is_multiple_of(3) {
            read.lock()?;
            let hold = hold_of(&read);
            witness.visit(Access::Shared, hold.fencing_token(), &hold.node(), stay);
            return Ok(read.unlock()?);
        }
        write.lock()?;
        let hold = hold_of(&write);
        let token = hold.fencing_token();
        witness.visit(Access::Alone, token, &hold.node(), stay);
        if turn.is_multiple_of(6) {
            read.lock()?;
            write.unlock()?;
            let hold = hold_of(&read);
            assert_eq!(hold.fencing_token(), token, "the read stands where the write did");
            witness.visit(Access::Shared, token, &hold.node(), stay);
            return Ok(read.unlock()?);
        }
        Ok(write.unlock()?)
    })
}

#[test]
fn readers_meet_and_writers_are_alone_over_the_end() {
    for begin in [END - 40, END, i32::MIN] {
        let Some(stage) = Stage::new("crowd-rw", begin) else {
            return;
        };
        let clients = stage.clients();
        let lock = |at: usize| DistributedRwLock::new(&clients[at % 3], &stage.path).unwrap();
        let two = [0, 1].map(|at| lock(at).read_lock());
        two.iter().for_each(|read| read.lock().unwrap());
        assert!(two.iter().all(Lock::is_held), "two readers at once");
        two.iter().for_each(|read| read.unlock().unwrap());
        let takers = (0..8).map(|at| reads_and_writes(lock(at), at)).collect();
        let seen = run(&format!("reads and writes from {begin}"), takers, 24);
        seen.assert_apart();
        seen.assert_in_order();
        stage.await_nodes(0);
    }
}

#[test]
fn a_semaphore_keeps_its_limit_over_the_end() {
    const LIMIT: u32 = 3;
    for begin in [END - 30, END, i32::MIN] {
        let Some(stage) = Stage::new("crowd-permits", begin) else {
            return;
        };
        let parts = ["locks", "leases"].map(|part| stage.part(part, begin));
        let clients = stage.clients();
        let semaphore =
            |at: usize| DistributedSemaphore::new(&clients[at % 3], &stage.path, LIMIT).unwrap();
        let all = [0, 1, 2].map(|at| semaphore(at).acquire(1).unwrap());
        assert!(all.iter().all(Permits::is_held) && semaphore(0).try_acquire(1).unwrap().is_none());
        all.into_iter().for_each(|permit| permit.release().unwrap());
        let taker = |at: usize| -> Taker {
            let semaphore = semaphore(at);
            Box::new(move |witness| {
                let permits = semaphore.acquire(1)?;
                let hold = &permits.holds()[0];
                let token = hold.fencing_token();
                witness.visit(Access::Shared, token, &hold.node(), stay_long);
                Ok(permits.release()?)
            })
        };
        let seen = run(&format!("permits from {begin}"), (0..8).map(taker).collect(), 15);
        assert_eq!(seen.visits.len(), 120);
        assert!(seen.most_sharing() <= LIMIT as usize, "{seen:?}");
        for part in &parts {
            assert_eq!(nodes(&stage.probe, part), [""; 0]);
        }
    }
}
