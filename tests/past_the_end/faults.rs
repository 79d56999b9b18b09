//! Lost answers and lost servers past the end.

use std::time::Duration;

use zoolock::{DistributedLock, Error};
use zoolock_test_support::crowd::{self, Access, Taker};
use zoolock_test_support::{CountingServer, Op, Probe, Then, wait_until};

use super::{END, Granted, Stage, come_in_one_by_one, nodes};
use common::{SOON, await_resumed, client_of, hold_of};

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

#[test]
fn a_waiter_whose_creates_answer_is_lost_is_served_once_and_after_those_before() {
    for begin in [END, i32::MIN] {
        let Some(stage) = Stage::new("lost-in-queue", begin) else {
            return;
        };
        let (proxy, direct) = (stage.proxy(), stage.client());
        let client = client_of(&proxy.connect_string(), Duration::from_secs(10));
        let list = Granted::default();
        let holder = stage.queues(&list, "holder", stage.lock(&direct));
        holder.comes_in();
        let lost = proxy.on(Op::Create).path_contains(&stage.path).drop_answer(Then::Cut);
        // It keeps the connection that it has.
        proxy.refuse(true);
        let waiter = stage.queues(&list, "waiter", stage.lock(&client));
        assert!(lost.wait(SOON));
        let before = stage.nodes();
        proxy.refuse(false);
        await_resumed(&client, 1);
        wait_until("it has looked and waits", SOON, || proxy.requests(Op::GetData) > 0);
        assert_eq!(stage.nodes(), before, "it has the node that it made");
        let last = stage.queues(&list, "last", stage.lock(&direct));
        let queue = [(holder, "holder"), (waiter, "waiter"), (last, "last")];
        come_in_one_by_one(queue.into(), &list);
        stage.await_nodes(0);
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
            if let (Ok(token), true) = (token, hold.valid_for() > session / 4) {
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
        nodes(&probe, path).iter().any(|node| !(0..END).contains(&super::number(node)))
    });
    server.kill().unwrap();
    server.start_again().unwrap();
    wait_until("all have had their turns", Duration::from_secs(100), || crowd.is_done());
    let seen = crowd.result("the crowd");
    println!("{seen:?}, {:?}", clients[0].stats());
    seen.assert_apart();
    seen.assert_in_order();
    let probe = Probe::connect(server.address()).unwrap();
    wait_until("nothing is left", SOON, || nodes(&probe, path).is_empty());
    let next = probe.create(&format!("{path}/n-"), b"", true, true).unwrap();
    assert_eq!(next, format!("{path}/n-2147483647"));
}
