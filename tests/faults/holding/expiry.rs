//! Leases: how they end, and that they do not end before.

use std::thread;
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, Hold, HoldState, LossReason};
use zoolock_test_support::{Direction, fresh_path, wait_until};

use super::{EXPIRED, SHORT, lost_at};
use common::basics::{await_nodes, hold_of};
use common::{SOON, Stage, Task, assert_lost, client, client_of};

/// Waits until `is_held()` is false; when that was, and when by the last word of `valid_for()`
/// it had to be.
fn unheld_at(hold: &Hold) -> (Instant, Instant) {
    let mut ends = Instant::now();
    while hold.is_held() {
        ends = ends.max(Instant::now() + hold.valid_for());
        thread::sleep(Duration::from_millis(1));
    }
    (Instant::now(), ends)
}

/// Lost to the silence of one way or both, and told so before anybody else is let in.
fn is_lost_before_a_rival_is_granted(silent: Direction) {
    let stage = Stage::new("expired", SHORT);
    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    let rivals = client();
    let rival = DistributedLock::new(&rivals, &stage.path).unwrap();
    let (waiting, seen) = (rival.clone(), hold.clone());
    // Asked by the thread that was granted, so that no other needs to be fast.
    let granted = Task::spawn(move || {
        waiting.lock().map(|()| {
            let told = seen.lost().try_recv().is_err_and(|e| e.is_disconnected());
            (seen.is_held(), told, Instant::now())
        })
    });
    await_nodes(&stage.path, 2);
    let (polled, listened) = (hold.clone(), hold.clone());
    let unheld = Task::spawn(move || unheld_at(&polled).0);
    let lost = Task::spawn(move || lost_at(&listened));
    let begun = Instant::now();
    stage.proxy.black_hole(silent);

    let (held, told, granted) = granted.result("the rival").unwrap();
    let unheld = unheld.result("is_held() is false");
    let lost = lost.result("lost() is ready");
    println!(
        "{silent:?} silent: is_held() false after {:?}, lost() ready {:?}, rival granted {:?}",
        unheld.saturating_duration_since(begun),
        lost.saturating_duration_since(begun),
        granted.saturating_duration_since(begun),
    );
    assert!(!held, "held when the rival was granted: {hold:?}");
    assert!(told, "not told of the loss when the rival was granted");
    assert_eq!(hold.state(), EXPIRED);

    let node = hold_of(&rival).node();
    let unlocked = stage.lock.unlock();
    assert_lost(&unlocked, &stage.path, LossReason::LeaseExpired);
    stage.proxy.restore();
    // A proof that the first client is back and has cleaned up after itself.
    let done = || !stage.lock.try_lock().unwrap_or(true) && stage.client.stats().deleting == 0;
    wait_until("the first client has cleaned up", SOON, done);
    assert_eq!(await_nodes(&stage.path, 1), [node]);
    assert!(rival.is_held());
    rival.unlock().unwrap();
}

#[test]
fn an_expired_session_is_lost_before_a_rival_is_granted() {
    is_lost_before_a_rival_is_granted(Direction::Both);
}

#[test]
fn a_silent_server_loses_the_lock_before_a_rival_is_granted() {
    is_lost_before_a_rival_is_granted(Direction::ToClient);
}

#[test]
fn an_unheard_client_loses_the_lock_before_a_rival_is_granted() {
    is_lost_before_a_rival_is_granted(Direction::ToServer);
}

#[test]
fn a_black_hole_is_lost_by_the_own_clock() {
    let stage = Stage::new("black_hole", SHORT);
    let hold = stage.lock.acquire().unwrap();
    let (polled, listened) = (hold.hold(), hold.hold());
    let begun = Instant::now();
    stage.proxy.black_hole(Direction::Both);
    let unheld = Task::spawn(move || unheld_at(&polled));
    let lost = Task::spawn(move || lost_at(&listened));
    let (unheld, ends) = unheld.result("is_held() is false");
    let lost = lost.result("lost() is ready");
    println!(
        "the lease ended {:?} after the black hole; noticed {:?} later, announced {:?} later",
        ends - begun,
        unheld.saturating_duration_since(ends),
        lost.saturating_duration_since(ends),
    );
    assert_eq!(hold.state(), EXPIRED);
    assert!(ends - begun < SHORT, "the lease is longer than the session");
    let limit = ends + Duration::from_secs(1);
    assert!(unheld < limit && lost < limit);
    assert_lost(&hold.release(), &stage.path, LossReason::LeaseExpired);
}

#[test]
fn a_lease_is_renewed_for_as_long_as_the_lock_is_held() {
    let [idle, busy] = [(); 2].map(|()| client_of(&zoolock_test_support::connect_string(), SHORT));
    let path = fresh_path("renewed");
    let at = |client: &Client, name: &str| {
        DistributedLock::new(client, format!("{path}/{name}")).unwrap()
    };
    let (held_idle, held_busy, short) = (at(&idle, "a"), at(&busy, "b"), at(&busy, "c"));
    held_idle.lock().unwrap();
    held_busy.lock().unwrap();
    let holds = [hold_of(&held_idle), hold_of(&held_busy)];
    let (begun, end) = (Instant::now(), Instant::now() + 5 * SHORT);
    let mut least = [SHORT; 2];
    let mut shrank = [0_u32; 2];
    let mut grew = [0_u32; 2];
    let mut last = holds.each_ref().map(Hold::valid_for);
    let mut cycles = 0;
    while Instant::now() < end {
        short.lock().unwrap();
        short.unlock().unwrap();
        cycles += 1;
        for (number, hold) in holds.iter().enumerate() {
            assert!(hold.is_held(), "after {:?}: {hold:?}", begun.elapsed());
            assert_eq!(hold.state(), HoldState::Held, "{:?}", begun.elapsed());
            let left = hold.valid_for();
            assert!(left <= SHORT, "a lease of {left:?}");
            shrank[number] += u32::from(left < last[number]);
            grew[number] += u32::from(left > last[number]);
            least[number] = least[number].min(left);
            last[number] = left;
        }
        thread::sleep(Duration::from_millis(5));
    }
    println!(
        "held for {:?} on an idle and a busy client ({cycles} other locks): \
         least left {least:?}, renewed {grew:?} times",
        begun.elapsed()
    );
    assert!(shrank.iter().all(|times| *times > 5), "{shrank:?}");
    assert!(grew.iter().all(|times| *times >= 5), "{grew:?}");
    held_idle.unlock().unwrap();
    held_busy.unlock().unwrap();
}

#[test]
fn a_hold_goes_from_held_over_suspended_to_lost() {
    let stage = Stage::new("states", SHORT);
    let guard = stage.lock.acquire().unwrap();
    let mut seen = vec![guard.state()];
    stage.proxy.refuse(true);
    stage.proxy.cut();
    wait_until("lost", SOON, || {
        let now = guard.state();
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        // Held is what both look like.
        let looks_held = matches!(now, HoldState::Held | HoldState::Suspended);
        assert!(looks_held || !guard.is_held(), "{seen:?}");
        !looks_held
    });
    println!("{seen:?}");
    assert_eq!(seen, [HoldState::Held, HoldState::Suspended, EXPIRED]);
    stage.proxy.refuse(false);
    let connected = || stage.client.stats().connections >= 2;
    wait_until("connected again", SOON, connected);
    assert_eq!(guard.state(), EXPIRED, "a lost hold stays lost");
    assert_lost(&guard.release(), &stage.path, LossReason::LeaseExpired);
}

#[test]
fn is_held_ends_with_the_lease_whether_announced_or_not() {
    let stage = Stage::new("by_the_clock", SHORT);
    stage.lock.lock().unwrap();
    let hold = hold_of(&stage.lock);
    stage.proxy.black_hole(Direction::Both);
    let mut looks = 0_u64;
    loop {
        match hold.valid_for() {
            Duration::ZERO => break,
            // No pause: the thread that announces the loss needs some microseconds to wake up.
            left if left < Duration::from_millis(50) => looks += 1,
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
    let (held, state) = (hold.is_held(), hold.state());
    println!("{held}, {state:?} after {looks} looks");
    assert_eq!((held, state), (false, EXPIRED));
}
