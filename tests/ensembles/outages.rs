//! Sessions across outages: a long outage of the whole ensemble, servers whose resume must not be trusted,
//! and late creates.

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

/// Six ticks of the members, so long that a slow machine alone loses nothing.
const T: Duration = Duration::from_secs(6);

#[test]
fn ensemble_outage_of_three_timeouts_ends_holds_and_keeps_the_queue() {
    const HELD: usize = 8;
    const WAITING: usize = 20;
    let ensemble = start(Ensemble::builder(3).tick(Duration::from_secs(1)));
    let clients = [(); 1 + WAITING].map(|()| client_of(&ensemble.connect_string(), T));
    let held: Vec<_> = (0..HELD).map(|n| lock_of(&clients[0], &format!("/locks/{n}"))).collect();
    held.iter().for_each(|lock| lock.lock().unwrap());
    let holds: Vec<_> = held.iter().map(|lock| lock.hold().unwrap()).collect();
    // The other clients queue behind the first lock.
    let mut line = Line::at("/locks/0");
    let seen = lock_of(&clients[1], "/locks/0");
    let contenders = || answered(|| seen.contenders()).unwrap().len();
    wait_until("its server has the hold, too", SOON, || contenders() == 1);
    for client in &clients[1..] {
        line.join_seen_by(client, contenders);
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
    // Nobody unlocks. The nodes of lost holds are deleted on their own.
    line.comes_in_order();
    println!("lost after {lost:?}; all {WAITING} let in {:?} after the return", up.elapsed());
    for (number, client) in clients.iter().enumerate() {
        let lost = if number == 0 { HELD as u64 } else { 0 };
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

/// The client holds through another member, and then reaches only this one, which is cut off. Either its hold
/// lasts and nobody enters, or the loss comes before the next grant.
#[test]
fn hold_resumed_at_a_cut_off_member_is_lost_before_the_next_grant() {
    for of_leader in [false, true] {
        // A leader needs ten ticks to notice, which is longer than the session.
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

/// The name of the node that the lost create would have made.
fn lost_name(proxy: &FaultProxy, path: &str) -> String {
    let log = proxy.log();
    let names = log.iter().filter_map(|line| {
        let at = line.find(&format!("{path}/_c_"))? + path.len() + 1;
        line.get(at..at + "_c_00000000-0000-4000-8000-000000000000-lock-".len())
    });
    names.map(str::to_owned).next().unwrap_or_else(|| panic!("no create in {log:#?}"))
}

/// Creates the node of the lost create from another client. For its client this is a create that was applied
/// late.
fn make_late(probe: &Probe, path: &str, name: &str) -> String {
    let made = probe.create(&format!("{path}/{name}"), b"late", true, true);
    made.unwrap().rsplit('/').next().unwrap().to_owned()
}

/// The node did not exist when the waiter looked, but precedes the waiter's next create.
#[test]
fn waiter_takes_the_place_of_its_late_create() {
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
    let behind = lock_of(&client(), &path);
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
