//! Sessions that outlive their connections: a whole ensemble that is down for long, servers that
//! resume a session and must not be believed, and creates that come late.

use std::time::{Duration, Instant};

use zoolock::{HoldState, LossReason};
use zoolock_test_support::{
    Ensemble, FaultProxy, Op, Probe, Then, fresh_path, shared_probe, wait_until,
};

use super::{Ways, start};
use common::line::Line;
use common::{
    SOON, Task, answered, await_lost, behind_a_proxy, children, client, client_of, in_time, lock_of,
};

/// Six ticks of the members, so long that a slow machine loses nothing by itself.
const T: Duration = Duration::from_secs(6);

#[test]
fn an_ensemble_that_is_down_for_three_timeouts_ends_holds_in_time_and_keeps_the_queue() {
    const HELD: usize = 8;
    const WAITING: usize = 100;
    let ensemble = start(Ensemble::builder(3).tick(Duration::from_secs(1)));
    let clients = [(); 2].map(|()| client_of(&ensemble.connect_string(), T));
    let held: Vec<_> = (0..HELD).map(|n| lock_of(&clients[0], &format!("/locks/{n}"))).collect();
    held.iter().for_each(|lock| lock.lock().unwrap());
    let holds: Vec<_> = held.iter().map(|lock| lock.hold().unwrap()).collect();
    // All behind the first of them, of both clients.
    let mut line = Line::at("/locks/0");
    let seen = lock_of(&clients[1], "/locks/0");
    let contenders = || answered(|| seen.contenders()).unwrap().len();
    wait_until("its server has the hold, too", SOON, || contenders() == 1);
    for number in 0..WAITING {
        line.join_seen_by(&clients[number % 2], contenders);
    }
    let down = Instant::now();
    (0..3).for_each(|member| ensemble.server(member).kill().unwrap());
    in_time("the end of all holds", T, || holds.iter().map(await_lost).collect::<Vec<_>>());
    let lost = down.elapsed();
    let expired = HoldState::Lost(LossReason::LeaseExpired);
    assert!(holds.iter().all(|hold| hold.state() == expired), "{holds:?}");
    wait_until("they were down for three timeouts", SOON, || down.elapsed() > 3 * T);
    assert!(!line.is_let_in());
    (0..3).for_each(|member| ensemble.server(member).start_again().unwrap());
    ensemble.wait_ready().unwrap();
    let up = Instant::now();
    // Nobody unlocks: the nodes of what was lost are deleted by themselves.
    line.comes_in_order();
    println!("lost after {lost:?}; all {WAITING} let in {:?} after the return", up.elapsed());
    for (client, lost) in clients.iter().zip([HELD as u64, 0]) {
        let stats = client.stats();
        println!("{stats:?}");
        assert_eq!((stats.sessions, stats.holds_lost), (1, lost));
    }
    for lock in &held {
        assert!(lock.unlock().unwrap_err().is_lost());
        lock.lock().unwrap();
        lock.unlock().unwrap();
    }
}

/// Holds a lock by another member, then has only a way to this one, which the others do not hear.
/// Either its hold goes on, and nobody comes in, or it is lost before somebody does.
#[test]
fn a_hold_resumed_at_a_member_that_is_cut_off_is_lost_before_the_next_is_let_in() {
    for of_leader in [false, true] {
        // A leader takes ten ticks to notice, which is longer than the session.
        let tick = Duration::from_secs(1);
        let ensemble = start(Ensemble::builder(3).tick(tick).sync_limit(10));
        let (leader, followers) = (ensemble.leader().unwrap(), ensemble.followers().unwrap());
        let member = if of_leader { leader } else { followers[0] };
        let others: Vec<_> = (0..3).filter(|other| *other != member).collect();
        let ways = Ways::to(&ensemble);
        let own = ways.client_on(others[0], T);
        let lock = lock_of(&own, "/resumed");
        lock.lock().unwrap();
        let hold = lock.hold().unwrap();
        let hosts = others.iter().map(|it| ensemble.server(*it).connect_string());
        let rivals = client_of(&hosts.collect::<Vec<_>>().join(","), T);
        let (next, seen) = (lock_of(&rivals, "/resumed"), hold.clone());
        let rival = Task::spawn(move || next.lock().map(|()| seen.is_held()));
        wait_until("the rival waits", SOON, || answered(|| lock.contenders()).unwrap().len() == 2);
        ensemble.cut_off(member);
        for other in &others {
            ways.0[*other].cut_off();
        }
        let lost = await_lost(&hold);
        let held = rival.result("the rival").unwrap();
        println!("of the leader: {of_leader}, lost after {lost:?}, {:?}", own.stats());
        assert!(!held, "two held it");
        ensemble.heal();
        ways.0.iter().for_each(FaultProxy::restore);
        wait_until("it is back", SOON, || lock.contenders().is_ok());
        assert!(lock.unlock().unwrap_err().is_lost());
    }
}

/// What the create whose request was lost would have made.
fn lost_name(proxy: &FaultProxy, path: &str) -> String {
    let log = proxy.log();
    let names = log.iter().filter_map(|line| {
        let at = line.find(&format!("{path}/_c_"))? + path.len() + 1;
        line.get(at..at + "_c_00000000-0000-4000-8000-000000000000-lock-".len())
    });
    names.map(str::to_owned).next().unwrap_or_else(|| panic!("no create in {log:#?}"))
}

/// Somebody else makes the node that the lost create would have made: to the client it looks like a
/// create that was carried out late.
fn make_late(probe: &Probe, path: &str, name: &str) -> String {
    let made = probe.create(&format!("{path}/{name}"), b"late", true, true);
    made.unwrap().rsplit('/').next().unwrap().to_owned()
}

/// It was not there when the waiter looked, but was made before the next one.
#[test]
fn a_waiter_whose_lost_create_comes_before_the_next_one_has_the_place_of_that() {
    let ((proxy, own), others) = (behind_a_proxy(T), client());
    let path = fresh_path("late-place");
    let probe = shared_probe().unwrap();
    let (lock, ahead) = (lock_of(&own, &path), lock_of(&others, &path));
    ahead.lock().unwrap();
    let create = |nth| proxy.on(Op::Create).nth(nth).path_contains(&path);
    let (lost, next) = (create(1).drop_request(Then::Cut), create(2).hold_request());
    let locking = Task::spawn(move || lock.lock().map(|()| lock.hold().unwrap().node()));
    assert!(lost.wait(SOON) && next.wait(SOON), "{:#?}", proxy.log());
    let late = make_late(&probe, &path, &lost_name(&proxy, &path));
    let behind = lock_of(&others, &path);
    let waiting = Task::spawn(move || behind.lock());
    wait_until("somebody is behind it", SOON, || children(&path).len() == 3);
    next.release();
    let mut queue = Vec::new();
    wait_until("one of its nodes is left", SOON, || {
        queue = children(&path);
        queue.len() == 3 && proxy.requests(Op::Delete) > 0
    });
    println!("{late} of {queue:?}");
    assert!(queue.contains(&late));
    ahead.unlock().unwrap();
    assert_eq!(locking.result("lock()").unwrap(), late);
    drop(own);
    waiting.result("the one behind").unwrap();
}
