//! Deadlines, and what is known at them.

use std::time::{Duration, Instant};

use zoolock::{ClientState, Error};
use zoolock_test_support::{Direction, Op, fresh_path, wait_until};

use super::{await_leases, await_turns, is_free, leases_of, nodes, semaphore};
use common::{SESSION, SOON, Task, client, client_of, in_time, shared_proxy};

/// Longer than what a call needs that waits for nothing.
const TIMEOUT: Duration = Duration::from_secs(2);

#[test]
fn without_a_connection_nothing_is_known() {
    let proxy = shared_proxy();
    let cut = client_of(&proxy.connect_string(), SESSION);
    let path = fresh_path("sem-disconnected");
    let own = semaphore(&cut, &path, 2);
    own.acquire(1).unwrap().release().unwrap();
    proxy.refuse(true);
    proxy.cut();
    wait_until("it is suspended", SOON, || cut.state() == ClientState::Suspended);
    let disconnected = |what: &str, seen: Result<(), Error>| {
        let seen = seen.expect_err(what);
        println!("{what}: {seen}");
        assert!(
            matches!(&seen, Error::Disconnected { path: at } if *at == path),
            "{what}: {seen:?}"
        );
    };
    disconnected("try_acquire", own.try_acquire(1).map(drop));
    disconnected("available", own.available().map(drop));
    let timeout = Duration::from_millis(300);
    let begun = Instant::now();
    disconnected("try_acquire_for", own.try_acquire_for(1, timeout).map(drop));
    assert!(begun.elapsed() >= timeout);
    proxy.refuse(false);
    let permits = own.try_acquire_for(2, SOON).unwrap();
    permits.expect("they are free").release().unwrap();
    is_free(&own, &[&cut]);
}

/// The last look was not answered in time; the one before it saw that others had too many.
#[test]
fn a_deadline_that_comes_during_a_later_look_is_a_timeout_and_not_an_error() {
    let proxy = shared_proxy();
    let slow = client_of(&proxy.connect_string(), SESSION * 3);
    let others = client();
    let path = fresh_path("sem-slow-look");
    let (own, holder) = (semaphore(&slow, &path, 3), semaphore(&others, &path, 3));
    let held = [holder.acquire(1).unwrap(), holder.acquire(1).unwrap()];
    let waiter = {
        let own = own.clone();
        Task::spawn(move || own.try_acquire_for(3, TIMEOUT))
    };
    await_leases(&path, 5);
    let answered = format!("< GetChildren {}", leases_of(&path));
    wait_until("it waits", SOON, || proxy.log().iter().any(|line| line.contains(&answered)));
    let list = proxy.on(Op::GetChildren).path_contains(&leases_of(&path));
    let list = list.hold_answer();
    let [one, other] = held;
    one.release().unwrap();
    assert!(list.wait(TIMEOUT), "{:#?}", proxy.log());
    let seen = waiter.result("a call with a deadline");
    println!("{seen:?}");
    list.release();
    assert!(matches!(seen, Ok(None)), "others had too many: {seen:?}");
    assert_eq!(await_leases(&path, 1), nodes(&other));
    other.release().unwrap();
    is_free(&own, &[&slow, &others]);
}

/// The turn is given back in the background if need be.
#[test]
fn a_call_that_has_the_turn_comes_back_in_time_though_the_server_is_silent() {
    let proxy = shared_proxy();
    let silent = client_of(&proxy.connect_string(), SESSION * 3);
    let others = client();
    let path = fresh_path("sem-silent");
    let own = semaphore(&silent, &path, 2);
    let held = semaphore(&others, &path, 2).acquire(1).unwrap();
    for cancel in [false, true] {
        let waiter = {
            let (own, timeout) = (own.clone(), if cancel { SOON } else { TIMEOUT });
            Task::spawn(move || {
                let begun = Instant::now();
                (own.try_acquire_for(2, timeout), begun.elapsed())
            })
        };
        await_leases(&path, 3);
        await_turns(&path, 1);
        proxy.black_hole(Direction::Both);
        let (seen, took) = in_time("the call", TIMEOUT + Duration::from_secs(1), || {
            if cancel {
                own.cancel_waiters();
            }
            waiter.result("a call on a silent connection")
        });
        println!("cancelled: {cancel}: {seen:?} after {took:?}");
        match cancel {
            true => assert!(matches!(seen, Err(Error::Cancelled { .. })), "{seen:?}"),
            false => assert!(matches!(seen, Ok(None)), "{seen:?}"),
        }
        proxy.restore();
        assert_eq!(await_leases(&path, 1), nodes(&held));
        await_turns(&path, 0);
    }
    held.release().unwrap();
    is_free(&own, &[&silent, &others]);
}
