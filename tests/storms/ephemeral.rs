//! Everything at once.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{EphemeralLock, Error, LossReason};
use zoolock_test_support::{FaultProxy, Op, Then, fresh_path, wait_until};

use common::{SOON, Task, Witness, await_nothing_left, client_of, exists, shared_proxy};

/// The session timeout of clients that are to lose their locks.
const SHORT: Duration = Duration::from_secs(3);
/// Fixes what the storm does.
const SEED: &str = "ZOOLOCK_SEED";
const CLIENTS: usize = 4;
const ENTRIES: u32 = 100;
/// Work inside begins only with this much of the lease left, and takes far less.
const ENOUGH: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(240);

/// One fault, on one of the ways.
fn strike(random: &mut fastrand::Rng, proxies: &[FaultProxy], path: &str) {
    let proxy = &proxies[random.usize(..proxies.len())];
    let on = |op| proxy.on(op).path_contains(path);
    drop(match random.u32(..11) {
        0 | 1 => return proxy.cut(),
        2 | 3 => return proxy.reset(),
        4 => on(Op::Create).drop_answer(Then::Cut),
        5 => on(Op::Delete).drop_answer(Then::Cut),
        6 => on(Op::Create).drop_request(Then::Cut),
        7 => on(Op::Delete).drop_request(Then::Cut),
        8 => on(Op::Create).drop_answer(Then::Hold),
        9 => on(Op::GetData).drop_answer(Then::Cut),
        _ => on(Op::Event).drop_answer(Then::Cut),
    });
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
        let hold = lock.hold().unwrap();
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
    let clients: Vec<_> =
        proxies.iter().map(|proxy| client_of(&proxy.connect_string(), SHORT)).collect();
    let witness = Arc::new(Witness::default());
    let losses = Arc::new(AtomicU32::new(0));
    let begun = Instant::now();
    let tasks: Vec<_> = clients
        .iter()
        .map(|client| {
            let lock = EphemeralLock::new(client, &path).unwrap();
            let (witness, losses) = (Arc::clone(&witness), Arc::clone(&losses));
            Task::spawn(move || take_part(&lock, &witness, &losses))
        })
        .collect();
    let mut faults = 0;
    while !tasks.iter().all(Task::is_done) {
        let late = begun.elapsed() > PATIENCE;
        assert!(!late, "hangs or has panicked, {SEED}={seed}: {witness:?}");
        strike(&mut random, &proxies, &path);
        faults += 1;
        thread::sleep(Duration::from_millis(random.u64(5..100)));
    }
    proxies.iter().for_each(FaultProxy::restore);
    println!("{:?}, {faults} faults, {witness:?}, {losses:?} losses", begun.elapsed());
    witness.saw(CLIENTS as u32 * ENTRIES);
    clients.iter().for_each(await_nothing_left);
    wait_until("nothing is left", SOON, || !exists(&path));
}
