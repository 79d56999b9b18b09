//! Everything at once.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use zoolock::crossbeam_channel::bounded;

use std::thread;
use std::time::{Duration, Instant};

use common::single::lock_of;
use common::{SOON, Task, Witness, await_nothing_left, client_of, exists, hold_of, shared_proxy};
use zoolock::{EphemeralLock, Error, LossReason};
use zoolock_test_support::{FaultProxy, Op, Then, fresh_path, wait_until};

/// Fixes what the storm does.
const SEED: &str = "ZOOLOCK_SEED";
const CLIENTS: usize = 4;
const ENTRIES: u32 = 100;
/// Work inside begins only with this much of the lease left, and takes far less.
const ENOUGH: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(240);

/// One fault, on one of the ways.
fn strike(random: &mut fastrand::Rng, proxies: &[FaultProxy], path: &str) -> &'static str {
    let proxy = &proxies[random.usize(..proxies.len())];
    let on = |op| proxy.on(op).path_contains(path);
    match random.u32(..11) {
        0 | 1 => {
            proxy.cut();
            "cut"
        }
        2 | 3 => {
            proxy.reset();
            "reset"
        }
        4 => {
            let _ = on(Op::Create).drop_answer(Then::Cut);
            "answer of a create"
        }
        5 => {
            let _ = on(Op::Delete).drop_answer(Then::Cut);
            "answer of a delete"
        }
        6 => {
            let _ = on(Op::Create).drop_request(Then::Cut);
            "create"
        }
        7 => {
            let _ = on(Op::Delete).drop_request(Then::Cut);
            "delete"
        }
        8 => {
            let _ = on(Op::Create).drop_answer(Then::Hold);
            "answer of a create, then silence"
        }
        9 => {
            let _ = on(Op::GetData).drop_answer(Then::Cut);
            "answer of a look"
        }
        _ => {
            let _ = on(Op::Event).drop_answer(Then::Cut);
            "event"
        }
    }
}

/// Enters until it has done its share. What was lost on the way is tried again.
fn take_part(lock: &EphemeralLock, witness: &Witness, losses: &AtomicU32) {
    let mut entries = 0;
    while entries < ENTRIES {
        match lock.try_lock_for(PATIENCE) {
            Ok(true) => {}
            // Nobody knew in time, or somebody else was quicker.
            Ok(false) | Err(Error::Disconnected { .. }) => continue,
            Err(error) => panic!("{error}"),
        }
        let hold = hold_of(lock);
        if hold.valid_for() > ENOUGH {
            witness.visit(|| thread::sleep(Duration::from_millis(1)));
            assert!(hold.is_held(), "the machine stood still: {hold:?}");
            entries += 1;
        }
        match lock.unlock() {
            Ok(()) => {}
            Err(Error::Lost { reason: LossReason::LeaseExpired, .. }) => {
                losses.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn survives_a_storm_of_cuts_and_lost_answers() {
    let seed = env::var(SEED).map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("{SEED}={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let path = fresh_path("storm");
    let proxies: Vec<_> = (0..CLIENTS).map(|_| shared_proxy()).collect();
    let clients: Vec<_> = proxies
        .iter()
        .map(|proxy| client_of(&proxy.connect_string(), Duration::from_secs(3)))
        .collect();
    let witness = Arc::new(Witness::default());
    let losses = Arc::new(AtomicU32::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let tasks: Vec<_> = clients
        .iter()
        .map(|client| {
            let lock = lock_of(client, &path);
            let (witness, losses) = (Arc::clone(&witness), Arc::clone(&losses));
            let (sender, done) = bounded(1);
            let task = Task::spawn(move || {
                take_part(&lock, &witness, &losses);
                sender.send(()).unwrap();
            });
            (task, done)
        })
        .collect();
    let weather = {
        let (over, path) = (Arc::clone(&over), path.clone());
        Task::spawn(move || {
            let mut faults = std::collections::BTreeMap::new();
            while !over.load(Ordering::SeqCst) {
                *faults.entry(strike(&mut random, &proxies, &path)).or_insert(0) += 1;
                thread::sleep(Duration::from_millis(random.u64(5..100)));
            }
            proxies.iter().for_each(FaultProxy::restore);
            (faults, proxies)
        })
    };
    for (task, done) in &tasks {
        let ended = done.recv_timeout(PATIENCE.saturating_sub(begun.elapsed()));
        assert!(ended.is_ok(), "hangs or has panicked, {SEED}={seed}: {witness:?}");
        task.result("one of the storm");
    }
    let took = begun.elapsed();
    over.store(true, Ordering::SeqCst);
    let (faults, proxies) = weather.result("the weather");
    println!("{took:?}, {faults:?}, {witness:?}, {losses:?} losses");
    witness.saw(CLIENTS as u32 * ENTRIES);
    for client in &clients {
        await_nothing_left(client);
        println!("{:?}", client.stats());
    }
    wait_until("its node is gone", SOON, || !exists(&path));
    drop(proxies);
}
