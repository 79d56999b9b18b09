//! Schedules that guarded writes, leaderships and minimum holds bear.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::unbounded;
use zoolock::{DistributedLock, Error, Leadership, LockOptions};
use zoolock_test_support::{Direction, connect_string, fresh_path, shared_probe, wait_until};

use common::{SOON, await_nodes, await_nothing_left, client, client_of, lock_of, shared_proxy};

const LONG: Duration = Duration::from_secs(30);

/// Whoever holds the lock writes its name and reads it again; those who had it before go on writing theirs, by
/// the holds that they had, over cuts.
#[test]
fn no_write_of_a_hold_that_is_over_is_carried_out_in_the_next_one_however_the_lock_goes_on() {
    let options = LockOptions::new;
    for (what, options) in [
        ("plain", options()),
        ("handed on", options().local_handoffs(8)),
        ("kept", options().keep_idle(LONG)),
        ("both", options().local_handoffs(2).keep_idle(LONG)),
        ("in the background", options().background_release(true)),
    ] {
        let (proxy, path, guarded) = (shared_proxy(), fresh_path("late-writes"), fresh_path("by"));
        shared_probe().unwrap().create(&guarded, b"nobody", false, false).unwrap();
        let own = client_of(&proxy.connect_string(), LONG);
        let lock = DistributedLock::with(&own, &*path, options).unwrap();
        let rival = lock_of(&client(), &path);
        let (stop, next) = (AtomicBool::new(false), AtomicU64::new(0));
        let [turns, late, unknown] = [(); 3].map(|()| AtomicU64::new(0));
        thread::scope(|scope| {
            for locks in [lock.clone(), lock.clone(), lock.clone(), rival] {
                let (own, guarded, stop, next) = (&own, &guarded, &stop, &next);
                let (turns, late, unknown) = (&turns, &late, &unknown);
                scope.spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        locks.lock().unwrap();
                        let hold = locks.hold().unwrap();
                        let name = next.fetch_add(1, Ordering::SeqCst).to_string();
                        let write = hold.transaction().set(guarded, &*name, None);
                        while let Err(error) = write.clone().commit() {
                            assert!(matches!(error, Error::Disconnected { .. }), "{error:?}");
                        }
                        for _ in 0..3 {
                            let read = loop {
                                match own.read(guarded) {
                                    Ok(read) => break read.unwrap().0,
                                    Err(error) => println!("{error}"),
                                }
                            };
                            if read != name.as_bytes() {
                                let read = String::from_utf8(read).unwrap();
                                panic!("{what}: {read} instead of {name}");
                            }
                        }
                        scope.spawn(move || {
                            loop {
                                match write.clone().commit() {
                                    Ok(()) => {}
                                    Err(Error::Disconnected { .. }) => {
                                        unknown.fetch_add(1, Ordering::SeqCst);
                                    }
                                    Err(error) => {
                                        late.fetch_add(1, Ordering::SeqCst);
                                        return error;
                                    }
                                }
                            }
                        });
                        locks.unlock().unwrap();
                        turns.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(4) {
                thread::sleep(Duration::from_millis(150));
                proxy.cut();
            }
            stop.store(true, Ordering::SeqCst);
        });
        println!(
            "{what}: {turns:?} turns, {late:?} refused, {unknown:?} unknown, {:?}",
            own.stats()
        );
    }
}

/// Whatever it is at, and whether anything answers.
#[test]
fn a_shutdown_without_answers_takes_a_third_of_a_session_timeout() {
    let timeout = Duration::from_secs(6);
    for what in ["leads", "stands by", "pauses", "asks", "is away"] {
        let (proxy, path) = (shared_proxy(), fresh_path("shut-down"));
        let own = client_of(&proxy.connect_string(), timeout);
        let others = lock_of(&client(), &path);
        let (tell, told) = unbounded();
        if what == "stands by" {
            others.lock().unwrap();
        }
        if what == "asks" {
            proxy.black_hole(Direction::Both);
        }
        if what == "is away" {
            proxy.refuse(true);
            proxy.cut();
        }
        let one = Leadership::new(&own, &*path, LockOptions::new(), move |term| {
            tell.send(()).unwrap();
            if what == "pauses" {
                panic!("on purpose");
            }
            term.wait(Duration::MAX);
            assert!(!term.wait(Duration::ZERO) || term.is_over());
        })
        .unwrap();
        if ["leads", "pauses"].contains(&what) {
            told.recv_timeout(SOON).unwrap();
        }
        thread::sleep(Duration::from_millis(300));
        if what != "is away" {
            proxy.black_hole(Direction::Both);
        }
        let begun = Instant::now();
        one.shutdown();
        println!("{what}: {:?}", begun.elapsed());
        assert!(begun.elapsed() < timeout / 3 + Duration::from_millis(500), "{what}");
    }
}

/// The options of a leadership are those of a lock.
#[test]
fn an_observer_that_panics_leaves_nothing_behind_and_the_contest_goes_on() {
    let path = fresh_path("observed");
    let [own, others] = [(); 2].map(|()| client_of(&connect_string(), Duration::from_secs(1)));
    let others = lock_of(&others, &path);
    others.lock().unwrap();
    let (tell, told) = unbounded();
    let options = LockOptions::new().observe_queue(LONG, move |_| {
        tell.send(None).unwrap();
        panic!("on purpose");
    });
    let (tell, terms) = unbounded();
    let one = Leadership::new(&own, &*path, options, move |term| {
        tell.send(term.token()).unwrap();
        term.wait(Duration::MAX);
    });
    let one = one.unwrap();
    for _ in 0..4 {
        assert_eq!(told.recv_timeout(SOON), Ok(None::<()>));
    }
    wait_until("its health is bad", SOON, || !one.health());
    others.unlock().unwrap();
    terms.recv_timeout(SOON).unwrap();
    assert!(one.health() && one.is_leader());
    one.shutdown();
    await_nodes(&path, 0);
    await_nothing_left(&own);
}

#[test]
fn a_leadership_with_a_minimum_hold_leads_once_in_that_time() {
    const AT_LEAST: Duration = Duration::from_millis(700);
    let (own, path, (tell, terms)) = (client(), fresh_path("now-and-then"), unbounded());
    let options = LockOptions::new().hold_at_least(AT_LEAST);
    let one = Leadership::new(&own, &*path, options, move |term| {
        tell.send((Instant::now(), term.token())).unwrap();
    });
    let one = one.unwrap();
    let terms: Vec<_> = terms.iter().take(4).collect();
    let apart: Vec<_> = terms.windows(2).map(|two| two[1].0 - two[0].0).collect();
    println!("{apart:?}");
    // The node is granted a moment before the function is called.
    assert!(apart.iter().all(|apart| *apart + Duration::from_millis(100) > AT_LEAST));
    assert!(terms.is_sorted_by(|a, b| a.1 < b.1) && one.health());
    let begun = Instant::now();
    one.shutdown();
    println!("shutdown {:?}", begun.elapsed());
    await_nodes(&path, 0);
    await_nothing_left(&own);
}
