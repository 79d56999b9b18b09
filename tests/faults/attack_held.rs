//! Schedules that guarded writes, leaderships and minimum holds bear.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::unbounded;
use zoolock::{DistributedLock, Error, Leadership, LockOptions};
use zoolock_test_support::{Direction, fresh_path, shared_probe};

use common::{SOON, client, client_of, lock_of, shared_proxy};

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
