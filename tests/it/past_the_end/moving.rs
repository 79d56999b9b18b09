//! Connections that are cut near the end: normal places move and keep their digits, all others
//! start over when they wait, and end with their lease when they are held.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use zoolock::{Client, DistributedRwLock, Error, HoldState, LossReason};
use zoolock_test_support::crowd::{self, Access, Taker};
use zoolock_test_support::{FaultProxy, Op, wait_until};

use super::{END, Granted, Stage, come_in_one_by_one, number, numbers};
use crate::lock::core::hold_of;
use crate::util::{SESSION, SOON, await_lost, client_of};

const SHORT: Duration = Duration::from_secs(3);

fn await_moved(client: &Client, seats: u64) {
    wait_until("the seats have moved", SOON, || client.stats().seats_moved >= seats);
}

#[test]
fn normal_places_move_before_the_end_and_the_others_start_over() {
    let Some(stage) = Stage::new("moves", END - 4) else {
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
    await_moved(&cut_off, 3);
    let mut after = Vec::new();
    wait_until("four nodes are new", SOON, || {
        after = stage.nodes();
        let kept = before.iter().filter(|node| after.contains(node)).count();
        (after.len(), kept) == (7, 3)
    });
    // The one that starts over may be sent beside the moves, and get any number.
    let mut digits = numbers(&after);
    println!("{digits:?}, {:?}", cut_off.stats());
    digits.retain(|number| (0..END).contains(number));
    digits.sort_unstable();
    assert_eq!(digits, found[..4], "those that moved have their digits");
    assert_eq!(cut_off.stats().seats_moved, 3);
    // The one that started over is behind all that queued before.
    let [holder, a, b, c, d, e, f] = queue;
    come_in_one_by_one(vec![holder, a, b, c, d, f, e], &list);
    stage.await_nodes(0);
    assert_eq!(cut_off.stats().seats_lost, 0);
}

#[test]
fn a_move_under_way_is_not_overtaken_by_nodes_past_the_end() {
    let Some(stage) = Stage::new("moves-slowly", END - 2) else {
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
    let moving = proxy.hold_answer(Op::Create, 1);
    proxy.cut();
    assert!(moving.wait(SOON), "the hold's new node is made");
    assert_eq!(hold_of(&held).state(), HoldState::Suspended);
    let c = stage.queues(&list, "c", stage.lock(&direct));
    println!("{:?}", numbers(&stage.nodes()));
    assert!(!a.is_in() && !b.is_in() && !c.is_in());
    moving.release();
    await_moved(&cut_off, 2);
    let queue = [(holder, "holder"), (a, "a"), (b, "b"), (c, "c")];
    come_in_one_by_one(queue.into(), &list);
    stage.await_nodes(0);
}

#[test]
fn a_hold_past_the_end_ends_with_its_lease_and_not_before() {
    for begin in [END, i32::MIN, -100] {
        let Some(stage) = Stage::new("lapses", begin) else {
            return;
        };
        let (proxy, direct) = (stage.proxy(), stage.client());
        let cut_off = client_of(&proxy.connect_string(), SHORT);
        let list = Granted::default();
        let lock = stage.lock(&cut_off);
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let rival = stage.queues(&list, "rival", stage.lock(&direct));
        let behind = stage.queues(&list, "behind", stage.lock(&cut_off));
        let begun = Instant::now();
        proxy.cut();
        wait_until("the client has noticed", SOON, || hold.state() != HoldState::Held);
        let left = hold.valid_for();
        assert!(!rival.is_in() || !hold.is_held(), "two at once");
        await_lost(&hold);
        let lost_after = begun.elapsed();
        assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));
        rival.comes_in();
        println!(
            "{begin}: {left:?} were left, lost after {lost_after:?}, the rival in after {:?}",
            begun.elapsed()
        );
        assert!(left > SHORT / 3 && lost_after < SHORT * 2, "{left:?}");
        let told = lock.unlock();
        assert!(matches!(told, Err(Error::Lost { .. })), "{told:?}");
        come_in_one_by_one(vec![(rival, "rival"), (behind, "behind")], &list);
        lock.lock().unwrap();
        lock.unlock().unwrap();
        stage.await_nodes(0);
        assert_eq!(cut_off.stats().seats_moved, 0);
    }
}

#[test]
fn the_rival_never_comes_in_while_the_cut_off_hold_says_that_it_is_held() {
    let Some(stage) = Stage::new("lapses-apart", END) else {
        return;
    };
    let (proxy, direct) = (stage.proxy(), stage.client());
    let cut_off = client_of(&proxy.connect_string(), SHORT);
    let lock = stage.lock(&cut_off);
    for away in [true, false] {
        lock.lock().unwrap();
        let (hold, rival) = (hold_of(&lock), stage.lock(&direct));
        let watched = hold.clone();
        let task = crate::util::Task::spawn(move || {
            rival.lock().unwrap();
            let both = watched.is_held();
            rival.unlock().unwrap();
            both
        });
        stage.await_nodes(2);
        proxy.refuse(away);
        proxy.cut();
        let both = task.result("the rival");
        assert!(!both, "both were told that they hold it");
        assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));
        proxy.refuse(false);
        assert!(lock.unlock().is_err());
    }
    stage.await_nodes(0);
}

#[test]
fn an_unlock_after_a_cut_lets_the_next_in_at_once() {
    let Some(stage) = Stage::new("unlocks-suspended", END) else {
        return;
    };
    let (proxy, direct) = (stage.proxy(), stage.client());
    let cut_off = client_of(&proxy.connect_string(), Duration::from_secs(60));
    let list = Granted::default();
    let lock = stage.lock(&cut_off);
    lock.lock().unwrap();
    let hold = hold_of(&lock);
    let rival = stage.queues(&list, "rival", stage.lock(&direct));
    proxy.cut();
    wait_until("the client has noticed", SOON, || hold.state() == HoldState::Suspended);
    lock.unlock().unwrap();
    let begun = Instant::now();
    rival.comes_in();
    println!("in after {:?}", begun.elapsed());
    rival.leaves();
    stage.await_nodes(0);
}

/// The write's node stands for both, and cannot move.
#[test]
fn a_read_that_shares_its_write_is_lost_with_it() {
    let Some(stage) = Stage::new("shared-lapses", END) else {
        return;
    };
    let (proxy, direct) = (stage.proxy(), stage.client());
    let cut_off = client_of(&proxy.connect_string(), SHORT);
    let lock = DistributedRwLock::new(&cut_off, &stage.path).unwrap();
    let (read, write) = (lock.read_lock(), lock.write_lock());
    write.lock().unwrap();
    read.lock().unwrap();
    assert_eq!(hold_of(&read).node(), hold_of(&write).node());
    write.unlock().unwrap();
    let hold = hold_of(&read);
    let list = Granted::default();
    let rival = DistributedRwLock::new(&direct, &stage.path).unwrap();
    let rival = stage.queues(&list, "rival", rival.write_lock());
    proxy.cut();
    await_lost(&hold);
    rival.comes_in();
    let told = read.unlock();
    assert!(matches!(told, Err(Error::Lost { .. })), "{told:?}");
    rival.leaves();
    stage.await_nodes(0);
}

#[test]
fn a_crowd_that_is_cut_off_again_and_again_is_never_two_inside() {
    let Some(stage) = Stage::new("crowd-cut", END - 20) else {
        return;
    };
    let proxies = Arc::new([stage.proxy(), stage.proxy()]);
    let mut clients: Vec<_> =
        proxies.iter().map(|proxy| client_of(&proxy.connect_string(), SHORT)).collect();
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
            if let (Ok(token), true) = (token, hold.valid_for() > SHORT / 4) {
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
