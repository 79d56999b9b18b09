//! Deadlines, and what is known at them.

use std::time::{Duration, Instant};

use zoolock::{ClientState, Error};
use zoolock_test_support::{Op, fresh_path, wait_until};

use super::{await_leases, is_free, leases_of, nodes, semaphore};
use common::{SESSION, SOON, Task, client, client_of, shared_proxy};

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
