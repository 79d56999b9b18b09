//! Any number of permits at once: never above the limit, all or nothing, nobody starved.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, Error};
use zoolock_test_support::{Op, fresh_path, wait_until};

use super::{
    LEASES, Meter, acquiring, await_leases, await_turns, is_free, leases, nodes, semaphore, turns,
    waiting_with_the_turn,
};
use common::{BRIEFLY, SESSION, SOON, Task, client, client_of, shared_proxy};

/// Threads that have a lot to do.
const LONG: Duration = Duration::from_secs(120);

fn all_done<R: Send + 'static>(what: &str, tasks: Vec<Task<R>>) -> Vec<R> {
    wait_until(what, LONG, || tasks.iter().all(Task::is_done));
    tasks.iter().map(|task| task.result(what)).collect()
}

#[test]
fn ten_clients_with_random_quantities_never_have_more_than_the_limit() {
    const LIMIT: u32 = 7;
    const ROUNDS: u32 = 100;
    let clients: Vec<Client> = (0..10).map(|_| client()).collect();
    let path = fresh_path("sem-random");
    let meter = Arc::new(Meter::default());
    let begun = Instant::now();
    let users: Vec<_> = (0..)
        .zip(&clients)
        .map(|(number, client)| {
            let (own, meter) = (semaphore(client, &path, LIMIT), Arc::clone(&meter));
            Task::spawn(move || {
                let mut random = fastrand::Rng::with_seed(31 + number);
                let (mut missed, mut unknown) = (0, 0);
                for _ in 0..ROUNDS {
                    let count = random.u32(1..=LIMIT);
                    let permits = match random.u32(0..4) {
                        0 => own.try_acquire(count).unwrap(),
                        1 => {
                            let timeout = Duration::from_millis(random.u64(1..400));
                            match own.try_acquire_for(count, timeout) {
                                // The deadline came before the first answer.
                                Err(Error::Disconnected { .. }) => {
                                    unknown += 1;
                                    None
                                }
                                seen => seen.unwrap(),
                            }
                        }
                        _ => Some(own.acquire(count).unwrap()),
                    };
                    let Some(permits) = permits else {
                        missed += 1;
                        continue;
                    };
                    assert_eq!(permits.count() as u32, count);
                    let work = Duration::from_micros(random.u64(0..2000));
                    meter.use_up(permits, |permits| {
                        thread::sleep(work);
                        assert!(permits.is_held(), "{permits:?}");
                    });
                }
                (missed, unknown)
            })
        })
        .collect();
    let users = all_done("ten clients", users);
    let missed: u32 = users.iter().map(|(missed, _)| missed).sum();
    let unknown: u32 = users.iter().map(|(_, unknown)| unknown).sum();
    println!("{missed} missed, of {unknown} it is not known why; {:?}", begun.elapsed());
    meter.never_saw_more_than(LIMIT);
    assert_eq!(meter.grants() + missed, 10 * ROUNDS);
    assert!(meter.most() == LIMIT, "the limit was reached: {meter:?}");
    let clients: Vec<&Client> = clients.iter().collect();
    is_free(&semaphore(clients[0], &path, LIMIT), &clients);
}

/// Of whom two together want more than there are, from both sides, in two clients and in one.
#[test]
fn callers_of_more_than_half_cannot_block_each_other() {
    const LIMIT: u32 = 5;
    const ROUNDS: u32 = 60;
    let clients = [client(), client()];
    let path = fresh_path("sem-crossing");
    let meter = Arc::new(Meter::default());
    let begun = Instant::now();
    let callers: Vec<_> = [(0, 3), (1, 3), (0, 4), (1, 5)]
        .into_iter()
        .map(|(client, count)| {
            let own = semaphore(&clients[client], &path, LIMIT);
            let meter = Arc::clone(&meter);
            Task::spawn(move || {
                for _ in 0..ROUNDS {
                    meter.use_up(own.acquire(count).unwrap(), |_| {});
                }
            })
        })
        .collect();
    all_done("callers that cross", callers);
    println!("{} rounds in {:?}", 4 * ROUNDS, begun.elapsed());
    meter.never_saw_more_than(LIMIT);
    assert_eq!(meter.grants(), 4 * ROUNDS);
    is_free(&semaphore(&clients[0], &path, LIMIT), &[&clients[0], &clients[1]]);
}

#[test]
fn a_large_request_is_not_starved_by_small_ones_and_by_tries() {
    const LIMIT: u32 = 4;
    const LARGE: u32 = 10;
    let clients = [client(), client(), client()];
    let path = fresh_path("sem-large");
    let (small, tries) = (Arc::new(Meter::default()), Arc::new(Meter::default()));
    let over = Arc::new(AtomicBool::new(false));
    let mut stream = Vec::new();
    for number in 0..6 {
        let own = semaphore(&clients[number % 2], &path, LIMIT);
        let meter = Arc::clone(if number < 3 { &small } else { &tries });
        let over = Arc::clone(&over);
        stream.push(Task::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                let permits = match number < 3 {
                    true => Some(own.acquire(1).unwrap()),
                    false => own.try_acquire(1).unwrap(),
                };
                if let Some(permits) = permits {
                    meter.use_up(permits, |_| thread::sleep(Duration::from_millis(3)));
                }
            }
        }));
    }
    wait_until("the streams run", SOON, || small.grants() > 5 && tries.grants() > 0);
    let own = semaphore(&clients[2], &path, LIMIT);
    let mut longest = (Duration::ZERO, 0, 0);
    for _ in 0..LARGE {
        let (begun, before) = (Instant::now(), (small.grants(), tries.grants()));
        let permits = own.try_acquire_for(LIMIT, SOON).unwrap();
        let permits = permits.expect("granted at last");
        let grants = (small.grants() - before.0, tries.grants() - before.1);
        longest = longest.max((begun.elapsed(), grants.0, grants.1));
        permits.release().unwrap();
    }
    over.store(true, Ordering::SeqCst);
    all_done("the streams", stream);
    println!(
        "{LARGE} times all {LIMIT}; the longest wait (small ones and tries meanwhile): {longest:?}; \
         small ones {small:?}, tries {tries:?}"
    );
    // Those that were ahead of it, a few more that are counted late, and no others.
    assert!(longest.1 <= 12, "small ones overtook it: {longest:?}");
    is_free(&own, &[&clients[0], &clients[1], &clients[2]]);
}

#[test]
fn tries_take_nothing_that_whoever_has_the_turn_waits_for_and_write_nothing() {
    let clients = [client(), client()];
    let path = fresh_path("sem-try-turn");
    let own = clients.each_ref().map(|client| semaphore(client, &path, 4));
    let held = [own[0].acquire(1).unwrap(), own[0].acquire(1).unwrap()];
    let large = waiting_with_the_turn(&own[0], 4);
    let before = leases(&path);
    let [first, second] = held;
    first.release().unwrap();
    for own in &own {
        assert!(own.try_acquire(1).unwrap().is_none(), "two are free, and waited for");
        assert_eq!(own.available().unwrap(), 0);
    }
    assert_eq!(await_leases(&path, 5).len(), before.len() - 1);
    second.release().unwrap();
    let all = large.result("the large one").unwrap();
    assert_eq!(leases(&path), nodes(&all));
    all.release().unwrap();
    is_free(&own[0], &[&clients[0], &clients[1]]);
}

#[test]
fn a_call_that_ends_without_permits_leaves_none_behind() {
    let clients = [client(), client(), client()];
    let path = fresh_path("sem-all");
    let [holder, own, closing] = clients.each_ref().map(|client| semaphore(client, &path, 3));
    let held = holder.acquire(1).unwrap();
    let only = nodes(&held);

    // Again if a busy machine had no answer by then.
    let mut seen = own.try_acquire_for(3, BRIEFLY);
    while matches!(seen, Err(Error::Disconnected { .. })) {
        seen = own.try_acquire_for(3, BRIEFLY);
    }
    assert!(seen.unwrap().is_none());
    await_turns(&path, 0);
    assert_eq!(await_leases(&path, 1), only, "after a timeout");

    let waiter = waiting_with_the_turn(&own, 3);
    own.clone().cancel_waiters();
    let seen = waiter.result("a cancelled call");
    assert!(matches!(seen, Err(Error::Cancelled { .. })), "{seen:?}");
    await_turns(&path, 0);
    assert_eq!(await_leases(&path, 1), only, "after a cancel");

    let waiter = waiting_with_the_turn(&closing, 3);
    clients[2].close().unwrap();
    let seen = waiter.result("a call on a closed client");
    println!("{seen:?}");
    assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
    await_turns(&path, 0);
    assert_eq!(await_leases(&path, 1), only, "after a close");

    // Two were free all the time.
    own.try_acquire(2).unwrap().expect("two").release().unwrap();
    held.release().unwrap();
    is_free(&own, &[&clients[0], &clients[1]]);
}

/// Two that want what only one can have: whoever is second leaves nothing that is in the way.
#[test]
fn tries_that_meet_leave_nothing() {
    const ROUNDS: u32 = 100;
    let clients = [client(), client()];
    let path = fresh_path("sem-tries-meet");
    let meter = Arc::new(Meter::default());
    let tries: Vec<_> = clients
        .each_ref()
        .into_iter()
        .map(|client| {
            let (own, meter) = (semaphore(client, &path, 5), Arc::clone(&meter));
            Task::spawn(move || {
                for _ in 0..ROUNDS {
                    if let Some(permits) = own.try_acquire(3).unwrap() {
                        meter.use_up(permits, |_| {});
                    }
                }
            })
        })
        .collect();
    all_done("tries", tries);
    meter.never_saw_more_than(3);
    assert!(meter.grants() > 0, "{meter:?}");
    let own = semaphore(&clients[0], &path, 5);
    is_free(&own, &[&clients[0], &clients[1]]);
    let all = acquiring(&own, 5).result("all of them").unwrap();
    all.release().unwrap();
    assert_eq!(turns(&path), [""; 0]);
}

/// Its first look found enough for it, but by the time that it has made its nodes somebody else
/// has taken them.
#[test]
fn a_try_counts_again_after_its_nodes_are_made() {
    let proxy = shared_proxy();
    let clients = [client_of(&proxy.connect_string(), SESSION), client()];
    let path = fresh_path("sem-try-again");
    let own = clients.each_ref().map(|client| semaphore(client, &path, 5));
    own[1].acquire(1).unwrap().release().unwrap();
    let create = proxy.on(Op::Create).path_contains(LEASES).hold_request();
    let late = {
        let own = own[0].clone();
        Task::spawn(move || own.try_acquire(3))
    };
    assert!(create.wait(SOON), "{:#?}", proxy.log());
    let permits = own[1].try_acquire(3).unwrap().expect("three of five");
    create.release();
    let late = late.result("the late one").unwrap();
    println!("{permits:?}, the late one: {late:?}");
    assert!(late.is_none() && permits.is_held());
    assert_eq!(await_leases(&path, 3), nodes(&permits));
    permits.release().unwrap();
    is_free(&own[0], &[&clients[0], &clients[1]]);
}
