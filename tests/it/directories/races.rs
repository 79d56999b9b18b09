//! Releases that race with those who make the directory again.

use std::sync::{Arc, Mutex};

use zoolock::{DistributedSemaphore, Result};
use zoolock_test_support::fresh_path;

use super::{is_gone, tidy, tidy_lock};
use crate::lock::core::hold_of;
use crate::util::{SOON, Task, Witness, children, client};

#[test]
fn releases_that_race_with_creators_disturb_nobody() {
    const THREADS: usize = 8;
    const ROUNDS: u32 = 100;
    let clients = [client(), client()];
    let path = fresh_path("race");
    let witness = Arc::new(Witness::default());
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let lock = tidy_lock(&clients[number % 2], &path);
            let (witness, tokens) = (Arc::clone(&witness), Arc::clone(&tokens));
            Task::spawn(move || -> Result<u32> {
                let mut made_again = 0;
                for round in 0..ROUNDS {
                    match round % 3 {
                        0 => lock.lock()?,
                        1 => while !lock.try_lock()? {},
                        _ => assert!(lock.try_lock_for(SOON)?),
                    }
                    let hold = hold_of(&lock);
                    let token = hold.fencing_token()?;
                    made_again += u32::from(hold.node().ends_with("0000000000"));
                    witness.visit(|| tokens.lock().unwrap().push(token));
                    lock.unlock()?;
                }
                Ok(made_again)
            })
        })
        .collect();
    let mut made_again = 0;
    for thread in threads {
        made_again += thread.result("a thread").unwrap();
    }
    witness.saw(THREADS as u32 * ROUNDS);
    let tokens = tokens.lock().unwrap();
    println!(
        "{} entries, {made_again} times in a new directory, {:?}",
        tokens.len(),
        clients.each_ref().map(|client| client.stats())
    );
    assert!(made_again > 1, "the directory never went");
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    is_gone(&path);
    for client in &clients {
        let stats = client.stats();
        assert_eq!((stats.seats_lost, stats.garbage, stats.seats), (0, 0, 0));
    }
}

#[test]
fn semaphores_that_are_removed_under_each_other_keep_the_limit() {
    const LIMIT: u32 = 2;
    const ROUNDS: usize = 25;
    let clients = [client(), client()];
    let path = fresh_path("semaphore-race");
    let out = Arc::new(Mutex::new((0, 0)));
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let client = &clients[number % 2];
            let semaphore = DistributedSemaphore::with(client, &path, LIMIT, tidy()).unwrap();
            let out = Arc::clone(&out);
            Task::spawn(move || -> Result<()> {
                for round in 0..ROUNDS {
                    let count = 1 + u32::try_from((round + number) % 2).unwrap();
                    let permits = semaphore.acquire(count)?;
                    {
                        let mut out = out.lock().unwrap();
                        out.0 += count;
                        out.1 = out.1.max(out.0);
                    }
                    std::thread::yield_now();
                    out.lock().unwrap().0 -= count;
                    permits.release()?;
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.result("a thread").unwrap();
    }
    let (left, most) = *out.lock().unwrap();
    println!("at most {most} out at once, {left} left; {:?}", children(&path));
    assert_eq!((left, most), (0, LIMIT));
    is_gone(&path);
}

#[test]
fn who_looks_while_it_comes_and_goes_sees_one_holder_or_nobody() {
    const ROUNDS: u32 = 150;
    let clients = [client(), client(), client()];
    let path = fresh_path("looked-at");
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let lock = tidy_lock(&clients[number % 2], &path);
            Task::spawn(move || {
                (0..ROUNDS).try_for_each(|_| lock.lock().and_then(|()| lock.unlock()))
            })
        })
        .collect();
    let (mut looks, mut nobody, mut most) = (0, 0, 0);
    while !threads.iter().all(Task::is_done) {
        let seen = clients[2].contenders(&path).unwrap();
        let holders = seen.iter().filter(|contender| contender.holds).count();
        assert_eq!(holders, usize::from(!seen.is_empty()), "{seen:?}");
        assert!(seen.is_sorted_by(|a, b| a.sequence < b.sequence), "{seen:?}");
        (looks, most) = (looks + 1, most.max(seen.len()));
        nobody += usize::from(seen.is_empty());
    }
    println!("{looks} looks, {nobody} times nobody, at most {most}");
    for thread in threads {
        thread.result("a thread").unwrap();
    }
    assert_eq!(clients[2].contenders(&path).unwrap(), []);
    is_gone(&path);
}
