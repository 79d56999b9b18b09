//! Requests that were lost with earlier calls, and the times at which waiters list again.

use std::time::{Duration, Instant};

use zoolock::{CancelToken, ClientState, Error};

use super::{LONG, SHORT};
use common::*;

#[test]
fn lost_create_of_an_old_session_delays_no_later_call() {
    let (proxy, own) = behind_a_proxy(LONG);
    let [lock, other] = ["lost-before", "other"].map(|name| lock_of(&own, &fresh_path(name)));
    for lock in [&lock, &other] {
        lock.acquire().unwrap().release().unwrap();
    }
    proxy.refuse(true);
    let lost = proxy.drop_answer(Op::Multi, 1, Then::Cut);
    let token = CancelToken::new();
    let call = locking_by(&lock, &token);
    assert!(lost.wait(SOON), "{:#?}", proxy.log());
    wait_until("it is suspended", SOON, || own.state() == ClientState::Suspended);
    proxy.expire_sessions().unwrap();
    // The call ends after the client's first session has expired and before its second one begins.
    let connecting = proxy.on(Op::Connect).nth(2).hold_answer();
    proxy.refuse(false);
    assert!(connecting.wait(SOON), "{:#?}", proxy.log());
    token.cancel();
    assert!(matches!(call.result("lock()"), Err(Error::Cancelled { .. })));
    connecting.release();
    wait_until("it is connected", SOON, || own.state() == ClientState::Connected);
    // `try_lock` waits at most a third of the session timeout, which is less than a search for orphans takes.
    assert!(other.try_lock().unwrap(), "{:?}", own.stats());
    assert_eq!(own.stats().deleting, 0);
}

/// The thread ahead releases the lock shortly before the deadline, but the servers do not answer before it.
#[test]
fn call_that_has_waited_for_a_thread_is_late_and_not_disconnected() {
    let (proxy, own) = behind_a_proxy(LONG);
    let path = fresh_path("behind-a-thread");
    let [held, lock] = [(); 2].map(|()| lock_of(&own, &path));
    held.lock().unwrap();
    let creating = proxy.on(Op::Multi).hold_request();
    let call = Task::spawn_blocked(move || lock.lock_within(Duration::from_secs(1)));
    held.unlock().unwrap();
    let got = call.result("lock_within()");
    assert!(matches!(got, Ok(false)), "{got:?}");
    creating.release();
}

#[test]
fn quota_regains_lost_creates_of_waiting_calls() {
    const WAITING: usize = 100;
    let (proxy, own) = behind_a_proxy(SHORT);
    // All paths have the same length, so each node takes the same share of the quota.
    let deep = |name| {
        let path = format!("{}{}", fresh_path(name), format!("/{}", "a".repeat(200)).repeat(18));
        format!("{path}/{:a<1$}", "", 3900 - path.len())
    };
    let (path, beside) = (format!("{}/path", deep("charged")), deep("beside"));
    let locks = |count| (0..count).map(|number| lock_of(&own, &format!("{beside}/{number:04}")));
    let is_limit = |seen: &Result<bool, Error>| matches!(seen, Err(Error::LimitExceeded { .. }));
    let filled: Vec<_> = locks(1000).take_while(|lock| !is_limit(&lock.try_lock())).collect();
    filled.iter().for_each(|lock| lock.unlock().unwrap());
    let rival = client();
    let held = lock_of(&rival, &path);
    held.lock().unwrap();
    // Each read has its own node, so the threads do not wait for each other.
    let read = |_| {
        let lock = rw_of(&own, &path).reader();
        Task::spawn(move || lock.lock().and_then(|()| lock.unlock()))
    };
    // After this, the client knows that the directory exists, and creates only one node for each call.
    let first = read(0);
    wait_until("one waits", SOON, || children(&path).len() == 2);
    held.unlock().unwrap();
    first.result("a call").unwrap();
    held.lock().unwrap();
    let before = own.stats().requests;
    proxy.black_hole(Direction::ToServer);
    let calls: Vec<_> = (0..WAITING).map(read).collect();
    // Two creates are sent and lost. The creates of the other calls wait for the next transaction.
    wait_until("all have asked", SOON, || {
        let stats = own.stats();
        stats.waiting == WAITING && stats.requests >= before + 2
    });
    proxy.cut();
    proxy.restore();
    wait_until("all wait with another node", SOON, || children(&path).len() == WAITING + 1);
    let more: Vec<_> = locks(filled.len() - WAITING - 1).collect();
    let all = || more.iter().map(|lock| lock.try_lock()).collect::<Vec<_>>();
    let first = all();
    let refused = first.iter().filter(|seen| is_limit(seen)).count();
    println!("{refused} of {} more are refused, {} fit at all", more.len(), filled.len());
    assert!(refused > 0, "the quota refused nothing");
    more.iter().for_each(|lock| drop(lock.unlock()));
    wait_until("all have room", SOON, || {
        let is_room = all().iter().all(|seen| matches!(seen, Ok(true)));
        more.iter().for_each(|lock| drop(lock.unlock()));
        is_room
    });
    held.unlock().unwrap();
    for call in calls {
        call.result("a call").unwrap();
    }
}

#[test]
fn waiters_do_not_all_look_at_once_after_an_outage() {
    const WAITING: usize = 300;
    let looks = (0..5).find_map(|_| looks_behind_an_outage(WAITING));
    let looks = looks.expect("the machine is in time once");
    assert!(looks < WAITING as u64 / 2, "{looks} of {WAITING} list at once");
}

/// Returns how many waiters list within a session timeout after an outage. During the outage, all of them become due to
/// list; after it, only a quarter of them may be due. Returns `None` if the machine was too slow for the measurement.
fn looks_behind_an_outage(waiting: usize) -> Option<u64> {
    let server = Server::start().unwrap();
    let (proxy, own) = behind_a_proxy_of(&server, SHORT);
    let probe = Probe::connect(server.address()).unwrap();
    probe.create_all("/contended/lock-0000000000").unwrap();
    let token = CancelToken::new();
    let wait = |_| locking_by(&rw_of(&own, "/contended").reader(), &token);
    let calls: Vec<_> = (0..waiting).map(wait).collect();
    // After its list, a waiter sets watches, which is its last request.
    let all = waiting as u64;
    wait_until("all have sent their first list", SOON, || proxy.requests(Op::SetWatches) == all);
    // This answer arrives after all answers to the waiters. A waiter without an answer when the outage begins would
    // list later than the others.
    own.contenders("/other").unwrap();
    proxy.refuse(true);
    server.stop().unwrap();
    let begun = Instant::now();
    wait_until("all had to list", SOON, || begun.elapsed() > 9 * SHORT / 2);
    server.start_again().unwrap();
    let (before, begun) = (proxy.requests(Op::GetChildren), Instant::now());
    proxy.refuse(false);
    wait_until("it is connected", SOON, || own.state() == ClientState::Connected);
    let other = lock_of(&own, "/other");
    // The answers to these calls arrive after the answers to the waiters.
    for _ in 0..3 {
        other.acquire().unwrap().release().unwrap();
    }
    let (looks, took) = (proxy.requests(Op::GetChildren) - before, begun.elapsed());
    println!("{looks} lists in {took:?} after the outage, {:?}", own.stats());
    token.cancel();
    calls.into_iter().for_each(|call| drop(call.result("a call")));
    (took < SHORT && own.stats().sessions == 1).then_some(looks)
}
