//! Sessions during outages: a long outage of all members, and members at which resuming a session does not renew it.

use std::time::{Duration, Instant};

use zoolock::{HoldState, LossReason};

use super::{Ways, start};
use common::line::Line;
use common::*;

/// Six ticks of the members. This is long enough that no hold is lost merely because the machine is slow.
const T: Duration = Duration::from_secs(6);

#[test]
fn ensemble_outage_of_two_timeouts_ends_holds_and_keeps_the_queue() {
    const HELD: usize = 8;
    const WAITING: usize = 20;
    /// Longer than three servers need to start. A server that accepts connections but does not answer may still renew
    /// the session, so a client gives up the session after such attempts have lasted for a session timeout.
    const T: Duration = Duration::from_secs(10);
    let (_running, ensemble) = start(Ensemble::builder(3).tick(Duration::from_secs(1)));
    let clients = [(); 1 + WAITING].map(|()| client_of(&ensemble.connect_string(), T));
    let held: Vec<_> = (0..HELD).map(|n| lock_of(&clients[0], &format!("/locks/{n}"))).collect();
    held.iter().for_each(|lock| lock.lock().unwrap());
    let holds: Vec<_> = held.iter().map(|lock| lock.hold().unwrap()).collect();
    // The other clients queue behind the first lock.
    let mut line = Line::at("/locks/0");
    let seen = lock_of(&clients[1], "/locks/0");
    let contenders = || answered(|| seen.contenders()).unwrap().len();
    wait_until("its server has the hold as well", SOON, || contenders() == 1);
    for client in &clients[1..] {
        line.join_seen_by(client, contenders);
    }
    let down = Instant::now();
    (0..3).for_each(|member| ensemble.server(member).kill().unwrap());
    in_time("the end of all holds", T, || holds.iter().map(await_lost).collect::<Vec<_>>());
    let lost = down.elapsed();
    let expired = HoldState::Lost(LossReason::LeaseExpired);
    assert!(holds.iter().all(|hold| hold.state() == expired), "{holds:?}");
    wait_until("they were down for two timeouts", SOON, || down.elapsed() > 2 * T);
    assert_eq!(line.let_in(), 0);
    (0..3).for_each(|member| ensemble.server(member).start_again().unwrap());
    ensemble.wait_ready().unwrap();
    let up = Instant::now();
    // The holders do not unlock. The client deletes the nodes of lost holds by itself.
    wait_until("all are let in", SOON, || line.let_in() == WAITING);
    println!("lost after {lost:?}; all {WAITING} let in {:?} after the return", up.elapsed());
    for (number, client) in clients.iter().enumerate() {
        let lost = if number == 0 { HELD as u64 } else { 0 };
        let stats = client.stats();
        println!("{stats:?}");
        assert_eq!((stats.sessions, stats.holds_lost), (1, lost));
    }
    line.comes_in_order();
    for lock in &held {
        assert!(lock.unlock().unwrap_err().is_lost());
        lock.lock().unwrap();
        lock.unlock().unwrap();
    }
}

/// A client that holds a lock loses its connection, and can reconnect only to a member that is cut off from the others.
/// Either it keeps the hold and no one else acquires the lock, or its loss is reported before the next grant.
#[test]
fn hold_resumed_at_a_cut_off_member_is_lost_before_the_next_grant() {
    for of_leader in [false, true] {
        // A leader needs ten ticks to detect that it is cut off, which is longer than the session timeout.
        let tick = Duration::from_secs(1);
        let (_running, ensemble) = start(Ensemble::builder(3).tick(tick).sync_limit(10));
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
        assert!(!held, "two clients held the lock");
        ensemble.heal();
        ways.0.iter().for_each(FaultProxy::restore);
        wait_until("it is back", SOON, || lock.contenders().is_ok());
        assert!(lock.unlock().unwrap_err().is_lost());
    }
}
