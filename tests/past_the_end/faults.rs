//! Lost answers, cut connections and lost servers past the end: nodes and places are kept, whatever
//! their numbers are, and holds end with their lease.

use std::time::Duration;

use zoolock::{
    DistributedLock, DistributedRwLock, DistributedSemaphore, Error, HoldState, LossReason,
};
use zoolock_test_support::crowd::{self, Access, Taker};
use zoolock_test_support::{CountingServer, Op, Probe, Then, wait_until};

use super::{END, Granted, Stage, come_in_one_by_one, nodes, number, numbers};
use common::{SESSION, SOON, Task, await_lost, await_resumed, client_of, hold_of};

#[test]
fn a_create_whose_answer_is_lost_leaves_one_node_and_holds_up_nobody() {
    let short = Duration::from_secs(3);
    for begin in [END - 1, END, i32::MIN, -100] {
        for then in [Then::Cut, Then::Hold] {
            let Some(stage) = Stage::new("lost-answer", begin) else {
                return;
            };
            let proxy = stage.proxy();
            let client = client_of(&proxy.connect_string(), short);
            let lock = stage.lock(&client);
            let create = || proxy.on(Op::Create).path_contains(&stage.path);
            let lost = create().drop_answer(then);
            lock.lock().unwrap();
            assert!(lost.fired());
            wait_until("one node is left", SOON, || stage.nodes() == [hold_of(&lock).node()]);
            println!("{begin}, {then:?}: {:?}", stage.nodes());
            lock.unlock().unwrap();
            stage.await_nodes(0);
        }
    }
}

/// Those behind it have come before it is back.
#[test]
fn a_waiter_whose_creates_answer_is_lost_is_served_once_and_in_its_place() {
    for begin in [END, i32::MIN] {
        let Some(stage) = Stage::new("lost-in-queue", begin) else {
            return;
        };
        let (proxy, direct) = (stage.proxy(), stage.client());
        let client = client_of(&proxy.connect_string(), SESSION);
        let list = Granted::default();
        let holder = stage.queues(&list, "holder", stage.lock(&direct));
        holder.comes_in();
        let lost = proxy.on(Op::Create).path_contains(&stage.path).drop_answer(Then::Cut);
        // It keeps the connection that it has.
        proxy.refuse(true);
        let waiter = stage.queues(&list, "waiter", stage.lock(&client));
        assert!(lost.wait(SOON));
        let last = stage.queues(&list, "last", stage.lock(&direct));
        let before = stage.nodes();
        proxy.refuse(false);
        await_resumed(&client, 1);
        wait_until("it has looked and waits", SOON, || proxy.requests(Op::GetData) > 0);
        assert_eq!(stage.nodes(), before, "it has the node that it made");
        let queue = [(holder, "holder"), (waiter, "waiter"), (last, "last")];
        come_in_one_by_one(queue.into(), &list);
        stage.await_nodes(0);
    }
}

#[test]
fn places_before_the_end_and_behind_it_are_kept_over_a_cut_and_not_overtaken_meanwhile() {
    let Some(stage) = Stage::new("cut", END - 4) else {
        return;
    };
    let (proxy, direct) = (stage.proxy(), stage.client());
    let cut_off = client_of(&proxy.connect_string(), SESSION * 3);
    let list = Granted::default();
    let held = stage.lock(&cut_off);
    let holder = stage.queues(&list, "holder", held.clone());
    holder.comes_in();
    let who = [("a", &cut_off), ("b", &direct), ("c", &cut_off), ("d", &direct), ("e", &cut_off)];
    let mut queue = vec![(holder, "holder")];
    queue.extend(who.map(|(name, client)| (stage.queues(&list, name, stage.lock(client)), name)));
    let before = stage.nodes();
    let expected = [END - 4, END - 3, END - 2, END - 1, END, END];
    assert_eq!(numbers(&before), expected);
    let resuming = proxy.hold_answer(Op::Connect, 1);
    proxy.cut();
    assert!(resuming.wait(SOON), "{:#?}", proxy.log());
    assert_eq!(hold_of(&held).state(), HoldState::Suspended);
    queue.push((stage.queues(&list, "f", stage.lock(&direct)), "f"));
    assert!(!queue[1..].iter().any(|(waiter, _)| waiter.is_in()));
    resuming.release();
    await_resumed(&cut_off, 1);
    assert_eq!(stage.nodes()[..6], before);
    come_in_one_by_one(queue, &list);
    stage.await_nodes(0);
    assert_eq!(cut_off.stats().holds_lost, 0);
}

/// The write's node stands for both.
#[test]
fn a_write_and_the_read_that_shares_its_node_outlive_a_cut_and_end_with_their_lease() {
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
    let rival = stage.queues(&list, "rival", stage.lock(&direct));
    let behind = stage.queues(&list, "behind", stage.lock(&cut_off));
    let before = stage.nodes();
    proxy.cut();
    await_resumed(&cut_off, 1);
    assert_eq!((stage.nodes(), rival.is_in()), (before, false));
    assert_eq!(holds.each_ref().map(|hold| hold.state()), [HoldState::Held; 2]);
    proxy.cut_off();
    for hold in &holds {
        await_lost(hold);
        assert_eq!(hold.state(), HoldState::Lost(LossReason::LeaseExpired));
    }
    rival.comes_in();
    for told in [write.unlock(), read.unlock()] {
        assert!(matches!(told, Err(Error::Lost { .. })), "{told:?}");
    }
    proxy.refuse(false);
    stage.await_nodes(2);
    come_in_one_by_one(vec![(rival, "rival"), (behind, "behind")], &list);
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
    wait_until("its turn is given back", SOON, || turns().is_empty());
    let waits = |semaphore: DistributedSemaphore, turn: usize| {
        let task = Task::spawn(move || semaphore.acquire(1).unwrap());
        wait_until("it is queued", SOON, || turns().len() == turn);
        task
    };
    let has_turn = waits(of(&cut_off), 1);
    let behind = waits(of(&direct), 2);
    let seen = || (permits.holds()[0].node(), turns());
    let before = seen();
    assert_eq!(number(&before.0), END);
    proxy.cut();
    await_resumed(&cut_off, 1);
    assert_eq!(seen(), before);
    assert!(permits.is_held() && !has_turn.is_done() && !behind.is_done());
    permits.release().unwrap();
    let permits = has_turn.result("who has the turn");
    assert!(permits.is_held() && !behind.is_done(), "two permits");
    permits.release().unwrap();
    behind.result("who is behind").release().unwrap();
    for part in &parts {
        wait_until("nothing is left", SOON, || nodes(&stage.probe, part).is_empty());
    }
}

/// Sessions are resumed, or end with their lease; the number is still at its end afterwards.
#[test]
fn a_server_that_is_killed_past_the_end_goes_on_there() {
    if CountingServer::shared().is_none() {
        return;
    }
    let server = CountingServer::start().unwrap();
    let path = "/killed";
    let probe = Probe::connect(server.address()).unwrap();
    probe.create_all(path).unwrap();
    server.set_counter(path, END - 3).unwrap();
    drop(probe);
    let session = Duration::from_secs(6);
    let clients: Vec<_> = (0..3).map(|_| client_of(&server.connect_string(), session)).collect();
    let taker = |at: usize| -> Taker {
        let lock = DistributedLock::new(&clients[at % 3], path).unwrap();
        Box::new(move |witness| {
            lock.lock()?;
            let hold = hold_of(&lock);
            let token = hold.fencing_token();
            if hold.valid_for() > session / 4 {
                witness.visit(Access::Alone, token, &hold.node(), std::thread::yield_now);
            }
            match lock.unlock() {
                Ok(()) | Err(Error::Lost { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            }
        })
    };
    let takers: Vec<_> = (0..6).map(taker).collect();
    let crowd = common::Task::spawn(move || crowd::run(takers, 40, Duration::from_secs(100)));
    let probe = Probe::connect(server.address()).unwrap();
    wait_until("they are past the end", SOON, || {
        nodes(&probe, path).iter().any(|node| !(0..END).contains(&number(node)))
    });
    server.kill().unwrap();
    server.start_again().unwrap();
    wait_until("all have had their turns", Duration::from_secs(100), || crowd.is_done());
    let seen = crowd.result("the crowd");
    println!("{seen:?}");
    seen.assert_apart();
    seen.assert_in_order();
    let probe = Probe::connect(server.address()).unwrap();
    wait_until("nothing is left", SOON, || nodes(&probe, path).is_empty());
    let next = probe.create(&format!("{path}/n-"), b"", true, true).unwrap();
    assert_eq!(next, format!("{path}/n-2147483647"));
}
