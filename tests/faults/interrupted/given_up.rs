//! Waiters that give up, and clients that are closed, while their session is resumed.

use std::time::{Duration, Instant};

use zoolock::{Client, DistributedLock, Error};
use zoolock_test_support::{FaultProxy, Op, fresh_path, wait_until};

use super::{Line, await_watch, has_one_node_until_unlocked};
use common::basics::{await_nodes, hold_of};
use common::{
    SESSION, SOON, Stage, Task, children, client, client_of, in_time, lock_of, shared_proxy,
};

/// A waiter whose session is just resumed: the answer that says so is on its way.
struct Caught {
    proxy: FaultProxy,
    client: Client,
    path: String,
    lock: DistributedLock,
    waiting: Task<zoolock::Result<bool>>,
    answer: zoolock_test_support::Hold,
    rival: (Client, DistributedLock),
}

impl Caught {
    fn start(
        name: &str,
        session: Duration,
        wait: impl FnOnce(&DistributedLock) -> zoolock::Result<bool> + Send + 'static,
    ) -> Caught {
        let path = fresh_path(name);
        let rivals = client();
        let held = lock_of(&rivals, &path);
        held.lock().unwrap();
        let proxy = shared_proxy();
        let client = client_of(&proxy.connect_string(), session);
        let lock = lock_of(&client, &path);
        let waiting = {
            let lock = lock.clone();
            Task::spawn(move || wait(&lock))
        };
        await_nodes(&path, 2);
        await_watch(&proxy, &client);
        let answer = proxy.on(Op::Connect).hold_answer();
        proxy.cut();
        assert!(answer.wait(SOON), "{:#?}", proxy.log());
        assert_eq!(children(&path).len(), 2, "{:#?}", proxy.log());
        Caught { proxy, client, path, lock, waiting, answer, rival: (rivals, held) }
    }

    /// Only the rival's node is left, soon after the answer has come.
    fn leaves_nothing(&self) {
        self.answer.release();
        let own = hold_of(&self.rival.1).node();
        let took =
            wait_until("only the rival is left", SOON, || children(&self.path) == [own.clone()]);
        wait_until("nothing is left to delete", SOON, || self.client.stats().deleting == 0);
        println!("nothing left {took:?} after the answer, {:?}", self.client.stats());
        assert_eq!(self.client.stats().sessions, 1);
        self.rival.1.unlock().unwrap();
        assert!(self.lock.try_lock_for(SOON).unwrap(), "{:#?}", self.proxy.log());
        has_one_node_until_unlocked(&self.lock);
    }
}

#[test]
fn a_waiter_cancelled_during_a_resume_leaves_no_node() {
    let caught = Caught::start("cancelled", SESSION, |lock| lock.lock().map(|()| true));
    caught.lock.cancel_waiters();
    let seen = caught.waiting.result("the cancelled waiter");
    assert!(matches!(seen, Err(Error::Cancelled { .. })), "{seen:?}");
    caught.leaves_nothing();
}

#[test]
fn a_waiter_whose_deadline_comes_during_a_resume_leaves_no_node() {
    const DEADLINE: Duration = Duration::from_secs(4);
    // Long enough that nobody gives the answer up before.
    let session = Duration::from_secs(30);
    let caught = Caught::start("deadline", session, |lock| {
        in_time("try_lock_for()", DEADLINE + Duration::from_secs(1), || lock.try_lock_for(DEADLINE))
    });
    let seen = caught.waiting.result("the waiter with a deadline");
    let none = matches!(seen, Ok(false) | Err(Error::Disconnected { .. }));
    assert!(none, "{seen:?}");
    caught.leaves_nothing();
}

#[test]
fn a_close_during_a_resume_leaves_no_node() {
    const SHORT: Duration = Duration::from_secs(3);
    for answered in [true, false] {
        let caught = Caught::start("closed", SHORT, |lock| lock.lock().map(|()| true));
        let own = hold_of(&caught.rival.1).node();
        let begun = Instant::now();
        if answered {
            caught.answer.release();
        }
        let client = caught.client.clone();
        let limit = SHORT + Duration::from_secs(1);
        let closed = in_time("close()", limit, || client.close());
        let seen = caught.waiting.result("the waiter");
        assert!(matches!(seen, Err(Error::Closed)), "{seen:?}");
        let left = children(&caught.path);
        println!("answered {answered}: {closed:?}, {left:?} is left");
        assert!(closed.is_err() || left == [own.clone()], "{closed:?}, {left:?}");
        wait_until("only the rival is left", SOON, || children(&caught.path) == [own.clone()]);
        println!("only the rival is left {:?} after the close", begun.elapsed());
        caught.rival.1.unlock().unwrap();
    }
}

#[test]
fn a_close_of_a_holder_during_a_resume_lets_the_next_one_in() {
    const SHORT: Duration = Duration::from_secs(3);
    for answered in [true, false] {
        let Stage { proxy, client, path, lock } = Stage::new("hold-closed", SHORT);
        lock.lock().unwrap();
        let hold = hold_of(&lock);
        let others = common::client();
        let mut line = Line::at(&path);
        line.join(&others);
        let answer = proxy.on(Op::Connect).hold_answer();
        proxy.cut();
        assert!(answer.wait(SOON), "{:#?}", proxy.log());
        if answered {
            answer.release();
        }
        let begun = Instant::now();
        let limit = SHORT + Duration::from_secs(1);
        let closed = in_time("close()", limit, || client.close());
        assert!(!hold.is_held(), "{hold:?}");
        line.comes_in_order();
        println!(
            "answered {answered}: {closed:?}; the next one was in after {:?}",
            begun.elapsed()
        );
        await_nodes(&path, 0);
    }
}
