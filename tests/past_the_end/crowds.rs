//! Contended runs over the end, with a witness that does not trust the lock.

use common::hold_of;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{
    Client, DistributedLock, DistributedReentrantLock, DistributedRwLock, DistributedSemaphore,
    Lock, MultiLock,
};
use zoolock_test_support::crowd::{self, Access, Seen, Taker};

use super::{END, Stage, nodes, number, token_of};

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
        witness.visit(Access::Alone, hold.fencing_token()?, &hold.node(), stay);
        Ok(lock.unlock()?)
    })
}

/// How many of the visits had a normal number, stood at the end, and had a negative one.
fn kinds(seen: &Seen) -> [usize; 3] {
    let mut kinds = [0; 3];
    for visit in &seen.visits {
        match number(&visit.node) {
            END => kinds[1] += 1,
            number if number < 0 => kinds[2] += 1,
            _ => kinds[0] += 1,
        }
    }
    kinds
}

fn run(what: &str, takers: Vec<Taker>, times: usize) -> Seen {
    let begun = Instant::now();
    let seen = crowd::run(takers, times, WITHIN);
    let [normal, stuck, negative] = kinds(&seen);
    println!(
        "{what}: {seen:?} in {:.1?}: {normal} normal, {stuck} at the end, {negative} negative",
        begun.elapsed()
    );
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
fn two_hundred_turns_over_the_end_are_alone_and_in_order() {
    let Some(stage) = Stage::new("crowd", END - 47) else {
        return;
    };
    let clients = [stage.client(), stage.client(), stage.client()];
    let seen = run("over the end", exclusive(&stage, &clients), 25);
    assert_eq!(seen.visits.len(), 200);
    seen.assert_apart();
    seen.assert_in_order();
    let [normal, stuck, negative] = kinds(&seen);
    assert!(normal == 47 && stuck + negative == 153, "{normal} normal");
    stage.await_nodes(0);
}

#[test]
fn turns_at_the_end_and_behind_it_are_alone_and_in_order() {
    for begin in [END - 1, END, i32::MIN, i32::MIN + 1, -1_000_000_010, -10_000] {
        let Some(stage) = Stage::new("crowd-at", begin) else {
            return;
        };
        let clients = [stage.client(), stage.client(), stage.client()];
        let seen = run(&begin.to_string(), exclusive(&stage, &clients), 5);
        assert_eq!(seen.visits.len(), 40);
        seen.assert_apart();
        seen.assert_in_order();
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
            witness.visit(Access::Shared, hold.fencing_token()?, &hold.node(), stay);
            return Ok(read.unlock()?);
        }
        write.lock()?;
        let hold = hold_of(&write);
        let token = hold.fencing_token()?;
        witness.visit(Access::Alone, token, &hold.node(), stay);
        if turn.is_multiple_of(6) {
            read.lock()?;
            write.unlock()?;
            let hold = hold_of(&read);
            assert_eq!(token_of(&hold), token, "the read stands where the write did");
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
        let clients = [stage.client(), stage.client(), stage.client()];
        let lock = |at: usize| DistributedRwLock::new(&clients[at % 3], &stage.path).unwrap();
        let takers = (0..8).map(|at| reads_and_writes(lock(at), at)).collect();
        let seen = run(&format!("reads and writes from {begin}"), takers, 24);
        seen.assert_apart();
        seen.assert_in_order();
        assert!(seen.most_sharing() > 1, "no two readers have met");
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
        let clients = [stage.client(), stage.client(), stage.client()];
        let taker = |at: usize| -> Taker {
            let client = &clients[at % 3];
            let semaphore = DistributedSemaphore::new(client, &stage.path, LIMIT).unwrap();
            Box::new(move |witness| {
                let permits = semaphore.acquire(1)?;
                let hold = &permits.holds()[0];
                let token = hold.fencing_token()?;
                witness.visit(Access::Shared, token, &hold.node(), stay_long);
                Ok(permits.release()?)
            })
        };
        let seen = run(&format!("permits from {begin}"), (0..8).map(taker).collect(), 15);
        assert_eq!(seen.visits.len(), 120);
        assert!((2..=LIMIT as usize).contains(&seen.most_sharing()), "{seen:?}");
        for part in &parts {
            assert_eq!(nodes(&stage.probe, part), [""; 0]);
        }
    }
}

#[test]
fn a_lock_over_a_fresh_and_an_exhausted_directory_is_alone() {
    let Some(stage) = Stage::new("members", 0) else {
        return;
    };
    let parts = [("exhausted", END), ("fresh", 0), ("over", END - 5)];
    let parts = parts.map(|(part, number)| stage.part(part, number));
    let clients = [stage.client(), stage.client(), stage.client()];
    let multi = |at: usize| {
        let of = |part: &String| -> Box<dyn Lock> {
            DistributedLock::new(&clients[at % 3], part).unwrap().into()
        };
        MultiLock::new(parts.iter().map(of)).unwrap()
    };
    let taker = |at: usize| -> Taker {
        let multi = multi(at);
        Box::new(move |witness| {
            multi.lock()?;
            let holds = multi.holds();
            assert_eq!(holds.len(), 3);
            let exhausted = &holds[0];
            assert!(exhausted.path().ends_with("/exhausted"));
            let token = exhausted.fencing_token()?;
            witness.visit(Access::Alone, token, &exhausted.node(), std::thread::yield_now);
            Ok(multi.unlock()?)
        })
    };
    let seen = crowd::run((0..6).map(taker).collect(), 10, WITHIN);
    println!("{seen:?}");
    seen.assert_apart();
    seen.assert_in_order();
    let (one, other) = (multi(0), multi(1));
    assert!(one.try_lock().unwrap());
    assert!(!other.try_lock().unwrap());
    one.unlock().unwrap();
    assert!(other.try_lock().unwrap());
    other.unlock().unwrap();
    for part in &parts {
        assert_eq!(nodes(&stage.probe, part), [""; 0]);
    }
}
