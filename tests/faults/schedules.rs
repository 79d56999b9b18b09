//! Schedules, found by attacking the locks, each of which has violated a promise once.

use std::thread;
use std::time::{Duration, Instant};

use zookeeper::Permissions;
use zoolock::{CancelToken, ClientState, DistributedLock, EphemeralLock, Error, LockOptions};

use super::{LONG, SHORT, allow, hide};
use common::semaphore::{acquiring, await_leases, await_turns, leases_of, semaphore};
use common::*;

#[test]
fn deadline_and_cancel_end_the_creation_of_directories() {
    let (proxy, own) = behind_a_proxy(LONG);
    let deep = || lock_of(&own, &format!("{}/1/2/3/4/5/6/7/8", fresh_path("deep")));
    proxy.delay(Direction::Both, Duration::from_millis(250));
    let timed = deep();
    let second = Duration::from_secs(1);
    let got = in_time("a try for a second", 2 * second, || timed.lock_within(second));
    assert!(matches!(got, Err(Error::Disconnected { .. })), "{got:?}");
    proxy.restore();
    let making = proxy.on(Op::Multi).hold_request();
    let lock = deep();
    let token = CancelToken::new();
    let call = locking_by(&lock, &token);
    assert!(making.wait(SOON));
    token.cancel();
    let ended = in_time("lock(), after the cancel", LONG / 12, || call.result("lock()"));
    assert!(matches!(ended, Err(Error::Cancelled { .. })));
}

#[test]
fn cancel_and_close_end_the_creation_of_the_chroot() {
    for closes in [false, true] {
        let proxy = shared_proxy();
        let hosts = format!("{}{}/2/3", proxy.connect_string(), fresh_path("chroot"));
        let own = client_of(&hosts, LONG);
        let making = proxy.on(Op::Create).path_contains("/2").hold_request();
        let lock = lock_of(&own, "/lock");
        let token = CancelToken::new();
        let call = locking_by(&lock, &token);
        assert!(making.wait(SOON));
        let closed = closes.then(|| Task::spawn(move || own.close()));
        if !closes {
            token.cancel();
        }
        let ended = in_time("lock(), while it is made", LONG / 12, || call.result("lock()"));
        let is_it = match closes {
            true => matches!(ended, Err(Error::Closed)),
            false => matches!(ended, Err(Error::Cancelled { .. })),
        };
        assert!(is_it, "{ended:?}");
        making.release();
        closed.map(|closed| closed.result("close()"));
    }
}

#[test]
fn chroot_is_created_again_when_a_level_of_it_goes_meanwhile() {
    let (above, probe, proxy) =
        (fresh_path("chroot-goes"), shared_probe().unwrap(), shared_proxy());
    probe.create_all(&above).unwrap();
    let own = client_of(&format!("{}{above}/1", proxy.connect_string()), LONG);
    let making = proxy.on(Op::Create).path_contains(&format!("{above}/1")).hold_request();
    let lock = lock_of(&own, "/lock");
    let token = CancelToken::new();
    let call = locking_by(&lock, &token);
    assert!(making.wait(SOON));
    let seen = format!("< Create {above} error -110");
    wait_until("it is there", SOON, || proxy.log().iter().any(|line| line.contains(&seen)));
    // Another client that had created this directory for its lock would delete it in the same way.
    probe.delete(&above).unwrap();
    making.release();
    call.result("lock()").unwrap();
    lock.unlock().unwrap();
}

#[test]
fn waiter_is_denied_when_stuck_permits_leave_no_room() {
    let own = client();
    let path = fresh_path("stuck-permits");
    let probe = shared_probe().unwrap();
    probe.create_all(&path).unwrap();
    probe.create_with_acl(&leases_of(&path), b"", &[NO_DELETE]).unwrap();
    let semaphore = semaphore(&own, &path, 3);
    let denied = semaphore.acquire(1).unwrap().release();
    let held = semaphore.acquire(1).unwrap();
    let waiting = acquiring(&semaphore, 2);
    await_leases(&path, 4);
    assert!(!waiting.is_done(), "there will be room after the other permit is released");
    let also_denied = held.release();
    let waited = waiting.result("the call that waits for two").map(drop);
    println!("{denied:?}, {also_denied:?}, {waited:?}");
    for refused in [denied, also_denied, waited] {
        assert!(matches!(refused, Err(Error::PermissionDenied { .. })), "{refused:?}");
    }
}

#[test]
fn client_without_locks_is_not_lost_before_its_session_timeout() {
    let (proxy, own) = behind_a_proxy(Duration::from_secs(4));
    let events = own.subscribe();
    // Longer than a lease that is not renewed.
    let begun = Instant::now();
    wait_until("it has been idle", SOON, || begun.elapsed() > own.session_timeout());
    proxy.cut_off();
    assert_eq!(events.recv_timeout(SOON), Ok(ClientState::Suspended));
    assert_eq!(own.state(), ClientState::Suspended);
    proxy.refuse(false);
    assert_eq!(events.recv_timeout(SOON), Ok(ClientState::Connected));
    let begun = Instant::now();
    proxy.cut_off();
    assert_eq!(events.recv_timeout(SOON), Ok(ClientState::Suspended));
    assert_eq!(events.recv_timeout(SOON), Ok(ClientState::Lost));
    assert!(begun.elapsed() >= own.session_timeout(), "after {:?}", begun.elapsed());
}

#[test]
fn views_of_ended_holds_use_no_quota() {
    let own = client();
    let deep = format!("{}{}", fresh_path("views"), format!("/{}", "a".repeat(200)).repeat(15));
    let lock = lock_of(&own, &deep);
    let views: Vec<_> = (0..300).map(|_| lock.acquire().unwrap().hold()).collect();
    println!("{} views of {} bytes each", views.len(), deep.len());
}

/// Returns how often the client's timer thread has woken up.
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
fn timer_rests_after_a_thousand_short_minimum_holds() {
    if std::env::var(OWN_PROCESS).is_err() {
        let name = "schedules::timer_rests_after_a_thousand_short_minimum_holds";
        return drop(run_again(name, OWN_PROCESS, "yes"));
    }
    let own = client();
    let path = fresh_path("reminders");
    // While this lock is held, the timer has work.
    let long = lock_of(&own, &format!("{path}/long"));
    long.lock().unwrap();
    let options = LockOptions::new().hold_at_least(Duration::from_millis(2));
    let lock = DistributedLock::with_options(&own, format!("{path}/short"), options).unwrap();
    for _ in 0..1_000 {
        lock.lock().unwrap();
        lock.unlock().unwrap();
        wait_until("it is given back", SOON, || own.stats().held == 1);
    }
    let (second, begun) = (Duration::from_secs(1), wake_ups());
    wait_until("the timer rests", SOON, || {
        let before = wake_ups();
        thread::sleep(second);
        let woken = wake_ups() - before;
        println!("{woken} wake-ups in a second");
        // The lease is checked ten times per second, and there are a few heartbeats.
        woken < 25
    });
    assert!(wake_ups() - begun < 2500, "each of the old alarms woke it");
}

/// Another client replaces the node before the owner watches it, which it does after a quarter of the session timeout.
#[test]
fn replaced_single_node_is_not_mistaken_for_the_own() {
    let (own, rivals) = (client_of(&connect_string(), SHORT), client());
    let path = fresh_path("replaced-and-asked");
    let [first, next] = [&own, &rivals].map(|client| EphemeralLock::new(client, &path).unwrap());
    first.lock().unwrap();
    let hold = first.hold().unwrap();
    shared_probe().unwrap().delete(&path).unwrap();
    next.lock().unwrap();
    await_lost(&hold);
    let unlocked = first.unlock();
    let stays = shared_probe().unwrap().exists(&path).unwrap();
    println!("{hold:?}, unlocked: {unlocked:?}; the next owner's node stays: {stays}");
    assert!(unlocked.is_err_and(|error| error.is_lost()), "the unlock does not report the loss");
    assert!(stays && next.is_held(), "the next owner's node was deleted");
}

/// An overloaded server may refuse a read. In this test, the server refuses it because of a missing permission.
#[test]
fn watch_refused_once_is_set_later() {
    // Held nodes are checked again every two to four session timeouts anyway, which is later than the test waits.
    let (own, path) = (client_of(&connect_string(), 2 * SESSION), fresh_path("refused-watch"));
    let hold = lock_of(&own, &path).acquire().unwrap();
    let node = format!("{path}/{}", hold.node());
    let requests = own.stats().requests;
    hide(&node);
    wait_until("a heartbeat and a refused read", SOON, || own.stats().requests >= requests + 2);
    allow(&node, Permissions::ALL);
    let asked = hold.revocation().unwrap();
    shared_probe().unwrap().set(&node, b"__REVOKE__").unwrap();
    let received = asked.recv_timeout(SOON / 2);
    println!("{received:?}, {hold:?}, {:?}", own.stats());
    assert!(received.is_ok(), "the request was not received");
}

/// The limit is lowered while the list that would grant the permits is in flight.
#[test]
fn lowered_limit_counts_for_a_look_under_way() {
    let ((proxy, own), others) = (behind_a_proxy(SESSION), client());
    let path = fresh_path("stale-limit");
    let leases = leases_of(&path);
    let [semaphore, other] = [&own, &others].map(|client| semaphore(client, &path, 3));
    let [one, last] = [1, 1].map(|count| other.acquire(count).unwrap());
    let call = acquiring(&semaphore, 3);
    await_leases(&path, 5);
    let look = proxy.on(Op::GetChildren).path_contains(&leases).hold_request();
    one.release().unwrap();
    assert!(look.wait(SOON), "{:#?}", proxy.log());
    semaphore.set_limit(2).unwrap();
    last.release().unwrap();
    look.release();
    // The answer to the delayed list arrived before the answer to this call.
    own.contenders(&path).unwrap();
    let looks = proxy.requests(Op::GetChildren);
    let (probe, note) = (shared_probe().unwrap(), format!("{leases}/note"));
    probe.create(&note, b"", false, false).unwrap();
    wait_until("it was granted, or has listed again", SOON, || {
        call.is_done() || proxy.requests(Op::GetChildren) > looks
    });
    probe.delete(&note).unwrap();
    assert!(!call.is_done(), "granted under a limit that no longer applied");
    semaphore.set_limit(3).unwrap();
    call.result("the call").unwrap().release().unwrap();
}

/// The call's turn node is deleted shortly before its deadline, so the call starts over with hardly any time left.
#[test]
fn call_that_loses_its_turn_at_its_deadline_times_out() {
    const CALLS: u64 = 40;
    const TIME: Duration = Duration::from_secs(3);
    let (own, others) = (client_of(&shared_address().to_string(), SHORT), client());
    let probe = Probe::connect(shared_address()).unwrap();
    let calls: Vec<_> = (0..CALLS)
        .map(|number| {
            let path = fresh_path("turn-at-the-deadline");
            let [own, other] = [&own, &others].map(|client| semaphore(client, &path, 1));
            let held = other.acquire(1).unwrap();
            let at = Instant::now() + TIME - Duration::from_millis(CALLS - number);
            let call = Task::spawn(move || own.acquire_within(1, TIME));
            let turn = format!("{path}/locks/{}", await_turns(&path, 1)[0]);
            (at, path, turn, held, call)
        })
        .collect();
    for (at, _, turn, ..) in &calls {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        let _ = probe.delete(turn);
    }
    let seen: Vec<_> = calls.iter().map(|call| call.4.result("a call")).collect();
    println!("{seen:?}");
    assert!(seen.iter().all(|seen| matches!(seen, Ok(None))), "{seen:?}");
    for (_, path, _, held, _) in calls {
        held.release().unwrap();
        await_turns(&path, 0);
    }
}
