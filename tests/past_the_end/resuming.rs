//! Connections that are cut near the end: nodes and places are kept, whatever their numbers are, and
//! holds end with their lease.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedRwLock, DistributedSemaphore, Error, HoldState, LossReason};
use zoolock_test_support::crowd::{self, Access, Taker};
use zoolock_test_support::{FaultProxy, Op, wait_until};

use super::{END, Granted, Stage, come_in_one_by_one, nodes, number, numbers};
use common::{SESSION, SOON, Task, await_lost, await_resumed, client_of, hold_of};

#[test]
fn places_before_the_end_and_behind_it_are_kept_over_a_cut() {
    let Some(stage) = Stage::new("cut", END - 4) else {
        return;
    };
    let (proxy, direct) = (stage.proxy(), stage.client());
    let cut_off = client_of(&proxy.connect_string(), SESSION);
    let list = Granted::default();
    let who = [
        ("holder", &cut_off),
        ("a", &cut_off),
        ("b", &direct),
        ("c", &cut_off),
        ("d", &direct),
        ("e", &cut_off),
        ("f", &direct),
    ];
    let queue = who.map(|(name, client)| (stage.queues(&list, name, stage.lock(client)), name));
    let before = stage.nodes();
    let found = numbers(&before);
    assert_eq!(found[..4], [END - 4, END - 3, END - 2, END - 1]);
    assert_eq!(found[4..], [END; 3]);
    proxy.cut();
    await_resumed(&cut_off, 1);
    assert_eq!(stage.nodes(), before);
    println!("{found:?}, {:?}", cut_off.stats());
    come_in_one_by_one(queue.into(), &list);
    stage.await_nodes(0);
    assert_eq!(cut_off.stats().holds_lost, 0);
}

#[test]
fn nodes_past_the_end_do_not_overtake_those_whose_session_is_being_resumed() {
    let Some(stage) = Stage::new("resuming", END - 2) else {
        return;
    };
    let (proxy, direct) = (stage.proxy(), stage.client());
    let cut_off = client_of(&proxy.connect_string(), Duration::from_secs(30));
    let list = Granted::default();
    let held = stage.lock(&cut_off);
    let holder = stage.queues(&list, "holder", held.clone());
    holder.comes_in();
    let a = stage.queues(&list, "a", stage.lock(&cut_off));
    let b = stage.queues(&list, "b", stage.lock(&direct));
    let resuming = proxy.hold_answer(Op::Connect, 1);
    proxy.cut();
    assert!(resuming.wait(SOON), "{:#?}", proxy.log());
    assert_eq!(hold_of(&held).state(), HoldState::Suspended);
    let c = stage.queues(&list, "c", stage.lock(&direct));
    println!("{:?}", numbers(&stage.nodes()));
    assert!(!a.is_in() && !b.is_in() && !c.is_in());
    resuming.release();
    await_resumed(&cut_off, 1);
    let queue = [(holder, "holder"), (a, "a"), (b, "b"), (c, "c")];
    come_in_one_by_one(queue.into(), &list);
    stage.await_nodes(0);
}

#[test]
fn a_hold_past_the_end_outlives_a_cut_and_ends_with_its_lease() {
    let Some(stage) = Stage::new("lapses", END) else {
        return;
    };
    let (proxy, direct) = (stage.proxy(), stage.client());
    let cut_off = client_of(&proxy.connect_string(), SESSION);
    let list = Granted::default();
    let lock = stage.lock(&cut_off);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let rival = stage.queues(&list, "rival", stage.lock(&direct));
    let behind = stage.queues(&list, "behind", stage.lock(&cut_off));
    let before = stage.nodes();
    proxy.cut();
    await_resumed(&cut_off, 1);
    assert_eq!((hold.state(), stage.nodes()), (HoldState::Held, before));
    assert!(!rival.is_in());
    proxy.refuse(true);
    proxy.cut();
    println!("lost after {:?}", await_lost(&hold));
    assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));
    rival.comes_in();
    proxy.refuse(false);
    let told = lock.unlock();
    assert!(matches!(told, Err(Error::Lost { .. })), "{told:?}");
    stage.await_nodes(2);
    come_in_one_by_one(vec![(rival, "rival"), (behind, "behind")], &list);
    lock.lock().unwrap();
    lock.unlock().unwrap();
    stage.await_nodes(0);
}

/// The write's node stands for both.
#[test]
fn a_read_that_shares_its_write_is_kept_and_lost_with_it() {
    let Some(stage) = Stage::new("shared-lapses", END) else {
        return;
    };
    let (proxy, direct) = (stage.proxy(), stage.client());
    let cut_off = client_of(&proxy.connect_string(), SESSION);
    let lock = DistributedRwLock::new(&cut_off, &stage.path).unwrap();
    let (read, write) = (lock.read_lock(), lock.write_lock());
    write.lock().unwrap();
    read.lock().unwrap();
    let holds = [hold_of(&read), hold_of(&write)];
    assert_eq!(holds[0].node(), holds[1].node());
    let list = Granted::default();
    let rival = DistributedRwLock::new(&direct, &stage.path).unwrap();
    let rival = stage.queues(&list, "rival", rival.write_lock());
    let before = stage.nodes();
    proxy.cut();
    await_resumed(&cut_off, 1);
    assert_eq!((stage.nodes(), rival.is_in()), (before, false));
    assert_eq!(holds.each_ref().map(|hold| hold.state()), [HoldState::Held; 2]);
    proxy.refuse(true);
    proxy.cut();
    for hold in &holds {
        await_lost(hold);
    }
    rival.comes_in();
    for told in [write.unlock(), read.unlock()] {
        assert!(matches!(told, Err(Error::Lost { .. })), "{told:?}");
    }
    rival.leaves();
    proxy.refuse(false);
    stage.await_nodes(0);
}

#[test]
fn a_crowd_that_is_cut_off_again_and_again_is_never_two_inside() {
    let Some(stage) = Stage::new("crowd-cut", END - 20) else {
        return;
    };
    let proxies = Arc::new([stage.proxy(), stage.proxy()]);
    let mut clients: Vec<_> =
        proxies.iter().map(|proxy| client_of(&proxy.connect_string(), SESSION)).collect();
    clients.push(stage.client());
    let visits = Arc::new(AtomicUsize::new(0));
    let taker = |at: usize| -> Taker {
        let lock = stage.lock(&clients[at % 3]);
        let (proxies, visits) = (Arc::clone(&proxies), Arc::clone(&visits));
        Box::new(move |witness| {
            lock.lock()?;
            let hold = hold_of(&lock);
            let cut = |inside: bool| match visits.load(Ordering::SeqCst) {
                // In turns: before the end and behind it, one proxy and the other.
                visit if visit % 8 == if inside { 0 } else { 4 } => {
                    FaultProxy::cut(&proxies[visit / 8 % 2]);
                }
                _ => {}
            };
            let token = hold.fencing_token();
            // A hold that is nearly over cannot vouch for the whole visit.
            if let (Ok(token), true) = (token, hold.valid_for() > SESSION / 4) {
                visits.fetch_add(1, Ordering::SeqCst);
                witness.visit(Access::Alone, token, &hold.node(), || cut(true));
            }
            cut(false);
            match lock.unlock() {
                Ok(()) | Err(Error::Lost { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            }
        })
    };
    let begun = Instant::now();
    let seen = crowd::run((0..6).map(taker).collect(), 15, Duration::from_secs(180));
    let nodes: HashSet<_> = seen.visits.iter().map(|visit| number(&visit.node)).collect();
    println!(
        "{seen:?} in {:.1?}, {} numbers, {:?}",
        begun.elapsed(),
        nodes.len(),
        clients.iter().map(Client::stats).collect::<Vec<_>>()
    );
    seen.assert_apart();
    seen.assert_in_order();
    assert!(seen.visits.len() > 60, "{seen:?}");
    stage.await_nodes(0);
}

/// Both directories of a semaphore are past the end.
#[test]
fn permits_and_turns_are_kept_over_a_cut_and_the_order_of_the_turns() {
    let Some(stage) = Stage::new("permits-cut", 0) else {
        return;
    };
    let parts = ["locks", "leases"].map(|part| stage.part(part, END));
    let (proxy, direct) = (stage.proxy(), stage.client());
    let cut_off = client_of(&proxy.connect_string(), SESSION);
    let of = |client| DistributedSemaphore::new(client, &stage.path, 1).unwrap();
    let turns = || nodes(&stage.probe, &parts[0]);
    let permits = of(&cut_off).acquire(1).unwrap();
    let before = permits.holds()[0].node();
    assert_eq!(number(&before), END);
    let waits = |semaphore: DistributedSemaphore, turn: usize| {
        let task = Task::spawn(move || semaphore.acquire(1).unwrap());
        wait_until("it is queued", SOON, || turns().len() == turn);
        task
    };
    let has_turn = waits(of(&cut_off), 1);
    let behind = waits(of(&direct), 2);
    let queue = turns();
    proxy.cut();
    await_resumed(&cut_off, 1);
    assert_eq!((permits.holds()[0].node(), turns()), (before, queue));
    assert!(permits.is_held() && !has_turn.is_done() && !behind.is_done());
    permits.release().unwrap();
    let begun = Instant::now();
    let permits = has_turn.result("who has the turn");
    println!("granted after {:?}", begun.elapsed());
    assert!(permits.is_held() && !behind.is_done(), "two permits");
    permits.release().unwrap();
    behind.result("who is behind").release().unwrap();
    for part in &parts {
        wait_until("nothing is left", SOON, || nodes(&stage.probe, part).is_empty());
    }
}
