//! Schedules that somebody has looked for who wanted the locks to fail, and found: each did.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use zoolock::{
    Client, ClientState, ConnectionEvent, DistributedLock, DistributedSemaphore, EphemeralLock,
    Error, LockOptions,
};
use zoolock_test_support::{Direction, Op, fresh_path, shared_probe, wait_until};

use common::single::make_parents;
use common::{
    SESSION, SOON, Task, assert_cancelled, children, client, client_of, in_time, lock_of,
    run_again, shared_proxy, stat,
};

/// Longer than any of these takes.
const LONG: Duration = Duration::from_secs(30);

fn single(client: &Client, path: &str) -> EphemeralLock {
    EphemeralLock::new(client, path).unwrap()
}

fn await_connection(client: &Client) {
    wait_until("connected", SOON, || client.state() == ClientState::Connected);
}

#[test]
fn a_cut_right_behind_a_grant_lets_no_second_one_in_and_costs_no_place() {
    let proxy = shared_proxy();
    let (own, others) = (client_of(&proxy.connect_string(), SESSION), client());
    let path = fresh_path("behind-the-grant");
    let long = lock_of(&own, &format!("{path}/long"));
    long.lock().unwrap();
    let (queued, node) = (lock_of(&own, &format!("{path}/q")), single(&own, &format!("{path}/s")));
    let rival = single(&others, &format!("{path}/s"));
    queued.lock().unwrap();
    queued.unlock().unwrap();
    let mut creates = Vec::new();
    for _ in 0..100 {
        let before = proxy.requests(Op::Create);
        // The answer comes, and the connection ends behind it.
        let _rule = proxy.on(Op::GetChildren).path_contains("/q").tear_answer(1 << 20);
        queued.lock().unwrap();
        creates.push(proxy.requests(Op::Create) - before);
        await_connection(&own);
        queued.unlock().unwrap();
        let _rule = proxy.on(Op::Create).path_contains("/s").tear_answer(1 << 20);
        node.lock().unwrap();
        await_connection(&own);
        // What has gone wrong is done by the time that this is answered.
        wait_until("it is answered", SOON, || own.contenders(&path).is_ok());
        assert!(!rival.try_lock().unwrap(), "two hold it: {:?}, {:?}", node.hold(), rival.hold());
        node.unlock().unwrap();
    }
    println!("{creates:?} creates, {:?}", own.stats());
    assert!(creates.iter().all(|&creates| creates == 1), "{creates:?}");
    assert_eq!((own.stats().sessions, own.stats().holds_lost), (1, 0));
}

#[test]
fn a_lost_create_that_two_look_for_is_deleted_once() {
    let proxy = shared_proxy();
    let (own, others) = (client_of(&proxy.connect_string(), LONG), client());
    let path = fresh_path("two-looks");
    let lock = single(&own, &format!("{path}/x"));
    let options = LockOptions::new().background_release(true);
    let beside = EphemeralLock::with(&own, format!("{path}/y"), options).unwrap();
    let rival = single(&others, &format!("{path}/x"));
    beside.lock().unwrap();
    // It has no answer when its caller gives up, and is looked for.
    let creating = proxy.on(Op::Create).path_contains("/x").hold_answer();
    let call = {
        let lock = lock.clone();
        Task::spawn(move || lock.lock())
    };
    assert!(creating.wait(SOON));
    lock.cancel_waiters();
    assert_cancelled(&call.result("lock()"), lock.path());
    let waiting = {
        let rival = rival.clone();
        Task::spawn(move || rival.lock())
    };
    // Who lets go in the same directory looks for it, too.
    beside.unlock().unwrap();
    let late = proxy.on(Op::SetData).nth(2).hold_answer();
    creating.release();
    waiting.result("the rival").unwrap();
    let node = stat(rival.path());
    late.release();
    wait_until("nothing is on its way", SOON, || own.stats().deleting == 0);
    own.contenders(&path).unwrap();
    assert_eq!(stat(rival.path()).czxid, node.czxid, "the rival's node");
    rival.unlock().unwrap();
}

#[test]
fn a_deadline_and_a_cancel_end_the_making_of_directories() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), LONG);
    let deep = || lock_of(&own, &format!("{}/1/2/3/4/5/6/7/8", fresh_path("deep")));
    proxy.delay(Direction::Both, Duration::from_millis(150));
    let timed = deep();
    let second = Duration::from_secs(1);
    let got = in_time("a try for a second", 2 * second, || timed.try_lock_for(second));
    assert!(matches!(got, Err(Error::Disconnected { .. })), "{got:?}");
    proxy.restore();
    let making = proxy.on(Op::Other(19)).hold_request();
    let lock = deep();
    let call = {
        let lock = lock.clone();
        Task::spawn(move || lock.lock())
    };
    assert!(making.wait(SOON));
    lock.cancel_waiters();
    let ended = in_time("lock(), after the cancel", LONG / 6, || call.result("lock()"));
    assert_cancelled(&ended, lock.path());
}

/// READ, WRITE, CREATE and ADMIN for everybody.
const NO_DELETE: (u32, &str, &str) = (1 | 2 | 4 | 16, "world", "anyone");

#[test]
fn who_waits_behind_an_own_node_is_told_when_that_cannot_be_deleted() {
    let own = client();
    let path = fresh_path("stuck");
    make_parents(&path);
    shared_probe().unwrap().create_with_acl(&path, b"", &[NO_DELETE]).unwrap();
    let [lock, other] = [(); 2].map(|()| lock_of(&own, &path));
    lock.lock().unwrap();
    let waiting = Task::spawn(move || other.lock());
    wait_until("it waits", SOON, || children(&path).len() == 2);
    let denied = lock.unlock();
    let waited = waiting.result("who waits behind it");
    let next = lock.lock();
    println!("{denied:?}, {waited:?}, {next:?}");
    for refused in [denied, waited, next] {
        assert!(matches!(refused, Err(Error::Denied { .. })), "{refused:?}");
    }
}

#[test]
fn a_client_without_locks_is_not_lost_before_a_session_timeout_is_over() {
    let proxy = shared_proxy();
    let own = client_of(&proxy.connect_string(), Duration::from_secs(4));
    let events = own.subscribe();
    // Longer than a lease that nothing renews.
    let begun = Instant::now();
    wait_until("it has been idle", SOON, || begun.elapsed() > own.session_timeout());
    proxy.refuse(true);
    proxy.cut();
    assert_eq!(events.recv_timeout(SOON), Ok(ConnectionEvent::Suspended));
    assert_eq!(own.state(), ClientState::Suspended);
    proxy.refuse(false);
    assert_eq!(events.recv_timeout(SOON), Ok(ConnectionEvent::Reconnected));
}

#[test]
fn views_of_holds_that_are_over_take_nothing_of_what_a_client_may_have() {
    let own = client();
    let deep = format!("{}{}", fresh_path("views"), format!("/{}", "a".repeat(200)).repeat(15));
    let lock = lock_of(&own, &deep);
    let views: Vec<_> = (0..300).map(|_| lock.acquire().unwrap().hold()).collect();
    println!("{} views of {} bytes each", views.len(), deep.len());
}

#[test]
fn of_two_who_try_for_one_permit_at_once_one_gets_it() {
    let path = fresh_path("both-try");
    let own = [(); 2].map(|()| DistributedSemaphore::new(&client(), &path, 1).unwrap());
    own[0].acquire(1).unwrap().release().unwrap();
    let mut got = [0; 2];
    for _ in 0..200 {
        let barrier = Barrier::new(2);
        let tried = thread::scope(|scope| {
            let threads = own.each_ref().map(|semaphore| {
                scope.spawn(|| {
                    barrier.wait();
                    let permits = semaphore.try_acquire(1).unwrap();
                    barrier.wait();
                    permits.is_some()
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(tried[0] ^ tried[1], "{tried:?} after {got:?}");
        got[usize::from(tried[1])] += 1;
    }
    println!("{got:?}");
}

const OWN: &str = "ZOOLOCK_TEST_REMINDERS";

/// How often the client's timer has woken.
fn wake_ups() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let statuses =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let of_timer = statuses.filter(|status| status.starts_with("Name:\tzookeeper-timer"));
    let switches = of_timer.filter_map(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line?.trim().parse::<u64>().ok()
    });
    switches.sum()
}

#[test]
fn the_timer_rests_behind_a_thousand_locks_that_were_kept_for_a_moment() {
    if std::env::var(OWN).is_err() {
        let name = "attacked::the_timer_rests_behind_a_thousand_locks_that_were_kept_for_a_moment";
        run_again(name, OWN, "yes");
        return;
    }
    let own = client();
    let path = fresh_path("reminders");
    // As long as it is held the timer has something to look after.
    let long = lock_of(&own, &format!("{path}/long"));
    long.lock().unwrap();
    let options = LockOptions::new().keep_idle(Duration::from_millis(2));
    let lock = DistributedLock::with(&own, format!("{path}/kept"), options).unwrap();
    for _ in 0..1_000 {
        lock.lock().unwrap();
        lock.unlock().unwrap();
        wait_until("it is given back", SOON, || own.stats().held == 1);
    }
    let second = Duration::from_secs(1);
    wait_until("the timer rests", SOON, || {
        let before = wake_ups();
        thread::sleep(second);
        let woken = wake_ups() - before;
        println!("{woken} wake-ups in a second");
        // Ten looks at the lease, and a heartbeat now and then.
        woken < 25
    });
}

#[test]
fn data_written_over_a_single_node_right_behind_its_grant_ask_its_holder_and_cost_no_hold() {
    let own = client();
    let path = fresh_path("written-over");
    let lock = single(&own, &path);
    for data in [&b"__REVOKE__"[..], b"anything", b""] {
        let guard = lock.acquire().unwrap();
        // Before the client has read anything of it.
        shared_probe().unwrap().set(&path, data).unwrap();
        let asked = guard.revocation().unwrap();
        let is_asked = data == b"__REVOKE__";
        match is_asked {
            true => asked.recv_timeout(SOON).unwrap(),
            // The read that sets the watch comes before the answer to this.
            false => drop(own.contenders(&path).unwrap()),
        }
        println!("{data:?}: {guard:?}, asked: {is_asked}");
        assert!(guard.is_held(), "{guard:?}");
        guard.release().unwrap();
    }
    assert_eq!(own.stats().holds_lost, 0);
}
